"""A short run of every kernel for compute-sanitizer: docs/validation.md has the commands and what they said."""

from pp3.harness import backends, bits


def main() -> None:
    """Compare a small choice of rows with the reference on the GPU, launched as few rows and as many are."""
    arithmetic = backends.start(backends.Backend.CUDA)
    from pp3.kernels import proposal, verifier

    bits.PROPOSAL_VOCABS, bits.COPIES = (97, 8300), 1
    bits.VERIFY_VOCABS, bits.VERIFY_ROWS = (200, 2100), 24
    bits.WIDE_PROPOSAL_VOCABS = bits.WIDE_VERIFY_VOCABS
    results = [*bits.proposal_bits(arithmetic, wide=True), *bits.verify_bits(arithmetic, wide=True)]
    proposal.MANY = verifier.MANY = 1
    results += [*bits.proposal_bits(arithmetic), *bits.verify_bits(arithmetic)]
    print("rows", sum(result.rows for result in results), "mismatches", sum(result.mismatches for result in results))


if __name__ == "__main__":
    main()
