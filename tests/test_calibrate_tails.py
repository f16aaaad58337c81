"""Tails, transforms and bands of a calibration, by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from pp3.harness import battery, tails
from pp3.harness.battery import Floats
from pp3.harness.calibrate import far, found, judge, pit, plan
from pp3.harness.calibrate.found import bins
from pp3.harness.calibrate.plan import ALPHAS, Level
from pp3.harness.design import Check, Method


def test_a_family_is_held_between_what_is_proved(calibrated: Any) -> None:
    """At the level of counts not far below alpha, and never above; what coins attain is summed exactly."""
    chosen = calibrated.plan()
    for level, least in ((Level.COUNTS, 0.7), (Level.REQUESTS, 0.2)):
        built = found.battery_of(chosen.of[level])
        for place, alpha in enumerate(ALPHAS):
            low, high = judge.claimed(built, chosen.of[level], level, place)
            assert least * alpha < low <= high <= alpha


@pytest.mark.parametrize(("events", "chance"), [(40, 0.3), (400, 0.02), (1000, 0.5)])
@pytest.mark.parametrize("level", [0.2, 0.01, 1e-7])
def test_the_level_of_a_coin_by_hand(events: int, chance: float, level: float) -> None:
    hits = np.arange(events + 1)
    p = 2 * np.minimum(stats.binom.sf(hits - 1, events, chance), stats.binom.cdf(hits, events, chance))
    by_hand = float(stats.binom.pmf(hits, events, chance)[p <= level].sum())
    assert float(far.coin(events, chance, level)) == pytest.approx(by_hand, rel=1e-9, abs=1e-300)


def brute(events: int, law: Floats, critical: float) -> float:
    """P(G >= critical) of three groups, outcome by outcome."""
    one, other = (part.ravel() for part in np.meshgrid(np.arange(events + 1), np.arange(events + 1)))
    inside = one + other <= events
    counts = np.stack([one[inside], other[inside], events - one[inside] - other[inside]], axis=1)
    log = special.gammaln(events + 1) - special.gammaln(counts + 1).sum(1) + special.xlogy(counts, law).sum(1)
    return float(np.exp(log)[far.g_of(counts, events, law) >= critical].sum())


@pytest.mark.parametrize("critical", [10.0, 25.0, 40.0])
def test_dynamic_programming_by_hand(critical: float) -> None:
    """Three unequal groups: what is lost by the grid is below a hundredth."""
    law = np.array([0.2, 0.3, 0.5])
    assert far.dynamic(60, law, critical) == pytest.approx(brute(60, law, critical), rel=0.01)


def test_two_groups_are_enumerated_by_hand() -> None:
    law, critical = np.array([0.3, 0.7]), 20.0
    hits = np.arange(201)
    g = far.g_of(np.stack([hits, 200 - hits], axis=1), 200, law)
    assert far.enumerated(200, law, critical) == pytest.approx(stats.binom.pmf(hits, 200, 0.3)[g >= critical].sum())


def check_of(chosen: plan.Plan, level: Level, method: Method, df: int = 1) -> Check:
    """A check of a level's campaign, far out, with as many degrees of freedom or more."""
    return next(c for c in far.checks_of(chosen.of[level]) if c.method is method and c.df >= df)


def test_weighted_draws_meet_dynamic_programming(calibrated: Any, rng: np.random.Generator) -> None:
    """At the level that the check has, about 1e-7, within five standard errors."""
    chosen = calibrated.plan()
    check = check_of(chosen, Level.REQUESTS, Method.G, 2)
    exact = far.exact_of(check, chosen.of[Level.REQUESTS])
    estimate = far.weighted(check, chosen.of[Level.REQUESTS], rng)
    assert exact is not None
    assert check.alpha < 1e-5
    assert abs(estimate.chance - exact) < 5 * estimate.error < 0.2 * exact
    assert exact == pytest.approx(check.alpha, rel=0.2)


@pytest.mark.parametrize("limit", [far.STEEPEST, far.FLATTEST])
def test_tilted_draws_meet_chi_square(limit: float, rng: np.random.Generator) -> None:
    """Sixty variables of 8 degrees of freedom, whose sum has 480: both tails of 1e-7, within five standard errors."""
    each = [rng.chisquare(8, plan.DRAWS) for _ in range(60)]
    critical = tails.chi2_isf(1e-7, 480) if limit > 0 else tails.chi2_ppf(1e-7, 480)
    estimate = far._side(each, float(critical), limit, rng)
    assert estimate is not None
    assert abs(estimate.chance - 1e-7) < 5 * estimate.error < 0.35e-7


def test_a_side_that_few_draws_reach_is_taken_for_its_level(calibrated: Any, rng: np.random.Generator) -> None:
    """The fit of few laws."""
    chosen = calibrated.plan()
    check = check_of(chosen, Level.COUNTS, Method.FIT)
    estimate = far.tilted(check, chosen.of[Level.COUNTS], rng)
    assert estimate.error >= check.alpha / 2
    assert estimate.chance == pytest.approx(check.alpha, rel=0.3)


@pytest.mark.parametrize(("events", "chance"), [(12, 0.3), (300, 0.02)])
def test_the_transform_of_a_coin_is_uniform(events: int, chance: float) -> None:
    """Over all outcomes and a grid of uniform numbers, from the battery's own p-values."""
    cell = SimpleNamespace(id="a")
    pooled = SimpleNamespace(
        cell=cell, groups=np.array([0, 1]), probabilities=np.array([1 - chance, chance]), strata=np.zeros(2, np.int64)
    )
    check: Any = SimpleNamespace(method=Method.BINOMIAL, cells=(pooled,), chance=chance)
    hits = np.arange(events + 1)
    counts = {"a": np.stack([events - hits, hits, 0 * hits], axis=1)}
    p = battery.p_values(check, counts)
    mass = stats.binom.pmf(hits, events, chance)
    grid = (np.arange(400) + 0.5) / 400
    values = np.stack([pit.spread(check, counts, p, np.full((1, len(hits)), u)) for u in grid])
    for at in (0.01, 0.1, 0.5, 0.9, 0.99):
        assert float(((values <= at) * mass).sum() / len(grid)) == pytest.approx(at, abs=2 / 400)


def test_the_steps_of_two_coins_are_spread(rng: np.random.Generator) -> None:
    """G of two laws of two groups has steps that twenty bins of 20,000 values show, and their transforms none."""
    cells = [SimpleNamespace(id=name) for name in "ab"]
    law, none = np.array([0.06, 0.94]), np.zeros(2, np.int64)
    pools = [SimpleNamespace(cell=cell, groups=np.array([0, 1]), probabilities=law, strata=none) for cell in cells]
    check: Any = SimpleNamespace(method=Method.G, cells=tuple(pools), df=2)
    counts = {name: np.pad(rng.multinomial(2_500, law, 80_000), ((0, 0), (0, 1))) for name in "ab"}
    p = battery.p_values(check, counts)
    spread = pit.spread(check, counts, p, rng.random((pit.STREAMS, len(p))))
    steps, none_left = (stats.chisquare(bins(values, 20)).pvalue for values in (p, spread))
    assert steps < 1e-6 < 1e-3 < none_left


def test_bins_have_their_upper_ends() -> None:
    """So that a bin's end is a level: what is at most 0.05 is in the first five of a hundred."""
    assert bins(np.array([0.0, 0.01, 0.0100001, 0.05, 1.0, 7.0]), 100).nonzero()[0].tolist() == [0, 1, 4, 99]
    assert bins(np.array([0.05, 0.050001]), 100)[[4, 5]].tolist() == [1, 1]
