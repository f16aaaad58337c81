"""What a check says it sees is what it sees: simulated, there and back, and against exact tails."""

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats
from weighted_cell import cell

from pp3.harness import campaign
from pp3.harness.battery import judge, totals
from pp3.harness.bounds import fit_effect, rare_effect
from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import RARE
from pp3.harness.design import TOO_FEW, Check, Method, design
from pp3.harness.pooling import pool
from pp3.harness.power import (
    REFERENCE,
    Effect,
    Unit,
    detectable,
    excluded,
    needed,
    smallest_shift,
    unit_of,
)
from pp3.harness.tails import two_sided

ALPHA = 1e-4
POWERS = (0.5, 0.9, 0.99)
RUNS = 2000


def band(power: float) -> float:
    """Five standard errors of RUNS simulated runs."""
    return 5 * math.sqrt(power * (1 - power) / RUNS)


def check_of(method: Method, *cells: Cell, events: int = 10_000, **more: Any) -> Check:
    """A check of these cells at so many events each."""
    single = method in (Method.RARE, Method.REPEAT)
    pools = () if single else tuple(p for one in cells if (p := pool(one, events, 20)) is not None)
    said: dict[str, Any] = {"alpha": ALPHA, "reason": "", "cells": pools, "single": cells if single else ()}
    counted = () if method in (Method.RARE, Method.FIT) else tuple(one.id for one in cells)
    return Check(
        id="t/check",
        event=Event.TOKEN,
        target="t",
        depth=4,
        method=method,
        counted=counted,
        required=True,
        **said | more,
    )


def found_in(check: Check, laws: dict[str, np.ndarray], events: int, rng: np.random.Generator) -> float:
    """The share of RUNS runs that fail a check by G if its cells have these laws."""
    draws = {name: rng.multinomial(events, law, RUNS).tolist() for name, law in laws.items()}
    critical = stats.chi2.isf(check.alpha, check.df)
    found = [totals(check, {n: [*draw[run], 0] for n, draw in draws.items()})[0] for run in range(RUNS)]
    return float(np.mean(np.array(found) >= critical))


@pytest.mark.parametrize("power", POWERS)
def test_g_sees_what_it_says(power: float, rng: np.random.Generator) -> None:
    """In the direction that shows least, half of the mass up and half down: no less than said, but for the noncentral
    approximation (0.02, as in test_design_sizes)."""
    shares = [40, 30, 10, 10, 4, 3, 2, 1]
    one = cell(shares)
    check = check_of(Method.G, one)
    tv = detectable(check, power).size
    law = np.array(shares) / 100
    off = law * (1 + 2 * tv * np.array([1, -1, 1, -1, -1, -1, -1, -1]))
    found = found_in(check, {one.id: off}, 10_000, rng)
    assert power - band(power) - 0.02 <= found <= power + band(power) + 0.02
    assert found_in(check, {one.id: law * (1 + (off / law - 1) / 4)}, 10_000, rng) < power - band(power)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("share", [1, 5, 25, 50, 90])
def test_a_coin_sees_what_it_says(power: float, share: int) -> None:
    """Exactly, by binomial tails, in both directions: at the shift, and no longer at 0.9 of it in the worse."""
    one = cell([share, 100 - share])
    check = check_of(Method.BINOMIAL, one)
    size = detectable(check, power).size
    chance = float(check.cells[0].probabilities[1])
    hits = np.arange(10_001)
    fails = np.array([two_sided(int(n), 10_000, chance) <= ALPHA for n in hits])
    seen = {}
    for dose in (1.0, 0.9):
        for sign in (1, -1):
            truth = chance + sign * dose * size
            if 0 <= truth <= 1:
                seen[dose, sign] = float(stats.binom.pmf(hits, 10_000, truth)[fails].sum())
    assert min(seen[key] for key in seen if key[0] == 1) >= power - 1e-9
    assert min(seen[key] for key in seen if key[0] < 1) < power


