"""From counts to a verdict: pure functions of the plan and the integers, so that anyone can run them again.

Order of severity: INVALID (the sampler broke the contract), FAIL (an impossible event, an exact mismatch, a significant
deviation), INCONCLUSIVE (a required check missing or on its threshold, a deviation between its bounds), TOLERATED (a
significant deviation that is certainly no larger than the tolerance), PASS (no evidence against the exact law).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pp3.harness import promise
from pp3.harness.battery import Counts, TestResult, judge, number, seed_family
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Cell, Event
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.design import Check, cells_of, design, lags_of
from pp3.harness.outcome import MARGIN as MARGIN  # where callers look for them
from pp3.harness.outcome import Verdict as Verdict
from pp3.harness.tolerance import Weighed, Worth, weigh

CONTRACT = ("failed", "illegal-token", "illegal-length", "draft-not-echoed")
SEEN_BY = (Event.TOKEN, Event.LENGTH, Event.PROPOSAL, Event.RESIDUAL, Event.BONUS, Event.FULL_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The derived part of a receipt."""

    tests: list[TestResult]
    deviations: list[Weighed]  # the significant ones, beside the tolerance
    seed_family: list[dict[str, Any]]
    sees: dict[str, str]  # by event, the total variation its weakest required check sees
    verdict: Verdict
    reasons: list[str]
    sentence: str


class Part(StrEnum):
    """What a finding is about, which says who is meant by it."""

    LAW = "law"  # of whoever ran the requests
    BITS = "bits"  # of the kernels against the reference
    ANSWERS = "answers"  # of the kernels


Findings = dict[Part, list[str]]


@dataclass(frozen=True, slots=True)
class Subject:
    """Who a sentence speaks of."""

    name: str
    plural: bool = True


def merge(counts: dict[tuple[str, int], list[int]]) -> Counts:
    """Add the counts of a cell over batch sizes."""
    merged: Counts = {}
    for (cell, _), values in counts.items():
        before = merged.get(cell, [0] * len(values))
        merged[cell] = [a + b for a, b in zip(before, values, strict=True)]
    return merged


def all_cells(campaign: Campaign) -> list[Cell]:
    """Every cell of a campaign, in the order of its plan."""
    lags = lags_of(campaign)
    return [
        cell for target in campaign.targets for depth in campaign.spec.depths for cell in cells_of(target, depth, lags)
    ]


def weighed(
    checks: list[Check], tests: list[TestResult], counts: Counts, first: Counts, tolerance: float
) -> list[Weighed]:
    """Every check that failed, beside the tolerance; those of zero-probability outcomes too."""
    deciding = sum(test.decides for test in tests)
    return [
        weigh(check, test, counts, first, tolerance, deciding)
        for check, test in zip(checks, tests, strict=True)
        if test.outcome == "fail"
    ]


