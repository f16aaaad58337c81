"""Filtered sampling in FP32: no honest sampler is blamed, and only what rounding may decide is open."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from filtered import RULES, SETTINGS, kept, logits, repeatable, weights
from hypothesis import given
from hypothesis import strategies as st

from pp3.harness.filters import Hit, Order, Outcome, Rules, Settings, Ties, law_of_logits, law_of_probs

ONE = 1 << 24
PLAIN = Rules(order=Order.TOP_K_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID)
Floats = npt.NDArray[np.float32]


def single(row: Floats, how: Settings, rules: Rules, ascending: bool) -> list[int]:
    """What a sampler keeps that does everything in FP32, one operation after the other."""
    one = np.float32(1)
    steps = {
        Order.MIN_P_FIRST: "tmkp",
        Order.TOP_K_FIRST: "tkpm",
        Order.JOINT: "tjm",
        Order.TEMPERATURE_LAST: "kpmt",
        Order.TOP_P_FIRST: "pmkt",
    }[rules.order]
    x = row.copy()

    def share(x: Floats) -> Floats:
        powers = np.exp(x - x.max())
        return np.asarray(powers / np.cumsum(powers)[-1])

    def top_k(x: Floats) -> npt.NDArray[np.bool_]:
        order = np.argsort(-x, kind="stable")
        keep = np.zeros(len(x), np.bool_)
        keep[order[: how.top_k or len(x)]] = True
        return keep if rules.ties is not Ties.ALL_KEPT else x >= x[keep].min()

    def top_p(x: Floats) -> npt.NDArray[np.bool_]:
        p, limit = share(x), np.float32(how.top_p)
        order = np.argsort(-x, kind="stable")
        if ascending:  # by what lies below: cumsum > 1 - p
            sums = np.cumsum(p[order][::-1])[::-1]
            inside = sums > one - limit if rules.hit is Hit.STOPS else sums >= one - limit
        else:
            sums = np.cumsum(p[order])
            inside = sums - p[order] < limit if rules.hit is Hit.STOPS else sums - p[order] <= limit
        inside |= limit >= 1
        inside[0] = True
        keep = np.zeros(len(x), np.bool_)
        keep[order[inside]] = True
        return keep if rules.top_p_ties is not Ties.ALL_KEPT else x >= x[keep].min()

    def joint(x: Floats) -> npt.NDArray[np.bool_]:
        return top_k(x) & top_p(x)

    def min_p(x: Floats) -> npt.NDArray[np.bool_]:
        return np.asarray(share(x) >= share(x).max() * np.float32(how.min_p))

    for step in steps:
        if step == "t":
            x = x / np.float32(how.temperature) if ascending else x * (one / np.float32(how.temperature))
        else:
            keep = {"k": top_k, "p": top_p, "j": joint, "m": min_p}[step](x)
            x = np.where(keep, x, -np.inf).astype(np.float32)
    return np.flatnonzero(x > -np.inf).tolist()


def shows(tokens: list[int], outcome: Outcome) -> bool:
    """Whether this is what an outcome keeps, up to the choice within a cell."""
    cells = set(outcome.cell_of[tokens].tolist())
    return len(tokens) == outcome.kept and cells == set(np.flatnonzero(outcome.weights).tolist())


@repeatable
@given(
    st.lists(st.integers(0, 60) | st.integers(1, 4000), min_size=1, max_size=40).filter(any),
    SETTINGS,
    RULES,
    st.sampled_from([0.5, 0.7, 1.0, 1.5, 2.0]),
    st.booleans(),
)
def test_no_honest_sampler_is_blamed(row: list[int], how: Settings, rules: Rules, heat: float, ascending: bool) -> None:
    how = replace(how, temperature=heat)
    found = law_of_logits(logits(*row), how, rules)
    tokens = single(logits(*row), how, rules, ascending)
    assert any(shows(tokens, outcome) for outcome in found.outcomes)
    sizes = np.bincount(found.law.cell_of)
    settled = [t for t in range(len(row)) if t not in found.undecided and sizes[found.law.cell_of[t]] == 1]
    assert [t for t in settled if found.law.weights[t]] == [t for t in settled if t in tokens]


def test_great_logits_are_rounded_more() -> None:
    """At 1,000 / 0.7 a unit is 2^-13: a threshold as near as that is open, and honest samplers use it."""
    crossed = 0
    for depth in np.arange(0.25, 2, 0.0625):
        row = np.array([1000, 1000 - depth], np.float32)
        how = Settings(temperature=0.7, min_p=float(np.exp(-depth / 0.7)) * (1 + 2e-5))
        found = law_of_logits(row, how, PLAIN)
        assert {outcome.kept for outcome in found.outcomes} == {1, 2}
        crossed += len(single(row, how, PLAIN, ascending=True)) == 2
    assert found.law.kept == 1
    assert crossed


def test_a_finite_mask_is_a_mask() -> None:
    """The least FP32 number in place of -inf has no say in how far sums are rounded."""
    row = np.append(logits(4, 3, 2, 1), np.finfo(np.float32).min)
    assert [outcome.kept for outcome in law_of_logits(row, Settings(top_p=0.8), PLAIN).outcomes] == [3]


def test_a_sum_that_equals_p_is_open_for_logits_alone() -> None:
    how = Settings(top_p=0.75)
    assert len(law_of_probs(weights(8, 4, 2, 2), how, PLAIN).outcomes) == 1
    found = law_of_logits(logits(8, 4, 2, 2), how, PLAIN)
    assert {outcome.kept for outcome in found.outcomes} == {2, 3}
    assert found.undecided == {2}


@pytest.mark.parametrize(("unit", "left"), [(-1, 3), (0, 2), (1, 2)])
def test_sums_of_probabilities_are_told_apart_to_the_last_bit(unit: int, left: int) -> None:
    row = weights(ONE // 2, ONE // 4 + unit, ONE // 8, ONE // 8 - unit)
    found = law_of_probs(row, Settings(top_p=0.75), PLAIN)
    assert [outcome.kept for outcome in found.outcomes] == [left]


@pytest.mark.parametrize(("unit", "left"), [(-2, [3]), (-1, [3, 2]), (0, [2, 3]), (1, [2])])
def test_a_threshold_between_two_units_leaves_both_open(unit: int, left: list[int]) -> None:
    """FP32(0.1) is 1,677,721.625 units; 1 - 0.1 is rounded, so that a sum from below has another p."""
    first = 1_677_722 // 2
    row = weights(first, first + unit, *[750_000] * 20, 99_494 - unit)
    assert row.sum() == ONE
    found = law_of_probs(row, Settings(top_p=0.1), PLAIN)
    assert [outcome.kept for outcome in found.outcomes] == left


@pytest.mark.parametrize(
    "row", [(5, 4, 3), (ONE + 1, ONE // 2 - 1, ONE // 2 - 2, 2)], ids=["twelfths", "multiples of 2^-25"]
)
def test_probabilities_that_are_no_fp32_numbers_are_open(row: tuple[int, ...]) -> None:
    found = law_of_probs(weights(*row), Settings(top_p=0.75), PLAIN)
    assert {outcome.kept for outcome in found.outcomes} == {2, 3}


def test_float_probabilities_carry_their_own_rounding() -> None:
    row = np.array([0.3, 0.3, 0.2, 0.2], np.float32)
    found = law_of_probs(row, Settings(top_p=0.6), PLAIN)
    assert sorted(outcome.kept for outcome in found.outcomes) == [2, 3]
    assert law_of_probs(np.array([0.5, 0.25, 0.25], np.float32), Settings(top_p=0.5), PLAIN).law.total == 2


@pytest.mark.parametrize(
    ("ties", "sizes", "cell"), [(Ties.ALL_KEPT, [1, 2], 1), (Ties.LOWER_ID, [1, 1], 2), (Ties.VALUE_ONLY, [1, 1], 2)]
)
def test_tokens_that_rounding_may_tie_are_open(ties: Ties, sizes: list[int], cell: int) -> None:
    """Two neighbours among FP32 numbers are one once divided by 1.5: either may be the first, or both."""
    pairs = np.arange(12, 13, 2.0**-20, dtype=np.float32)
    least = int(np.flatnonzero(np.diff(pairs / np.float32(1.5)) == 0)[0])
    row = np.array([pairs[least], pairs[least + 1], 3.0], np.float32)
    assert row[0] < row[1]
    found = law_of_logits(row, Settings(temperature=1.5, top_k=1), replace(PLAIN, ties=ties))
    assert [outcome.kept for outcome in found.outcomes] == sizes
    assert [np.bincount(outcome.cell_of).max() for outcome in found.outcomes] == [1, cell]
    assert found.undecided >= {0}
    assert kept(found) == [1]


def test_the_faintest_token_that_is_kept_has_a_weight() -> None:
    found = law_of_logits(np.array([0.0, -80.0, -np.inf], np.float32), Settings(temperature=0.5), PLAIN).law
    assert found.weights.tolist() == [(1 << 50) - 1, 1, 0]


def test_a_faint_token_is_open_to_a_top_p_next_to_1_alone() -> None:
    row = np.array([0.0, -20.0], np.float32)
    sizes = [[o.kept for o in law_of_logits(row, Settings(top_p=p), PLAIN).outcomes] for p in (1.0, 1 - 2.0**-24)]
    assert sizes == [[2], [1, 2]]


@pytest.mark.parametrize("total", range(25, 32))
def test_a_ratio_that_equals_min_p_is_open_for_logits(total: int) -> None:
    """At temperature 0.5 a rounded logit is off by two units."""
    found = law_of_logits(logits(16, 8, total - 24), Settings(temperature=0.5, min_p=0.25), PLAIN)
    assert {outcome.kept for outcome in found.outcomes} == {1, 2}


@pytest.mark.parametrize(("order", "sizes"), [(Order.TOP_K_FIRST, [2, 1]), (Order.JOINT, [2])])
def test_a_ratio_of_renormalised_probabilities_is_open(order: Order, sizes: list[int]) -> None:
    """3/4 is no power of two: 8/14 and 6/14 are rounded apart."""
    found = law_of_probs(weights(8, 6, 2), Settings(top_k=2, min_p=0.75), replace(PLAIN, order=order))
    assert [outcome.kept for outcome in found.outcomes] == sizes
