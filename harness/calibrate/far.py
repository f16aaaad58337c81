"""Far tails of checks, where no campaign reaches: exact where that is feasible, else by weighted draws.

exact    two groups are enumerated; a larger multinomial is independent Poisson counts given their sum, and
         G = sum 2 (n ln(n / e) - (n - e)), each term at least 0. Dynamic programming over groups on (sum, G), G on
         GRID steps up to the critical value, each term's mass split between its two neighbours, which leaves means
         as they are.
weighted draws from Dirichlet-multinomials about the law, so spread out that the critical value is their mean, each
         weighted by the ratio of both probabilities.
tilted   of a sum over many laws, both sides: of each law's G the draws are taken again with weights exp(t G), t such
         that the critical value is the mean of the sum, and the sum is weighted back.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from pp3.harness import tails
from pp3.harness.battery import Floats, number
from pp3.harness.calibrate.pit import mass
from pp3.harness.calibrate.plan import DRAWS, FAR, Level, at
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Cell
from pp3.harness.dependence import RARE
from pp3.harness.design import Check, Method, design
from pp3.harness.pooling import Pooled
from pp3.harness.zero import brent

GRID = 400  # steps of G up to the critical value
STEEPEST, FLATTEST = 0.3, -50.0  # tilts; G has a mean of exp(t G) below t = 1 / 2 alone
ENOUGH = 200  # draws of each law that the tilted mean rests on
FEASIBLE = 1e9  # additions of a dynamic program that is run


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The chance that a true null is rejected at a level, and its standard error; 0 of what is enumerated."""

    how: str
    chance: float
    error: float = 0.0


def checks_of(campaign: Campaign) -> list[Check]:
    """Every check that decides, at FAR."""
    return [check for check in design(at(campaign, FAR)) if check.decides]


def row(level: Level, check: Check, campaign: Campaign, rng: np.random.Generator) -> dict[str, Any]:
    """The far tail of one check in receipt form, beside its level."""
    found = tail(check, campaign, rng)
    exact = exact_of(check, campaign) if check.method is Method.G else None
    return {
        "alpha": number(check.alpha),
        "chance": number(found.chance),
        "error": number(found.error),
        "exact": "" if exact is None else number(exact),
        "how": found.how,
        "id": check.id,
        "level": level.value,
    }


def tail(check: Check, campaign: Campaign, rng: np.random.Generator) -> Tail:
    """The chance that a check rejects its null at its own level."""
    match check.method:
        case Method.G:
            return weighted(check, campaign, rng)
        case Method.FIT:
            return tilted(check, campaign, rng)
    return bounded(check, campaign)


def bounded(check: Check, campaign: Campaign) -> Tail:
    """That of a check that is no sum of G: nothing is drawn."""
    match check.method:
        case Method.BINOMIAL:
            events = events_of(check.cells[0].cell, campaign)
            return Tail(how="enumerated", chance=float(coin(events, check.chance, check.alpha)))
        case Method.RARE:
            return Tail(how="bounded", chance=rarest(check, campaign))
    return Tail(how="bounded", chance=min(check.alpha, events_of(check.single[0], campaign) / RARE))


def events_of(cell: Cell, campaign: Campaign) -> int:
    """Events of a cell at the planned size, to the nearest."""
    requests = sum(campaign.requests_of(cell.depth, size) for size in campaign.spec.batch_sizes)
    return round(requests * cell.rate)


def coin(events: Any, chance: Any, level: float) -> Any:
    """The exact chance that a two-sided test of a binomial rejects, each side at half the level; numbers or arrays."""
    above = tails.binom_isf(level / 2, events, chance)
    below = tails.binom_ppf(level / 2, events, chance)
    return tails.binom_sf(above, events, chance) + tails.binom_cdf(np.asarray(below) - 1, events, chance)


def rarest(check: Check, campaign: Campaign) -> float:
    """At most the chance that any outcome's test rejects: the sum of theirs. Of two outcomes one is the other."""
    each = check.alpha / sum(len(cell.atoms) for cell in check.single)
    chances, events = [], []
    for cell in check.single:
        mine = cell.probabilities()
        mine = mine[:1] if len(mine) == 2 else mine
        chances.append(mine)
        events.append(np.full(len(mine), events_of(cell, campaign)))
    return float(np.sum(coin(np.concatenate(events), np.concatenate(chances), each)))


