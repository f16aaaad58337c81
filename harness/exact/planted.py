"""Planted faults: for each exact check an edit of the reference that it catches and a campaign's statistics do not.

A fault is a piece of source text put in the place of another, compiled and bound where the original is looked up, and
taken back afterwards; no file is touched. Its check observes the edited reference and is held to what the unedited one
must show; then the default campaign runs on the edited reference with 1,000 pairs, the kernels' part given.

To stay fast most checks are slices: both sides of every ticket boundary of the 256 supports; the edges of two targets;
the four hard patterns of the exponential, as always on a CPU; the near keys of the counters; for the bridge the first
2^16 of 2^24 draw values of one policy's rows, the others as the tickets give them. The rest is as `pp3 exhaustive` runs
it on a CPU.
"""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from pp3.harness import campaign, run, seeds
from pp3.harness.backends import Reference
from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, tree
from pp3.harness.exact.enumeration import Values, differences
from pp3.harness.samplers import reference as sampler
from pp3.harness.seeds import Seed
from pp3.harness.survey import survey
from pp3.harness.verdict import Verdict, conclude
from pp3.kernels import addressing, reference
from pp3.kernels.reference import ONE, allocate
from pp3.targets.policies import build_policy

INTRODUCTION = """# Faults that only exact checks catch

Each row is one edit of the reference (`harness/exact/planted.py`), the exact check that catches it and what that says,
and what the default campaign, 20,000 requests of each target and 1,000 pairs, concludes from the same edited reference.
A campaign fails at a smallest p / level of 1 or below; `pp3 exhaustive --planted` made this page.

"""
PAIRS = 1000
SEED = Seed(b"pp3 campaign of planted faults..")
NARROW = ("disjoint", "invalidated")  # targets of 97 tokens
POLICY = "identity"
WINDOW = 1 << 16
EQUAL = "the target"
KERNELS: dict[str, Any] = {
    "bits": [{"id": "given", "rows": 1, "failedRows": 0, "mismatches": 0, "first": ""}],
    "conform": [{"file": "given", "passed": 1, "total": 1, "sha256": ""}],
}
WHO = {"name": "planted", "version": "0", "backend": "reference"}
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


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
    check: str  # of CHECKS
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRow:
    """What became of one fault."""

    fault: Fault
    message: str  # the first thing the check said; "" if it did not catch it
    verdict: Verdict  # of the default campaign
    ratio: float  # the smallest p-value of the campaign's checks over its level: 1 or below would fail


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The reference with a fault's edits. ValueError if a text is not there exactly once."""
    with ExitStack() as stack:
        stack.callback(sampler._tables.cache_clear)
        for edit in fault.edits:
            edited = _edited(edit)
            for owner in (edit.owner, *edit.importers):
                stack.enter_context(patch.object(owner, edit.function, edited))
        sampler._tables.cache_clear()
        yield


def _edited(edit: Edit) -> Any:
    original = getattr(edit.owner, edit.function)
    source = textwrap.dedent(inspect.getsource(original))
    if source.count(edit.old) != 1:
        raise ValueError(f"{edit.function} holds {edit.old!r} {source.count(edit.old)} times; want once")
    made: dict[str, Any] = {}
    exec(source.replace(edit.old, edit.new), original.__globals__, made)
    return made[edit.function]


def differs(fault: Fault) -> list[str]:
    """What a fault's check says of it."""
    observe, expect = CHECKS[fault.check]
    expected = expect()
    with planted(fault):
        return differences(observe(), expected)


def _boundaries() -> Values:
    """The places of the tokens that every support gives at the first and last draw value of each ticketed member."""
    values: Values = {}
    for name, logits in draws.rows():
        supports = allocate(logits[None])
        edge = np.concatenate([[0], np.cumsum(supports.tickets[0], dtype=np.int64)])
        at = np.unique(np.concatenate([edge[:-1], edge[1:] - 1]).clip(0, ONE - 1))
        values[name] = np.searchsorted(supports.ids[0], _tokens(supports, 0, at)).tolist()
    return values


def _places() -> Values:
    """What `_boundaries` must be: each member once for every end of its tickets."""
    tickets = {name: allocate(logits[None]).tickets[0].tolist() for name, logits in draws.rows()}
    return {name: [at for at, held in enumerate(row) for _ in range(min(held, 2))] for name, row in tickets.items()}


