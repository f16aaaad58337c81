"""The company a row keeps in a launch: alone, in any slot, among copies, beside rows that fail or hold other keys.

A case numbers its rows: first those that are compared, then some that fail, then the first ones again under other keys.
A way is met by one or more launches, each a choice of row numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import Seed, integers

SHARED = Seed(b"pp3 enumeration of invariance")
TIMES = {"among-copies": 5, "among-many": 1025}  # from 4,096 rows on the proposal takes eight a program
COMPANIES = ("alone", "reversed", "among-copies", "beside-failed", "beside-other-keys")
Array = npt.NDArray[Any]
Outputs = tuple[Array, ...]  # each [rows of a launch, ...]
Run = Callable[[Array, str], Outputs]  # row numbers and a way


class Met(NamedTuple):
    """What a case came to."""

    want: Outputs  # of the compared rows in order
    differing: dict[str, int]  # for each way, rows with other outputs
    compared: int  # rows of all ways


def launches(way: str, compared: int, failing: int) -> list[Array]:
    """Row numbers of every launch of a way; one launch in order for a way that is no matter of company."""
    own = np.arange(compared)
    if way == "alone":
        return [own[row : row + 1] for row in own]
    if way == "reversed":
        return [own[::-1]]
    if way in TIMES:  # every other copy in reverse order
        return [np.concatenate([own, own[::-1]] * (TIMES[way] // 2) + [own])]
    if way == "beside-failed":
        return [_between(compared + np.arange(failing), own)]
    if way == "beside-other-keys":
        return [_between(compared + failing + own[::-1], own)]
    return [own]


def met(run: Run, ways: Sequence[str], compared: int, failing: int) -> Met:
    """Run a case in order, then in every way."""
    want = run(np.arange(compared), "plain")
    found, total = dict.fromkeys(ways, 0), 0
    for way in ways:
        for which in launches(way, compared, failing):
            found[way] += differing(run(which, way), which, want)
            total += int((which < compared).sum())
    return Met(want, found, total)


def count(ways: Sequence[str], compared: int) -> int:
    """Rows that `met` compares: all of them in every way, copies each."""
    return compared * sum(TIMES.get(way, 1) for way in ways)


def differing(got: Outputs, which: Array, want: Outputs) -> int:
    """Rows of a launch, of those in `want`, that differ in any output."""
    compared = which < len(want[0])
    wrong = np.zeros(int(compared.sum()), np.bool_)
    for one, other in zip(got, want, strict=True):
        wrong |= (one[compared] != other[which[compared]]).reshape(len(wrong), -1).any(axis=1)
    return int(wrong.sum())


def addresses(rows: int) -> tuple[Array, Array, Array]:
    """Keys, rounds and positions [rows] u64, no key twice; positions cross 2^32."""
    row = np.arange(rows, dtype=np.uint64)
    return integers(SHARED, "keys", rows), row, row + np.uint64(2**32 - 2)


def _between(company: Array, own: Array) -> Array:
    """Own rows, each after one of the company."""
    return np.stack([np.resize(company, len(own)), own], axis=1).reshape(-1)
