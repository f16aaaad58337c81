"""Deviations beside a tolerance: samplers off by a known total variation are told apart on both sides of it."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.battery import Counts, judge
from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import RARE
from pp3.harness.design import Check, Method
from pp3.harness.pooling import pool
from pp3.harness.tolerance import CONFIDENCE, Weighed, Worth, weigh

ALPHA, POWER, DECIDING = 1e-5, 0.999, 10
EVENTS = 1_000_000
UNIFORM = [1] * 16
SKEWED = [40, 30, 10, 10, 4, 3, 2, 1]


def cell(shares: list[int], context: int = 0, **more: Any) -> Cell:
    """A cell with this law."""
    said: dict[str, Any] = {"event": Event.TOKEN, "atoms": np.arange(len(shares)), "rate": Fraction(1)}
    return Cell(target="t", depth=4, position=0, context=context, pattern="", shares=tuple(shares), **said | more)


def check_of(*cells: Cell, method: Method = Method.G, least: int = 100, **more: Any) -> Check:
    """A check of these cells, at EVENTS each."""
    pools = tuple(pooled for one in cells if (pooled := pool(one, EVENTS, least)) is not None)
    said: dict[str, Any] = {
        "cells": pools,
        "counted": tuple(one.id for one in cells),
        "event": Event.TOKEN,
        "single": (),
    }
    return Check(
        id="t/check",
        target="t",
        depth=4,
        method=method,
        alpha=ALPHA,
        reason="",
        required=True,
        **said | more,
    )


def moved(shares: list[int], tv: float) -> np.ndarray:
    """The law with `tv` of its mass moved from one half of it to the other, in proportion: the direction in which
    Pinsker's inequality, by which the upper bound goes, is tight."""
    law = np.array(shares) / sum(shares)
    low = np.zeros(len(law), np.bool_)
    for outcome in range(len(law)):
        low[outcome] = law[low].sum() + law[outcome] < 0.5 + 1e-9
    assert law[low].sum() == pytest.approx(0.5)
    return law + tv * (np.where(low, law / law[low].sum(), 0) - np.where(low, 0, law / law[~low].sum()))