def test_a_coin_without_events_sees_nothing() -> None:
    assert smallest_shift(ALPHA, 0.3, 0, 0.9) == 1.0
    assert smallest_shift(ALPHA, 0.3, 1, 0.9) == 1.0
    assert smallest_shift(ALPHA, 0.3, 10**6, 0.9) < 0.01


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("count", [2, 500])
def test_single_outcomes_see_what_they_say(power: float, count: int) -> None:
    """Of the outcome that expects REFERENCE events of 100,000: exactly, at that ratio and not at 0.95 of it."""
    events = 100_000
    shares = [REFERENCE, *[(events - REFERENCE) // (count - 1)] * (count - 1)]
    one = cell(shares)
    check = check_of(Method.RARE, one)
    ratio = detectable(check, power).size
    chance = float(one.probabilities()[0])
    level = ALPHA / (2 * count)
    least = next(n for n in range(REFERENCE, 10_000) if stats.binom.sf(n - 1, events, chance) <= level)
    rest = events - least
    spread = [rest // (count - 1) + (n < rest % (count - 1)) for n in range(count - 1)]
    assert judge(check, {one.id: [least, *spread, 0]}, power).outcome == "fail"
    assert float(stats.binom.sf(least - 1, events, chance * ratio)) >= power - 1e-3  # a Poisson is the wider
    assert float(stats.binom.sf(least - 1, events, chance * ratio * 0.95)) < power


@pytest.mark.parametrize("power", POWERS)
def test_a_fit_sees_what_it_says(power: float, rng: np.random.Generator) -> None:
    """Of 20 cells whose scatter is that factor too large: chi-square times it, exactly; and in simulated counts of
    events that come in clusters (each count a negative binomial, whose variance is the factor)."""
    cells = [cell([1] * 8, context=k) for k in range(20)]
    check = check_of(Method.FIT, *cells)
    factor = detectable(check, power).size
    assert check.df == 140
    critical = stats.chi2.isf(ALPHA / 2, 140)
    assert float(stats.chi2.sf(critical / factor, 140)) == pytest.approx(power, abs=1e-9)
    mean = 10_000 / 8
    fails = 0
    for _ in range(300):
        draws = rng.negative_binomial(mean / (factor - 1), 1 / factor, (20, 8))
        counts = {one.id: [*draw, 0] for one, draw in zip(cells, draws.tolist(), strict=True)}
        fails += judge(check, counts, power).outcome == "fail"
    assert abs(fails / 300 - power) <= 5 * math.sqrt(power * (1 - power) / 300) + 0.02


def test_a_fit_that_is_too_good_is_seen_too() -> None:
    """Counts that are what is expected."""
    cells = [cell([1] * 8, context=k) for k in range(20)]
    check = check_of(Method.FIT, *cells)
    found = judge(check, {one.id: [1250] * 8 + [0] for one in cells}, 0.9)
    assert (found.outcome, found.g) == ("fail", 0.0)


CHECKS = {
    Method.G: check_of(Method.G, cell([40, 30, 10, 10, 4, 3, 2, 1])),
    Method.BINOMIAL: check_of(Method.BINOMIAL, cell([30, 70])),
    Method.RARE: check_of(Method.RARE, cell([1, 5, 94])),
    Method.FIT: check_of(Method.FIT, *(cell([1] * 8, context=k) for k in range(20))),
}
SIZES = {
    Method.G: (0.3, 0.05, 0.001),
    Method.BINOMIAL: (0.2, 0.05, 0.005),
    Method.RARE: (20.0, 2.0, 1.05),
    Method.FIT: (5.0, 1.5, 1.05),
}


def seen_at(check: Check, events: int, power: float) -> float:
    """What a check sees at another number of its events."""
    match check.method:
        case Method.G:
            return detectable(check_of(Method.G, check.cells[0].cell, events=events), power).size
        case Method.BINOMIAL:
            return smallest_shift(ALPHA, check.chance, events, power)
        case Method.RARE:
            return rare_effect(events, ALPHA / 6, power)
    return fit_effect(events, ALPHA, power)[1]


@pytest.mark.parametrize("power", [0.5, 0.999])
@pytest.mark.parametrize(("method", "size"), [(m, size) for m, sizes in SIZES.items() for size in sizes])
def test_needed_is_the_inverse_of_detectable(method: Method, size: float, power: float) -> None:
    """So many see it; of a hundredth fewer none sees so small a one (a coin's sawtooth lies within its step)."""
    check = CHECKS[method]
    events = needed(check, size, power)
    if method is not Method.G or events > 4_000:  # below, G's groups are fewer
        assert seen_at(check, events, power) <= size * (1 + 1e-9)
    fewer = int(events * 0.99) - 1
    if fewer > 4_000 or (method is not Method.G and fewer > 0):
        step = 0 if method in (Method.G, Method.FIT) else 2 / fewer
        assert seen_at(check, fewer, power) > size * (1 - step) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("method", "size", "said"),
    [
        pytest.param(Method.G, 0.0, "a total variation of 0.0: it lies above 0 and is at most 1", id="g-0"),
        pytest.param(Method.G, 1.5, "a total variation of 1.5", id="g-beyond-1"),
        pytest.param(Method.G, math.nan, "a total variation of nan", id="g-nan"),
        pytest.param(Method.BINOMIAL, -0.1, "a total variation of -0.1", id="coin-below-0"),
        pytest.param(Method.BINOMIAL, 1.1, "a total variation of 1.1", id="coin-beyond-1"),
        pytest.param(Method.RARE, 1.0, "a ratio of 1.0: what is seen lies above 1", id="ratio-1"),
        pytest.param(Method.RARE, 0.5, "a ratio of 0.5", id="ratio-below-1"),
        pytest.param(Method.FIT, 1.0, "a variance factor of 1.0: what is seen lies above 1", id="factor-1"),
        pytest.param(Method.RARE, 1 + 1e-9, "tails are known up to 10,000,000,000", id="nobody-has-so-many"),
    ],
)
def test_what_no_number_of_events_sees(method: Method, size: float, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        needed(CHECKS[method], size, 0.999)


def test_one_repeat_is_enough() -> None:
    one = cell([RARE - 1, 1], event=Event.REPEAT)
    check = check_of(Method.REPEAT, one)
    assert detectable(check, 0.999) == Effect(size=1.0, unit=Unit.REPEATS)
    assert needed(check, 1, 0.999) == 1
    assert judge(check, {one.id: [10**6, 1, 0]}, 0.9).outcome == "fail"
    assert judge(check, {one.id: [10**6, 0, 0]}, 0.9).outcome == "pass"
    assert judge(check, {one.id: [10**6, 1, 0]}, 0.9).p == pytest.approx((10**6 + 1) / RARE)


def test_every_check_of_the_default_campaign_states_a_size() -> None:
    """In its unit; one that cannot decide sees nothing."""
    for check in design(campaign.load(None)):
        found = detectable(check, 0.999)
        assert found.unit is unit_of(check)
        if not check.decides:
            assert found.size == 1.0
        elif found.unit in (Unit.TV, Unit.COPIED):
            assert 0 < found.size <= 1
        elif check.method is not Method.REPEAT:
            assert 1 < found.size < 10


def test_what_counts_leave_possible(rng: np.random.Generator) -> None:
    """In runs of the law at most a thousandth of bounds lie below nothing, and in runs off by a dose below the dose."""
    one = cell([40, 30, 10, 10, 4, 3, 2, 1])
    check = check_of(Method.G, one)
    law = np.array([40, 30, 10, 10, 4, 3, 2, 1]) / 100
    for tv in (0.0, 0.02):
        off = law * (1 + 2 * tv * np.array([1, -1, 1, -1, -1, -1, -1, -1]))
        sizes = [
            judge(check, {one.id: [*draw, 0]}, 0.9).excluded.size for draw in rng.multinomial(10_000, off, 300).tolist()
        ]
        assert sum(size < tv for size in sizes) <= 3  # of 300 at 1e-3: more with a chance of 3e-4
        assert max(sizes) < 0.1


@pytest.mark.parametrize("method", [Method.G, Method.BINOMIAL, Method.FIT, Method.RARE])
def test_no_events_exclude_nothing(method: Method) -> None:
    check = CHECKS[method]
    size = excluded(check, 0.0, 0, 0.999, 0).size
    assert size == {Method.FIT: 0.0, Method.RARE: math.inf}.get(method, 1.0)


def test_a_check_with_too_few_events_excludes_nothing() -> None:
    check = check_of(Method.G, cell([1, 1]), events=10, reason=TOO_FEW, alpha=0.0)
    assert check.df == 0
    assert excluded(check, 0.0, 10, 0.999, 0) == Effect(size=1.0, unit=Unit.TV)