def strata_of(pooled: Pooled, campaign: Campaign) -> list[tuple[int, Floats]]:
    """Events and law of the groups of each stratum that decides, as many as are expected."""
    events = events_of(pooled.cell, campaign)
    masses = pooled.cell.probabilities()
    found = []
    for stratum in range(int(pooled.strata[-1]) + 1):
        inside = np.flatnonzero(pooled.strata == stratum)
        mass = float(masses[np.isin(pooled.groups, inside)].sum())
        law = pooled.probabilities[inside]
        found.append((round(events * min(1.0, mass)), law / law.sum()))
    return found


def weighted(check: Check, campaign: Campaign, rng: np.random.Generator, draws: int = DRAWS) -> Tail:
    """P(G >= critical value) by Dirichlet-multinomial draws (docs/calibration.md)."""
    critical, df = float(tails.chi2_isf(check.alpha, check.df)), check.df
    wider = max(1.05, critical / df)
    g, log_weight = np.zeros(draws), np.zeros(draws)
    for pooled in check.cells:
        for events, law in strata_of(pooled, campaign):
            if events < 1:
                continue
            spread = max(1e-3, (events - wider) / (wider - 1))
            counts = rng.multinomial(events, rng.dirichlet(spread * law, draws))
            g += g_of(counts, events, law)
            log_weight += special.xlogy(counts, law).sum(axis=1)
            log_weight -= (special.gammaln(counts + spread * law) - special.gammaln(spread * law)).sum(axis=1)
            log_weight += special.gammaln(events + spread) - special.gammaln(spread)
    return _mean("weighted", np.where(g >= critical, np.exp(log_weight), 0.0))


def g_of(counts: Any, events: int, law: Floats) -> Floats:
    """G of each row of counts [draws, groups]."""
    found: Floats = 2 * special.xlogy(counts, counts / (events * law)).sum(axis=1)
    return found


def _mean(how: str, values: Floats) -> Tail:
    return Tail(how=how, chance=float(values.mean()), error=float(values.std() / math.sqrt(len(values))))


def tilted(check: Check, campaign: Campaign, rng: np.random.Generator, draws: int = DRAWS) -> Tail:
    """Both sides of a sum of G over many laws, each at half the level; over few the upper one is weighted."""
    each = []
    for pooled in check.cells:
        each += [g_of(rng.multinomial(n, law, draws), n, law) for n, law in strata_of(pooled, campaign) if n]
    half = check.alpha / 2
    above = _side(each, float(tails.chi2_isf(half, check.df)), STEEPEST, rng)
    below = _side(each, float(tails.chi2_ppf(half, check.df)), FLATTEST, rng)
    above = above or weighted(replace(check, alpha=half), campaign, rng)
    below = below or Tail(how="tilted", chance=half, error=half)  # taken for its level: too few draws are so small
    return Tail(how="tilted", chance=above.chance + below.chance, error=math.hypot(above.error, below.error))


def _side(each: list[Floats], critical: float, limit: float, rng: np.random.Generator) -> Tail | None:
    """One tail, above the critical value for a limit above 0; None if no tilt of ENOUGH draws has it as its mean."""

    def excess(tilt: float) -> float:
        return math.fsum(float(np.average(g, weights=np.exp(tilt * (g - _end(g, tilt))))) for g in each) - critical

    if (excess(limit) > 0) != (limit > 0):
        return None
    tilt = brent(excess, 0.0, limit, xtol=1e-6, rtol=1e-6)
    total, log_scale, variance = np.zeros(len(each[0])), 0.0, 0.0
    for g in each:
        weights = np.exp(tilt * (g - _end(g, tilt)))
        if weights.sum() ** 2 < ENOUGH * (weights**2).sum():
            return None
        log_scale += math.log(weights.mean()) + tilt * _end(g, tilt)
        variance += float(weights.var() / weights.mean() ** 2) / len(g)
        total += rng.choice(g, len(g), p=weights / weights.sum())
    beyond = total >= critical if limit > 0 else total <= critical
    found = _mean("tilted", np.where(beyond, np.exp(log_scale - tilt * total), 0.0))
    return Tail(how="tilted", chance=found.chance, error=math.hypot(found.error, found.chance * math.sqrt(variance)))


