"""From the integers of an engine's qualification to a verdict: a pure function of the plan, for anyone to repeat.

G = 2 sum n ln(n / (n_stratum p)) over the groups of a cell, chi-square with its degrees of freedom; a coin is judged by
its exact binomial tails. A forbidden token, a wrong exact comparison, and a statistic beyond its level are a FAIL.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pp3.harness import bounds, tails
from pp3.harness.bounds import Unit
from pp3.harness.canonical import number
from pp3.harness.engine.cells import PLACES, Look
from pp3.harness.engine.conditions import Condition, Kind
from pp3.harness.engine.contract import LOST
from pp3.harness.engine.plan import Check, Plan, seen
from pp3.harness.engine.tally import BREACHES, LENGTH, TOLD_TOKENS
from pp3.harness.outcome import MARGIN, Verdict
from pp3.harness.special import special

LEAST = 20  # events that every group of a cell must expect, or G is not taken for chi-square
CONFIDENCE = 0.999
TOO_FEW = "too few events"
LOOKS = {
    Look.TOKEN: "tokens given the class of the one before",
    Look.RANK: "ranks of tokens in their law",
    Look.TILT: "ranks of tokens by how much the proposal favours them",
    Look.POSITION: "ranks of tokens at position {}",
    Look.PLACE: "ranks of tokens at place {} of a speculation step",
    Look.PAIR: "two successive tokens given the class before both",
    Look.NEIGHBOUR: "equal tokens of requests that arrive one after the other",
    Look.SLOT: "equal tokens of requests one batch apart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check, judged."""

    id: str
    look: Look
    df: int
    events: int
    g: float
    p: float
    alpha: float
    detectable: float  # total variation that is seen with the planned power, at the planned size
    excluded: float  # the largest that these counts leave possible
    off: float  # total variation of the groups from their law, noise included
    forbidden: int
    counted: int  # tokens in all: events, those of groups that are not judged, and forbidden ones
    reason: str
    required: bool

    @property
    def outcome(self) -> str:
        """pass, fail or unresolved."""
        if self.forbidden or (self.alpha and self.p <= self.alpha):
            return "fail"
        return "unresolved" if self.reason else "pass"

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "alpha": number(self.alpha),
            "detectable": number(self.detectable),
            "df": self.df,
            "events": self.events,
            "excluded": number(self.excluded),
            "forbidden": self.forbidden,
            "event": self.look.value,
            "g": number(self.g),
            "id": self.id,
            "off": number(self.off),
            "outcome": self.outcome,
            "p": number(self.p),
            "reason": self.reason,
            "required": self.required,
            "unit": Unit.TV.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The derived part of a receipt."""

    tests: list[Result]
    resolution: float
    verdict: Verdict
    reasons: list[str]
    sentence: str


def judge(check: Check, counts: Sequence[int], power: float) -> Result:
    """One check from its count vector."""
    cell = check.cell
    found, forbidden = np.array(counts[:-2], np.float64), counts[-1]
    totals = np.bincount(cell.strata, weights=found, minlength=int(cell.strata[-1]) + 1) if len(found) else np.zeros(1)
    expected = totals[cell.strata] * cell.probabilities if len(found) else found
    events, reason = int(found.sum()), check.reason
    if not reason and cell.look is Look.PLACE and events * cell.probabilities.min() < LEAST:
        reason = TOO_FEW
    g = max(
        0.0,
        float(2 * special.xlogy(found, np.where(expected > 0, found / np.where(expected > 0, expected, 1), 1)).sum()),
    )
    coin = len(found) == 2 and cell.df == 1
    p, excluded = 1.0, 1.0
    if not reason and events:
        if coin:
            p = tails.two_sided(int(found[0]), events, float(cell.probabilities[0]))
            low, high = bounds.binomial_interval(int(found[0]), events, CONFIDENCE)
            excluded = max(high - cell.probabilities[0], cell.probabilities[0] - low)
        else:
            p = float(tails.chi2_sf(g, cell.df))
            excluded = bounds.upper(g, cell.df, events, CONFIDENCE)
    return Result(
        id=check.id,
        look=cell.look,
        df=cell.df,
        events=events,
        g=g,
        p=p,
        alpha=0.0 if reason else check.alpha,
        detectable=seen(check, power),
        excluded=float(excluded),
        off=float(np.abs(found - expected).sum() / 2 / events) if events else 0.0,
        forbidden=forbidden,
        counted=sum(counts),
        reason=reason,
        required=cell.required,
    )


def conclude(
    plan: Plan,
    counts: Mapping[str, Sequence[int]],
    exact: Mapping[str, Sequence[int]],
    breaches: Mapping[str, int],
    replaced: Mapping[str, int],
) -> Judgement:
    """Judge everything that was counted."""
    tests = [judge(check, counts.get(check.id, [0] * check.cell.size), plan.spec.power) for check in plan.checks]
    invalid = [f"{breaches[name]:,} x {name.replace('-', ' ')}" for name in BREACHES if breaches.get(name)]
    failed = [
        f"{exact[name][1]:,} of {exact[name][0]:,} are wrong: {said_of(name)} ({name})"
        for name in exact_checks(plan)
        if exact.get(name, [0, 0])[1]
    ]
    against = [test for test in tests if test.outcome == "fail"]
    failed += [said(test) for test in sorted(against, key=lambda one: (-one.forbidden / max(one.counted, 1), one.p))]
    missing = [f"{test.id}: {test.reason}, and a PASS needs it" for test in tests if test.required and test.reason]
    missing += [f"{test.id}: p = {test.p:.2g} lies on its level" for test in tests if _on_level(test)]
    missing += [f"{name}: nothing was compared" for name in exact_checks(plan) if not exact.get(name, [0])[0]]
    missing += [
        f"{name}: {plan.left_out[name]}, and a PASS needs it" for name in required(plan) if name in plan.left_out
    ]
    missing += lost(plan, replaced)
    findings = {Verdict.INVALID: invalid, Verdict.FAIL: failed, Verdict.INCONCLUSIVE: missing}
    verdict = next((verdict for verdict, texts in findings.items() if texts), Verdict.PASS)
    reasons = invalid + failed + missing
    return Judgement(
        tests=tests,
        resolution=plan.resolution,
        verdict=verdict,
        reasons=reasons,
        sentence=sentence_of(plan, verdict, reasons, tests, replaced.get(LOST, 0)),
    )


def lost(plan: Plan, replaced: Mapping[str, int]) -> list[str]:
    """What answers that did not come whole may hide: an engine may lose those that show it wrong."""
    asks, count = sum(condition.asks for condition in plan.conditions), replaced.get(LOST, 0)
    if count <= plan.resolution * asks:
        return []
    return [
        f"{count:,} answers of {asks:,} requests did not come whole and were asked for again: a share of "
        f"{count / asks:.2g}, and an error of {plan.resolution:.2g} is to be seen"
    ]


def exact_checks(plan: Plan) -> list[str]:
    """Every comparison that has no level, in order."""
    names = [LENGTH]
    for condition in plan.conditions:
        names += _exact_of(plan, condition)
    return names


def _exact_of(plan: Plan, condition: Condition) -> list[str]:
    match condition.kind:
        case Kind.END | Kind.PENALTY_END | Kind.STOP:
            return [f"{condition.name}/after", f"{condition.name}/finish"]
        case Kind.GREEDY:
            both = condition.speculate and "speculate" in plan.facts.supports
            return [f"{condition.name}/argmax", *([f"{condition.name}/paths"] if both else [])]
        case Kind.REPLAY:
            return [f"{condition.name}/{one}" for one in sorted(plan.facts.replays)]
        case Kind.LOGPROB:
            return [TOLD_TOKENS]
    return []


def required(plan: Plan) -> list[str]:
    """Conditions without which there is no PASS; company only of an engine that has any."""
    names = ["stream", "starts", "alone", "cool", "greedy", "end"]
    return [*names, "company", "churn"] if plan.concurrency > 1 else names


def said_of(name: str) -> str:
    """What an exact check compares, in words."""
    start, _, what = name.partition("/")
    return {
        "length": "answers of the length that was asked for",
        "after": "answers with nothing after their end" if "end" in start else "nothing after a stop token",
        "finish": "answers that say why they ended",
        "argmax": "greedy tokens that are the likeliest",
        "paths": "greedy answers that are equal with and without speculation",
        "tolerance": "log-probabilities that are those of the law",
        "alone": "answers that an equal seed repeats, alone",
        "batch": "answers that an equal seed repeats in a batch",
        "order": "answers that an equal seed repeats in another order",
        "slot": "answers that an equal seed repeats in another slot",
    }.get(what.rpartition("/")[2] or start, name)


def place_of(test: Result) -> str:
    """What a check looks at, in words."""
    last = test.id.rpartition("-")[2]
    where = f"{last} and later" if test.look is Look.PLACE and last == str(PLACES - 1) else last
    return f"{test.id.rpartition('/')[0]}: {LOOKS[test.look].format(where)}"


def said(test: Result) -> str:
    """A failed check in words."""
    if test.forbidden:
        return f"{place_of(test)}: {test.forbidden:,} of {test.counted:,} have probability 0 ({test.id})"
    p = f"p = {test.p:.2g}" if test.p >= 1e-300 else "p < 1e-300"
    return (
        f"{place_of(test)}: off by about {test.off:.2g} in total variation, {test.detectable:.2g} would be seen "
        f"({test.id}: G = {test.g:.4g} on {test.df} df, {p}, level {test.alpha:.2g})"
    )


def _on_level(test: Result) -> bool:
    return bool(test.alpha) and math.isclose(test.p, test.alpha, rel_tol=MARGIN)


def who(plan: Plan) -> str:
    """The engine, with its version and how it speculates."""
    how = "with a draft model" if plan.facts.speculative else "without speculation"
    return f"{plan.facts.name} {plan.facts.version} {how}"


def sentence_of(plan: Plan, verdict: Verdict, reasons: Sequence[str], tests: Sequence[Result], again: int = 0) -> str:
    """The verdict as one sentence."""
    scale = f"{plan.spec.tokens:,} tokens of {plan.spec.target} in {plan.spec.dtype}"
    if verdict is Verdict.PASS:
        deciding = sum(bool(test.alpha) for test in tests)
        said = (
            f"no evidence against the law of {who(plan)} in {scale}, {deciding} checks at a family level of "
            f"{plan.spec.alpha:g}; ranks off by {plan.resolution:.2g} in total variation would be seen"
            f"{f'; {again:,} answers did not come whole and were asked for again' if again else ''}"
        )
    else:
        verb = {
            Verdict.FAIL: "does not emit the law of its model",
            Verdict.INVALID: "broke the contract of an engine",
            Verdict.INCONCLUSIVE: "is not decided",
        }[verdict]
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        said = f"{who(plan)} {verb} in {scale}: {reasons[0]}{more}"
    return f"{verdict.value}: {said}. Self-attested."
