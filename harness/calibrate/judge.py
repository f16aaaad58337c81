"""What follows from the integers of null campaigns and from far tails: rates, bands, uniformity, and the verdict.

A family is held to two rates. No more than `most`: alpha, by the union bound, or less where discrete tests are known
to reject less often, exactly. No less than `least`, by checks that are independent of each other, each at the level
that it attains; what depends on these can only add to it. At the level of counts every cell is drawn by itself, so that
all checks but rare cells and the fit, which read the cells of others, are independent; at the level of requests those
of the tokens emitted, or of the drafts, given how often each is met.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from scipy import special

from pp3.harness import tails
from pp3.harness.battery import number
from pp3.harness.calibrate import far
from pp3.harness.calibrate.found import Battery, battery_of
from pp3.harness.calibrate.plan import ALPHAS, BAND, BINS, FAR, RATES, UNIFORM, Level, Plan
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Event
from pp3.harness.design import EMITTED, Check, Method

SIDE = (1 - BAND) / 2
SURE = 3.29  # standard errors of a two-sided band of 99.9 %
Row = dict[str, Any]


class Outcome(StrEnum):
    """The verdict of a calibration."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The derived part of a receipt."""

    figures: dict[str, list[Row]]
    verdict: Outcome
    reasons: list[str]
    sentence: str


def conclude(plan: Plan, levels: Mapping[Level, Row], found_tails: Sequence[Row]) -> Conclusion:
    """Judge what was found, in receipt form: of each level its integers, and the far tail of every check."""
    batteries = {level: battery_of(plan.of[level]) for level in Level}
    ran = [level for level in Level if plan.campaigns[level]]
    figures = {
        "families": [one for level in ran for one in families(batteries[level], plan.of[level], level, levels[level])],
        "far": [beyond(level, [one for one in found_tails if one["level"] == level.value]) for level in Level],
        "rates": [one for level in ran for one in rates(level, levels[level])],
        "uniform": uniform({level: levels[level] for level in ran}),
    }
    failed = [
        *(_again(level, levels[level]) for level in ran if levels[level]["distinct"] < levels[level]["campaigns"]),
        *(_family(one) for one in figures["families"] if not one["held"]),
        *(_uneven(one) for one in figures["uniform"] if not one["held"]),
        *(_far(one) for one in figures["far"] if not one["held"]),
    ]
    missing = [f"no campaign of {level} was run" for level in Level if level not in ran]
    verdict = Outcome.FAIL if failed else Outcome.INCONCLUSIVE if missing else Outcome.PASS
    reasons = failed + missing
    return Conclusion(
        figures=figures, verdict=verdict, reasons=reasons, sentence=_sentence(plan, verdict, figures, reasons)
    )


def families(battery: Battery, campaign: Campaign, level: Level, found: Row) -> list[Row]:
    """How many families held a rejection at each alpha, and how many may."""
    rows = []
    for place, alpha in enumerate(ALPHAS):
        least, most = claimed(battery, campaign, level, place)
        campaigns, rejected = found["campaigns"], found["rejected"][place]
        low = int(tails.binom_ppf(SIDE, campaigns, least))
        high = int(tails.binom_isf(SIDE, campaigns, most))
        rows.append(
            {
                "alpha": repr(alpha),
                "campaigns": campaigns,
                "held": low <= rejected <= high,
                "high": high,
                "least": number(least),
                "level": level.value,
                "low": low,
                "most": number(most),
                "rejected": rejected,
            }
        )
    return rows


def claimed(battery: Battery, campaign: Campaign, level: Level, place: int) -> tuple[float, float]:
    """The rates between which a family must hold a rejection at one alpha: never above it."""
    alpha = ALPHAS[place]
    checks = [replace(check, alpha=mine) for check, mine in zip(battery.checks, battery.levels[place], strict=True)]
    if level is Level.REQUESTS:
        return _any(check.alpha for check in _apart(checks)), alpha
    least = _any(
        far.coin(far.events_of(check.cells[0].cell, campaign), check.chance, check.alpha)
        if check.method is Method.BINOMIAL
        else check.alpha
        for check in checks
        if check.method in (Method.G, Method.BINOMIAL)
    )
    more = [
        far.rarest(check, campaign) if check.method is Method.RARE else check.alpha
        for check in checks
        if check.method in (Method.RARE, Method.FIT)
    ]
    return min(alpha, least), min(alpha, least + math.fsum(more))


def _any(chances: Any) -> float:
    """The chance that one of several independent events occurs."""
    return -math.expm1(math.fsum(math.log1p(-min(float(chance), 0.5)) for chance in chances))


def _apart(checks: Sequence[Check]) -> list[Check]:
    """Checks that are independent, given how often each cell is met: of each target and depth tokens or drafts."""
    found = []
    for where in dict.fromkeys((check.target, check.depth) for check in checks):
        ways = []
        for events in (EMITTED, (Event.PROPOSAL,)):
            mine = [check for check in checks if (check.target, check.depth) == where and check.event in events]
            ways.append([check for check in mine if check.method is Method.G])
        found += max(ways, key=lambda way: math.fsum(check.alpha for check in way))
    return found