def conclude(
    campaign: Campaign,
    counts: dict[tuple[str, int], list[int]],
    first: dict[tuple[str, int], list[int]],
    breaches: dict[str, int],
    pairs: list[dict[str, Any]],
    kernels: dict[str, Any],
    sampler: dict[str, Any],
    unequal: Sequence[str] = (),
) -> Judgement:
    """Judge everything a run found. All arguments but the campaign are in receipt form.

    `unequal` names each piece of the campaign that was run twice and came to other counts the second time.
    """
    merged, checks = merge(counts), design(campaign)
    tests = [judge(check, merged, campaign.spec.power) for check in checks]
    deviations = weighed(checks, tests, merged, merge(first), campaign.spec.tolerance)
    worth = {one.id: one for one in deviations}
    family = seed_family(all_cells(campaign), merged, campaign.spec.requests, campaign.spec.pool)
    compared = sum(row["pairs"] for row in pairs)
    differ = sum(row["mismatches"] for row in pairs)

    invalid = {
        Part.LAW: [
            *(f"{count} x {name}" for name, count in breaches.items() if count and name in CONTRACT),
            *(f"{name} came to other counts when it was run again" for name in unequal),
        ]
    }
    failed = {
        Part.LAW: [
            *([f"{breaches['unreachable']} events the law cannot reach"] if breaches["unreachable"] else []),
            *([f"{differ} temperature-0 mismatches in {compared} pairs"] if differ else []),
            *(_why(test) for test in tests if test.id in worth and worth[test.id].worth is Worth.FAIL),
        ],
        Part.BITS: [
            f"{row['mismatches']} of {row['rows']} rows differ: {row['id']}"
            for row in kernels["bits"]
            if row["mismatches"]
        ],
        Part.ANSWERS: [
            f"{row['total'] - row['passed']} known answers missed in {row['file']}"
            for row in kernels["conform"]
            if row["passed"] < row["total"]
        ],
    }
    missing = {
        Part.LAW: [
            *(f"{test.id}: {test.reason}" for test in tests if test.required and test.outcome == "unresolved"),
            *(f"{test.id}: p = {test.p:.2g} lies on its level" for test in tests if on_level(test)),
            *(open_one(one, campaign.spec.tolerance) for one in deviations if one.worth is Worth.OPEN),
            *unkept(promise.resolution(checks, campaign.spec.power, campaign.spec.requests), campaign.spec.detect),
            *([] if compared else ["paired temperature 0: no pairs were asked for"]),
        ],
        Part.BITS: [] if kernels["bits"] else ["bits of the kernels: " + kernels.get("missing", "not run")],
        Part.ANSWERS: _unanswered(kernels),
    }
    tolerated = {Part.LAW: [tolerated_one(one, campaign.spec.tolerance) for one in deviations if is_tolerated(one)]}
    found = {
        Verdict.INVALID: invalid,
        Verdict.FAIL: failed,
        Verdict.INCONCLUSIVE: missing,
        Verdict.TOLERATED: tolerated,
    }
    verdict = next((verdict for verdict, findings in found.items() if any(findings.values())), Verdict.PASS)
    reasons = [text for findings in found.values() for texts in findings.values() for text in texts]
    sees = _sees(tests)
    requests = campaign.spec.requests * len(campaign.targets)
    scale = f"{len(campaign.targets)} target{'s' * (len(campaign.targets) != 1)} in {requests:,} requests"
    subjects = _subjects(sampler, kernels)
    if verdict is Verdict.PASS:
        rows = sum(row["rows"] for row in kernels["bits"])
        said = _passed(campaign, subjects, tests, sees, scale, f"{compared:,} paired", differ, rows)
    else:
        said = _against(verdict, found[verdict], subjects, scale, len(reasons))
    return Judgement(
        tests=tests,
        deviations=deviations,
        seed_family=family,
        sees=sees,
        verdict=verdict,
        reasons=reasons,
        sentence=f"{verdict.value}: {said}. Self-attested.",
    )


def _unanswered(kernels: dict[str, Any]) -> list[str]:
    """Every file of known answers must have been held, not just one."""
    held = {row["file"] for row in kernels["conform"] if row["total"]}
    lacking = [name for name in KNOWN_ANSWERS if name not in held]
    if len(lacking) == len(KNOWN_ANSWERS):
        return ["known answers: " + kernels.get("missing", "no vectors found")]
    return [f"known answers: none of {name}" for name in lacking]


def _why(test: TestResult) -> str:
    if test.forbidden:
        return f"{test.id}: {test.forbidden} outcomes of zero probability"
    said = f"G = {test.g:.3g} on {test.df} df" if test.df else test.worst or "repeats"
    return f"{test.id}: {said}, p = {test.p:.2g} <= {test.alpha:.2g}"


def on_level(test: TestResult) -> bool:
    """Whether a p-value is so near its level that its last digits decide."""
    return test.decides and abs(test.p - test.alpha) <= MARGIN * test.alpha


def unkept(seen: float, detect: float) -> list[str]:
    """What is said where less is seen than was promised."""
    return [f"a total variation of {seen:.4f} is seen, {detect:g} was promised"] if detect and seen > detect else []


