"""The planted faults: each an edit of the reference that one exact check must catch and no campaign's statistics do.

A fault is text put in the place of other text in the source of a function; harness/exact/planted.py compiles it.
"""

from dataclasses import dataclass
from typing import Any

from pp3.harness import seeds
from pp3.harness.exact import counters, exponential, invariance
from pp3.harness.samplers import reference as sampler
from pp3.kernels import addressing, reference


@dataclass(frozen=True, slots=True)
class Edit:
    """`old`, which stands once in the source of an owner's function, becomes `new`."""

    function: str
    old: str
    new: str
    owner: Any = reference  # module or class
    importers: tuple[Any, ...] = ()  # modules that hold the function by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault and the check that must catch it."""

    id: str
    wrong: str
    check: str  # of planted_checks.CHECKS
    edits: tuple[Edit, ...]


BITS = "bits.view(np.float32)"
EXP = "np.exp({}.astype(np.float64)).astype(np.float32)"
LOW_EXP = f"({EXP}.view(np.uint32) - {{}}.view(np.uint32) % 2).view(np.float32)"
FAR = "np.uint64({} % 2 << 40)"
W64 = "w64 = addressing.words(keys[who], rounds[who], positions[who] + emit_at[who].astype(np.uint64))"
HIGH = "np.array([0, 0, {}, 0], np.uint32)"  # what is left of the words of a block
# Requests that emit a bonus show it to _emit by tickets of -1, which it reads only for a rejected draft.
MARKED = Edit("verify_rows", "tickets[who, at]", "np.where((emit_at[who] < depth)[:, None], tickets[who, at], -1)")

