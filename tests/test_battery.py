"""Statistics against SciPy's, outcomes, and what a forbidden event does whatever the p-value."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pooled_cells import EVENTS, SHARES, check_of, pooled_of
from scipy import stats
from weighted_cell import cell

from pp3.harness import battery, campaign
from pp3.harness.battery import SEED_FAMILY_ALPHA, judge, number, seed_family, statistics
from pp3.harness.cells import Event
from pp3.harness.design import CERTAIN, NO_SHARE, TOO_FEW
from pp3.harness.pooling import pool
from pp3.harness.power import detectable_tv
from pp3.harness.verdict import all_cells


def scipy_statistics(counts: list[int], law: list[float]) -> tuple[float, float]:
    """G and Pearson's X^2 by SciPy."""
    expected = sum(counts) * np.array(law)
    found = [stats.power_divergence(counts, expected, lambda_=kind)[0] for kind in ("log-likelihood", "pearson")]
    return float(found[0]), float(found[1])


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([2000, 1250, 750, 500, 300, 200], id="as-expected"),
        pytest.param([1960, 1290, 745, 505, 280, 220], id="near"),
        pytest.param([5000, 0, 0, 0, 0, 0], id="zeros"),
        pytest.param([0, 0, 0, 0, 0, 1], id="one-event"),
        pytest.param([1, 1, 1, 1, 1, 1], id="uniform"),
    ],
)
def test_statistics_are_those_of_scipy(counts: list[int]) -> None:
    g, pearson = statistics(pooled_of(SHARES), [*counts, 0])
    expected = scipy_statistics(counts, [share / 100 for share in SHARES])
    assert (g, pearson) == pytest.approx(expected, rel=1e-9, abs=1e-9)  # cancellation near 0


def test_statistics_of_random_counts(rng: np.random.Generator) -> None:
    for _ in range(100):
        shares = rng.integers(1, 1000, rng.integers(2, 30)).tolist()
        pooled = pool(cell(shares), 10**6, 20)
        assert pooled is not None
        assert pooled.df == len(shares) - 1
        counts = rng.multinomial(rng.integers(1, 10**6), rng.dirichlet(np.ones(len(shares)))).tolist()
        ordered = [shares[int(np.flatnonzero(pooled.groups == group)[0])] for group in range(len(shares))]
        mixed = [counts[int(np.flatnonzero(pooled.groups == group)[0])] for group in range(len(shares))]
        expected = scipy_statistics(mixed, [share / sum(shares) for share in ordered])
        assert statistics(pooled, [*counts, 0]) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_groups_are_merged_before_they_are_judged() -> None:
    pooled = pooled_of(SHARES, 400)  # 4 and 6 of a hundred stand together
    assert pooled.groups.tolist() == [4, 3, 2, 1, 0, 0]
    g, pearson = statistics(pooled, [2000, 1250, 750, 500, 500, 0, 0])
    assert (g, pearson) == pytest.approx((0, 0), abs=1e-9)
    apart = statistics(pooled_of(SHARES), [2000, 1250, 750, 500, 500, 0, 0])
    assert min(apart) > 100


