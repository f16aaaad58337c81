"""What is rare or certain: the rarest outcome among all, repeats, and impossible ones that rounding explains."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from pooled_cells import SHARES, check_of, pooled_of
from weighted_cell import cell

from pp3.harness import battery, tails
from pp3.harness.battery import judge
from pp3.harness.cells import Event
from pp3.harness.dependence import RARE
from pp3.harness.design import Method

# Tails outcome by outcome, in fractions.


def tails_of(hits: int, events: int, chance: Fraction) -> tuple[Fraction, Fraction]:
    """P(X >= hits) and P(X <= hits)."""
    law = [math.comb(events, k) * chance**k * (1 - chance) ** (events - k) for k in range(events + 1)]
    return sum(law[hits:], Fraction(0)), sum(law[: hits + 1], Fraction(0))


RARE_CELLS = (cell([2, 3, 5]), cell([1, 3, 4], context=1), cell([1, 1], context=2))
RARE_CHECK = dataclasses.replace(check_of(), method=Method.RARE, single=RARE_CELLS)
RARE_COUNTS: dict[str, tuple[list[list[int]], int, int]] = {  # counts, and the cell and outcome of the smallest tail
    "too many": ([[9, 2, 1, 0], [1, 3, 4, 0], [0, 0, 0]], 0, 0),
    "too many, evenly": ([[10, 2, 1, 0], [1, 3, 4, 0], [0, 0, 0]], 0, 0),
    "too few": ([[2, 3, 5, 0], [0, 20, 24, 0], [0, 0, 0]], 1, 0),
    "the last of a cell": ([[2, 2, 15, 50], [1, 3, 4, 90], [0, 0, 0]], 0, 2),
}


@pytest.mark.parametrize(("rows", "at", "outcome"), RARE_COUNTS.values(), ids=RARE_COUNTS)
def test_the_rarest_outcome_is_judged_among_all(rows: list[list[int]], at: int, outcome: int) -> None:
    """Its exact two-sided tail, forbidden ones left out, times eight outcomes, of which two had no events."""
    counts = {one.id: row for one, row in zip(RARE_CELLS, rows, strict=True)}
    least = [
        min(tails_of(row[i], sum(row[:-1]), Fraction(one.shares[i], sum(one.shares))))
        for one, row in zip(RARE_CELLS[:2], rows, strict=False)
        for i in range(3)
    ]
    found = judge(RARE_CHECK, counts, 0.999)
    assert found.p == pytest.approx(float(16 * min(least)), rel=1e-12)
    assert found.p < 1
    assert found.worst == f"{RARE_CELLS[at].id}: outcome {outcome}"


def test_rare_outcomes_of_many_campaigns_are_judged_as_each_alone() -> None:
    """Rows of equal totals, in which counts come again."""
    rows = [[[9, 2, 1, 0], [2, 2, 8, 0], [9, 2, 1, 0], [1, 9, 2, 0]], [[1, 3, 4, 0]] * 4, [[0, 0, 0]] * 4]
    many = {one.id: np.array(row) for one, row in zip(RARE_CELLS, rows, strict=True)}
    alone = [judge(RARE_CHECK, {name: row[i].tolist() for name, row in many.items()}, 0.999).p for i in range(4)]
    assert battery.p_values(RARE_CHECK, many).tolist() == alone
    assert len(set(alone)) == 3


def test_no_rare_outcome_is_no_evidence() -> None:
    found = judge(RARE_CHECK, {one.id: [0] * (len(one.atoms) + 1) for one in RARE_CELLS}, 0.999)
    assert (found.p, found.worst) == (1.0, "")


@pytest.mark.parametrize("hits", range(8))
def test_a_coin_has_two_exact_tails(hits: int) -> None:
    chance = Fraction(5, 16)
    expected = min(Fraction(1), 2 * min(tails_of(hits, 7, chance)))
    assert tails.two_sided(hits, 7, float(chance)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "p"), [([5, 0, 0], 1.0), ([10**6, 3, 0], (10**6 + 3) / 3 / RARE), ([0, 2, 0], 1 / RARE)]
)
def test_repeats_are_judged_by_how_often_they_come(counts: list[int], p: float) -> None:
    one = cell([1, 1])
    check = dataclasses.replace(check_of(), method=Method.REPEAT, single=(one,))
    assert judge(check, {one.id: counts}, 0.999).p == p


@pytest.mark.parametrize(("seen", "explained"), [(0, True), (1, True), (2, True), (3, False), (9, False)])
def test_rounding_explains_few_impossible_outcomes(seen: int, explained: bool) -> None:
    """Of 1,000 drafts at 1e-4: P(X >= 2) = 4.7e-3, P(X >= 3) = 1.5e-4."""
    assert battery.Slack(chance=1e-4, level=1e-3).explains(seen, 1000) is explained


@pytest.mark.parametrize(("event", "drafts"), [(Event.TOKEN, 1), (Event.LENGTH, 4), (Event.LENGTH_PAIR, 8)])
def test_slack_is_given_for_each_draft_of_an_event(event: Event, drafts: int) -> None:
    """100 events of so many drafts each; what a level may explain lies between one draft fewer and one more."""
    pooled = pooled_of(SHARES)
    check = dataclasses.replace(check_of(pooled), event=event)
    counts = {pooled.cell.id: [40, 25, 15, 10, 6, 2, 2]}
    chance = 1e-3
    for of_each, forbidden in ((drafts, 0), (drafts + 1, 2)):
        level = float(tails.binom_sf(1, 100 * of_each - 50, chance))
        assert judge(check, counts, 0.999, battery.Slack(chance=chance, level=level)).forbidden == forbidden
