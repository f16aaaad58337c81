"""The law of filtered sampling: answers by hand, an oracle in fractions that knows no sorting, and honest FP32."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped] # it ships no types
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pp3.harness.filters import (
    ENGINES,
    Filtered,
    Hit,
    Order,
    Outcome,
    Rules,
    Settings,
    Ties,
    law_of_logits,
    law_of_probs,
)

ONE = 1 << 24
PLAIN = Rules(order=Order.TOP_K_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID)
EVERY = [
    Rules(order=order, ties=ties, top_p_ties=top_p_ties, hit=hit)
    for order in Order
    for ties in Ties
    for top_p_ties in Ties
    for hit in Hit
    if order is not Order.JOINT or {ties, top_p_ties} != {Ties.VALUE_ONLY, Ties.LOWER_ID}
]
Probs = dict[int, Fraction]
Floats = npt.NDArray[np.float32]
repeatable = settings(derandomize=True, database=None, deadline=None, max_examples=200)

# Shares small enough to tie and to hit thresholds; FP32 thresholds, dyadic ones twice as likely.
ROWS = st.lists(st.integers(0, 4), min_size=1, max_size=7).filter(any)
SHARES = st.sampled_from([0.125, 0.25, 0.5, 0.75, 0.1, 0.3, 0.6, 0.9])
SETTINGS = st.builds(
    Settings, top_k=st.integers(0, 8), top_p=SHARES | st.just(1.0), min_p=SHARES | st.just(0.0) | st.just(1.0)
)
RULES = st.sampled_from(EVERY)


def weights(*shares: int) -> npt.NDArray[np.int64]:
    """Shares as integers."""
    return np.array(shares, np.int64)


def logits(*shares: int) -> Floats:
    """Shares as logits."""
    with np.errstate(divide="ignore"):
        return np.log(np.array(shares) / sum(shares)).astype(np.float32)


def probs(outcome: Outcome) -> list[Fraction]:
    """Of each token, that of a cell at its lowest id."""
    return [Fraction(int(w), outcome.total) for w in outcome.weights]


def kept(found: Filtered) -> list[int]:
    """Tokens of the law in exact arithmetic, of a cell its lowest id."""
    return np.flatnonzero(found.law.weights).tolist()


# An oracle that asks of each token alone how much lies before it.


def fp32(value: float) -> Fraction:
    """As a kernel holds it."""
    return Fraction(float(np.float32(value)))


def before(law: Probs, ties: Ties, ranks: list[int], token: int) -> list[int]:
    """Tokens that come before one: of greater probability or, unless ties are kept, as great and better ranked."""
    greater = [u for u, p in law.items() if p > law[token]]
    if ties is Ties.ALL_KEPT:
        return greater
    return greater + [u for u, p in law.items() if p == law[token] and ranks[u] < ranks[token]]


def oracle(at: Callable[[Fraction], list[Fraction]], how: Settings, rules: Rules, ranks: list[list[int]]) -> Probs:
    """The law by definition. `at` gives masses at a temperature; ranks are those of top-k and top-p if any may be."""
    masses = at(Fraction(1))
    law = whole = {token: mass for token, mass in enumerate(masses) if mass}
    by_id = list(range(len(masses)))

    def top_k(law: Probs) -> set[int]:
        rank = ranks[0] if rules.ties is Ties.VALUE_ONLY else by_id
        return {t for t in law if how.top_k == 0 or len(before(law, rules.ties, rank, t)) < how.top_k}

    def top_p(law: Probs) -> set[int]:
        rank = ranks[1] if rules.top_p_ties is Ties.VALUE_ONLY else by_id
        limit = fp32(how.top_p) * sum(law.values())
        sums = {t: sum(law[u] for u in before(law, rules.top_p_ties, rank, t)) for t in law}
        return {t for t in law if how.top_p == 1 or sums[t] < limit or (rules.hit is Hit.GOES_ON and sums[t] == limit)}

    def min_p(law: Probs) -> set[int]:
        return {t for t in law if law[t] >= fp32(how.min_p) * max(law.values())}

    steps = {
        Order.MIN_P_FIRST: ("heat", min_p, top_k, top_p),
        Order.TOP_K_FIRST: ("heat", top_k, top_p, min_p),
        Order.JOINT: ("heat", lambda law: top_k(whole) & top_p(whole), min_p),
        Order.TEMPERATURE_LAST: (top_k, top_p, min_p, "heat"),
        Order.TOP_P_FIRST: (top_p, min_p, top_k, "heat"),
    }[rules.order]
    for step in steps:
        if callable(step):
            chosen = step(law)
            law = {t: p for t, p in law.items() if t in chosen}
        else:
            masses = at(fp32(how.temperature))
            law = {t: masses[t] for t in law}
            whole = law
    total = sum(law.values())
    return {t: p / total for t, p in law.items()}


def exact(row: list[int]) -> Callable[[Fraction], list[Fraction]]:
    """Masses of a row of integers."""
    return lambda heat: [Fraction(w, sum(row)) for w in row]


def exponentials(row: Floats) -> Callable[[Fraction], list[Fraction]]:
    """Masses of a row of logits, right to 300 bits."""

    def at(heat: Fraction) -> list[Fraction]:
        with mpmath.workprec(300):
            found = [mpmath.exp(mpmath.mpf(float(x)) * heat.denominator / heat.numerator) for x in row]
            return [Fraction(int(p._mpf_[1])) * Fraction(2) ** int(p._mpf_[2]) for p in found]

    return at


def lumped(law: Probs, outcome: Outcome) -> list[Fraction]:
    """A law by the cells of an outcome."""
    sums = [Fraction(0)] * len(outcome.cell_of)
    for token, p in law.items():
        sums[outcome.cell_of[token]] += p
    return sums


# Known answers.


@pytest.mark.parametrize(
    ("shares", "how", "rules", "left", "total"),
    [
        ((4, 3, 2, 1), Settings(), PLAIN, {0: 4, 1: 3, 2: 2, 3: 1}, 10),
        ((4, 3, 2, 1), Settings(top_k=2), PLAIN, {0: 4, 1: 3}, 7),
        ((4, 3, 2, 1), Settings(top_p=0.8), PLAIN, {0: 4, 1: 3, 2: 2}, 9),
        ((8, 4, 2, 2), Settings(top_p=0.75), PLAIN, {0: 8, 1: 4}, 12),
        ((8, 4, 2, 2), Settings(top_p=0.75), replace(PLAIN, hit=Hit.GOES_ON), {0: 8, 1: 4, 2: 2}, 14),
        ((2, 8, 2, 4), Settings(min_p=0.5), PLAIN, {1: 8, 3: 4}, 12),
        ((4, 3, 3), Settings(top_k=2), PLAIN, {0: 4, 1: 3}, 7),  # flashinfer PR 3774
        ((4, 3, 3), Settings(top_k=2), replace(PLAIN, ties=Ties.ALL_KEPT), {0: 4, 1: 3, 2: 3}, 10),
        ((4, 3, 3), Settings(top_k=2), replace(PLAIN, ties=Ties.VALUE_ONLY), {0: 4, 1: 3}, 7),
        ((4, 4, 4, 4), Settings(top_k=3), replace(PLAIN, ties=Ties.VALUE_ONLY), {0: 12}, 12),
        ((4, 3, 2, 1), Settings(top_k=2, top_p=0.5), PLAIN, {0: 4}, 4),  # 4/7 reaches a half
        ((4, 3, 2, 1), Settings(top_k=2, top_p=0.5), replace(PLAIN, order=Order.JOINT), {0: 4, 1: 3}, 7),
        ((4, 3, 2, 1), Settings(top_k=2, top_p=0.5), replace(PLAIN, order=Order.TOP_P_FIRST), {0: 4, 1: 3}, 7),
        ((4, 3, 2, 1), Settings(min_p=0.6, top_p=0.5), replace(PLAIN, order=Order.MIN_P_FIRST), {0: 4}, 4),
        ((4, 3, 2, 1), Settings(min_p=0.6, top_p=0.5), PLAIN, {0: 4, 1: 3}, 7),
        ((0, 0, 5, 0), Settings(top_k=3, top_p=0.1, min_p=1.0), PLAIN, {2: 5}, 5),
        ((1, 3, 3), Settings(temperature=0.0), PLAIN, {1: 3}, 3),
        ((1, 3, 3), Settings(temperature=0.0), replace(PLAIN, ties=Ties.ALL_KEPT), {1: 3}, 3),  # a cell of 1 and 2
    ],
)
def test_known_answers(shares: tuple[int, ...], how: Settings, rules: Rules, left: dict[int, int], total: int) -> None:
    found = law_of_probs(weights(*shares), how, rules).law
    assert ({t: int(w) for t, w in enumerate(found.weights) if w}, found.total) == (left, total)


def test_a_cut_tie_is_one_cell() -> None:
    found = law_of_probs(weights(3, 1, 3, 9, 3), Settings(top_k=3), replace(PLAIN, ties=Ties.VALUE_ONLY)).law
    assert found.cell_of.tolist() == [0, 1, 0, 3, 0]
    assert (found.weights.tolist(), found.total, found.kept) == ([6, 0, 0, 9, 0], 15, 3)


@pytest.mark.parametrize(
    ("ties", "cells"), [(Ties.LOWER_ID, [0, 1, 2]), (Ties.VALUE_ONLY, [0, 1, 1]), (Ties.ALL_KEPT, [0, 1, 1])]
)
def test_an_argmax_keeps_one_whatever_top_k_does_with_ties(ties: Ties, cells: list[int]) -> None:
    found = law_of_probs(weights(2, 3, 3), Settings(temperature=0.0), replace(PLAIN, ties=ties)).law
    assert (found.weights.tolist(), found.cell_of.tolist(), found.kept) == ([0, 3, 0], cells, 1)


def test_temperature_squares_and_takes_roots() -> None:
    cool = law_of_logits(logits(8, 4, 4), Settings(temperature=0.5), PLAIN).law
    hot = law_of_logits(logits(16, 4, 1), Settings(temperature=2.0), PLAIN).law
    assert cool.total == hot.total == 1 << 50
    assert cool.weights / cool.total == pytest.approx([64 / 96, 16 / 96, 16 / 96], rel=4e-6)  # FP32 logits at depth 2
    assert hot.weights / hot.total == pytest.approx([4 / 7, 2 / 7, 1 / 7], rel=1e-6)


def test_temperature_last_filters_at_temperature_1() -> None:
    how = Settings(temperature=0.5, top_p=0.65)  # 36/62 and 25/62 when squared
    last = law_of_logits(logits(6, 5, 1), how, replace(PLAIN, order=Order.TEMPERATURE_LAST))
    first = law_of_logits(logits(6, 5, 1), replace(how, top_p=0.55), PLAIN)
    assert (kept(last), kept(first)) == ([0, 1], [0])
    assert last.law.weights[1] / last.law.weights[0] == pytest.approx(25 / 36, rel=1e-6)


# The oracle.


@repeatable
@given(ROWS, SETTINGS, RULES, st.data())
def test_probabilities_are_filtered_as_defined(row: list[int], how: Settings, rules: Rules, data: Any) -> None:
    """Whichever of the tied tokens a sampler prefers, so that a cell claims what it must and no more than it may."""
    found = law_of_probs(weights(*row), how, rules).law
    ranks = [list(data.draw(st.permutations(range(len(row))))) for _ in range(2)]
    if rules.order is Order.JOINT:  # one sort
        ranks[1] = ranks[0]
    assert lumped(oracle(exact(row), how, rules, ranks), found) == probs(found)


@pytest.mark.parametrize("rules", [r for r in EVERY if Ties.VALUE_ONLY in (r.ties, r.top_p_ties)], ids=str)
def test_a_cell_holds_the_tokens_that_a_choice_moves(rules: Rules) -> None:
    """No more and no fewer, but for a choice that a second border narrows by id: a cell may then be too wide."""
    orders = [list(p) for p in itertools.permutations(range(4))]
    pairs = [(p, p) for p in orders] if rules.order is Order.JOINT else list(itertools.product(orders, orders))[::5]
    first_to_last = [rules.ties, rules.top_p_ties][:: -1 if rules.order is Order.TOP_P_FIRST else 1]
    for row in ([2, 2, 2, 1], [1, 3, 1, 1], [1, 1, 1, 1], [2, 1, 2, 1], [4, 3, 2, 1]):
        for how in (Settings(top_k=2), Settings(top_p=0.3), Settings(top_k=3, top_p=0.6), Settings(top_k=2, min_p=0.6)):
            found = law_of_probs(weights(*row), how, rules).law
            laws = [oracle(exact(row), how, rules, list(pair)) for pair in pairs]
            moved = {t for t in range(4) if len({law.get(t, Fraction(0)) for law in laws}) > 1}
            sizes = np.bincount(found.cell_of, minlength=4)
            celled = {t for t in range(4) if sizes[found.cell_of[t]] > 1}
            assert celled >= moved if first_to_last == [Ties.VALUE_ONLY, Ties.LOWER_ID] else celled == moved, (row, how)


@repeatable
@given(ROWS, SETTINGS, RULES, st.sampled_from([0.5, 0.7, 1.0, 1.5, 2.0]), st.data())
def test_logits_are_filtered_as_defined(row: list[int], how: Settings, rules: Rules, heat: float, data: Any) -> None:
    how = replace(how, temperature=heat)
    ranks = [list(data.draw(st.permutations(range(len(row)))))] * 2
    found = law_of_logits(logits(*row), how, rules).law
    wanted = lumped(oracle(exponentials(logits(*row)), how, rules, ranks), found)
    assert max(abs(p - q) for p, q in zip(wanted, probs(found), strict=True)) <= Fraction(len(row), 1 << 50)


# Properties.


@repeatable
@given(ROWS, SETTINGS, RULES)
def test_laws_are_laws(row: list[int], how: Settings, rules: Rules) -> None:
    for found in (law_of_probs(weights(*row), how, rules), law_of_logits(logits(*row), how, rules)):
        for outcome in found.outcomes:
            assert outcome.weights.dtype == np.int64
            assert int(outcome.weights.sum()) == outcome.total <= 1 << 52
            assert outcome.weights.min() >= 0
            assert outcome.weights[row.index(max(row))] > 0  # the maximum is always kept
            assert (outcome.weights[outcome.cell_of != np.arange(len(row))] == 0).all()
            order = sorted(range(len(row)), key=lambda t: (-row[t], t))
            positive = [t for t in order if outcome.weights[outcome.cell_of[t]]]
            assert positive == order[: len(positive)]  # a prefix
            assert all(row[t] for t in positive)


@repeatable
@given(ROWS, SETTINGS, RULES)
def test_more_is_kept_with_a_greater_k_or_p_and_a_smaller_min_p(row: list[int], how: Settings, rules: Rules) -> None:
    """Not of top-k where it goes first: it renormalises, and top-p may then stop earlier. Each filter alone, then."""
    size = law_of_probs(weights(*row), Settings(), rules).law.kept
    alone = [Settings(top_k=how.top_k or 8), Settings(top_p=how.top_p), Settings(min_p=how.min_p)]
    wider = [
        Settings(top_k=alone[0].top_k + 1),
        Settings(top_p=min(1.0, how.top_p + 0.125)),
        Settings(min_p=how.min_p / 2),
    ]
    for narrow, wide in zip(alone, wider, strict=True):
        less, more = (law_of_probs(weights(*row), s, rules).law.kept for s in (narrow, wide))
        assert 1 <= less <= more <= size


@repeatable
@given(ROWS, RULES, st.integers(0, 3))
def test_neutral_settings_change_nothing(row: list[int], rules: Rules, more: int) -> None:
    for k in (0, len(row) + more):
        found = law_of_probs(weights(*row), Settings(top_k=k, top_p=1.0, min_p=0.0), rules)
        assert (found.law.weights == row).all()
        for same in (found, law_of_logits(logits(*row), Settings(top_k=k), rules)):
            assert len(same.outcomes) == 1
            assert ((same.law.weights > 0) == (np.array(row) > 0)).all()
            assert (same.law.cell_of == np.arange(len(row))).all()


@repeatable
@given(ROWS, SETTINGS, st.sampled_from(Ties))
def test_orders_agree_where_filters_commute(row: list[int], how: Settings, ties: Ties) -> None:
    """top-k and min-p each look at ranks or ratios, which renormalising leaves; so does temperature at 1."""
    how = replace(how, top_p=1.0)
    laws = [law_of_probs(weights(*row), how, Rules(order=o, ties=ties, top_p_ties=ties)).law for o in Order]
    assume(len(set(row)) == len(row) or ties is Ties.ALL_KEPT)
    assert len({tuple(probs(law)) for law in laws}) == 1


def test_orders_differ_where_filters_do_not_commute() -> None:
    row, how = weights(40, 30, 20, 9, 1), Settings(top_k=3, top_p=0.71, min_p=0.6)
    kept_by = {order: law_of_probs(row, how, replace(PLAIN, order=order)).law.kept for order in Order}
    assert kept_by[Order.MIN_P_FIRST] == 2
    ends = Settings(top_k=2, top_p=0.5)
    assert {law_of_probs(row, ends, replace(PLAIN, order=order)).law.kept for order in Order} == {1, 2}


# Honest FP32.


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


# The boundary.


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", 1e-4),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("min_p", 1.1),
    ],
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} = "):
        Settings(**{field: value})  # type: ignore[arg-type] # a value of any field


@pytest.mark.parametrize(
    "row",
    [np.array([[1, 2]]), np.array([0, 0]), np.array([-1, 2]), np.array([0.5, 0.5]), np.array([0.5, 0.1], np.float32)],
)
def test_rows_that_are_no_law_are_refused(row: npt.NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="probabilities are"):
        law_of_probs(row, Settings(), PLAIN)


@pytest.mark.parametrize("row", [[], [np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_without_a_softmax_are_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="logits are"):
        law_of_logits(np.array(row, np.float32), Settings(), PLAIN)
    with pytest.raises(ValueError, match="logits are"):
        law_of_logits(np.array([0.0, 1.0]), Settings(), PLAIN)  # FP64


def test_probabilities_have_their_temperature_in_them() -> None:
    with pytest.raises(ValueError, match="divide first"):
        law_of_probs(weights(1, 1), Settings(temperature=0.5), PLAIN)


def test_a_threshold_among_too_many_sums_is_refused() -> None:
    row = np.log(np.arange(1, 5001)).astype(np.float32)
    with pytest.raises(ValueError, match="within the FP32 error"):
        law_of_logits(row, Settings(top_p=0.999), PLAIN)


def test_one_sort_has_one_tie_rule() -> None:
    with pytest.raises(ValueError, match="one sort has one rule"):
        Rules(order=Order.JOINT, ties=Ties.VALUE_ONLY, top_p_ties=Ties.LOWER_ID)


def test_engines_differ() -> None:
    """Of eleven declarations no two are the same, and every order, tie rule and hit is someone's."""
    assert len(set(ENGINES.values())) == len(ENGINES)
    assert {rules.order for rules in ENGINES.values()} == set(Order)
    assert {rules.ties for rules in ENGINES.values()} == {rules.top_p_ties for rules in ENGINES.values()} == set(Ties)
    assert {rules.hit for rules in ENGINES.values()} == set(Hit)
