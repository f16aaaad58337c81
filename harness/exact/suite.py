"""The enumerations of a receipt: run them on a device, and say from their integers what they show.

`conclude` recomputes every expected integer on the CPU, so whoever verifies a receipt runs the same function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pp3.harness import backends
from pp3.harness.backends import Backend
from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, tree
from pp3.harness.exact.enumeration import Enumeration, Values, differences
from pp3.harness.exact.subject import judged, kernel_faults
from pp3.harness.verdict import Verdict

Progress = Callable[[str, int, int], None]

IDS = ("draws", "edges", "tree", "exponential", "counters", "invariance", "pairs")
LEDGER = "counters"  # the reference's on every device
ON_CPU = (
    "sparse-tail/row-0",
    "disjoint/row-0",
    "equal-q/row-0",
    "invalidated/row-0",
    "context/row-0",
    "flat",
    "one-finite",
    "31-tickets",
)


CLAIMS = {
    "draws": draws.CLAIM,
    "edges": edges.CLAIM,
    "tree": tree.CLAIM,
    "exponential": exponential.CLAIM,
    "counters": counters.CLAIM,
    "invariance": invariance.CLAIM,
    "pairs": pairs.CLAIM,
}
EXPECTED: dict[str, Callable[[bool], Values]] = {
    "draws": lambda gpu: draws.expect(supports(gpu)),
    "edges": lambda gpu: edges.expect(),
    "tree": lambda gpu: tree.expect(),
    "exponential": lambda gpu: exponential.expect() if gpu else {"hard": exponential.expect()["hard"]},
    "counters": lambda gpu: counters.expect(),
    "invariance": lambda gpu: invariance.expect(gpu),
    "pairs": lambda gpu: pairs.expect(gpu),
}
SIZES: dict[str, Callable[[bool, Values], int]] = {
    "draws": lambda gpu, values: draws.size(len(supports(gpu))),
    "edges": lambda gpu, values: edges.size(),
    "tree": lambda gpu, values: tree.size(),
    "exponential": lambda gpu, values: exponential.size(gpu),
    "counters": lambda gpu, values: int(values["consumed"][0]) + counters.NEAR,
    "invariance": lambda gpu, values: invariance.size(gpu),
    "pairs": lambda gpu, values: int(values["pairs"][0]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The derived part of an exhaustive receipt."""

    verdict: Verdict
    reasons: list[str]
    sentence: str


def observe(device: Backend, progress: Progress) -> list[Enumeration]:
    """Every enumeration on the kernels of a GPU, or on the reference."""
    gpu = device is Backend.CUDA
    arithmetic = backends.start(device)
    names = supports(gpu)
    steps: list[Callable[[], Enumeration]] = [
        lambda: draws.observe_cuda(names) if gpu else draws.observe_reference(names),
        lambda: edges.observe(arithmetic),
        lambda: tree.observe(arithmetic),
        exponential.observe_cuda if gpu else exponential.observe_reference,
        counters.observe,
        lambda: invariance.observe(device),
        lambda: pairs.observe(arithmetic, gpu),
    ]
    found: list[Enumeration] = []
    for name, step in zip(IDS, steps, strict=True):
        progress("enumerations", len(found), len(steps))
        found.append(step())
        assert found[-1].id == name
    progress("enumerations", len(steps), len(steps))
    return found


def supports(gpu: bool) -> list[str]:
    """Names of the supports whose draws are enumerated: all 256 on a GPU, eight on the CPU."""
    return [name for name, _ in draws.rows()] if gpu else list(ON_CPU)


def expected(which: str, gpu: bool) -> Values:
    """The integers an enumeration must show."""
    return EXPECTED[which](gpu)


def right(which: str, gpu: bool) -> Enumeration:
    """An enumeration as it must be found."""
    values = expected(which, gpu)
    return Enumeration(id=which, claim=CLAIMS[which], compared=SIZES[which](gpu, values), values=values)


def conclude(enumerations: list[dict[str, Any]], sampler: dict[str, Any], kernels: dict[str, Any]) -> Conclusion:
    """Hold every stored integer, claim and number against what it must be."""
    gpu = sampler["backend"] == "cuda"
    found = [row["id"] for row in enumerations]
    missing = [f"{which}: not run" for which in IDS if which not in found]
    wrong = [] if missing or found == list(IDS) else [f"enumerations are {', '.join(found)}; want {', '.join(IDS)}"]
    wrong += kernel_faults(sampler, kernels)
    for row in enumerations:
        if row["id"] not in IDS:
            wrong.append(f"{row['id']}: unknown enumeration")
            continue
        mine = right(row["id"], gpu).plain()
        wrong += [f"{row['id']}: {difference}" for difference in differences(row["values"], mine["values"])]
        for key in ("claim", "compared"):
            if row[key] != mine[key]:
                wrong.append(f"{row['id']}: {key} is {row[key]}, must be {mine[key]}")
    verdict = Verdict.FAIL if wrong else Verdict.INCONCLUSIVE if missing else Verdict.PASS
    reasons = wrong + missing
    ledger = sum(row["compared"] for row in enumerations if row["id"] == LEDGER)
    met = sum(row["compared"] for row in enumerations) - ledger
    what = f"{met:,} draws, edges, rounds, values and rows enumerated"
    beside = f"{ledger:,} words and keys in {'the ledger of the NumPy reference' if gpu else 'its ledger'}"
    end = "every integer is the one it must be" if verdict is Verdict.PASS else reasons[0]
    sentence = f"{verdict.value}: {judged(sampler, kernels)}: {what}; {beside}; {end}. Self-attested."
    return Conclusion(verdict=verdict, reasons=reasons, sentence=sentence)
