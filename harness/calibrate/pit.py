"""Probability integral transforms of p-values: uniform on (0, 1) if a p-value is as rare as it says.

A p-value that has steps is spread over them at random: of a coin from p / 2, the tail that the battery took for the
smaller one, by the chance of what was seen; where G is of laws of two groups, by up to half an event that moves from
one to the other before the battery judges them again. Randomised here alone, with a stream of its own.
"""

from typing import Any

import numpy as np
from scipy import special

from pp3.harness import tails
from pp3.harness.battery import Floats, Many, grouped, p_values
from pp3.harness.cells import Cell
from pp3.harness.design import Check, Method
from pp3.harness.pooling import Pooled

STREAMS = 8  # uniform numbers of a campaign
TINY = 1e-9  # by which a sum of tails may be off


def spread(check: Check, counts: Many, p: Floats, u: Floats) -> Floats:
    """The transform of a check's p-values, [campaigns], by uniform numbers u [STREAMS, campaigns]."""
    if check.method is Method.BINOMIAL:
        return _coin(check, counts, p, u[0])
    pairs = [pooled for pooled in check.cells if len(pooled.probabilities) == 2]
    if check.method is Method.G and len(pairs) == len(check.cells):
        return p_values(check, {one.cell.id: _moved(one, counts, u[k % STREAMS]) for k, one in enumerate(pairs)})
    return p


def _moved(pooled: Pooled, counts: Many, u: Floats) -> Any:
    """Counts of a law of two groups, between whose first outcomes up to half an event has moved either way."""
    moved = counts[pooled.cell.id].astype(np.float64)
    one, other = (int(np.flatnonzero(pooled.groups == group)[0]) for group in (0, 1))
    moved[:, one] = np.maximum(0.0, moved[:, one] + u - 0.5)
    moved[:, other] = np.maximum(0.0, moved[:, other] - u + 0.5)
    return moved


def _coin(check: Check, counts: Many, p: Floats, u: Floats) -> Floats:
    """From the battery's own two-sided p: its half is the smaller tail. It is 1 where neither tail is below one half,
    and then the tail is that of what was seen; where it is 1 and should not be, all are put at one half."""
    pooled = check.cells[0]
    found = grouped(pooled, counts[pooled.cell.id])
    hits, events = found[:, pooled.groups[1]], found.sum(axis=1)
    step = mass(hits, events, check.chance)
    upper = hits > events * check.chance
    half = p / 2 - u * step
    over = tails.binom_sf(hits, events, check.chance)
    middle = np.where((over <= 0.5) & (over + step >= 0.5 - TINY), over + u * step, 0.5)
    return inside(np.where(p >= 1, middle, np.where(upper, half, 1 - half)))


def outcome(cell: Cell, atom: int, counts: Many, u: Floats) -> Floats:
    """The transform of one outcome's count, [campaigns]."""
    found = counts[cell.id][:, :-1]
    hits, events = found[:, atom].astype(np.float64), found.sum(axis=1).astype(np.float64)
    chance = float(cell.probabilities()[atom])
    return inside(tails.binom_sf(hits, events, chance) + u * mass(hits, events, chance))


def mass(hits: Floats, events: Floats, chance: float) -> Floats:
    """The binomial probability of so many hits, [campaigns]."""
    ways = special.gammaln(events + 1) - special.gammaln(hits + 1) - special.gammaln(events - hits + 1)
    found: Floats = np.exp(ways + special.xlogy(hits, chance) + special.xlog1py(events - hits, -chance))
    return found


def inside(values: Floats) -> Floats:
    """Mirrored at 0 and 1, which a wrong p-value may pass."""
    found: Floats = np.clip(1 - np.abs(1 - np.abs(values)), 0.0, 1.0)
    return found
