"""What a campaign's receipt must show of the kernels: every group of bits, every file of known answers, on its backend.

Dropping a group or a file may not turn a receipt into a PASS: what is there must be what the plan implies.
"""

import hashlib
from typing import Any

import numpy as np

from pp3.harness import bits, conform
from pp3.harness.backends import Dtype
from pp3.harness.campaign import Campaign
from pp3.harness.errors import VerificationError
from pp3.harness.paths import find_vectors

COMPILED = ("gpu", "torch", "triton", "compiled_kernels_sha256")


def expected_bits(campaign: Campaign, gpu: bool, wide: bool | None = None) -> list[tuple[str, int]]:
    """Id and rows of every group of bits, in order; wide rows among them on a GPU, unless said otherwise."""
    wide = gpu if wide is None else wide
    kinds = len(bits.edge_rows(min(bits.PROPOSAL_VOCABS), np.random.default_rng(0)))
    taus = {33: 1.3, 97: 0.0}
    groups = [
        (f"propose/{dtype.value}/vocab-{vocab}/tau-{taus.get(vocab, 0.7)}", bits.COPIES * kinds)
        for vocab in bits.PROPOSAL_VOCABS + bits.WIDE_PROPOSAL_VOCABS * wide
        for dtype in Dtype
    ]
    groups += [
        (f"verify/{path}/vocab-{vocab}/depth-{depth}", bits.VERIFY_ROWS)
        for vocab in bits.VERIFY_VOCABS + bits.WIDE_VERIFY_VOCABS * wide
        for depth in (4, 5)
        for path in ("carrier", "point-mass")
    ]
    rows = bits.GPU_BITS_REQUESTS if gpu else bits.INTERPRETED_REQUESTS
    groups += [
        (f"requests/{target.name}/depth-{depth}", rows) for target in campaign.targets for depth in campaign.spec.depths
    ]
    return groups


def expected_answers() -> list[tuple[str, str, int]]:
    """Name, SHA-256 and number of cases of every file of known answers installed here."""
    folder = find_vectors()
    if folder is None:
        return []
    paths = [folder / name for name in conform.KNOWN_ANSWERS]
    return [(p.name, hashlib.sha256(p.read_bytes()).hexdigest(), len(conform.load(p))) for p in paths]


def check_answers(conform: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Name, SHA-256 and cases of each file that was held. VerificationError unless those installed here, or none."""
    answers = [(row["file"], row["sha256"], row["total"]) for row in conform]
    known = expected_answers()
    if answers and known and answers != known:
        raise VerificationError(f"kernels: known answers of {[row[0] for row in answers]}, not those installed here")
    return answers


def check(campaign: Campaign, predicate: dict[str, Any]) -> None:
    """VerificationError unless the kernels' part is whole; absent as a whole it is allowed, and the verdict says so."""
    kernels, backend = predicate["kernels"], predicate["sampler"]["backend"]
    gpu = backend == "cuda"
    groups = [(row["id"], row["rows"]) for row in kernels["bits"]]
    earlier = expected_bits(campaign, gpu, wide=False)  # of receipts from before the kernels had launches for wide rows
    if groups and groups not in (expected_bits(campaign, gpu), earlier):
        raise VerificationError("kernels: the groups of bits are not those of the plan")
    odd = [row["id"] for row in kernels["bits"] if row["failedRows"] > row["rows"]]
    if odd:
        raise VerificationError(f"kernels: {odd[0]} has more failed rows than rows")
    answers = check_answers(kernels["conform"])
    identity = kernels["identity"]
    wanted = "cuda" if gpu else "interpreter"
    if (groups or answers) and identity.get("backend") != wanted:
        raise VerificationError(f"kernels: the identity is that of {identity.get('backend')}; want {wanted}")
    absent = [name for name in COMPILED if gpu and not identity.get(name)]
    if absent:
        raise VerificationError(f"kernels: the identity names no {absent[0]}")
