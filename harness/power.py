"""How small an effect a check sees, how many events it needs for one, and how large a one its counts leave possible.

Every method has the three functions, on its own number of events. Effects have units: total variation of a law (of a
coin: the shift of its probability), the share of pairs that copy, the ratio of one outcome's probability to its null,
the factor of a variance.

Of a law: a multinomial goodness-of-fit statistic has df degrees of freedom and noncentrality N w^2, w^2 =
sum (q_i - p_i)^2 / p_i; total variation is at most w / 2 (Cauchy-Schwarz), so an effect of that size is seen whatever
its direction.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from pp3.harness import bounds, tails
from pp3.harness.bounds import Unit as Unit  # where callers look for them
from pp3.harness.bounds import detectable_tv as detectable_tv
from pp3.harness.bounds import noncentrality as noncentrality
from pp3.harness.bounds import smallest_shift as smallest_shift
from pp3.harness.cells import Event
from pp3.harness.design import Check, Method

REFERENCE = 100  # events that an outcome is expected to have, whose ratio is said of outcomes one by one
KNOWN = 10**10  # expected events up to which a Poisson tail is computed
COPIES = (Event.MATCH, Event.ROUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A size in its unit."""

    size: float
    unit: Unit


UNITS = {
    Method.G: Unit.TV,
    Method.BINOMIAL: Unit.TV,
    Method.REPEAT: Unit.REPEATS,
    Method.RARE: Unit.RATIO,
    Method.FIT: Unit.VARIANCE,
}


def unit_of(check: Check) -> Unit:
    """The unit of a check's effects."""
    return Unit.COPIED if check.method is Method.BINOMIAL and check.event in COPIES else UNITS[check.method]


def detectable(check: Check, power: float) -> Effect:
    """The smallest effect that a check sees with this power, at its planned events; 1 of one that decides nothing."""
    return Effect(size=_detectable(check, power) if check.decides else 1.0, unit=unit_of(check))


def _detectable(check: Check, power: float) -> float:
    match unit_of(check):
        case Unit.COPIED:
            return min(1.0, _share(check.chance, int(check.events), check.alpha, power))
        case Unit.REPEATS:
            return 1.0
        case Unit.RATIO:
            return _ratio(REFERENCE, check.alpha / (2 * outcomes(check)), power)
        case Unit.VARIANCE:
            return bounds.fit_effect(check.df, check.alpha, power)[1]
    if check.method is Method.BINOMIAL:
        return smallest_shift(check.alpha, check.chance, int(check.events), power)
    return detectable_tv(check.alpha, check.df, check.events, power)


def outcomes(check: Check) -> int:
    """How many outcomes are judged one by one."""
    return sum(len(cell.atoms) for cell in check.single)


def needed(check: Check, size: float, power: float) -> int:
    """Events at which a check sees an effect of this size, in its own unit. ValueError if none are enough."""
    unit = unit_of(check)
    if unit in (Unit.RATIO, Unit.VARIANCE) and size <= 1:
        raise ValueError(f"a {unit.value} of {size}: what is seen lies above 1")
    if unit in (Unit.TV, Unit.COPIED) and not 0 < size <= 1:
        raise ValueError(f"a {unit.value} of {size}: it lies above 0 and is at most 1")
    match unit:
        case Unit.COPIED:
            return bounds.match_pairs(check.chance, min(size, 1 - 1e-12), check.alpha, power)
        case Unit.REPEATS:
            return 1
        case Unit.RATIO:
            alpha = check.alpha / (2 * outcomes(check))
            return _least(lambda events: _ratio(events, alpha, power) <= size)
        case Unit.VARIANCE:
            return _least(lambda df: bounds.fit_effect(df, check.alpha, power)[1] <= size)
    if check.method is Method.BINOMIAL:
        return _least(lambda events: smallest_shift(check.alpha, check.chance, events, power) <= size)
    return required_events(check.alpha, check.df, size, power)


def excluded(check: Check, g: float, events: int, confidence: float, hits: int) -> Effect:
    """The largest effect that counts leave possible, of one coin that came up `hits` times; 1 where nothing is
    excluded, infinite where nothing can be."""
    unit, size = unit_of(check), 1.0
    if unit is Unit.COPIED and events:
        size = bounds.match_upper(check.chance, hits, events, confidence)
    elif check.method is Method.BINOMIAL and events:
        size = max(abs(end - check.chance) for end in bounds.binomial_interval(hits, events, confidence))
    elif unit is Unit.TV and check.df and events:
        size = bounds.upper(g, check.df, events, confidence)
    elif unit is Unit.VARIANCE and check.df:
        size = float(g / tails.chi2_ppf(1 - confidence, check.df))
    elif unit is Unit.RATIO:
        size = math.inf
    return Effect(size=size, unit=unit)


def required_events(alpha: float, df: int, tv: float, power: float) -> int:
    """Events at which a deviation of this total variation is seen whatever its direction."""
    return math.ceil(noncentrality(alpha, df, power) / (2 * tv) ** 2)


@cache
def _share(chance: float, events: int, alpha: float, power: float) -> float:
    return bounds.match_effect(chance, events, alpha, power) if events else 1.0


@cache
def _ratio(expected: float, alpha: float, power: float) -> float:
    if expected > KNOWN:
        raise ValueError(f"no number of events is enough: tails are known up to {KNOWN:,}")
    return bounds.rare_effect(expected, alpha, power)


def _least(enough: Callable[[int], bool]) -> int:
    """The smallest whole number of events that is enough. ValueError above 2^50."""
    high = 1
    while not enough(high):
        high *= 2
        if high > 1 << 50:
            raise ValueError("no number of events below 2^50 is enough")
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
