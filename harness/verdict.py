"""From counts to a verdict: pure functions of the plan and the integers, so that anyone can run them again.

Order of severity: INVALID (the sampler broke the contract), FAIL (an impossible event, an exact mismatch, a significant
deviation), INCONCLUSIVE (a required check missing or on its threshold), PASS (no evidence against the exact law).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pp3.harness.battery import Counts, TestResult, judge, number, seed_family
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.design import design
from pp3.harness.oracle import Law

MARGIN = 1e-5  # a p-value this near its level, relatively, decides nothing
CONTRACT = ("failed", "illegal-token", "illegal-length", "draft-not-echoed")
SEEN_BY = (Event.TOKEN, Event.LENGTH, Event.PROPOSAL, Event.RESIDUAL, Event.BONUS, Event.FULL_TARGET)


class Verdict(StrEnum):
    """What a campaign concludes."""

    PASS = "PASS"
    TOLERATED = "TOLERATED"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The derived part of a receipt."""

    tests: list[TestResult]
    seed_family: list[dict[str, Any]]
    sees: dict[str, str]  # by event, the total variation its weakest required check sees
    verdict: Verdict
    reasons: list[str]
    sentence: str


def merge(counts: dict[tuple[str, int], list[int]]) -> Counts:
    """Add the counts of a cell over batch sizes."""
    merged: Counts = {}
    for (cell, _), values in counts.items():
        before = merged.get(cell, [0] * len(values))
        merged[cell] = [a + b for a, b in zip(before, values, strict=True)]
    return merged


def all_cells(campaign: Campaign) -> list[Cell]:
    """Every cell of a campaign, in the order of its plan."""
    return [
        cell
        for target in campaign.targets
        for depth in campaign.spec.depths
        for cell in enumerate_cells(Law(target), depth)
    ]


def conclude(
    campaign: Campaign,
    counts: dict[tuple[str, int], list[int]],
    breaches: dict[str, int],
    pairs: list[dict[str, Any]],
    kernels: dict[str, Any],
    sampler: dict[str, Any],
) -> Judgement:
    """Judge everything a run found. All arguments but the campaign are in receipt form."""
    merged = merge(counts)
    tests = [judge(check, merged, campaign.spec.power) for check in design(campaign)]
    family = seed_family(all_cells(campaign), merged, campaign.spec.requests, campaign.spec.pool)
    compared = sum(row["pairs"] for row in pairs)
    differ = sum(row["mismatches"] for row in pairs)
    rows = sum(row["rows"] for row in kernels["bits"])

    invalid = [f"{count} x {name}" for name, count in breaches.items() if count and name in CONTRACT]
    failed = [f"{breaches['unreachable']} events the law cannot reach"] if breaches["unreachable"] else []
    failed += [
        f"{row['mismatches']} of {row['rows']} rows differ: {row['id']}" for row in kernels["bits"] if row["mismatches"]
    ]
    failed += [
        f"{row['total'] - row['passed']} known answers missed in {row['file']}"
        for row in kernels["conform"]
        if row["passed"] < row["total"]
    ]
    failed += [f"{differ} temperature-0 mismatches in {compared} pairs"] if differ else []
    failed += [_why(test) for test in tests if test.outcome == "fail"]
    missing = [f"{test.id}: {test.reason}" for test in tests if test.required and test.outcome == "unresolved"]
    missing += [f"{test.id}: p = {test.p:.2g} lies on its level" for test in tests if test.df and _on_level(test)]
    missing += [] if kernels["bits"] else ["bits of the kernels: " + kernels.get("missing", "not run")]
    missing += (
        []
        if any(row["total"] for row in kernels["conform"])
        else ["known answers: " + kernels.get("missing", "no vectors found")]
    )
    missing += [] if compared else ["paired temperature 0: no pairs were asked for"]
    verdict = (
        Verdict.INVALID if invalid else Verdict.FAIL if failed else Verdict.INCONCLUSIVE if missing else Verdict.PASS
    )
    sees = _sees(tests)
    requests = campaign.spec.requests * len(campaign.targets)
    scale = f"{len(campaign.targets)} target{'s' * (len(campaign.targets) != 1)} in {requests:,} requests"
    reasons = invalid + failed + missing
    return Judgement(
        tests=tests,
        seed_family=family,
        sees=sees,
        verdict=verdict,
        reasons=reasons,
        sentence=_sentence(
            campaign, verdict, reasons, tests, sees, scale, f"{compared:,}", differ, rows, kernels, sampler
        ),
    )


def _why(test: TestResult) -> str:
    if test.forbidden:
        return f"{test.id}: {test.forbidden} outcomes of zero probability"
    return f"{test.id}: G = {test.g:.3g} on {test.df} df, p = {test.p:.2g} <= {test.alpha:.2g}"


def _on_level(test: TestResult) -> bool:
    return abs(test.p - test.alpha) <= MARGIN * test.alpha


def _sees(tests: list[TestResult]) -> dict[str, str]:
    found = {}
    for event in SEEN_BY:
        sizes = [test.detectable_tv for test in tests if test.event is event and test.required and test.df]
        if sizes:
            found[event.value] = number(max(sizes))
    return found


def _sentence(
    campaign: Campaign,
    verdict: Verdict,
    reasons: list[str],
    tests: list[TestResult],
    sees: dict[str, str],
    scale: str,
    pairs: str,
    differ: int,
    rows: int,
    kernels: dict[str, Any],
    sampler: dict[str, Any],
) -> str:
    who = f"{sampler['name']} {sampler['version']}"
    gpu = sampler["backend"] == "cuda"
    judged = (
        f"the Triton kernels of {who} on {kernels['identity'].get('gpu', 'a GPU')}"
        if gpu
        else f"the NumPy reference of {who}"
    )
    beside = (
        "" if gpu else f"; its Triton kernels equal it bit for bit on {rows:,} interpreted rows (wiring, not a GPU)"
    )
    attested = " Self-attested."
    if verdict is Verdict.PASS:
        deciding = sum(test.df > 0 for test in tests)
        size = f"{float(sees.get('token', '1')):.3f}"
        return (
            f"PASS: no evidence against {judged} emitting the exact law of {scale} "
            f"(family alpha {campaign.spec.alpha:g} over {deciding} checks; an error of {size} in total variation of a "
            f"first token's law would be seen with power {campaign.spec.power:g}), and {pairs} paired temperature-0 "
            f"requests differ in {differ}{beside}.{attested}"
        )
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    said = {
        Verdict.FAIL: "does not emit the exact law of",
        Verdict.INVALID: "broke the sampler contract on",
        Verdict.INCONCLUSIVE: "is not decided on",
    }[verdict]
    return f"{verdict.value}: {judged} {said} {scale}: {reasons[0]}{more}.{attested}"
