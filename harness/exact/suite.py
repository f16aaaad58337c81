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
from pp3.harness.verdict import Verdict

Progress = Callable[[str, int, int], None]

IDS = ("draws", "edges", "tree", "exponential", "counters", "invariance", "pairs")
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
    if which == "draws":
        return draws.expect(supports(gpu))
    if which == "edges":
        return edges.expect()
    if which == "tree":
        return tree.expect()
    if which == "exponential":
        hard = exponential.expect()
        return hard if gpu else {"hard": hard["hard"]}
    if which == "invariance":
        return invariance.expect(gpu)
    if which == "pairs":
        return pairs.expect(gpu)
    return counters.expect()


def conclude(enumerations: list[dict[str, Any]], sampler: dict[str, Any], identity: dict[str, str]) -> Conclusion:
    """Hold every stored integer against what it must be."""
    gpu = sampler["backend"] == "cuda"
    found = {row["id"]: row["values"] for row in enumerations}
    missing = [f"{which}: not run" for which in IDS if which not in found]
    wrong = [f"{which}: unknown enumeration" for which in found if which not in IDS]
    for which, values in found.items():
        if which in IDS:
            wrong += [f"{which}: {difference}" for difference in differences(values, expected(which, gpu))]
    verdict = Verdict.FAIL if wrong else Verdict.INCONCLUSIVE if missing else Verdict.PASS
    reasons = wrong + missing
    who = f"{sampler['name']} {sampler['version']}"
    where = f"the Triton kernels of {who} on {identity.get('gpu', 'a GPU')}"
    judged = where if gpu else f"the NumPy reference of {who}"
    compared = sum(row["compared"] for row in enumerations)
    what = f"{compared:,} draws, edges, rounds, values and keys enumerated"
    end = "every integer is the one it must be" if verdict is Verdict.PASS else reasons[0]
    return Conclusion(
        verdict=verdict, reasons=reasons, sentence=f"{verdict.value}: {judged}: {what}; {end}. Self-attested."
    )
