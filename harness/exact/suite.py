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


def right(which: str, gpu: bool) -> Enumeration:
    """An enumeration as it must be found."""
    values = expected(which, gpu)
    said: dict[str, tuple[str, int]] = {
        "draws": (draws.CLAIM, draws.size(len(supports(gpu)))),
        "edges": (edges.CLAIM, edges.size()),
        "tree": (tree.CLAIM, tree.size()),
        "exponential": (exponential.CLAIM, exponential.size(gpu)),
        "counters": (counters.CLAIM, int(values["consumed"][0]) + counters.NEAR if which == "counters" else 0),
        "invariance": (invariance.CLAIM, invariance.size(gpu)),
        "pairs": (pairs.CLAIM, int(values["pairs"][0]) if which == "pairs" else 0),
    }
    claim, compared = said[which]
    return Enumeration(id=which, claim=claim, compared=compared, values=values)


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
    compared = sum(row["compared"] for row in enumerations)
    what = f"{compared:,} draws, edges, rounds, values and keys enumerated"
    end = "every integer is the one it must be" if verdict is Verdict.PASS else reasons[0]
    sentence = f"{verdict.value}: {judged(sampler, kernels)}: {what}; {end}. Self-attested."
    return Conclusion(verdict=verdict, reasons=reasons, sentence=sentence)