def _tokens(supports: reference.Supports, row: int, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The tokens that a row proposes at draw values [n]."""
    rounds, positions = draws.addresses(wanted)
    n = len(wanted)
    keys, on = np.full(n, draws.KEY, np.uint64), np.ones(n, np.bool_)
    return reference.propose_rows(supports, np.full(n, row), on, keys, rounds, positions, reference.TAU).token


def _bridges() -> Values:
    """What each bridge of POLICY finds from the draws of the window."""
    target = build_policy(POLICY)
    supports = allocate(target.draft_logits)
    drawn = []
    for row, (ids, tickets) in enumerate(zip(supports.ids.tolist(), supports.tickets, strict=True)):
        edge = np.minimum(np.cumsum(tickets, dtype=np.int64), WINDOW)
        counts = Counter(dict(zip(ids, (tickets - np.diff(edge, prepend=0)).tolist(), strict=True)))
        counts.update(_tokens(supports, row, np.arange(WINDOW)).tolist())
        drawn.append(dict(sorted((+counts).items())))
    values: Values = {}
    for one in survey(target, supports.ids, supports.tickets, drawn).bridges:
        found = f"{one.fault.breach} {one.fault.got} of token {one.fault.token}" if one.fault else EQUAL
        values[f"{POLICY}/depth-{one.depth}/{''.join('-x'[void] for void in one.void)}"] = found
    return values


# What a check observes with the edits in place, and what it must observe, asked without them.
CHECKS: dict[str, tuple[Callable[[], Values], Callable[[], Values]]] = {
    "draws": (_boundaries, _places),
    "edges: acceptance": (lambda: edges.observe(Reference(), NARROW).values, lambda: edges.expect(NARROW)),
    "edges: residual": (lambda: edges.observe(Reference(), NARROW).values, lambda: edges.expect(NARROW)),
    "tree": (lambda: tree.observe(Reference()).values, tree.expect),
    "exponential": (lambda: exponential.observe_reference().values, lambda: {"hard": exponential.expect()["hard"]}),
    "counters": (lambda: {"near-keys": [len({*counters.near_keys()})]}, lambda: {"near-keys": [counters.NEAR]}),
    "invariance": (lambda: invariance.observe_reference().values, lambda: invariance.expect(False)),
    "pairs": (lambda: pairs.observe(Reference(), False).values, lambda: pairs.expect(False)),
    "bridge": (_bridges, lambda: dict.fromkeys(_bridges(), EQUAL)),
}

BITS = "bits.view(np.float32)"
EXP = "np.exp({}.astype(np.float64)).astype(np.float32)"
LOW_EXP = f"({EXP}.view(np.uint32) - {{}}.view(np.uint32) % 2).view(np.float32)"
FAR = "np.uint64({} % 2 << 40)"

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
        id="seed-cut-to-32-bits",
        wrong="a key takes the low 32 bits of the seed: requests whose seeds differ above them share every word",
        check="counters",
        edits=(Edit("request_key", "+ seed.to_bytes", "+ (seed % (1 << 32)).to_bytes", addressing, (seeds, counters)),),
    ),
    Fault(
        id="address-by-batch-size",
        wrong="in launches of an odd number of rows a proposal draws at a position 2^40 further",
        check="invariance",
        edits=(
            Edit(
                "propose",
                "positions, tau)\n",
                f"positions + {FAR.format('len(logits)')}, tau)\n",
                reference,
                (invariance,),
            ),
            Edit(
                "run", "np.uint64(j)", f"np.uint64(j) + {FAR.format('batch.rows_per_launch')}", sampler.ReferenceSampler
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
        check="bridge",
        edits=(Edit("propose_rows", "draw[:, None]).sum(axis=1)", "draw[:, None]).sum(axis=1) ^ (draw == 40_000)"),),
    ),
)


def row(fault: Fault) -> PlantedRow:
    """Plant one fault; run its check, and the default campaign."""
    said = differs(fault)
    chosen, under_test = campaign.of_document({"paired": PAIRS}, fault.id), sampler.ReferenceSampler()
    measured = run.Measured(sampler=under_test.describe())
    with planted(fault):
        run._campaign(chosen, SEED, under_test, measured, lambda stage, done, total: None)
    judged = conclude(chosen, measured.counts, measured.breaches, measured.pairs, KERNELS, WHO)
    return PlantedRow(
        fault=fault,
        message=DIGEST.sub(r"\1", said[0]) if said else "",
        verdict=judged.verdict,
        ratio=min(test.p / test.alpha for test in judged.tests if test.df),
    )


def rows() -> list[PlantedRow]:
    """Every fault in turn; half a minute on one core."""
    return [row(fault) for fault in FAULTS]


def table(found: list[PlantedRow]) -> str:
    """The rows in Markdown."""
    head = ("fault", "what is wrong", "check", "what the check says", "campaign", "smallest p / level")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in found:
        said = f"`{one.message}`" if one.message else "not caught"
        cells = (one.fault.id, one.fault.wrong, one.fault.check, said, one.verdict.value, f"{one.ratio:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(found: list[PlantedRow]) -> str:
    """docs/exact-faults.md."""
    return INTRODUCTION + table(found)
