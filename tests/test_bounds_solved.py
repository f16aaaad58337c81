"""Bounds by hand: the equations they solve, what nothing excludes, and what is refused."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pp3.harness import bounds
from pp3.harness.errors import CampaignError


def test_lower_of_nothing() -> None:
    assert bounds.lower([[0, 0]], [[0, 0]], [[0.5, 0.5]], 0.99) == (0.0, [[]])
    assert bounds.lower([[5, 5]], [[0, 0]], [[0.5, 0.5]], 0.99) == (0.0, [[]])
    assert bounds.lower([[50, 50]], [[50, 50]], [[0.5, 0.5]], 0.99) == (0.0, [[]])


def test_lower_by_hand() -> None:
    """All on one of two equal groups: the mass of 100 of 100 hits is at least (risk / 2)^(1/100)."""
    limit, groups = bounds.lower([[100, 0]], [[100, 0]], [[0.5, 0.5]], 0.99)
    assert limit == pytest.approx(0.005 ** (1 / 100) - 0.5, rel=1e-12)
    assert groups == [[0]]


@pytest.mark.parametrize(
    ("g", "df", "confidence"),
    list(itertools.product((1.0, 50.0, 3000.0, 1e6), (1, 7, 100, 5000), (0.9, 0.999, 1 - 1e-9))),
)
def test_upper_solves_its_equation(g: float, df: int, confidence: float) -> None:
    """Back from the bound to the chance of a smaller G; 1e-5 is what ncx2 gives at g = 1e6."""
    events = 10**9
    found = bounds.upper(g, df, events, confidence)
    nc = 4 * events * (found - 1 / (2 * events)) ** 2
    chance = stats.ncx2.cdf(max(g, stats.chi2.median(df)), df, nc)
    assert chance == pytest.approx(1 - confidence, rel=1e-5)
    assert found <= bounds.proved_upper(max(g, stats.chi2.median(df)), events, confidence)


def test_upper_moves_as_it_must() -> None:
    values = [bounds.upper(g, 7, 20_000, 0.999) for g in np.geomspace(0.1, 1e6, 60)]
    assert values == sorted(values)
    assert values[-1] == 1.0
    assert bounds.upper(7.0, 7, 20_000, 0.9) < bounds.upper(7.0, 7, 20_000, 0.999)
    assert bounds.upper(7.0, 7, 2_000_000, 0.999) < bounds.upper(7.0, 7, 20_000, 0.999) / 9


@pytest.mark.parametrize("df", [1, 2, 50, 5000])
def test_a_fit_too_good_claims_no_more(df: int) -> None:
    median = float(stats.chi2.median(df))
    assert bounds.upper(0.0, df, 10**6, 0.999) == bounds.upper(median, df, 10**6, 0.999) > 1e-3


def test_nothing_is_excluded_by_nothing() -> None:
    assert bounds.upper(0.0, 7, 0, 0.99) == 1.0
    assert bounds.upper(0.0, 0, 100, 0.99) == 1.0
    assert bounds.upper(3.0, 7, 5, 0.99) == 1.0
    assert bounds.upper(7.0, 7, 20_000, 0.01) == 1 / 40_000


@pytest.mark.parametrize(
    "call",
    [
        lambda: bounds.upper(-1.0, 7, 100, 0.99),
        lambda: bounds.upper(math.inf, 7, 100, 0.99),
        lambda: bounds.upper(math.nan, 7, 100, 0.99),
        lambda: bounds.upper(1.0, 7, 100, 1.0),
        lambda: bounds.lower([[1, 1]], [[1, 1]], [[0.5, 0.5]], 0.0),
        lambda: bounds.binomial_interval(11, 10, 0.9),
        lambda: bounds.match_effect(0.0, 10, 0.1, 0.9),
        lambda: bounds.match_pairs(0.1, 0.0, 0.1, 0.9),
        lambda: bounds.rare_effect(0.0, 0.1, 0.9),
    ],
)
def test_refused(call: Callable[[], object]) -> None:
    with pytest.raises(CampaignError, match="want more than"):
        call()


@pytest.mark.parametrize("events", [0, 1, 7, 100])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99999])
def test_binomial_interval(events: int, confidence: float) -> None:
    """Its ends are where the tails are half of the risk."""
    assert bounds.binomial_interval(0, 0, confidence) == (0.0, 1.0)
    side = (1 - confidence) / 2
    for hits in range(events + 1):
        low, high = bounds.binomial_interval(hits, events, confidence)
        assert low == 0 if hits == 0 else stats.binom.sf(hits - 1, events, low) == pytest.approx(side, rel=1e-9)
        assert high == 1 if hits == events else stats.binom.cdf(hits, events, high) == pytest.approx(side, rel=1e-9)
