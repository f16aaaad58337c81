"""What the checks of a run found, for a terminal: those that deviate first, then one row of each kind of check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pp3.harness.battery import TestResult
from pp3.harness.cells import Event
from pp3.harness.design import TOO_FEW
from pp3.harness.power import Unit
from pp3.harness.terminal import Column, Fit, labelled, table
from pp3.harness.trial.findings import Effect
from pp3.harness.verdict import Verdict

MOST = 8  # rows of one table
SUMS = (Event.RARE, Event.FIT)
TINY = 1e-300  # below it a double has no digits left
FAILED = (Verdict.FAIL, Verdict.INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What is shown of a judgement."""

    verdict: Verdict
    reasons: Sequence[str]
    tests: Sequence[TestResult]
    off: Mapping[str, str]  # by check: total variation that it is off by
    furthest: Mapping[str, Effect]  # by check: the outcome furthest from its law


def lines(scores: Scores) -> list[str]:
    """Deviating checks, what else was found, and every kind of check."""
    named = [test for test in scores.tests if test.outcome == "fail"]
    others = [why for why in scores.reasons[1:] if not any(speaks_of(why, test.id) for test in named)]
    said = _deviating(scores, sorted(named, key=_strength))
    said += [line for why in others[:MOST] for line in labelled("also", why)]
    said += _more(len(others), "reasons")
    if any(TOO_FEW in why for why in scores.reasons):
        said += labelled("way out", "more requests: --requests N, or --detect TV, which says how many that takes")
    return ["", *said, *([""] if said else []), *_kinds(scores.tests)]


def speaks_of(reason: str, check: str) -> bool:
    """Whether a reason is what one check found: it starts with its id, or ends with it in brackets."""
    return reason.startswith(f"{check}:") or f"({check}:" in reason or f"({check})" in reason


def _strength(test: TestResult) -> tuple[bool, bool, float]:
    """Impossible outcomes first, then what lies furthest below its level; what sums up many laws comes last."""
    return test.event in SUMS, not test.forbidden, test.p / test.alpha if test.alpha else 1.0


def _p(test: TestResult) -> str:
    return f"{test.p:.2g}" if test.p >= TINY else f"<{TINY:g}"


def _deviating(scores: Scores, found: Sequence[TestResult]) -> list[str]:
    if not found:
        return []
    columns = [
        Column(head="failed check" if scores.verdict in FAILED else "deviating check", fit=Fit.FOLD),
        Column(head="off by TV", fit=Fit.FOLD),
        Column(head="p", right=True),
        Column(head="level", right=True),
        Column(head="where: came, law", fit=Fit.FOLD),
    ]
    rows = [
        [
            test.id,
            scores.off.get(test.id, ""),
            _p(test) if test.decides else "",
            f"{test.alpha:.2g}" if test.decides else "",
            _where(test, scores.furthest.get(test.id)),
        ]
        for test in found[:MOST]
    ]
    return [*table(columns, rows), *_more(len(found), "checks")]


def _where(test: TestResult, effect: Effect | None) -> str:
    """The outcome that shows it, in a few words."""
    if test.forbidden:
        return f"{test.forbidden:,} outcomes of probability 0"
    if effect is None or not effect.expected:
        return test.worst
    return f"{effect.outcome}: {effect.observed:.3g}, {effect.expected:.3g}"


def _more(count: int, what: str) -> list[str]:
    return [f"... and {count - MOST:,} more {what}: the page has all"] if count > MOST else []


def _kinds(tests: Sequence[TestResult]) -> list[str]:
    """One row a kind: how many checks, how many deviate, the p-value nearest to its level, what the weakest sees."""
    columns = [
        Column(head="checks of"),
        Column(head="decide", right=True),
        Column(head="deviate", right=True),
        Column(head="least p", right=True),
        Column(head="its level", right=True),
        Column(head="the weakest sees", fit=Fit.FOLD),
    ]
    rows = []
    for event in Event:
        mine = [test for test in tests if test.event is event]
        deciding = [test for test in mine if test.decides]
        failed = sum(test.outcome == "fail" for test in mine)
        nearest = min(deciding, key=lambda test: test.p / test.alpha, default=None)
        if mine and (nearest or failed):
            p, level = (_p(nearest), f"{nearest.alpha:.2g}") if nearest else ("", "")
            rows.append([event.value, str(len(deciding)), str(failed), p, level, _sees(deciding)])
    return table(columns, rows)


def _sees(deciding: Sequence[TestResult]) -> str:
    """The smallest effect that the weakest of them sees; of those that a PASS needs, if any."""
    sizes = [test.detectable for test in deciding if test.required] or [test.detectable for test in deciding]
    worst = max(sizes, key=lambda effect: effect.size, default=None)
    if worst is None:
        return ""
    return f"{'TV' if worst.unit is Unit.TV else worst.unit.value} {worst.size:.3g}"