def sampled(rng: np.random.Generator, cells: dict[str, np.ndarray], events: int = EVENTS) -> tuple[Counts, Counts]:
    """Counts of cells by their true laws, and those of the first half."""
    first = {name: rng.multinomial(events // 2, law) for name, law in cells.items()}
    second = {name: rng.multinomial(events - events // 2, law) for name, law in cells.items()}
    whole = {name: [*(first[name] + second[name]).tolist(), 0] for name in cells}
    return whole, {name: [*half.tolist(), 0] for name, half in first.items()}


def weighed(check: Check, counts: Counts, first: Counts, tolerance: float) -> Weighed | None:
    """What a deviation is worth; None if it is not significant."""
    test = judge(check, counts, POWER)
    return weigh(check, test, counts, first, tolerance, DECIDING) if test.outcome == "fail" else None


DOSES = [
    # of a tolerance of 2 %, with EVENTS that see about 0.4 %: bounds lie within about half a percent
    pytest.param(0.0, None, id="none"),
    pytest.param(0.01, Worth.TOLERATED, id="half"),
    pytest.param(0.015, Worth.TOLERATED, id="three-quarters"),
    pytest.param(0.02, Worth.OPEN, id="all"),
    pytest.param(0.03, Worth.FAIL, id="one-and-a-half"),
    pytest.param(0.3, Worth.FAIL, id="fifteen"),
]


@pytest.mark.parametrize("shares", [UNIFORM, SKEWED], ids=["uniform", "skewed"])
@pytest.mark.parametrize(("tv", "worth"), DOSES)
def test_a_law_off_by_a_known_distance(
    shares: list[int], tv: float, worth: Worth | None, rng: np.random.Generator
) -> None:
    """The bounds hold the truth between them, ten times of ten (missed with a chance of 1e-3 in all)."""
    one = cell(shares)
    check = check_of(one)
    assert np.abs(moved(shares, tv) - moved(shares, 0)).sum() / 2 == pytest.approx(tv)
    for _ in range(10):
        counts, first = sampled(rng, {one.id: moved(shares, tv)})
        found = weighed(check, counts, first, 0.02)
        if worth is None:
            assert found is None
            continue
        assert found is not None
        assert found.worth is worth
        assert found.low <= tv <= found.high
        assert found.high - found.low < 0.01 + 0.05 * tv


def test_the_upper_bound_is_wider_in_other_directions(rng: np.random.Generator) -> None:
    """A dose on a share m of the mass: Pinsker's inequality gives tv / (2 sqrt(m (1 - m))), never less than tv."""
    one = cell(SKEWED)
    law = np.array(SKEWED) / sum(SKEWED)
    low = np.arange(len(law)) < 4
    off = law + 0.01 * (np.where(low, law / law[low].sum(), 0) - np.where(low, 0, law / law[~low].sum()))
    counts, first = sampled(rng, {one.id: off}, 100 * EVENTS)
    found = weighed(check_of(one), counts, first, 0.5)
    assert found is not None
    assert found.low <= 0.01 <= found.high
    assert found.high == pytest.approx(0.01 / 2 / (0.9 * 0.1) ** 0.5, rel=0.1)


def test_the_same_dose_beside_other_tolerances(rng: np.random.Generator) -> None:
    """With none declared any significant deviation is a FAIL."""
    one = cell(UNIFORM)
    counts, first = sampled(rng, {one.id: moved(UNIFORM, 0.02)})
    expected = {0.0: Worth.FAIL, 0.01: Worth.FAIL, 0.02: Worth.OPEN, 0.03: Worth.TOLERATED, 0.9: Worth.TOLERATED}
    for tolerance, worth in expected.items():
        found = weighed(check_of(one), counts, first, tolerance)
        assert found is not None
        assert found.worth is worth, tolerance


def test_more_requests_decide_what_is_open(rng: np.random.Generator) -> None:
    one = cell(UNIFORM)
    few, few_first = sampled(rng, {one.id: moved(UNIFORM, 0.017)}, 40_000)
    many, many_first = sampled(rng, {one.id: moved(UNIFORM, 0.017)}, 4_000_000)
    open_, tolerated = weighed(check_of(one), few, few_first, 0.02), weighed(check_of(one), many, many_first, 0.02)
    assert open_ is None or open_.worth is Worth.OPEN
    assert tolerated is not None
    assert tolerated.worth is Worth.TOLERATED


def test_what_nothing_bounds_from_above_is_open() -> None:
    """Heads in 36 of 36 tosses: at least 0.07 off, and no bound below 1 holds of so few; more than is tolerated?"""
    one = cell([1, 1])
    counts, first = {one.id: [36, 0, 0]}, {one.id: [18, 0, 0]}
    for tolerance, worth in ((0.0, Worth.FAIL), (0.05, Worth.FAIL), (0.3, Worth.OPEN), (0.9, Worth.OPEN)):
        found = weighed(check_of(one), counts, first, tolerance)
        assert found is not None
        assert (found.worth, found.high) == (worth, 1.0), tolerance
        assert 0.07 < found.low < 0.1


@pytest.mark.parametrize("tv", [0.0, 0.01, 0.03])
def test_several_cells_are_weighed_by_their_mean(tv: float, rng: np.random.Generator) -> None:
    """One cell off, one not: the deviation is half as large."""
    one, other = cell(UNIFORM), cell(SKEWED, context=1)
    check = check_of(one, other)
    counts, first = sampled(rng, {one.id: moved(UNIFORM, tv), other.id: moved(SKEWED, 0)})
    found = weighed(check, counts, first, 0.5)
    assert (found is None) == (tv == 0)
    if found is not None:
        assert found.low <= tv / 2 <= found.high
        assert found.worth is Worth.TOLERATED


def test_strata_are_weighed_each_by_its_own_law(rng: np.random.Generator) -> None:
    """What a stratum's share of the events is does not matter: a conditional law is not of it."""
    one = cell([10, 10, 30, 50], strata=np.array([0, 0, 1, 1]))
    check = check_of(one)
    truth = np.array([0.25, 0.25, 0.5 * 30 / 80, 0.5 * 50 / 80])
    assert weighed(check, *sampled(rng, {one.id: truth}), 0.02) is None
    off = np.array([0.26, 0.24, 0.5 * 30 / 80 + 0.01, 0.5 * 50 / 80 - 0.01])  # by 2 % in each
    found = weighed(check, *sampled(rng, {one.id: off}), 0.05)
    assert found is not None
    assert found.low <= 0.02 <= found.high
    assert found.worth is Worth.TOLERATED


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.999])
def test_a_forbidden_outcome_is_never_tolerated(tolerance: float, rng: np.random.Generator) -> None:
    """One, beside counts that fit or nearly fit."""
    one = cell(UNIFORM)
    for tv in (0.0, 0.005):
        counts, first = sampled(rng, {one.id: moved(UNIFORM, tv)})
        counts[one.id][-1] = 1
        found = weighed(check_of(one), counts, first, tolerance)
        assert found is not None
        assert found.worth is Worth.FAIL


def fit_of(cells: list[Cell]) -> Check:
    """The fit of some cells."""
    return check_of(*cells, method=Method.FIT, event=Event.FIT, counted=())


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.999])
def test_too_good_a_fit_is_never_tolerated(tolerance: float) -> None:
    """Counts that are what they are expected to be, of 20 laws of 16 outcomes each."""
    cells = [cell(UNIFORM, context) for context in range(20)]
    counts = {one.id: [EVENTS // 16] * 16 + [0] for one in cells}
    first = {one.id: [EVENTS // 32] * 16 + [0] for one in cells}
    found = weighed(fit_of(cells), counts, first, tolerance)
    assert found is not None
    assert (found.worth, found.low, found.high) == (Worth.FAIL, 0.0, 1.0)


def test_too_bad_a_fit_is_a_deviation_as_any(rng: np.random.Generator) -> None:
    """All cells off by one percent: their mean is what is tolerated or not."""
    cells = [cell(UNIFORM, context) for context in range(20)]
    counts, first = sampled(rng, {one.id: moved(UNIFORM, 0.01) for one in cells})
    for tolerance, worth in ((0.02, Worth.TOLERATED), (0.01, Worth.OPEN), (0.005, Worth.FAIL)):
        found = weighed(fit_of(cells), counts, first, tolerance)
        assert found is not None
        assert found.worth is worth
        assert found.low <= 0.01 <= found.high


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.999])
def test_a_repeat_is_never_tolerated(tolerance: float) -> None:
    one = cell([RARE - 1, 1], event=Event.REPEAT)
    check = check_of(one, method=Method.REPEAT, event=Event.REPEAT, cells=(), single=(one,))
    found = weighed(check, {one.id: [5000, 1, 0]}, {one.id: [2500, 0, 0]}, tolerance)
    assert found is not None
    assert found.worth is Worth.FAIL


@pytest.mark.parametrize(
    ("share", "worth"),
    [
        pytest.param(0.001, None, id="its-law"),
        pytest.param(0.002, Worth.TOLERATED, id="twice"),
        pytest.param(0.011, Worth.OPEN, id="the-tolerance-more"),
        pytest.param(0.03, Worth.FAIL, id="three-tolerances-more"),
    ],
)
def test_a_single_outcome(share: float, worth: Worth | None, rng: np.random.Generator) -> None:
    """Of probability 0.001; a tolerance of 0.01 is of its probability."""
    one = cell([999, 1])
    check = check_of(one, method=Method.RARE, event=Event.RARE, cells=(), counted=(), single=(one,))
    counts, first = sampled(rng, {one.id: np.array([1 - share, share])}, 100_000)
    found = weighed(check, counts, first, 0.01)
    if worth is None:
        assert found is None
        return
    assert found is not None
    assert found.worth is worth
    assert found.low <= share - 0.001 <= found.high


def test_one_coin(rng: np.random.Generator) -> None:
    """A shift of a match probability is a total variation as any."""
    one = cell([3, 1], event=Event.MATCH)
    check = check_of(one, method=Method.BINOMIAL, event=Event.MATCH)
    for shift, worth in ((0.0, None), (0.005, Worth.TOLERATED), (0.01, Worth.OPEN), (0.02, Worth.FAIL)):
        counts, first = sampled(rng, {one.id: np.array([0.75 - shift, 0.25 + shift])})
        found = weighed(check, counts, first, 0.01)
        assert (found.worth if found else None) is worth, shift
        assert found is None or found.low <= shift <= found.high


def test_confidence_is_shared_by_the_checks_that_decide(rng: np.random.Generator) -> None:
    """More checks, wider bounds: all hold together."""
    one = cell(UNIFORM)
    check, (counts, first) = check_of(one), sampled(rng, {one.id: moved(UNIFORM, 0.02)})
    test = judge(check, counts, POWER)
    alone, among = (weigh(check, test, counts, first, 0.02, deciding) for deciding in (1, 1000))
    assert among.low < alone.low < 0.02 < alone.high < among.high
    assert 0.9 < CONFIDENCE < 1
    assert replace(alone, low=0.0).plain() == alone.plain() | {"low": "0"}
