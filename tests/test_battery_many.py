"""The p-values of many campaigns at once: each campaign's own, whatever the others counted."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from weighted_cell import cell

from pp3.harness.battery import _statistics, judge, p_values, statistics
from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import RARE
from pp3.harness.design import Check, Method
from pp3.harness.pooling import Pooled, pool

SHARES = (2, 3, 5)


def pooled(one: Cell) -> Pooled:
    """With a group for each outcome, however rare."""
    found = pool(one, 10**9, 20)
    assert found is not None
    return found


def check_of(method: Method, *cells: Cell) -> Check:
    """A check of these cells that decides."""
    whole = method in (Method.RARE, Method.REPEAT)
    return Check(
        id="t/check",
        event=Event.TOKEN,
        target="t",
        depth=4,
        method=method,
        cells=() if whole else tuple(map(pooled, cells)),
        counted=tuple(one.id for one in cells),
        alpha=1e-3,
        reason="",
        required=True,
        single=cells if whole else (),
    )


# Single outcomes, in fractions.


def divided(events: int) -> list[list[int]]:
    """Every way to count so many events in three outcomes."""
    return [[a, b, events - a - b] for a in range(events + 1) for b in range(events + 1 - a)]


def rarest(counts: list[int]) -> float:
    """Twice the smallest exact tail of the three outcomes, times three, at most 1."""
    events, least = sum(counts), Fraction(1)
    for hits, share in zip(counts, SHARES, strict=True):
        chance = Fraction(share, sum(SHARES))
        law = [math.comb(events, k) * chance**k * (1 - chance) ** (events - k) for k in range(events + 1)]
        least = min(least, sum(law[hits:], Fraction(0)), sum(law[: hits + 1], Fraction(0)))
    return float(min(Fraction(1), 6 * least))


def rare(rows: list[list[int]]) -> list[float]:
    """The p-values of these counts, each a campaign."""
    one = cell(SHARES)
    return [*map(float, p_values(check_of(Method.RARE, one), {one.id: np.array([[*row, 0] for row in rows])}))]


@pytest.mark.parametrize("events", [1, 2, 12])
def test_every_division_of_as_many_events(events: int) -> None:
    """All campaigns that there can be, so that every count of an outcome is met beside every other."""
    rows = divided(events)
    assert len(rows) == math.comb(events + 2, 2)
    assert rare(rows) == pytest.approx([rarest(row) for row in rows], rel=1e-12, abs=0)


def test_every_pair_of_campaigns_of_eight_events() -> None:
    """Two campaigns, fewer than there are outcomes."""
    rows = {tuple(row): rarest(row) for row in divided(8)}
    assert sum(p < 1 for p in rows.values()) > 10
    for one, other in itertools.combinations(rows, 2):
        assert rare([list(one), list(other)]) == pytest.approx([rows[one], rows[other]], rel=1e-12, abs=0), (one, other)


@pytest.mark.parametrize("order", [1, -1], ids=["more-and-more", "fewer-and-fewer"])
def test_campaigns_of_unlike_numbers_of_events(order: int) -> None:
    """One count of an outcome is many among few events, and few among many; of none it is nothing."""
    rows = [[4, 1, 0], [4, 3, 3], [4, 12, 14], [4, 20, 36], [4, 50, 86]][::order]
    assert rare(rows) == pytest.approx([rarest(row) for row in rows], rel=1e-12, abs=0)
    assert len(set(rare(rows))) == len(rows)
    assert rare([[0, 0, 0], *rows])[0] == rare([*rows, [0, 0, 0]])[-1] == 1.0


def test_one_event_is_judged() -> None:
    """Of an outcome of 1/1000: P(X >= 1), which is P(X <= 0) of the other; two tails of two outcomes."""
    one = cell((1, 999))
    found = p_values(check_of(Method.RARE, one), {one.id: np.array([[1, 0, 0], [0, 1, 0], [0, 0, 5]])})
    assert found.tolist() == pytest.approx([0.004, 1, 1], rel=1e-12, abs=0)


# Every other method, by SciPy.


def g_of(counts: list[int], shares: tuple[int, ...]) -> float:
    """2 sum n ln(n / (N p)) by SciPy; 0 without events."""
    expected = sum(counts) * np.array(shares) / sum(shares)
    return float(stats.power_divergence(counts, expected, lambda_="log-likelihood")[0]) if sum(counts) else 0.0


def law(one: list[int], other: list[int]) -> float:
    return float(stats.chi2.sf(g_of(one, SHARES) + g_of(other, (1, 3)), 3))


def fit(one: list[int], other: list[int]) -> float:
    """Too bad or too good."""
    g = g_of(one, SHARES) + g_of(other, (1, 3))
    return float(min(1.0, 2 * min(stats.chi2.sf(g, 3), stats.chi2.cdf(g, 3)))) if sum(one) + sum(other) else 1.0


def coin(_: list[int], other: list[int]) -> float:
    """Twice the smaller tail of the second of two outcomes, 3/4."""
    hits, events = other[1], sum(other)
    return float(min(1.0, 2 * min(stats.binom.sf(hits - 1, events, 0.75), stats.binom.cdf(hits, events, 0.75))))


def repeats(_: list[int], other: list[int]) -> float:
    """One in RARE for each stretch, over how many came."""
    return min(1.0, sum(other) / RARE / other[1]) if other[1] else 1.0


ONE, OTHER = cell(SHARES), cell((1, 3), context=1)
ROWS: list[tuple[list[int], list[int]]] = [
    ([200, 300, 500], [250, 751]),  # nearer than chance has it
    ([181, 320, 499], [262, 738]),
    ([150, 300, 550], [299, 701]),
    ([300, 300, 400], [190, 812]),
    ([0, 0, 1], [0, 0]),
    ([1, 0, 0], [3, 1]),
    ([0, 0, 0], [0, 0]),
    ([0, 0, 0], [2, 3]),
    ([0, 0, 0], [2, 2]),
    ([5, 5, 5], [2**62, 1]),
]
METHODS: list[Any] = [
    pytest.param(check_of(Method.G, ONE, OTHER), law, id="g"),
    pytest.param(check_of(Method.FIT, ONE, OTHER), fit, id="fit"),
    pytest.param(check_of(Method.BINOMIAL, OTHER), coin, id="binomial"),
    pytest.param(check_of(Method.REPEAT, OTHER), repeats, id="repeat"),
]


@pytest.mark.parametrize(("check", "expected"), METHODS)
def test_each_campaign_has_its_own(check: Check, expected: Any) -> None:
    """One p-value a campaign, of one campaign too."""
    rows = ROWS if check.method is Method.REPEAT else ROWS[:-1]
    many = {ONE.id: np.array([[*a, 0] for a, _ in rows]), OTHER.id: np.array([[*b, 7] for _, b in rows])}
    wanted = [expected(*row) for row in rows]
    assert 1.0 in wanted
    assert min(wanted) < 1e-4
    assert p_values(check, many).tolist() == pytest.approx(wanted, rel=1e-9, abs=0)
    for place, want in enumerate(wanted):
        alone = p_values(check, {name: counts[place : place + 1] for name, counts in many.items()})
        assert alone.tolist() == pytest.approx([want], rel=1e-9, abs=0)


@pytest.mark.parametrize("method", Method)
def test_no_campaigns_have_no_p_values(method: Method) -> None:
    none = {ONE.id: np.zeros((0, 4), np.int64), OTHER.id: np.zeros((0, 3), np.int64)}
    assert p_values(check_of(method, OTHER), none).tolist() == []


@pytest.mark.parametrize("method", [Method.G, Method.FIT])
def test_no_events_are_no_evidence(method: Method) -> None:
    """Not even of too good a fit."""
    found = judge(check_of(method, ONE, OTHER), {ONE.id: [0, 0, 0, 0], OTHER.id: [0, 0, 0]}, 0.9)
    assert (found.p, found.g, found.outcome) == (1.0, 0.0, "pass")


def test_statistics_of_many_are_those_of_each() -> None:
    """G and Pearson's X^2, [campaigns] each, also of a table of campaigns."""
    counts = np.array([[*one, 3] for one, _ in ROWS])
    alone = np.array([statistics(pooled(ONE), row.tolist()) for row in counts])
    for shape in ((10,), (2, 5)):
        found = _statistics(pooled(ONE), counts.reshape(*shape, 4))
        for ours, theirs in zip(found, alone.T, strict=True):
            assert ours.shape == shape
            assert ours.ravel().tolist() == theirs.tolist()


def test_counts_as_expected_have_no_negative_statistic(rng: np.random.Generator) -> None:
    """Their terms cancel but for roundings, which alone would leave many of these laws a little below 0."""
    below = 0
    for _ in range(100):
        shares = tuple(rng.integers(1, 1000, 20).tolist())
        counts = 3 * np.array(shares)
        expected = counts.sum() * (np.array(shares) / sum(shares))
        below += bool((counts * np.log(counts / expected)).sum() < 0)
        g, pearson = statistics(pooled(cell(shares)), [*counts.tolist(), 0])
        assert 0 <= g < 1e-9
        assert 0 <= pearson < 1e-9
    assert below > 10
