"""Tails and quantiles, against those of scipy.stats: of chi-square and beta the same doubles.

Tails of the binomial come from the incomplete beta function here and there, and differ in last bits: SAME is far below
the six digits of a receipt, and far above what 2^-52 comes to in that function (its continued fraction has at most some
hundred terms).
"""

import numpy as np
import pytest
from scipy import stats

from pp3.harness import tails

DF = np.array([1, 2, 3, 31, 447, 24_600])
LEVELS = np.array([1e-300, 1e-30, 3e-8, 1e-5, 0.001, 0.5, 0.999, 1 - 1e-12])
TRIALS = (1, 2, 7, 100, 12_345, 10**7)
SAME = 1e-9
CHANCES = (1e-9, 0.003, 0.25, 0.5, 0.875, 1 - 1e-6)


@pytest.mark.parametrize("name", ["sf", "cdf"])
def test_chi_square(name: str) -> None:
    x = np.array([0, 1e-12, 0.3, 1, 5, 60, 500, 25_000.0])[:, None]
    assert np.array_equal(getattr(tails, f"chi2_{name}")(x, DF), getattr(stats.chi2, name)(x, DF))


@pytest.mark.parametrize("name", ["isf", "ppf"])
def test_quantiles_of_chi_square(name: str) -> None:
    level = LEVELS[:, None]
    assert np.array_equal(getattr(tails, f"chi2_{name}")(level, DF), getattr(stats.chi2, name)(level, DF))


@pytest.mark.parametrize("name", ["isf", "ppf"])
def test_quantiles_of_beta(name: str) -> None:
    level, a, b = LEVELS[2:, None, None], np.array([1, 17, 4_000.0])[:, None], np.array([1, 3, 90_000.0])
    assert np.array_equal(getattr(tails, f"beta_{name}")(level, a, b), getattr(stats.beta, name)(level, a, b))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("chance", CHANCES)
def test_binomial(trials: int, chance: float) -> None:
    middle = int(trials * chance)
    near = middle + np.arange(-6, 7) * max(1, int((trials * chance * (1 - chance)) ** 0.5))
    hits = np.unique(np.concatenate([[-1, 0, 1, trials - 1, trials, trials + 1], near]))
    for name in ("sf", "cdf"):
        ours, theirs = (getattr(one, name)(hits, trials, chance) for one in (Binomial, stats.binom))
        assert np.allclose(ours, theirs, rtol=SAME, atol=0), (name, hits[ours != theirs])


class Binomial:
    """The functions of this module under the names of scipy.stats."""

    sf, cdf, isf, ppf = tails.binom_sf, tails.binom_cdf, tails.binom_isf, tails.binom_ppf


@pytest.mark.parametrize("name", ["isf", "ppf"])
@pytest.mark.parametrize("chance", CHANCES)
def test_quantiles_of_the_binomial(name: str, chance: float) -> None:
    """By their definition, and as scipy.stats has them where it has them right: not below its 1e-30, nor at a tie."""
    for level in LEVELS[1:-1].tolist():
        for trials in TRIALS:
            found = int(getattr(tails, f"binom_{name}")(level, trials, chance))
            enough = [
                tails.binom_sf(count, trials, chance) <= level
                if name == "isf"
                else tails.binom_cdf(count, trials, chance) >= level
                for count in (found, found - 1)
            ]
            assert enough[0]
            assert not found or not enough[1]
            if level > 1e-30 and level != 0.5:
                assert found == int(getattr(stats.binom, name)(level, trials, chance)), (level, trials)
        sizes = np.array(TRIALS)
        assert getattr(tails, f"binom_{name}")(level, sizes, chance).tolist() == [
            int(getattr(tails, f"binom_{name}")(level, trials, chance)) for trials in TRIALS
        ]


def test_quantiles_of_poisson() -> None:
    for mean in (0.01, 1.0, 100.0, 12_345.0, 1e9):
        for level in (3e-8, 1e-5, 0.001, 0.5, 0.999):
            assert tails.poisson_isf(level, mean) == int(stats.poisson.isf(level, mean)), (mean, level)
