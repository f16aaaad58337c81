"""Sample sizes of a design: there and back, and the level and the power when simulated."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from weighted_cell import cell

from pp3.harness import campaign
from pp3.harness.battery import statistics
from pp3.harness.design import CERTAIN, TOO_FEW, Method, design
from pp3.harness.pooling import pool
from pp3.harness.power import detectable_tv, noncentrality, required_events


def test_too_few_requests_decide_nothing() -> None:
    """But for single outcomes and repeats, whose exact tails hold for any number."""
    checks = design(campaign.of_document({"requests": 8}, "a test"))
    assert {check.df for check in checks} == {0}
    assert {check.method for check in checks if not check.reason} == {Method.RARE, Method.REPEAT}
    assert {check.reason for check in checks} == {CERTAIN, TOO_FEW, ""}
    assert any(check.required and check.reason == TOO_FEW for check in checks)


GRID = list(itertools.product((1e-2, 1e-5, 8e-8), (1, 7, 40, 500), (0.5, 0.9, 0.999)))


@pytest.mark.parametrize(("alpha", "df", "power"), GRID)
def test_noncentrality_gives_the_power(alpha: float, df: int, power: float) -> None:
    nc = noncentrality(alpha, df, power)
    critical = stats.chi2.isf(alpha, df)
    assert stats.ncx2.sf(critical, df, nc) == pytest.approx(power, abs=1e-9)  # brentq stops at 2e-12 in nc
    assert stats.ncx2.sf(critical, df, nc * 1.01) > power > stats.ncx2.sf(critical, df, nc * 0.99)


@pytest.mark.parametrize(("alpha", "df", "power"), GRID)
@pytest.mark.parametrize("tv", [0.3, 0.05, 0.001])
def test_sizes_go_there_and_back(tv: float, alpha: float, df: int, power: float) -> None:
    events = required_events(alpha, df, tv, power)
    assert detectable_tv(alpha, df, events, power) <= tv * (1 + 1e-12)
    assert events == 1 or detectable_tv(alpha, df, events - 1, power) > tv * (1 - 1e-12)


def test_sizes_move_as_they_must() -> None:
    base = detectable_tv(1e-5, 10, 10_000, 0.9)
    assert detectable_tv(1e-7, 10, 10_000, 0.9) > base
    assert detectable_tv(1e-5, 20, 10_000, 0.9) > base
    assert detectable_tv(1e-5, 10, 10_000, 0.99) > base
    assert detectable_tv(1e-5, 10, 40_000, 0.9) == pytest.approx(base / 2)
    assert detectable_tv(1e-5, 10, 1, 0.9) == 1.0  # no distance is larger


def rejected(law: np.ndarray, truth: np.ndarray, events: int, alpha: float, rng: np.random.Generator) -> float:
    """How often G of 4,000 simulated histograms drawn from `truth` is over its level under `law`."""
    pooled = pool(cell(law.tolist()), events, 50)
    assert pooled is not None
    assert pooled.df == len(law) - 1
    critical = stats.chi2.isf(alpha, pooled.df)
    draws = rng.multinomial(events, truth / truth.sum(), 4000).tolist()
    return float(np.mean([statistics(pooled, [*draw, 0])[0] >= critical for draw in draws]))


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(np.array([1, 1, 1, 1, 1, 1, 1, 1]), id="uniform"),
        pytest.param(np.array([40, 30, 10, 10, 4, 3, 2, 1]), id="skewed"),
        pytest.param(np.array([97, 3]), id="two"),
    ],
)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_simulated_level(law: np.ndarray, alpha: float, rng: np.random.Generator) -> None:
    """Binomial band: alpha +- 5 sqrt(alpha (1 - alpha) / 4000), widened by a tenth of alpha for the chi-square tail."""
    level = rejected(law, law.astype(float), 10_000, alpha, rng)
    assert abs(level - alpha) <= 5 * math.sqrt(alpha * (1 - alpha) / 4000) + alpha / 10


@pytest.mark.parametrize("power", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("tv", [0.05, 0.02])
def test_simulated_power_in_the_worst_direction(tv: float, power: float, rng: np.random.Generator) -> None:
    """Half of the mass up and half down by the same factor has w = 2 TV, the least noncentrality of its distance.

    Binomial band: power +- 5 sqrt(power (1 - power) / 4000), widened by 0.02 for the noncentral approximation.
    """
    law, alpha = np.array([30, 20, 15, 10, 10, 5, 5, 5]), 1e-3
    sign = np.array([1, 1, -1, -1, -1, -1, -1, -1])
    assert law[sign > 0].sum() == law[sign < 0].sum()
    truth = law / law.sum() * (1 + 2 * tv * sign)
    assert np.abs(truth - law / law.sum()).sum() / 2 == pytest.approx(tv)
    events = required_events(alpha, len(law) - 1, tv, power)
    found = rejected(law, truth, events, alpha, rng)
    assert abs(found - power) <= 5 * math.sqrt(power * (1 - power) / 4000) + 0.02


def test_simulated_power_in_another_direction(rng: np.random.Generator) -> None:
    """The same distance on one rare outcome is easier to see: the size is a bound whatever the direction."""
    law, tv, power, alpha = np.array([30, 20, 15, 10, 10, 5, 5, 5]), 0.02, 0.9, 1e-3
    truth = law / law.sum()
    truth[-1], truth[0] = truth[-1] + tv, truth[0] - tv
    events = required_events(alpha, len(law) - 1, tv, power)
    assert rejected(law, truth, events, alpha, rng) > power