FAULTS = (
    Fault(
        id="draw-lt",
        wrong="the draw compares with `<` where `<=` is right: at each edge one ticket goes to the neighbour",
        check="draws",
        edits=(Edit("propose_rows", "running <= draw", "running < draw"),),
    ),
    Fault(
        id="accept-le",
        wrong="acceptance compares with `<=` where `<` is right: w0 = 0 keeps a draft of probability 0",
        check="edges: acceptance",
        edits=(Edit("verify_rows", "mass < quanta << 8", "mass <= quanta << 8"),),
    ),
    Fault(
        id="residual-off-by-one",
        wrong="the running sum of a residual is low by one unit of 2^-48",
        check="edges: residual",
        edits=(Edit("_emit", "running > wanted", "running - rejected > wanted"),),
    ),
    Fault(
        id="full-target-off-by-one",
        wrong="the running sum of a full target, for an invalidated draft, is low by one unit of 2^-48",
        check="edges: full target",
        edits=(
            MARKED,
            Edit("_emit", "running > wanted", "running - (~rejected & (tickets[:, 0] >= 0)) > wanted"),
        ),
    ),
    Fault(
        id="bonus-off-by-one",
        wrong="the running sum of a bonus row is low by one unit of 2^-48",
        check="edges: bonus",
        edits=(MARKED, Edit("_emit", "running > wanted", "running - (tickets[:, 0] < 0) > wanted")),
    ),
    Fault(
        id="bonus-of-the-last-draft",
        wrong="where w64 is below 2^44 the bonus is drawn from the row that judged the last draft",
        check="tree",
        edits=(
            Edit(
                "verify_rows",
                "row[who, emit_at[who]]",
                "row[who, emit_at[who] - ((emit_at[who] == depth) & (w64[:, 2] < 1 << 12))]",
            ),
        ),
    ),
    Fault(
        id="words-of-the-next-position",
        wrong="from the third draft on, the token for an invalidated draft reads the next position's block",
        check="tree",
        edits=(
            Edit(
                "verify_rows",
                "positions[who] + emit_at[who].astype(np.uint64)",
                "positions[who] + np.minimum(emit_at + (~rejected & (emit_at > 1)), depth)[who].astype(np.uint64)",
            ),
        ),
    ),
    Fault(
        id="exponential-one-ulp-low",
        wrong="the exponential is one FP32 ulp low where the pattern of its argument is odd",
        check="exponential",
        edits=(
            Edit("allocate", EXP.format("y"), LOW_EXP.format("y", "y")),
            Edit("rounded", EXP.format(BITS), LOW_EXP.format(BITS, "bits"), exponential),
        ),
    ),
    Fault(
        id="residual-by-a-spent-word",
        wrong="the low word of w64 is w0, which a rejected draft has consumed already",
        check="counters: ledger",
        edits=(Edit("_emit", "block[:, 1]", "block[:, 0]"),),
    ),
    Fault(
        id="words-at-temperature-0",
        wrong="requests at temperature 0 draw their token, from one-hot rows that leave no choice",
        check="counters: temperature 0",
        edits=(Edit("verify_rows", "who = np.flatnonzero(sampled & ~failed)", "who = np.flatnonzero(~failed)"),),
    ),
    Fault(
        id="seed-cut-to-32-bits",
        wrong="a key takes the low 32 bits of the seed: requests whose seeds differ above them share every word",
        check="counters: keys",
        edits=(Edit("request_key", "+ seed.to_bytes", "+ (seed % (1 << 32)).to_bytes", addressing, (seeds, counters)),),
    ),
    Fault(
        id="address-by-batch-size",
        wrong="in launches of an odd number of rows a proposal draws at a position 2^40 further",
        check="invariance: proposal",
        edits=(
            Edit(
                "propose",
                "positions, tau)\n",
                f"positions + {FAR.format('len(logits)')}, tau)\n",
                reference,
                (invariance,),
            ),
            Edit(
                "_propose",
                "np.uint64(j)",
                f"np.uint64(j) + {FAR.format('batch.rows_per_launch')}",
                sampler.ReferenceSampler,
            ),
        ),
    ),
    Fault(
        id="judged-by-batch-size",
        wrong="in launches of an odd number of requests a round is verified by the words of positions 2^40 further",
        check="invariance: verifier",
        edits=(
            Edit(
                "verify",
                "keys, rounds, positions)\n",
                f"keys, rounds, positions + {FAR.format('n')})\n",
                reference,
                (invariance,),
            ),
            Edit(
                "_verify",
                "batch.positions,\n",
                f"batch.positions + {FAR.format('batch.rows_per_launch')},\n",
                sampler.ReferenceSampler,
            ),
        ),
    ),
    Fault(
        id="last-of-equal-probabilities",
        wrong="the argmax of a target row is the last of equal probabilities; the one-hot rows of campaigns have none",
        check="pairs",
        edits=(
            Edit(
                "quantise",
                "np.where(fits, target_probs, np.float32(-1)).argmax(axis=1)",
                "(fits.shape[1] - 1 - np.where(fits, target_probs, np.float32(-1))[:, ::-1].argmax(axis=1))",
            ),
        ),
    ),
    Fault(
        id="one-draw-misplaced",
        wrong="draw value 40,000 of 2^24 gives a neighbour of its token",
        check="bridge: draws",
        edits=(Edit("propose_rows", "draw[:, None]).sum(axis=1)", "draw[:, None]).sum(axis=1) ^ (draw == 40_000)"),),
    ),
    Fault(
        id="acceptance-of-24-bits",
        wrong="acceptance takes 24 bits of w0, the low 8 as zero",
        check="bridge: acceptance",
        edits=(Edit("verify_rows", "w0.astype(np.int64)", "(w0 & 0xFFFFFF00).astype(np.int64)"),),
    ),
    Fault(
        id="residual-of-24-bits",
        wrong="a residual token is drawn by the high 24 bits of w64, the others as zero",
        check="bridge: residual",
        edits=(Edit("verify_rows", W64, f"{W64}\n        w64[rejected[who]] &= {HIGH.format('0xFFFFFF00')}"),),
    ),
    Fault(
        id="bonus-of-20-bits",
        wrong="a bonus token is drawn by the high 20 bits of w64, the others as zero",
        check="bridge: bonus",
        edits=(Edit("verify_rows", W64, f"{W64}\n        w64[emit_at[who] == depth] &= {HIGH.format('0xFFFFF000')}"),),
    ),
)
