"""The statistics of a comparison: two samples, Holm's steps and the interval of a median, by hand and enumerated."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from pp3.harness.regression import timings
from pp3.harness.regression.homogeneity import holm, two_sample


@pytest.mark.parametrize("shape", [2, 5, 40])
def test_the_two_sample_statistic_is_that_of_a_contingency_table(shape: int, rng: np.random.Generator) -> None:
    table = rng.integers(200, 400, (2, shape))
    known = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    mine = two_sample(table[0].tolist(), table[1].tolist())
    assert mine.df == known.dof == shape - 1
    assert mine.g == pytest.approx(known.statistic, rel=1e-12)
    assert mine.p == pytest.approx(known.pvalue, rel=1e-9)


def test_histograms_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="not the same histogram"):
        two_sample([1, 2], [1, 2, 3])


def test_the_level_of_the_two_sample_test_by_enumeration() -> None:
    """Every pair of binomial samples of 80 and 120, at four chances: at most half as much again as the level says.

    The level is exact here (a sum over all outcomes), so the bound is not a tolerance: 1.5 is what LEAST buys, as
    Wilks' theorem is about large counts.
    """
    for chance, level in product((0.3, 0.5), (1e-2, 1e-3)):
        masses = [stats.binom.pmf(np.arange(n + 1), n, chance) for n in (80, 120)]
        rejected = sum(
            masses[0][i] * masses[1][j]
            for i, j in product(range(81), range(121))
            if masses[0][i] * masses[1][j] > 1e-12 and two_sample([i, 80 - i], [j, 120 - j]).p <= level
        )
        assert rejected <= 1.5 * level


def test_a_difference_is_seen() -> None:
    """10,000 events each at 0.50 and 0.55: noncentrality 50 on one degree of freedom."""
    assert two_sample([5000, 5000], [5500, 4500]).p < 1e-11


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([1.0, 0.5]) == [1.0, 1.0]


def test_the_interval_of_a_median_covers_it() -> None:
    """Of n samples the interval misses the median with at most (1 - 0.95) / 2, exactly; it is the narrowest such."""
    for n in range(1, 200):
        found = timings.interval(list(range(n)))
        limit = (1 - timings.CONFIDENCE) / 2
        if found is None:
            assert 2 * 0.5**n > limit  # not even the extremes do
            continue
        below = found[0]  # samples below the interval: 0, 1, ... are their own ranks
        assert 2 * stats.binom.cdf(below, n, 0.5) <= limit
        assert 2 * stats.binom.cdf(below + 1, n, 0.5) > limit or below + 1 >= n - 1 - below - 1