@pytest.mark.parametrize("atoms", [2, 3, 5, 7, 9])
def test_what_is_left_joins_the_last_group(atoms: int) -> None:
    """Of equal atoms two make a group: an odd one is the last group's third, be the groups odd or even in number."""
    pooled = pool(cell([1] * atoms), 20 * atoms, 40)
    if atoms < 4:
        assert pooled is None
        return
    groups = [min(atom // 2, atoms // 2 - 1) for atom in range(atoms)]
    assert pooled is not None
    assert pooled.groups.tolist() == groups
    assert pooled.probabilities.tolist() == pytest.approx([groups.count(one) / atoms for one in range(atoms // 2)])
    assert pooled.df == atoms // 2 - 1


def test_strata_that_decide_are_numbered_in_turn() -> None:
    """Four strata of two atoms each, of which the second is too rare to decide: three are left, a degree each."""
    shares, strata = [30, 30, 1, 1, 20, 40, 50, 10], [0, 0, 1, 1, 2, 2, 3, 3]
    pooled = pool(dataclasses.replace(cell(shares), strata=np.array(strata)), 1820, 100)
    assert pooled is not None
    assert pooled.strata.tolist() == [0, 0, 1, 1, 2, 2]
    assert pooled.groups.tolist() == [0, 1, -1, -1, 2, 3, 5, 4]
    assert pooled.probabilities.tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 3, 2 / 3, 1 / 6, 5 / 6])
    assert pooled.df == 3
    assert pooled.events == pytest.approx(1820 * 180 / 182)


def test_no_events_are_no_evidence() -> None:
    assert statistics(pooled_of(SHARES), [0] * 7) == (0.0, 0.0)


def test_forbidden_outcomes_do_not_enter_the_statistics() -> None:
    counts = [1960, 1290, 745, 505, 280, 220]
    assert statistics(pooled_of(SHARES), [*counts, 0]) == statistics(pooled_of(SHARES), [*counts, 10**6])


def test_judge_adds_the_cells() -> None:
    one, other = pooled_of(SHARES), pooled_of([1, 1, 2], context=1)
    counts = {one.cell.id: [1960, 1290, 745, 505, 280, 220, 0], other.cell.id: [260, 240, 510, 0]}
    check = check_of(one, other)
    found = judge(check, counts, 0.9)
    parts = [statistics(pooled, counts[pooled.cell.id]) for pooled in (one, other)]
    assert found.df == check.df == 5 + 2
    assert (found.g, found.pearson) == pytest.approx(tuple(map(sum, zip(*parts, strict=True))))
    assert found.p == pytest.approx(float(stats.chi2.sf(found.g, 7)))
    assert found.pearson_p == pytest.approx(float(stats.chi2.sf(found.pearson, 7)))
    assert found.events == 5000 + 1010
    assert found.detectable.size == detectable_tv(1e-3, 7, 2 * EVENTS, 0.9)
    assert (found.outcome, found.forbidden) == ("pass", 0)


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        pytest.param([2000, 1250, 750, 500, 300, 200, 0], "pass", id="as-expected"),
        pytest.param([2000, 1250, 750, 500, 200, 300, 0], "fail", id="two-swapped"),
        pytest.param([2000, 1250, 750, 500, 300, 199, 1], "fail", id="one-forbidden-and-p-near-1"),
        pytest.param([0, 0, 0, 0, 0, 0, 1], "fail", id="only-a-forbidden-one"),
        pytest.param([0, 0, 0, 0, 0, 0, 0], "pass", id="nothing-seen"),
    ],
)
def test_outcomes(counts: list[int], outcome: str) -> None:
    pooled = pooled_of(SHARES)
    found = judge(check_of(pooled), {pooled.cell.id: counts}, 0.9)
    assert found.outcome == outcome
    assert found.forbidden == counts[-1]
    if counts[-1]:
        assert found.p > 0.9


@pytest.mark.parametrize(
    ("reason", "forbidden", "outcome"),
    [
        pytest.param(CERTAIN, 0, "certain", id="certain"),
        pytest.param(TOO_FEW, 0, "unresolved", id="too-few"),
        pytest.param(NO_SHARE, 0, "unresolved", id="no-share"),
        pytest.param(CERTAIN, 1, "fail", id="certain-and-forbidden"),
        pytest.param(TOO_FEW, 2, "fail", id="too-few-and-forbidden"),
    ],
)
def test_checks_that_cannot_decide(reason: str, forbidden: int, outcome: str) -> None:
    found = judge(check_of(alpha=0.0, reason=reason, extra=("a", "b")), {"a": [7, 0], "b": [5, forbidden]}, 0.9)
    assert (found.outcome, found.p, found.df, found.events) == (outcome, 1.0, 0, 12 + forbidden)
    assert found.plain()["reason"] == reason


def test_a_forbidden_outcome_counts_in_a_cell_that_cannot_decide() -> None:
    pooled = pooled_of(SHARES)
    counts = {pooled.cell.id: [2000, 1250, 750, 500, 300, 200, 0], "rare": [3, 1]}
    found = judge(check_of(pooled, extra=("rare",)), counts, 0.9)
    assert (found.outcome, found.forbidden) == ("fail", 1)


def test_a_p_value_on_its_level_fails() -> None:
    """p <= alpha rejects, so that a test of level alpha rejects with probability alpha."""
    pooled = pooled_of(SHARES)
    counts = {pooled.cell.id: [1960, 1290, 745, 505, 280, 220, 0]}
    p = judge(check_of(pooled), counts, 0.9).p
    assert judge(check_of(pooled, alpha=p), counts, 0.9).outcome == "fail"
    assert judge(check_of(pooled, alpha=math.nextafter(p, 0)), counts, 0.9).outcome == "pass"


def test_receipt_form_has_six_digits_and_no_float() -> None:
    pooled = pooled_of(SHARES)
    plain = judge(check_of(pooled), {pooled.cell.id: [1960, 1290, 745, 505, 280, 220, 0]}, 0.9).plain()
    assert not any(isinstance(value, float) for value in plain.values())
    assert plain["alpha"] == "0.001"
    assert {
        "g",
        "p",
        "pearson",
        "pearsonP",
        "detectable",
        "excluded",
        "unit",
        "worst",
        "method",
        "outcome",
        "forbidden",
    } < set(plain)
    assert [number(value) for value in (1 / 3, 1e-17, 123456789.0, 0.0)] == ["0.333333", "1e-17", "1.23457e+08", "0"]


Move = Callable[[np.ndarray], np.ndarray]


@pytest.mark.parametrize(
    ("move", "fails"),
    [
        pytest.param(lambda law: law, False, id="the-law"),
        pytest.param(lambda law: law[::-1], True, id="reversed"),
        pytest.param(lambda law: np.roll(law, 1), True, id="off-by-one-token"),
        pytest.param(lambda law: law**1.4 / (law**1.4).sum(), True, id="another-temperature"),
    ],
)
def test_simulated_faults(move: Move, fails: bool, rng: np.random.Generator) -> None:
    """Twenty runs of the law fail with probability 2e-5; a fault, of noncentrality 270 or more, passes in 1e-27."""
    law = np.array(SHARES) / 100
    pooled = pooled_of(SHARES)
    check = check_of(pooled, alpha=1e-6)
    for _ in range(20):
        counts = rng.multinomial(EVENTS, move(law)).tolist()
        assert (judge(check, {pooled.cell.id: [*counts, 0]}, 0.9).outcome == "fail") is fails


def test_seed_family_merges_first_tokens_and_decides_nothing() -> None:
    chosen = campaign.of_document({"targets": ["sparse-tail", "invalidated"], "requests": 20_000}, "a test")
    cells = all_cells(chosen)
    counts = {one.id: [*(round(10_000 * p) for p in one.probabilities()), 0] for one in cells}
    rows = seed_family(cells, counts, 20_000, 100)
    assert [row["target"] for row in rows] == ["sparse-tail", "invalidated"]
    for row in rows:
        first = [
            one.id
            for one in cells
            if one.target == row["target"] and one.position == 0 and one.event in (Event.TOKEN, Event.FULL_TARGET)
        ]
        assert row["events"] == sum(sum(counts[one]) for one in first)
        assert not row["below"]
    skewed = counts | {one.id: [*counts[one.id][::-1][1:], 0] for one in cells}
    assert all(row["below"] for row in seed_family(cells, skewed, 20_000, 100))
    assert SEED_FAMILY_ALPHA == 2e-6


def test_results_are_values() -> None:
    fields: dict[str, Any] = {name: 0 for name in battery.TestResult.__dataclass_fields__}
    with pytest.raises(AttributeError):
        battery.TestResult(**fields).p = 1.0  # type: ignore[misc]  # frozen: that is the point
