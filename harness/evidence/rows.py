"""Rows of statistics as a receipt stores them, against the same recomputed; and the error budget they share.

A double is stored to six digits and compared at a relative 1e-5, which is more than those digits can lose and less than
the margin within which a p-value decides nothing (`verdict.MARGIN`), so that another scipy cannot turn a verdict.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pp3.harness.battery import number
from pp3.harness.errors import VerificationError
from pp3.harness.weights import ROUNDING

STATISTICS = "recompute statistics"
BUDGET = "error budget"
TOLERANCE = 1e-5  # of numbers stored to six digits
TEST = "test"
LEVEL = "alpha"  # of a test, held by the step of the error budget


def compare(what: str, mine: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    """VerificationError unless these are the same rows with the same fields and equal values; levels of tests apart."""
    if len(mine) != len(said):
        raise VerificationError(f"{STATISTICS}: {len(said)} {what} rows, the plan has {len(mine)}")
    for one, other in zip(mine, said, strict=True):
        name = one.get("id", one.get("target", what))
        for field in sorted(one.keys() | other.keys()):
            if what == TEST and field == LEVEL and field in other:
                continue
            if field not in one or not equal(one[field], other.get(field)):
                recomputed, claimed = one.get(field, "nothing"), other.get(field, "nothing")
                raise VerificationError(
                    f"{STATISTICS}: {name}: {field} comes to {recomputed}, the receipt says {claimed}"
                )


def compare_maps(what: str, mine: dict[str, dict[str, Any]], said: dict[str, Any]) -> None:
    """The same of rows under names."""
    if mine.keys() != said.keys():
        raise VerificationError(f"{STATISTICS}: {what}s of {len(said)} checks, the plan has {len(mine)}")
    compare(what, [mine[key] for key in sorted(mine)], [said[key] for key in sorted(mine)])


def equal(mine: Any, said: Any) -> bool:
    """Equal, or two numbers as a receipt spells them that are equal within their last digit."""
    if mine == said:
        return type(mine) is type(said)
    if not isinstance(mine, str) or not isinstance(said, str):
        return False
    try:
        one, other = float(mine), float(said)
    except ValueError:
        return False
    return number(other) == said and abs(one - other) <= TOLERANCE * abs(one)


def budget(alpha: float, weights: Mapping[str, float], mine: Iterable[Any], said: list[dict[str, Any]]) -> str:
    """What is said of a family alpha: shares that sum to 1, the plan's level of each test, no more in all."""
    total = math.fsum(weights.values())
    if abs(total - 1) > ROUNDING:
        raise VerificationError(f"{BUDGET}: the weights sum to {total:g}, must be 1")
    for test, row in zip(mine, said, strict=True):
        if not equal(number(test.alpha), row[LEVEL]):
            raise VerificationError(
                f"{BUDGET}: {test.id} has the level {row[LEVEL]}, the plan gives it {number(test.alpha)}"
            )
    levels = [float(row[LEVEL]) for row in said]
    spent = math.fsum(levels)
    if not 0 <= spent <= alpha * (1 + TOLERANCE):
        raise VerificationError(f"{BUDGET}: the levels add up to {spent:g}, the family alpha is {alpha:g}")
    return f"levels of {sum(level > 0 for level in levels)} checks add up to {spent:g} of {alpha:g}; weights sum to 1"
