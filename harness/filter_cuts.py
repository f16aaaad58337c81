"""The prefixes of a sorted row: what a filter's border leaves of one, with ties, and where FP32 may put that border."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pp3.harness.filter_rules import Hit, Ties

MOST = 64  # outcomes of a row, and sums within the margin of one threshold


class Prefix(NamedTuple):
    """What is kept of a sorted row."""

    size: int
    cell: tuple[int, int] | None = None  # places [first, end) of a cut tie, of which any may be the kept ones


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """The tokens of a row that are not masked, by falling probability, equal ones by id, at one temperature."""

    ids: Sequence[int]
    values: Sequence[Any]  # equal for tied tokens
    masses: Sequence[int]  # in proportion to the probabilities
    error: Fraction  # relative, of a probability in FP32; 0: it and every sum of some are FP32 numbers

    @cached_property
    def sums(self) -> list[int]:
        """Mass of the first n places, n from 0."""
        return [0, *itertools.accumulate(self.masses)]

    def tie(self, place: int) -> tuple[int, int]:
        """Places [first, end) whose tokens are tied with that of a place."""
        return self._around(place, lambda i: bool(self.values[i] == self.values[i + 1]))

    def near(self, place: int) -> tuple[int, int]:
        """Places [first, end) around one whose neighbours may be tied once rounded."""
        return self._around(place, lambda i: self.masses[i] - self.masses[i + 1] <= 2 * self.error * self.masses[i])

    def _around(self, place: int, joined: Callable[[int], bool]) -> tuple[int, int]:
        first, last = place, place
        while first > 0 and joined(first - 1):
            first -= 1
        while last + 1 < len(self.ids) and joined(last):
            last += 1
        return first, last + 1


def crossings(rising: Sequence[int], limit: Fraction, margin: Fraction, exact: bool, hit: Hit) -> list[int]:
    """Places of the first value that reaches the limit (GOES_ON: exceeds it): the true one, then where FP32 may see it.

    An exact value that equals the limit is seen as such, since the limit is then an FP32 number as well.
    """
    found = (bisect_left if hit is Hit.STOPS else bisect_right)(rising, limit)
    low, high = bisect_left(rising, limit - margin), bisect_right(rising, limit + margin)
    if exact:
        if bisect_left(rising, limit) < bisect_right(rising, limit):
            return [found]
        low, high = bisect_right(rising, limit - margin), bisect_left(rising, limit + margin)
    if high - low > MOST:
        raise ValueError(f"{high - low} sums lie within the FP32 error of a threshold; move it, or take a shorter row")
    return [found, *(place for place in range(low, high + 1) if place != found)]


def cut(row: Sorted, prefix: Prefix, size: int, ties: Ties) -> Iterator[Prefix]:
    """What a border after `size` places leaves of a prefix; then what it leaves if rounding ties more tokens there."""
    if size >= prefix.size:
        yield prefix
        return
    if ties is Ties.ALL_KEPT:
        size = row.tie(size - 1)[1]
        yield _shorter(prefix, size, None)
        while size < row.near(size - 1)[1]:
            size = row.tie(size)[1]
            yield _shorter(prefix, size, None)
        return
    tie, near = row.tie(size - 1), row.near(size - 1)
    yield _shorter(prefix, size, tie if ties is Ties.VALUE_ONLY else None)
    if near != tie:
        yield _shorter(prefix, size, near)


def _shorter(prefix: Prefix, size: int, cell: tuple[int, int] | None) -> Prefix:
    """At most `size` places of a prefix; if the last lie in `cell`, any of its places that are left."""
    if size >= prefix.size:
        return prefix
    open_places = [(cell[0], min(cell[1], prefix.size))] if cell else []
    open_places += [prefix.cell] if prefix.cell else []
    parted = [(first, end) for first, end in open_places if first < size < end]
    return Prefix(size, (min(first for first, _ in parted), max(end for _, end in parted)) if parted else None)


def states_of(prefix: Prefix, places: int) -> npt.NDArray[np.int8]:
    """[places] 0 filtered, 1 kept, 2 in a cut tie."""
    states = (np.arange(places) < prefix.size).astype(np.int8)
    if prefix.cell:
        states[slice(*prefix.cell)] = 2
    return states