def _end(g: Floats, tilt: float) -> float:
    """Where exp(tilt g) is largest: no weight is beyond 1."""
    return float(g.max() if tilt > 0 else g.min())


def exact_of(check: Check, campaign: Campaign) -> float | None:
    """P(G >= critical value) of one law without strata by dynamic programming; None where that is not feasible."""
    if len(check.cells) != 1:
        return None
    strata = strata_of(check.cells[0], campaign)
    if len(strata) != 1:
        return None
    (events, law) = strata[0]
    critical = float(tails.chi2_isf(check.alpha, check.df))
    if len(law) == 2:
        return enumerated(events, law, critical)
    return dynamic(events, law, critical) if cost(events, law, critical) <= FEASIBLE else None


def enumerated(events: int, law: Floats, critical: float) -> float:
    """P(G >= critical) of two groups."""
    hits = np.arange(events + 1.0)
    beyond = g_of(np.stack([hits, events - hits], axis=1), events, law) >= critical
    return float(mass(hits, np.full(len(hits), float(events)), float(law[0]))[beyond].sum())


def cost(events: int, law: Floats, critical: float) -> float:
    """Additions of `dynamic`."""
    found = 0.0
    for k, share in enumerate(law):
        (low, high), (first, last) = _reach(events * share, critical), _sums(events, law, k, critical)
        found += GRID * float(high - low + 1) * (last - first + 1)
    return found


def dynamic(events: int, law: Floats, critical: float) -> float:
    """P(G >= critical) of a multinomial."""
    inside = np.zeros((1, GRID + 1))  # [sums, steps of G], from the least sum on; the last step is the critical value
    inside[0, 0], least = 1.0, 0
    for k, share in enumerate(law):
        expected, low, high = events * share, *_reach(events * share, critical)
        n = np.arange(low, high + 1)
        g = (2 * (special.xlogy(n, n / expected) - (n - expected))).clip(0)
        step, chance = g / critical * GRID, np.exp(-g / 2 - stirling(n))
        first, last = _sums(events, law, k, critical)
        wider = np.zeros((last - first + 1, GRID + 1))
        for count, at_step, p in zip(n.tolist(), step.tolist(), chance.tolist(), strict=True):
            begin, end = max(first, least + count), min(last, least + len(inside) - 1 + count)
            if begin > end or at_step >= GRID:
                continue
            source = inside[begin - least - count : end - least - count + 1]
            there = wider[begin - first : end - first + 1]
            whole, part = int(at_step), at_step - int(at_step)
            there[:, whole:] += p * (1 - part) * source[:, : GRID + 1 - whole]
            there[:, whole + 1 :] += p * part * source[:, : GRID - whole]
        inside, least = wider, first
    given = math.exp(-float(stirling(np.array([events]))[0]))
    return max(0.0, 1 - (float(inside[0, :GRID].sum()) + float(inside[0, GRID]) / 2) / given)


def stirling(n: Any) -> Floats:
    """ln n! - n ln n + n: by its series from 16 on, where the difference would lose digits."""
    large = np.maximum(n, 16).astype(np.float64)
    series = 0.5 * np.log(2 * np.pi * large) + 1 / (12 * large) - 1 / (360 * large**3) + 1 / (1260 * large**5)
    few = np.minimum(n, 15).astype(np.float64)
    found: Floats = np.where(n < 16, special.gammaln(few + 1) - special.xlogy(few, few) + few, series)
    return found


def _reach(expected: float, critical: float) -> tuple[int, int]:
    """The least and largest count whose own term of G stays below the critical value."""

    def over(n: float) -> float:
        return 2 * (float(special.xlogy(n, n / expected)) - (n - expected)) - critical

    low = 0 if over(0.0) <= 0 else math.ceil(brent(over, 0.0, expected, xtol=1e-9, rtol=1e-12))
    high = math.floor(brent(over, expected, 2 * expected + 2 * critical + 10, xtol=1e-9, rtol=1e-12))
    return low, high


def _sums(events: int, law: Floats, k: int, critical: float) -> tuple[int, int]:
    """The least and largest sum of the groups up to k for which G of them and of the rest, merged, stays below it."""
    if k == len(law) - 1:
        return events, events
    expected = events * float(law[: k + 1].sum())
    (low, high), (rest_low, rest_high) = _reach(expected, critical), _reach(events - expected, critical)
    return max(low, events - rest_high, 0), min(high, events - rest_low, events)
