"""Effects that a size of sample sees: each is seen with the power that is said."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pp3.harness import bounds
from pp3.harness.power import detectable_tv, noncentrality

MATCHES = list(itertools.product((0.5, 1 / 32, 0.001), (1e-3, 1e-7), (0.5, 0.999)))


@pytest.mark.parametrize(("null", "alpha", "power"), MATCHES)
def test_match_effect_has_the_power(null: float, alpha: float, power: float) -> None:
    pairs = 50_000
    share = bounds.match_effect(null, pairs, alpha, power)
    counts = np.arange(pairs + 1)
    rejecting = counts[stats.binom.sf(counts - 1, pairs, null) <= alpha / 2]
    assert stats.binom.sf(rejecting[0] - 1, pairs, null + share * (1 - null)) == pytest.approx(power, rel=1e-8)


@pytest.mark.parametrize(("null", "alpha", "power"), MATCHES)
def test_match_pairs_are_enough_from_there_on(null: float, alpha: float, power: float) -> None:
    pairs = bounds.match_pairs(null, 0.05, alpha, power)
    assert bounds.match_effect(null, pairs - 1, alpha, power) > 0.05
    for more in (0, 1, 2, 5, 17, 100, 1000):
        assert bounds.match_effect(null, pairs + more, alpha, power) <= 0.05


def test_too_few_pairs_see_nothing() -> None:
    assert bounds.match_effect(0.5, 3, 1e-3, 0.9) == math.inf


@pytest.mark.parametrize(("df", "alpha", "power"), list(itertools.product((7, 100, 3100), (1e-3, 1e-7), (0.5, 0.999))))
def test_fit_effect_has_the_power(df: int, alpha: float, power: float) -> None:
    low, high = bounds.fit_effect(df, alpha, power)
    assert low < 1 < high or power < 0.6
    assert stats.chi2.cdf(stats.chi2.ppf(alpha / 2, df) / low, df) == pytest.approx(power, rel=1e-9)
    assert stats.chi2.sf(stats.chi2.isf(alpha / 2, df) / high, df) == pytest.approx(power, rel=1e-9)


@pytest.mark.parametrize(
    ("expected", "alpha", "power"), list(itertools.product((0.01, 1.0, 20.0, 1e4), (1e-3, 1e-7), (0.5, 0.999)))
)
def test_rare_effect_has_the_power(expected: float, alpha: float, power: float) -> None:
    """Of the Poisson tail, and of the exact binomial of a million events too, to a hundredth."""
    ratio = bounds.rare_effect(expected, alpha, power)
    counts = np.arange(int(2 * expected) + 1000)
    least = counts[stats.poisson.sf(counts - 1, expected) <= alpha][0]
    assert stats.poisson.sf(least - 1, expected * ratio) == pytest.approx(power, rel=1e-9)
    exact = counts[stats.binom.sf(counts - 1, 10**6, expected / 10**6) <= alpha][0]
    assert exact <= least
    assert stats.binom.sf(exact - 1, 10**6, expected * ratio / 10**6) >= power - 0.01


def test_upper_meets_the_design() -> None:
    """A pass just under its threshold excludes what the design called seen, at the design's power."""
    alpha, power, events = 2e-6, 0.999, 20_000
    found = bounds.upper(float(stats.chi2.isf(alpha, 7)), 7, events, power)
    assert found == pytest.approx(detectable_tv(alpha, 7, events, power) + 1 / (2 * events), rel=1e-6)
    assert noncentrality(alpha, 7, power) == pytest.approx(4 * events * (found - 1 / (2 * events)) ** 2, rel=1e-6)