def is_tolerated(one: Weighed) -> bool:
    """Whether a deviation is certainly no larger than the tolerance."""
    return one.worth is Worth.TOLERATED


def open_one(one: Weighed, tolerance: float) -> str:
    """What is said of a deviation between its bounds."""
    return (
        f"{one.id}: deviates by a total variation from {one.low:.2g} to {one.high:.2g}, {tolerance:g} is tolerated: "
        "more requests would decide"
    )


def tolerated_one(one: Weighed, tolerance: float) -> str:
    """What is said of a deviation that is tolerated."""
    return f"{one.id}: deviates by a total variation of at most {one.high:.2g}, {tolerance:g} is tolerated"


def _sees(tests: list[TestResult]) -> dict[str, str]:
    found = {}
    for event in SEEN_BY:
        sizes = [test.detectable.size for test in tests if test.event is event and test.required and test.decides]
        if sizes:
            found[event.value] = number(max(sizes))
    return found


def _subjects(sampler: dict[str, Any], kernels: dict[str, Any]) -> dict[Part, Subject]:
    """On a GPU the kernels run every request; elsewhere the reference does, with interpreted kernels beside it."""
    who = f"{sampler['name']} {sampler['version']}"
    if sampler["backend"] == "cuda":
        return dict.fromkeys(Part, Subject(f"the Triton kernels of {who} on {kernels['identity'].get('gpu', 'a GPU')}"))
    beside = Subject(f"the Triton kernels of {who} in Triton's interpreter")
    return dict.fromkeys(Part, beside) | {Part.LAW: Subject(f"the NumPy reference of {who}", plural=False)}


def _passed(
    campaign: Campaign,
    subjects: dict[Part, Subject],
    tests: list[TestResult],
    sees: dict[str, str],
    scale: str,
    paired: str,
    differ: int,
    rows: int,
) -> str:
    judged = subjects[Part.LAW]
    deciding = sum(test.decides for test in tests)
    size = f"{float(sees.get('token', '1')):.3f}"
    beside = f"; its Triton kernels equal it bit for bit on {rows:,} interpreted rows (wiring, not a GPU)"
    return (
        f"no evidence against {judged.name} emitting the exact law of {scale} "
        f"(family alpha {campaign.spec.alpha:g} over {deciding} checks; an error of {size} in total variation of a "
        f"first token's law would be seen with power {campaign.spec.power:g}), and {paired} temperature-0 "
        f"requests differ in {differ}{'' if subjects[Part.BITS] == judged else beside}"
    )


def _against(verdict: Verdict, findings: Findings, subjects: dict[Part, Subject], scale: str, reasons: int) -> str:
    """The first finding of each part, said of whoever it was found on."""
    clauses: dict[tuple[Subject, str], str] = {}
    for part, texts in findings.items():
        if texts:
            clauses.setdefault((subjects[part], _found(verdict, part, subjects[part], scale)), texts[0])
    said, named = [], None
    for (who, what), text in clauses.items():
        said.append(f"{'they' if who == named else who.name} {what}: {text}")
        named = who
    rest = reasons - len(said)
    return "; ".join(said) + (f" (and {rest} more)" if rest else "")


def _found(verdict: Verdict, part: Part, who: Subject, scale: str) -> str:
    if verdict is Verdict.INVALID:
        return f"broke the sampler contract on {scale}"
    if verdict is Verdict.TOLERATED:
        return f"{'deviate' if who.plural else 'deviates'} within the tolerance on {scale}"
    if verdict is Verdict.INCONCLUSIVE:
        return f"{'are' if who.plural else 'is'} not decided" + (f" on {scale}" if part is Part.LAW else "")
    if part is Part.LAW:
        return f"{'do' if who.plural else 'does'} not emit the exact law of {scale}"
    return "do not equal the NumPy reference bit for bit" if part is Part.BITS else "miss known answers"
