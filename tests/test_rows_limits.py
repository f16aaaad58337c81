"""Rows of statistics and the error budget, at each limit and one past it."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from pp3.harness.errors import VerificationError
from pp3.harness.evidence import rows

SHARES = {"law": 0.6, "rare": 0.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """As much of a check as the budget looks at."""

    id: str
    alpha: float


def spent(alpha: float, levels: list[float], shares: dict[str, float] | None = None) -> str:
    """What is said of checks of these levels, spelled as a receipt does."""
    mine = [Level(id=f"check-{n}", alpha=level) for n, level in enumerate(levels)]
    return rows.budget(alpha, shares or SHARES, mine, [{"alpha": f"{level:.6g}"} for level in levels])


HELD: dict[str, tuple[float, list[float], str]] = {
    "six equal shares, whose six digits add up to more": (0.1, [0.1 / 6] * 6, "6 checks add up to 0.1 of 0.1"),
    "checks that can decide nothing": (0.01, [0.0, 0.0], "0 checks add up to 0 of 0.01"),
    "some that can": (0.01, [0.0, 0.01], "1 checks add up to 0.01 of 0.01"),
    "the last digit beyond": (1.0, [1.00001], "1 checks add up to 1.00001 of 1"),
}


@pytest.mark.parametrize(("alpha", "levels", "said"), HELD.values(), ids=HELD)
def test_levels_within_alpha(alpha: float, levels: list[float], said: str) -> None:
    """To the digits that are stored: each may be rounded up."""
    assert spent(alpha, levels) == f"levels of {said}; weights sum to 1"


@pytest.mark.parametrize(("alpha", "levels"), [(1.0, [1.00002]), (0.1, [0.1 / 6] * 7), (0.01, [-0.001, -0.001])])
def test_levels_that_are_none_of_alpha(alpha: float, levels: list[float]) -> None:
    """More than it, or below none of it."""
    with pytest.raises(VerificationError, match=r"^error budget: the levels add up to "):
        spent(alpha, levels)


@pytest.mark.parametrize("shares", [{"law": 1.2, "rare": 0.8}, {"law": 2.0, "rare": 1.0}, {"law": 0.0}])
def test_shares_are_of_one_alpha(shares: dict[str, float]) -> None:
    """Two of it are no share either, and neither is none."""
    total = sum(shares.values())
    with pytest.raises(VerificationError, match=rf"^error budget: the weights sum to {total:g}, must be 1$"):
        spent(0.01, [0.01], shares)


@pytest.mark.parametrize(
    ("mine", "said", "same"),
    [("100000", "100001", True), ("100000", "100002", False), ("100000", "99999", True), ("100000", "99998", False)],
)
def test_a_number_is_held_to_a_hundred_thousandth_of_itself(mine: str, said: str, same: bool) -> None:
    """That much is one unit of its sixth digit here, on either side; twice as much is another number."""
    assert rows.equal(mine, said) is same


def many(**last: Any) -> list[dict[str, Any]]:
    """Rows of 300 checks; something else of the last."""
    return [{"alpha": "0.1", "id": f"check-{n}"} for n in range(299)] + [{"alpha": "0.1", "id": "check-299"} | last]


def test_rows_are_as_many_as_planned() -> None:
    """Three hundred are three hundred, as two lists have them, and the last of them is looked at."""
    rows.compare(rows.TEST, many(), many())
    with pytest.raises(VerificationError, match=r"^recompute statistics: 299 test rows, the plan has 300$"):
        rows.compare(rows.TEST, many(), many()[:-1])
    with pytest.raises(VerificationError, match=r"^recompute statistics: check-299: g comes to nothing, "):
        rows.compare(rows.TEST, many(), many(g="1"))


@pytest.mark.parametrize("field", ["able", "alphas", "zeal"])
def test_no_field_of_a_test_but_its_level_is_left_to_the_budget(field: str) -> None:
    """Also where its name sorts before that one."""
    rows.compare(rows.TEST, many(), many(alpha="0.2"))
    reason = f"recompute statistics: check-299: {field} comes to nothing, the receipt says 0.2"
    with pytest.raises(VerificationError, match=rf"^{re.escape(reason)}$"):
        rows.compare(rows.TEST, many(), many(**{field: "0.2"}))


@pytest.mark.parametrize("what", ["deviation", "rates", "tests", "wish"])
def test_a_level_of_anything_but_a_test_is_compared(what: str) -> None:
    """No budget holds it."""
    with pytest.raises(VerificationError, match=r": alpha comes to 0\.1, the receipt says 0\.2$"):
        rows.compare(what, many(), many(alpha="0.2"))
