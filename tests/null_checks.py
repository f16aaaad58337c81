"""Checks over given cells, and simulated counts of them."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from pp3.harness.battery import Counts, cells_read, p_values
from pp3.harness.cells import Cell, Event
from pp3.harness.design import Check, Method
from pp3.harness.pooling import pool

BAND = 0.999
POOL = 100


def within(hits: int, draws: int, least: float, most: float, band: float = BAND) -> bool:
    """Whether so many hits are what a chance from `least` to `most` gives, within a two-sided band."""
    side = (1 - band) / 2
    return bool(stats.binom.cdf(hits, draws, least) > side and stats.binom.sf(hits - 1, draws, most) > side)


def p_of(check: Check, counts: Counts) -> float:
    """The p-value of a check, as `judge` has it."""
    return float(p_values(check, {name: np.array([counts[name]]) for name in cells_read(check)})[0])


def check_of(method: Method, events: int, *cells: Cell) -> Check:
    """A check of these cells."""
    single = method in (Method.RARE, Method.REPEAT)
    pools = () if single else tuple(pooled for one in cells if (pooled := pool(one, events, POOL)) is not None)
    return Check(
        id="t/check",
        event=Event.TOKEN,
        target="t",
        depth=4,
        method=method,
        cells=pools,
        counted=(),
        alpha=1e-5,
        reason="",
        required=True,
        single=cells if single else (),
    )


def simulated(check: Check, cells: Sequence[Cell], events: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """P-values of a check whose cells have their laws."""
    counts = {one.id: rng.multinomial(events, one.probabilities(), draws) for one in cells}
    return np.array([p_of(check, {n: [*row[i].tolist(), 0] for n, row in counts.items()}) for i in range(draws)])
