"""The law of filtered sampling: answers by hand, and an oracle in fractions that knows no sorting."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped] # it ships no types
import numpy as np
import numpy.typing as npt
import pytest
from filtered import EVERY, ROWS, RULES, SETTINGS, kept, logits, repeatable, weights
from hypothesis import assume, given
from hypothesis import strategies as st

from pp3.harness.filters import Hit, Order, Outcome, Rules, Settings, Ties, law_of_logits, law_of_probs

PLAIN = Rules(order=Order.TOP_K_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID)
Probs = dict[int, Fraction]
Floats = npt.NDArray[np.float32]


def probs(outcome: Outcome) -> list[Fraction]:
    """Of each token, that of a cell at its lowest id."""
    return [Fraction(int(w), outcome.total) for w in outcome.weights]


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
