"""Tails where a formula has none: outcomes that cannot be, chances of 0 and 1, no trials, and levels that are met."""

import numpy as np
import pytest
from scipy import special

from pp3.harness import tails


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("trials", [0, 1, 5, 1000])
def test_fewer_than_none_and_more_than_all_are_impossible(trials: int, chance: float) -> None:
    """P(X > k) and P(X <= k) for k of -2, -1, n and n + 1, whatever the chance."""
    counts = np.array([-2, -1, trials, trials + 1])
    assert tails.binom_sf(counts, trials, chance).tolist() == [1, 1, 0, 0]
    assert tails.binom_cdf(counts, trials, chance).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("chance", "over"), [(0.0, [0] * 4), (1.0, [1] * 4)])
def test_a_chance_of_0_or_1_leaves_nothing_open(chance: float, over: list[int]) -> None:
    """Of four trials none hits or all do, so that P(X > k) of 0 to 3 is 0 or 1."""
    assert tails.binom_sf(np.arange(4), 4, chance).tolist() == over
    assert tails.binom_cdf(np.arange(4), 4, chance).tolist() == [1 - one for one in over]


def test_no_trials_are_no_evidence() -> None:
    assert tails.two_sided(0, 0, 0.25) == 1


@pytest.mark.parametrize("mean", [0.01, 0.5, 1.0, 3.0, 100.0, 12_345.0])
def test_a_level_that_a_count_meets_exactly_is_that_count(mean: float) -> None:
    """Least k with P(X > k) <= q, for q = 1 - P(X <= j): j. From 1/2 on 1 - q is the double that q was made of."""
    counts = np.arange(max(0, int(mean) - 20), int(mean) + 40)
    below = special.pdtr(counts, mean)
    met = [(int(k), float(p)) for k, p, before in zip(counts, below, [0, *below[:-1]], strict=True) if before < p < 1]
    met = [(k, p) for k, p in met if p >= 0.5]
    assert len(met) >= 5
    for k, p in met:
        q = 1 - p
        assert 1 - q == p
        assert tails.poisson_isf(q, mean) == k
