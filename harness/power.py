"""How small an effect a check sees, how many events it needs for one, and how large a one its counts leave possible.

Every method has the three functions, on its own number of events. Effects have units: total variation of a law (of a
coin: the shift of its probability), the ratio of one outcome's probability to its null, the factor of a variance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from scipy import stats

from pp3.harness.bounds import upper
from pp3.harness.design import Check, Method, detectable_tv, required_events

LARGEST_MEAN = 10**10  # of a Poisson count whose tail SciPy inverts; beyond, it gives NaN
REFERENCE = 100  # events that an outcome is expected to have, whose ratio is said of outcomes one by one


class Unit(StrEnum):
    """What the size of an effect means."""

    TV = "total variation"
    RATIO = "ratio"
    VARIANCE = "variance factor"
    REPEATS = "repeats"


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


def detectable(check: Check, power: float) -> Effect:
    """The smallest effect that a check sees with this power, at its planned events."""
    return Effect(size=_detectable(check, power), unit=UNITS[check.method])


def _detectable(check: Check, power: float) -> float:
    if not check.decides:
        return 1.0
    match check.method:
        case Method.BINOMIAL:
            return smallest_shift(check.alpha, float(check.cells[0].probabilities[1]), int(check.events), power)
        case Method.REPEAT:
            return 1.0
        case Method.RARE:
            return smallest_ratio(check.alpha / (2 * outcomes(check)), REFERENCE, power)
        case Method.FIT:
            return largest_factor(check.alpha / 2, check.df, power)
    return detectable_tv(check.alpha, check.df, check.events, power)


def outcomes(check: Check) -> int:
    """How many outcomes are judged one by one."""
    return sum(len(cell.atoms) for cell in check.single)


def needed(check: Check, size: float, power: float) -> int:
    """Events at which a check sees an effect of this size, in its own unit. ValueError if none are enough."""
    if not size > 0 or (check.method in (Method.G, Method.BINOMIAL) and size > 1):
        raise ValueError(f"an effect of {size}: a total variation lies above 0 and is at most 1")
    match check.method:
        case Method.G:
            return required_events(check.alpha, check.df, size, power)
        case Method.BINOMIAL:
            chance = float(check.cells[0].probabilities[1])
            return _least(lambda events: smallest_shift(check.alpha, chance, events, power) <= size)
        case Method.RARE:
            if size <= 1:
                raise ValueError(f"a ratio of {size}: an outcome is seen to be more likely above 1")
            alpha = check.alpha / (2 * outcomes(check))
            return _least(lambda events: smallest_ratio(alpha, events, power) <= size)
        case Method.FIT:
            if size <= 1:
                raise ValueError(f"a variance factor of {size}: too bad a fit is seen above 1")
            return _least(lambda df: largest_factor(check.alpha / 2, df, power) <= size)
    return 1


def excluded(check: Check, g: float, events: int, confidence: float, hits: int) -> Effect:
    """The largest effect that counts leave possible: 1 where nothing is excluded."""
    unit, size = UNITS[check.method], 1.0
    if check.method is Method.G and check.df and events:
        size = upper(g, check.df, events, confidence)
    elif check.method is Method.BINOMIAL and events:
        chance = float(check.cells[0].probabilities[1])
        low, high = interval(hits, events, confidence)
        size = max(abs(low - chance), abs(high - chance))
    elif check.method is Method.FIT and check.df:
        size = float(g / stats.chi2.ppf(1 - confidence, check.df))
    elif check.method is Method.RARE:
        size = math.inf
    return Effect(size=size, unit=unit)


def interval(hits: int, events: int, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval of a probability."""
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, hits, events - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(tail, hits + 1, events - hits)) if hits < events else 1.0
    return low, high


@cache
def smallest_shift(alpha: float, chance: float, events: int, power: float) -> float:
    """Smallest shift of a coin's probability, in either direction, that an exact two-sided test sees; at most 1."""
    if events < 1:
        return 1.0
    above = int(stats.binom.isf(alpha / 2, events, chance)) + 1  # P(hits >= above) <= alpha / 2
    below = int(stats.binom.ppf(alpha / 2, events, chance)) - 1  # P(hits <= below) <= alpha / 2
    while below >= 0 and stats.binom.cdf(below, events, chance) > alpha / 2:
        below -= 1

    def shift(critical: int, upward: bool) -> float:
        """To the probability at which the critical number of hits is met with this power."""
        if not 0 <= critical <= events:
            return 1.0
        limit = stats.beta.isf(1 - power, critical, events - critical + 1) if upward else None
        if limit is None:
            limit = stats.beta.ppf(1 - power, critical + 1, events - critical)
        return abs(float(limit) - chance)

    return min(1.0, max(shift(above, True), shift(below, False) if below >= 0 else 0.0))


@cache
def smallest_ratio(alpha: float, expected: float, power: float) -> float:
    """Smallest factor on the mean of a Poisson count that a test of level alpha on its upper tail sees.

    ValueError for a mean above LARGEST_MEAN.
    """
    if expected > LARGEST_MEAN:
        raise ValueError(f"{expected:,.0f} events of one outcome; tails are known up to {LARGEST_MEAN:,}")
    critical = int(stats.poisson.isf(alpha, expected)) + 1
    return float(stats.gamma.isf(1 - power, critical)) / expected


@cache
def largest_factor(alpha: float, df: int, power: float) -> float:
    """Smallest factor above 1 on a chi-square's variance scale that a test of level alpha on its upper tail sees."""
    return float(stats.chi2.isf(alpha, df) / stats.chi2.isf(power, df))


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
