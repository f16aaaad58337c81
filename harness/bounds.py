"""How large a deviation can still be and how large it must be, from counts, and the smallest effect a check can see.

The deviation of a check of several independent cells is the mean of the total variations of its cells, weighted by
their events; deviations within a pooled group are not in it. `upper` and `lower` bound it at a stated confidence:

    upper   N events with G = g say TV <= sqrt(l / N) / 2 + 1 / (2 N), where P(G <= g) = 1 - confidence if G is
            noncentral chi-square with noncentrality l. With one law q_c and null p_c a cell, G has noncentrality
            2 sum n_c KL(q_c, p_c) under the alternative; KL >= 2 TV^2 (Pinsker), and the square of a mean is at most
            the mean of squares (Jensen), so 2 sum n_c KL_c >= 4 N (mean TV)^2. Pearson's noncentrality, N chi2, would
            do as well for a small deviation (chi2 >= 4 TV^2), not for a large one: G's variance is then
            4 sum n_c Var(ln q / p), and only where Pinsker is tight, halves of equal mass, does that matter; there
            the variance is below that of the noncentral chi-square.
    proved  the same without any approximation: exp(-s L) of the log likelihood ratio L = sum ln q / p has the mean
            exp(-s D), D the Renyi divergence of order 1 - s; G >= 2 L, D >= 2 (1 - s) N TV^2 (Gilardoni 2010,
            https://doi.org/10.1109/TIT.2010.2068710) and Markov's inequality, at the best s for each TV, give
            TV <= (sqrt(b) + sqrt(b + g)) / (2 sqrt(N)), b = 2 ln(1 / (1 - confidence)).
    lower   the deviating groups are chosen on one half and their mass is bounded on the other (Clopper-Pearson).

Half a count, 1 / (2 N), is what the steps of a lattice can hide: without it the bound misses up to 1.2 times as often
as stated with two groups of 40 to 400 events, with it never more often than stated (enumerated in the tests).
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.harness import tails
from pp3.harness.errors import CampaignError
from pp3.harness.special import special
from pp3.harness.zero import brent

LEAST = 20  # events a group, below which G is not taken for chi-square
LADDER = (-4, -3, -2, -1, 0, 1, 2, 3, 4)  # standard errors above its expectation that put a group in the chosen set
Counts = Sequence[npt.ArrayLike]  # of each cell, [groups]
Half = list[npt.NDArray[np.float64]]  # likewise


def upper(g: float, df: int, events: int, confidence: float) -> float:
    """Largest mean total variation that G = g over this many events does not exclude; 1 if nothing is.

    A g below the median of a true null counts as the median: a fit that is too good is no evidence of a smaller
    deviation (the power constraint of Cowan et al. 2011, https://arxiv.org/abs/1105.3166, at one half). With fewer
    than 20 events a group the proved bound is given. CampaignError for a g below 0 or a confidence outside (0, 1).
    """
    proved = proved_upper(g, events, confidence)
    if df < 1 or events < LEAST * (df + 1):
        return proved if df > 0 else 1.0
    g = max(g, float(tails.chi2_ppf(0.5, df)))
    miss = 1 - confidence
    if tails.chi2_cdf(g, df) <= miss:  # a confidence below one half
        return 1 / (2 * events)
    most = (2 * math.sqrt(events) * _root(g, events, miss)) ** 2
    found = brent(lambda nc: special.chndtr(g, df, nc) - miss, 0, most, xtol=1e-9, rtol=1e-12)
    return min(1.0, math.sqrt(found / events) / 2 + 1 / (2 * events))


def proved_upper(g: float, events: int, confidence: float) -> float:
    """As `upper`, whatever the number of events and groups: up to twice as large for few groups, more for many."""
    _within("g", g, 0, math.inf)
    _within("confidence", confidence, 0, 1)
    return min(1.0, _root(g, events, 1 - confidence)) if events else 1.0


def _root(g: float, events: int, miss: float) -> float:
    b = -2 * math.log(miss)
    return (math.sqrt(b) + math.sqrt(b + g)) / (2 * math.sqrt(events))


def lower(first: Counts, second: Counts, probabilities: Counts, confidence: float) -> tuple[float, list[list[int]]]:
    """Mean total variation that two halves of the events show, and the groups of each cell that show it.

    Each half chooses a set and the other bounds its mass, each with half of the risk: the better is taken of one
    cell, and of several their mean by events, which bounds the mean over all events whatever their split. Hits of the
    set are a sum of binomials with unknown means; its tail is within that of the binomial of the mean from one above
    the mean on (Hoeffding 1956, theorem 4, https://doi.org/10.1214/aoms/1177728178), so Clopper-Pearson holds for
    a limit of at most hits - 1. Nothing shown: 0 and empty lists.
    """
    _within("confidence", confidence, 0, 1)
    halves = [[np.asarray(cell, float) for cell in half] for half in (first, second)]
    laws = [np.asarray(law, float) for law in probabilities]
    level = 1 - (1 - confidence) / 2
    results = [_shown(choose, test, laws, level) for choose, test in (halves, halves[::-1])]
    best = max(results, key=lambda result: result[0])
    weights = [math.fsum(float(cell.sum()) for cell in test) for test in halves[::-1]]
    tv = best[0]
    if len(laws) > 1 and max(weights):
        tv = sum(weight * limit for weight, (limit, _) in zip(weights, results, strict=True)) / sum(weights)
    chosen = [np.flatnonzero(mask).tolist() if tv else [] for mask in best[1]]
    return tv, chosen


def _shown(choose: Half, test: Half, laws: Half, level: float) -> tuple[float, list[npt.NDArray[np.bool_]]]:
    """Excess mass, on one half, of the set that the other half chose: that whose limit it expects to be highest."""
    totals = [float(cell.sum()) for cell in test]
    events = sum(totals)
    expected = [cell.sum() * law for cell, law in zip(choose, laws, strict=True)]
    spread = [np.sqrt(mean * (1 - law)) for mean, law in zip(expected, laws, strict=True)]
    best, chosen = -math.inf, [law > 1 for law in laws]
    for step in LADDER:
        masks = [n > mean + step * sd for n, mean, sd in zip(choose, expected, spread, strict=True)]
        masses = [float(law[mask].sum()) for law, mask in zip(laws, masks, strict=True)]
        luck = sum(float(sd.sum()) for sd in spread) * math.exp(-step * step / 2) / math.sqrt(2 * math.pi)
        excess = sum(float((n - mean)[mask].sum()) for n, mean, mask in zip(choose, expected, masks, strict=True))
        noise = sum(n * mass * max(0.0, 1 - mass) for n, mass in zip(totals, masses, strict=True))
        hoped = (excess - luck) / max(1.0, sum(float(mean.sum()) for mean in expected))
        hoped -= float(special.ndtri(level)) * math.sqrt(noise) / max(1.0, events)
        if hoped > best:
            best, chosen = hoped, masks
    if not events:
        return 0.0, chosen
    hits = sum(float(cell[mask].sum()) for cell, mask in zip(test, chosen, strict=True))
    null = sum(n * float(law[mask].sum()) for n, law, mask in zip(totals, laws, chosen, strict=True)) / events
    limit = float(special.betaincinv(hits, events - hits + 1, 1 - level)) if hits else 0.0
    if len(laws) > 1:
        limit = min(limit, (hits - 1) / events)
    return max(0.0, limit - null), chosen


def binomial_interval(hits: int, events: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson, two-sided: the probabilities that hits out of events do not exclude. (0, 1) of no events."""
    _within("confidence", confidence, 0, 1)
    _within("hits", hits, -1, events + 1)
    side = (1 - confidence) / 2
    low = float(tails.beta_ppf(side, hits, events - hits + 1)) if hits else 0.0
    high = float(tails.beta_isf(side, hits + 1, events - hits)) if hits < events else 1.0
    return low, high


def match_effect(null: float, pairs: int, alpha: float, power: float) -> float:
    """Smallest share of copies that a two-sided exact test of the matches of disjoint pairs sees; inf if it sees none.

    A pair matches with probability null if independent, with null + share (1 - null) if a share of the pairs copies.
    """
    _within("null", null, 0, 1)
    least = _critical(null, pairs, alpha)
    if least > pairs:
        return math.inf
    return max(0.0, float(special.betaincinv(least, pairs - least + 1, power)) - null) / (1 - null)


def _critical(null: float, pairs: int, alpha: float) -> int:
    """Fewest matches that reject on the upper side."""
    return int(tails.binom_isf(alpha / 2, pairs, null)) + 1


def match_pairs(null: float, share: float, alpha: float, power: float) -> int:
    """Pairs from which on a share of copies is seen with this power.

    The power of an exact test falls back by up to one count at each step of its critical count, every 1 / null pairs
    or fewer; the number returned is past the last such fall over four steps.
    """
    _within("share", share, 0, 1)
    above = 1
    while match_effect(null, above, alpha, power) > share:
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if match_effect(null, middle, alpha, power) <= share else (above, middle)
    truth = null + share * (1 - null)
    while True:
        sizes = np.arange(above, above + math.ceil(4 / null))
        least = tails.binom_isf(alpha / 2, sizes, null) + 1
        short = np.flatnonzero(tails.binom_sf(least - 1, sizes, truth) < power)
        if not len(short):
            return above
        above += int(short[-1]) + 1


def match_upper(null: float, matches: int, pairs: int, confidence: float) -> float:
    """Largest share of copies that these matches of disjoint pairs do not exclude, by the exact binomial.

    Fewer matches than expected count as the expected number, as a small G does in `upper`.
    """
    _within("null", null, 0, 1)
    _within("confidence", confidence, 0, 1)
    matches = max(matches, math.ceil(null * pairs))
    if matches >= pairs:
        return 1.0
    return max(0.0, float(special.betaincinv(matches + 1, pairs - matches, confidence)) - null) / (1 - null)


def fit_effect(df: int, alpha: float, power: float) -> tuple[float, float]:
    """Factors f, at most and at least, that a two-sided chi-square test sees if its statistic is f times chi-square."""
    low, high = tails.chi2_ppf(alpha / 2, df), tails.chi2_isf(alpha / 2, df)
    return float(low / tails.chi2_ppf(power, df)), float(high / tails.chi2_isf(power, df))


def rare_effect(expected: float, alpha: float, power: float) -> float:
    """Smallest ratio of one outcome's probability to its null that an exact tail of level alpha sees.

    Poisson tails of `expected` events, which are the larger for the critical count of a binomial. CampaignError for
    an outcome that cannot occur: one event of it is a failure by itself.
    """
    _within("expected", expected, 0, math.inf)
    least = int(tails.poisson_isf(alpha, expected)) + 1
    return float(special.gammaincinv(least, power)) / expected


def _within(name: str, value: float, low: float, high: float) -> None:
    if not (low < value < high or (name == "g" and value == 0)):
        raise CampaignError(f"{name} is {value}; want more than {low} and less than {high}")


class Unit(StrEnum):
    """What the size of an effect means."""

    TV = "total variation"
    COPIED = "copied share"
    RATIO = "ratio"
    VARIANCE = "variance factor"
    REPEATS = "repeats"


@cache
def noncentrality(alpha: float, df: int, power: float) -> float:
    """Noncentrality at which a chi-square test of level alpha rejects with this power."""
    critical = tails.chi2_isf(alpha, df)
    return float(brent(lambda nc: 1 - special.chndtr(critical, df, nc) - power, 1e-9, 1e5))


def detectable_tv(alpha: float, df: int, events: float, power: float) -> float:
    """Smallest total variation that is seen whatever its direction, at `events` events."""
    return min(1.0, math.sqrt(noncentrality(alpha, df, power) / events) / 2)


@cache
def smallest_shift(alpha: float, chance: float, events: int, power: float) -> float:
    """Smallest shift of a coin's probability, in either direction, that an exact two-sided test sees; at most 1."""
    if events < 1:
        return 1.0
    above = int(tails.binom_isf(alpha / 2, events, chance)) + 1  # P(hits >= above) <= alpha / 2
    below = int(tails.binom_ppf(alpha / 2, events, chance)) - 1  # P(hits <= below) <= alpha / 2
    while below >= 0 and tails.binom_cdf(below, events, chance) > alpha / 2:
        below -= 1

    def shift(critical: int, upward: bool) -> float:
        """To the probability at which the critical number of hits is met with this power."""
        if not 0 <= critical <= events:
            return 1.0
        limit = tails.beta_isf(1 - power, critical, events - critical + 1) if upward else None
        if limit is None:
            limit = tails.beta_ppf(1 - power, critical + 1, events - critical)
        return abs(float(limit) - chance)

    return min(1.0, max(shift(above, True), shift(below, False) if below >= 0 else 0.0))
