"""Bounds hold as often as they say, enumerated where that is possible and simulated where not, and are not idle."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from pp3.harness import bounds
from pp3.harness.power import detectable_tv

Law = npt.NDArray[np.float64]
Shape = Callable[[int], Law]
Change = Callable[[Law, float], Law]
RARELY = 1e-6  # chance that a test of a true share fails, had its seed been drawn


def uniform(k: int) -> Law:
    """k equal groups."""
    return np.full(k, 1 / k)


def zipf(k: int) -> Law:
    """k groups in proportion to 1, 1/2, 1/3, ..."""
    weights = 1 / np.arange(1, k + 1)
    return np.asarray(weights / weights.sum())


def dense(law: Law, tv: float) -> Law:
    """Groups of about half of the mass up by one factor, the others down: where Pinsker's inequality is tightest."""
    up = np.zeros(len(law), bool)
    for group in np.argsort(-law):
        up[group] = law[up].sum() + law[group] <= 0.5 + 1e-12
    if not up.any():
        up[np.argmin(law)] = True
    tv = min(tv, 0.9 * law[~up].sum())
    return np.asarray(np.where(up, law * (1 + tv / law[up].sum()), law * (1 - tv / law[~up].sum())))


def pair(law: Law, tv: float) -> Law:
    """The likeliest group to the next."""
    moved = law.copy()
    tv = min(tv, 0.9 * law[0])
    moved[:2] += -tv, tv
    return moved


def rare(law: Law, tv: float) -> Law:
    """The rarest group up, the others down by one factor."""
    tv = min(tv, 0.9 * (1 - law[-1]))
    moved = np.asarray(law * (1 - tv / (1 - law[-1])))
    moved[-1] = law[-1] + tv
    return moved


def distance(law: Law, null: Law) -> float:
    """Total variation."""
    return float(np.abs(law - null).sum() / 2)


def g_of(draws: npt.NDArray[np.int64], null: Law) -> Law:
    """G of each row of counts, [runs, groups]."""
    expected = draws.sum(axis=-1, keepdims=True) * null
    return np.asarray(np.maximum(0.0, 2 * special.xlogy(draws, draws / expected).sum(axis=-1)))


def least_g(tv: float, df: int, events: int, confidence: float) -> float:
    """The G at which the upper bound reaches tv: below it the bound misses."""
    low, high = 0.0, 8 * events * tv**2 + 100 * df
    if bounds.upper(low, df, events, confidence) >= tv:
        return low
    for _ in range(28):
        middle = (low + high) / 2
        low, high = (low, middle) if bounds.upper(middle, df, events, confidence) >= tv else (middle, high)
    return high


def allowed(runs: int, confidence: float) -> int:
    """Most misses in a band of 1 - RARELY at the stated confidence."""
    return int(stats.binom.isf(RARELY, runs, 1 - confidence))


SHAPES = [pytest.param(shape, k, id=f"{shape.__name__}-{k}") for k in (2, 8, 32, 1000) for shape in (uniform, zipf)]
CHANGES = [pytest.param(None, 0.0, id="null")] + [
    pytest.param(change, effect, id=f"{change.__name__}-{effect}")
    for change in (dense, pair, rare)
    for effect in (0.5, 1.0, 3.0)
]


def case(shape: Shape, k: int, change: Change | None, effect: float) -> tuple[Law, Law, int]:
    """Null, truth and events: 20 events for the rarest group, or 2,000."""
    null = shape(k)
    events = max(2000, math.ceil(20 / null.min()))
    return null, change(null, effect * detectable_tv(1e-5, k - 1, events, 0.999)) if change else null, events


def upper_covers(null: Law, truth: Law, events: int, runs: int, confidence: float, rng: np.random.Generator) -> None:
    """Count the runs whose bound is below the truth."""
    needed = least_g(distance(truth, null), len(null) - 1, events, confidence)
    misses = int((g_of(rng.multinomial(events, truth, runs), null) < needed).sum())
    assert misses <= allowed(runs, confidence)