def uniform(levels: Mapping[Level, Row]) -> list[Row]:
    """G of the bins of each kind's transforms against equal parts; all kinds share one level."""
    wanted = [(level, kind) for level, found in levels.items() for kind in found["kinds"] if any(kind["pit"])]
    rows = []
    for level, kind in wanted:
        counts = np.array(kind["pit"], np.float64)
        g = 2 * float(special.xlogy(counts, counts * BINS / counts.sum()).sum())
        p = float(tails.chi2_sf(g, BINS - 1))
        rows.append(
            {
                "alpha": number(UNIFORM / len(wanted)),
                "g": number(g),
                "held": p > UNIFORM / len(wanted),
                "kind": kind["id"],
                "level": level.value,
                "p": number(p),
                "values": int(counts.sum()),
            }
        )
    return rows


def rates(level: Level, found: Row) -> list[Row]:
    """How often single p-values are so small, relatively; recorded, decides nothing: a discrete one is rarer."""
    rows = []
    for kind in found["kinds"]:
        for rate, below in zip(RATES, kind["below"], strict=True):
            tried = kind["tried"]
            low = float(tails.beta_ppf(SIDE, below, tried - below + 1)) if below else 0.0
            high = float(tails.beta_isf(SIDE, below + 1, tried - below)) if below < tried else 1.0
            rows.append(
                {
                    "below": below,
                    "high": number(high / rate),
                    "kind": kind["id"],
                    "level": level.value,
                    "low": number(low / rate),
                    "rate": repr(rate),
                    "ratio": number(below / tried / rate),
                    "tried": tried,
                }
            )
    return rows


def beyond(level: Level, found_tails: Sequence[Row]) -> Row:
    """At FAR, the sum of the chances of all checks, which bounds that of the family whatever depends on what."""
    chances = [float(one["exact"] or one["chance"]) for one in found_tails]
    errors = [0.0 if one["exact"] else float(one["error"]) for one in found_tails]
    ratios = [chance / float(one["alpha"]) for chance, one in zip(chances, found_tails, strict=True)]
    most = max(range(len(ratios)), key=ratios.__getitem__)
    total, error = math.fsum(chances), math.hypot(*errors)
    return {
        "alpha": repr(FAR),
        "chance": number(total),
        "checks": len(found_tails),
        "error": number(error),
        "exact": sum(bool(one["exact"]) or one["how"] == "enumerated" for one in found_tails),
        "held": total - SURE * error <= FAR,
        "largest": number(ratios[most]),
        "largestOf": found_tails[most]["id"],
        "level": level.value,
        "over": sum(ratio > 1 for ratio in ratios),
    }


def _again(level: Level, found: Row) -> str:
    return f"{level}: {found['campaigns']:,} campaigns have {found['distinct']:,} different counts: numbers came again"


def _family(one: Row) -> str:
    side = "more" if one["rejected"] > one["high"] else "fewer"
    return (
        f"{one['level']}: {one['rejected']:,} of {one['campaigns']:,} null campaigns are rejected at alpha "
        f"{one['alpha']}, {side} than {one['low']:,} to {one['high']:,}"
    )


def _uneven(one: Row) -> str:
    return (
        f"{one['level']}: p-values of {one['kind']} are not uniform: G = {one['g']}, p = {one['p']} <= {one['alpha']}"
    )


def _far(one: Row) -> str:
    return (
        f"{one['level']}: at alpha {one['alpha']} the checks reject a null with {one['chance']} in all (standard error "
        f"{one['error']})"
    )


def _sentence(plan: Plan, verdict: Outcome, figures: dict[str, list[Row]], reasons: list[str]) -> str:
    if verdict is Outcome.FAIL:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"FAIL: the battery does not keep its level: {reasons[0]}{more}. Self-attested."
    said = []
    for level in Level:
        rows = [one for one in figures["families"] if one["level"] == level.value and float(one["alpha"]) < ALPHAS[0]]
        if rows:
            shown = ", ".join(
                f"{one['rejected'] / one['campaigns']:.2%} at {one['alpha']} ({one['low']:,} to {one['high']:,} may, "
                f"{one['rejected']:,} are)"
                for one in rows
            )
            said.append(f"of {plan.campaigns[level]:,} null campaigns of {level} it rejects {shown}")
    one, kinds = figures["far"][0], len(figures["uniform"])
    said.append(f"at {one['alpha']} at most {float(one['chance']):.3g} by the tails of {one['checks']} checks")
    said.append(f"p-values of {kinds} kinds are uniform")
    kept = "the battery keeps its level" if verdict is Outcome.PASS else f"not decided, {reasons[0]}"
    return f"{verdict.value}: {kept}: {'; '.join(said)}. Self-attested."
