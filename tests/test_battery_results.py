"""What is written of a check beside its p-value, and the customer's own reading of first tokens."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from scipy import stats
from weighted_cell import cell

from pp3.harness import battery
from pp3.harness.battery import judge, observed, seed_family
from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import RARE
from pp3.harness.design import CERTAIN, TOO_FEW, Check, Method
from pp3.harness.pooling import pool


def check_of(method: Method, *cells: Cell, alpha: float = 1e-3, reason: str = "") -> Check:
    """A check of these cells; of none pooled where it has a reason."""
    whole = method in (Method.RARE, Method.REPEAT)
    pools = tuple(pooled for one in cells if (pooled := pool(one, 10_000, 20)) is not None)
    return Check(
        id="t/check",
        event=Event.TOKEN,
        target="t",
        depth=4,
        method=method,
        cells=() if whole or reason else pools,
        counted=tuple(one.id for one in cells),
        alpha=alpha,
        reason=reason,
        required=True,
        single=cells if whole else (),
    )


def judged(method: Method, counts: list[int], shares: list[int], **more: Any) -> battery.TestResult:
    """One cell's check, judged."""
    one = cell(shares)
    return judge(check_of(method, one, **more), {one.id: counts}, 0.9)


@pytest.mark.parametrize("method", [Method.G, Method.FIT, Method.BINOMIAL])
def test_pearson_of_one_degree(method: Method) -> None:
    """Of a coin of 1/4 and 3/4 that came up 30 and 70 times: 25/25 + 25/75 = 4/3."""
    found = judged(method, [30, 70, 0], [1, 3])
    assert found.df == 1
    assert found.pearson == pytest.approx(4 / 3)
    assert found.pearson_p == pytest.approx(float(stats.chi2.sf(4 / 3, 1)))


def test_what_is_not_chi_square_has_no_pearson() -> None:
    """Outcomes one by one, repeats, and a check without a cell that can decide."""
    results = [
        judged(Method.RARE, [30, 70, 0], [1, 3]),
        judged(Method.REPEAT, [5000, 1, 0], [RARE - 1, 1]),
        judged(Method.G, [7, 0], [1], alpha=0.0, reason=CERTAIN),
        judged(Method.G, [7, 2, 0], [1, 3], alpha=0.0, reason=TOO_FEW),
    ]
    assert [(found.df, found.g, found.pearson, found.pearson_p) for found in results] == [(0, 0.0, 0.0, 1.0)] * 4


def test_only_of_outcomes_one_by_one_is_one_the_worst() -> None:
    one = cell([1, 3])
    assert judged(Method.RARE, [90, 10, 0], [1, 3]).worst == f"{one.id}: outcome 0"
    assert judged(Method.RARE, [10, 290, 0], [1, 3]).worst != ""
    for method in (Method.G, Method.FIT, Method.BINOMIAL, Method.REPEAT):
        assert judged(method, [90, 10, 0], [1, 3]).worst == "", method


@pytest.mark.parametrize(("method", "hits"), [(Method.BINOMIAL, True), (Method.G, False), (Method.FIT, False)])
@pytest.mark.parametrize("shares", [[5, 11], [11, 5]], ids=["second-likelier", "first-likelier"])
def test_a_coin_has_come_up_so_often(shares: list[int], method: Method, hits: bool) -> None:
    """Its second outcome, whichever is rarer; no other check is a coin."""
    one = cell(shares)
    assert observed(check_of(method, one), {one.id: [3, 9, 100]}) == (9 if hits else 0)


def test_repeats_are_no_coin() -> None:
    one = cell([RARE - 1, 1])
    assert observed(check_of(Method.REPEAT, one), {one.id: [5000, 3, 0]}) == 0


def test_what_a_coin_excludes_is_of_its_second_outcome() -> None:
    """30 of 100 leave at most the shift to the far end of its exact interval of 99.9 %, 1/4 being expected."""
    found = judged(Method.BINOMIAL, [70, 30, 0], [3, 1])
    interval = stats.binomtest(30, 100).proportion_ci(0.999, method="exact")
    assert found.excluded.size == pytest.approx(max(interval.high - 0.25, 0.25 - interval.low), rel=1e-6)


def test_a_reason_is_known_by_its_words() -> None:
    """As it is read from a file."""
    found = judged(Method.G, [7, 0], [1], alpha=0.0, reason=CERTAIN)
    assert replace(found, reason="".join(list(CERTAIN))).outcome == found.outcome == "certain"
    assert replace(found, reason=TOO_FEW).outcome == "unresolved"


# The customer's reading.


def named(text: str) -> str:
    """An equal name that is another object, as of a cell that was read or sent."""
    return "".join(list(text))


def first_tokens(least: int, *laws: tuple[str, list[int], list[list[int]]]) -> list[dict[str, Any]]:
    """The rows of 100 requests to targets of these first tokens, counted at one depth after another."""
    cells = [
        (cell(shares, target=named(target), depth=depth, rate=Fraction(1, 7)), counts)
        for target, shares, rows in laws
        for depth, counts in enumerate(rows, 4)
    ]
    later = cell([1, 1], target="second target", position=1, depth=4)
    length = cell([1, 1], target="second target", position=-1, depth=4, event=Event.LENGTH, pattern="none")
    counts = {one.id: row for one, row in cells} | {later.id: [0, 1000, 0], length.id: [0, 1000, 0]}
    return seed_family([*(one for one, _ in cells), later, length], counts, 100, least)


def test_first_tokens_are_read_by_pearson() -> None:
    """Both depths together, of 100 requests whatever a cell's rate; a target of one outcome has nothing to read."""
    rows = first_tokens(
        20,
        ("first target", [1], [[50, 0], [50, 0]]),
        ("second target", [1, 1, 2], [[20, 10, 15, 0], [10, 15, 30, 0]]),
        ("third target", [1, 3], [[50, 0, 0], [30, 20, 0]]),
    )
    pearson, p = stats.chisquare([30, 25, 45], [25, 25, 50])
    assert rows[0] == {
        "alpha": "2e-06",
        "below": False,
        "df": 2,
        "events": 100,
        "pearson": f"{pearson:.6g}",
        "pearsonP": f"{p:.6g}",
        "target": "second target",
    }
    assert [(row["target"], row["df"], row["below"]) for row in rows[1:]] == [("third target", 1, True)]


def test_first_tokens_are_pooled_by_the_requests() -> None:
    """A quarter of 100 is fewer than 30: two quarters stand together."""
    [row] = first_tokens(30, ("second target", [1, 1, 2], [[20, 10, 15, 0], [10, 15, 30, 0]]))
    pearson, p = stats.chisquare([55, 45], [50, 50])
    assert (row["df"], row["pearson"], row["pearsonP"]) == (1, f"{pearson:.6g}", f"{p:.6g}")