def lower_covers(null: Law, truth: Law, events: int, runs: int, confidence: float, rng: np.random.Generator) -> None:
    """Count the runs whose bound is above the truth."""
    tv = distance(truth, null)
    halves = rng.multinomial(events // 2, truth, (runs, 2))
    misses = sum(bounds.lower([one], [two], [null], confidence)[0] > tv + 1e-12 for one, two in halves)
    assert misses <= allowed(runs, confidence)


@pytest.mark.parametrize(("shape", "k"), SHAPES)
@pytest.mark.parametrize(("change", "effect"), CHANGES)
def test_upper_covers(shape: Shape, k: int, change: Change | None, effect: float, rng: np.random.Generator) -> None:
    upper_covers(*case(shape, k, change, effect), 300 if k > 100 else 10_000, 0.99, rng)


@pytest.mark.parametrize(("shape", "k"), SHAPES)
@pytest.mark.parametrize(("change", "effect"), CHANGES)
def test_lower_covers(shape: Shape, k: int, change: Change | None, effect: float, rng: np.random.Generator) -> None:
    lower_covers(*case(shape, k, change, effect), 40 if k > 100 else 100, 0.99, rng)


@pytest.mark.soak
@pytest.mark.parametrize("confidence", [0.9, 0.99, 0.999])
@pytest.mark.parametrize(("shape", "k"), SHAPES)
@pytest.mark.parametrize(("change", "effect"), CHANGES)
def test_both_cover_in_many_runs(
    shape: Shape, k: int, change: Change | None, effect: float, confidence: float, rng: np.random.Generator
) -> None:
    given = case(shape, k, change, effect)
    upper_covers(*given, 4000 if k > 100 else 400_000, confidence, rng)
    lower_covers(*given, 1000 if k > 100 else 5000, confidence, rng)


@pytest.mark.parametrize("k", [2, 8, 32])
@pytest.mark.parametrize("tv", [0.1, 0.25, 0.4])
def test_upper_covers_large_deviations(k: int, tv: float, rng: np.random.Generator) -> None:
    """Where Pinsker's inequality is tightest; further on it only gets looser."""
    upper_covers(uniform(k), dense(uniform(k), tv), 20_000, 20_000, 0.99, rng)


# Two groups: every outcome is enumerated, so the share of misses has no error.
TRUTHS = np.linspace(0.002, 0.998, 499)


def worst_miss(null: float, events: int, confidence: float, less: float) -> float:
    """Largest chance of a miss over the truths, of the bound less `less`, as a multiple of the stated one."""
    hits = np.arange(events + 1)
    draws = np.stack([hits, events - hits], axis=1)
    g = g_of(draws, np.array([null, 1 - null]))
    limits = np.array([bounds.upper(float(value), 1, events, confidence) for value in g]) - less
    misses = limits[:, None] < np.abs(TRUTHS - null)
    return float((stats.binom.pmf(hits[:, None], events, TRUTHS) * misses).sum(axis=0).max() / (1 - confidence))


@pytest.mark.parametrize("confidence", [0.99, 0.999])
@pytest.mark.parametrize("null", [0.5, 0.45, 0.4])
@pytest.mark.parametrize("events", [40, 100, 400])
def test_upper_never_misses_more_often_than_stated(null: float, events: int, confidence: float) -> None:
    if events * null < bounds.LEAST:
        null = 0.5  # fewer than LEAST events a group are not pooled so
    assert worst_miss(null, events, confidence, 0) <= 1


def test_half_a_count_is_needed() -> None:
    assert 1.1 < worst_miss(0.4, 100, 0.99, 1 / 200) < 1.2


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_proved_never_misses_more_often_than_stated(confidence: float, rng: np.random.Generator) -> None:
    """All outcomes of 12 events in three groups and of random laws, however far from the null and from chi-square."""
    draws = np.array([(a, b, 12 - a - b) for a in range(13) for b in range(13 - a)])
    for concentration in (0.2, 1.0, 20.0):
        null, truth = rng.dirichlet([concentration] * 3, 2)
        chances = stats.multinomial.pmf(draws, 12, truth)
        with np.errstate(divide="ignore"):
            g = g_of(draws, null)
        limits = np.array([bounds.proved_upper(float(value), 12, confidence) for value in g])
        assert chances[limits < distance(truth, null)].sum() <= 1 - confidence


def test_proved_covers_sparse_tables(rng: np.random.Generator) -> None:
    """A thousand groups and five hundred events, far from chi-square."""
    null = zipf(1000)
    for truth in (null, dense(null, 0.05), dense(null, 0.3)):
        g = g_of(rng.multinomial(500, truth, 500), null)
        misses = sum(bounds.upper(float(value), 999, 500, 0.99) < distance(truth, null) for value in g)
        assert misses <= allowed(500, 0.99)
        assert bounds.upper(float(g[0]), 999, 500, 0.99) == bounds.proved_upper(float(g[0]), 500, 0.99)


CELLS = (uniform(2), zipf(8), uniform(8), zipf(32))
SIZES = (400, 6000, 1500, 20_000)


@pytest.mark.parametrize("moved", [(), (0,), (3,), (1, 2), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("change", [dense, rare])
def test_several_cells(moved: tuple[int, ...], change: Change, rng: np.random.Generator) -> None:
    """Both bounds hold of the mean total variation by events, wherever the deviation is."""
    runs, confidence = 2000, 0.99
    truths = [change(null, 0.04) if index in moved else null for index, null in enumerate(CELLS)]
    tv = sum(n * distance(truth, null) for n, truth, null in zip(SIZES, truths, CELLS, strict=True)) / sum(SIZES)
    halves = [rng.multinomial(n // 2, truth, (runs, 2)) for n, truth in zip(SIZES, truths, strict=True)]
    g = np.sum([g_of(cell.sum(axis=1), null) for cell, null in zip(halves, CELLS, strict=True)], axis=0)
    df = sum(len(null) - 1 for null in CELLS)
    assert (g < least_g(tv, df, sum(SIZES), confidence)).sum() <= allowed(runs, confidence)
    seen = [
        bounds.lower([cell[run, 0] for cell in halves], [cell[run, 1] for cell in halves], CELLS, confidence)[0]
        for run in range(300)
    ]
    assert sum(limit > tv + 1e-12 for limit in seen) <= allowed(300, confidence)
    if len(moved) == 4:
        assert min(seen) > 0


def test_a_bound_of_four_fifths_is_caught(rng: np.random.Generator) -> None:
    """The test of coverage sees a bound that is too small."""
    null, tv = uniform(8), 0.03
    g = g_of(rng.multinomial(20_000, dense(null, tv), 20_000), null)
    assert (g < least_g(tv / 0.8, 7, 20_000, 0.99)).sum() > allowed(20_000, 0.99)


def test_a_half_that_chooses_and_counts_is_caught(rng: np.random.Generator) -> None:
    null = uniform(32)
    draws = rng.multinomial(5000, null, 200)
    assert sum(bounds.lower([draw], [draw], [null], 0.99)[0] > 0 for draw in draws) > allowed(200, 0.99)


def test_upper_is_near_the_truth_it_must_cover(rng: np.random.Generator) -> None:
    """In the tightest direction the bound misses nearly as often as stated: nothing is given away there."""
    null, tv, runs = uniform(8), 0.03, 20_000
    g = g_of(rng.multinomial(20_000, dense(null, tv), runs), null)
    misses = int((g < least_g(tv, 7, 20_000, 0.99)).sum())
    assert misses >= stats.binom.ppf(RARELY, runs, 0.005)


def test_lower_shows_what_is_plain(rng: np.random.Generator) -> None:
    """Of three times what a check sees, half or more is shown, and the rare group is named."""
    for change in (dense, pair, rare):
        null, truth, events = case(zipf, 32, change, 3.0)
        for one, two in rng.multinomial(events // 2, truth, (20, 2)):
            limit, (groups,) = bounds.lower([one], [two], [null], 0.99)
            assert limit > distance(truth, null) / 2
            assert set(np.flatnonzero(truth > null * 1.5)) <= set(groups)


def test_lower_of_unequal_cells_never_misses_more_often_than_stated(rng: np.random.Generator) -> None:
    """All outcomes of two cells of 9 and 4 events with one set, whose chances differ as they like (Hoeffding 1956)."""
    sizes, null = (9, 4), np.array([0.001, 0.999])
    chosen = [np.array([1000.0, 0.0])] * 2  # group 0 of both cells, by all the evidence there is
    outcomes = list(itertools.product(range(10), range(5)))
    for level in (0.5, 0.9, 0.99):
        limits = []
        for hits in outcomes:
            counts = [np.array([hit, n - hit], float) for hit, n in zip(hits, sizes, strict=True)]
            limit, masks = bounds._shown(chosen, counts, [null, null], level)
            assert all(mask.tolist() == [True, False] for mask in masks)
            limits.append(limit)
        for truths in rng.beta(0.3, 0.3, (60, 2)):
            excess = max(0.0, float(np.dot(truths, sizes)) / 13 - 0.001)
            chances = [math.prod(stats.binom.pmf(hits, sizes, truths)) for hits in outcomes]
            assert sum(c for c, limit in zip(chances, limits, strict=True) if limit > excess) <= (1 - level) * (
                1 + 1e-9
            )


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("null", [0.5, 0.03])
def test_match_upper_never_misses_more_often_than_stated(null: float, share: float) -> None:
    """All counts of 600 pairs."""
    matches = np.arange(601)
    limits = np.array([bounds.match_upper(null, int(count), 600, 0.99) for count in matches])
    chances = stats.binom.pmf(matches, 600, null + share * (1 - null))
    assert chances[limits < share].sum() <= 0.01
    assert limits[-1] == 1.0
    assert limits[0] == limits[int(600 * null) - 1] > 0
    assert bounds.match_upper(null, 0, 0, 0.99) == 1.0
