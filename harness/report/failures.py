"""Failures of a campaign or a trial, one line each: where, which outcome, how large, and how sure."""

from dataclasses import dataclass

from pp3.harness.cells import Event
from pp3.harness.design import Check
from pp3.harness.report.judged import Judged
from pp3.harness.trial.findings import effect_of, outcome_name

TINY = 1e-300
WORTH = {  # of a deviation beside the tolerance: the verdict it would be alone, and what is said of it
    "fail": ("FAIL", ""),
    "tolerated": ("TOLERATED", "; within the tolerance declared"),
    "open": ("INCONCLUSIVE", "; the tolerance lies between its bounds"),
}
MOST_STRAYS = 3  # outcomes that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed check, from its counts."""

    id: str
    target: str
    place: str  # the position, in words
    outcome: str  # the token, or whatever else was counted
    seen: str  # its share
    law: str
    size: str  # of the whole law's error, in total variation
    between: str  # its bounds; of impossible outcomes none are needed
    strength: str
    verdict: str  # what it would be alone


def failures(judged: Judged) -> list[Failure]:
    """Every failed check, the strongest first."""
    return [_failure(check, judged) for check in judged.failing]


def small(p: float) -> str:
    """A p-value, or that a double holds no smaller one."""
    return f"= {p:.2g}" if p >= TINY else f"< {TINY:g}"


def _failure(check: Check, judged: Judged) -> Failure:
    test = judged.again(check)
    bounds = judged.deviations.get(check.id)
    verdict, worth = WORTH[bounds["worth"] if bounds else "fail"]
    outcome, seen, law, size = test.worst, "", "", ""
    if test.forbidden or not check.cells:
        found: dict[int, int] = {}
        for cell in check.counted:
            for atom, count in judged.strays.get(cell, {}).items():
                found[atom] = found.get(atom, 0) + count
        if test.forbidden:
            total = sum(sum(judged.counts[cell]) for cell in check.counted)
            outcome = _strays(check, found, judged.vocabs.get(check.target, 0))
            seen, law, size = f"{test.forbidden / total:.4g}", "0", f"at least {test.forbidden / total:.3g}"
    elif check.event is not Event.FIT:
        effect = effect_of(check, judged.counts, judged.vocabs.get(check.target, 0), check.depth)
        outcome, size = effect.outcome, f"{effect.tv:.3g}"
        seen, law = f"{effect.observed:.4g}", f"{effect.expected:.4g}"
    return Failure(
        id=check.id,
        target=check.target or "all targets",
        place=judged.place(check),
        outcome=outcome,
        seen=seen,
        law=law,
        size=size,
        between=f"{float(bounds['low']):.2g} to {float(bounds['high']):.2g}" if bounds and not test.forbidden else "",
        strength=("impossible by the law" if test.forbidden else f"p {small(test.p)}, level {test.alpha:.2g}") + worth,
        verdict=verdict,
    )


def _strays(check: Check, found: dict[int, int], vocab: int) -> str:
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{outcome_name(check.event, [atom], vocab, check.depth)} ({count:,})" for atom, count in most]
    more = f" and {len(named) - MOST_STRAYS} more" if len(named) > MOST_STRAYS else ""
    return ", ".join(named[:MOST_STRAYS]) + more
