"""Where pairs of requests lie: how many of each class a run meets, from its numbers and windows alone.

A run is counted in parts, one after the other; each part is held in windows of WINDOW requests from its first on, and
places i and i + lag of a window are a pair where i // lag is even (harness/neighbours.py). The class of a pair is that
of its first request: its number modulo the classes, which are dealt in turn. So with an even number of classes a part
may meet some classes at some lags only.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import WINDOW

REQUESTS, CLASS = "requests-", "/class-"  # of a cell's name: its lag, its class


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Requests that follow one another and are counted by themselves."""

    first: int | None  # number of the first one; None where that depends on the size of a launch
    requests: int


def halves(first: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Request numbers [first, end) in two parts, of which the first chooses what the second measures."""
    middle = first + (end - first) // 2
    return (first, middle), (middle, end)


def pairs_by_class(part: Part, lag: int, classes: int) -> list[Fraction]:
    """Pairs of this lag in a part, by class [classes]: exact numbers, or their mean over where the part may begin."""
    whole, rest = divmod(part.requests, WINDOW)
    period = classes // math.gcd(classes, WINDOW)  # windows after which the classes come again
    windows = [(WINDOW, number, (whole - number + period - 1) // period) for number in range(min(whole, period))]
    found = [0] * classes
    for size, number, alike in [*windows, (rest, whole, 1)]:
        for k, pairs in enumerate(_in_window(size, lag, classes)):
            found[(k + number * WINDOW) % classes] += alike * pairs
    if part.first is None:
        return [Fraction(sum(found), classes)] * classes
    return [Fraction(found[(k - part.first) % classes]) for k in range(classes)]


@lru_cache(maxsize=1024)
def _in_window(size: int, lag: int, classes: int) -> list[int]:
    """Pairs of one window whose first request is of class 0, by class [classes]."""
    place = np.arange(max(0, size - lag))
    found: list[int] = np.bincount(place[place // lag % 2 == 0] % classes, minlength=classes).tolist()
    return found


def first_part(cells: Sequence[Cell], first: Mapping[str, Sequence[int]]) -> int:
    """Requests of the first half: each has a first token, a first draft, a length or a whole round, if it counts."""
    kinds = ((Event.TOKEN, Event.FULL_TARGET, Event.BONUS), (Event.PROPOSAL,), (Event.LENGTH,), (Event.JOINT,))
    return max(sum(sum(first[c.id]) for c in cells if c.event in events and c.position <= 0) for events in kinds)


def placed(cells: Sequence[Cell], parts: Sequence[Part]) -> list[Cell]:
    """Cells whose rates are of the pairs that they meet in these parts; 0 of those that meet none."""
    requests = sum(part.requests for part in parts)
    classes = Counter(_between(cell) for cell in cells)
    met = {
        (lag, of): _of_all([pairs_by_class(part, lag, of) for part in parts], of)
        for lag, of in {(between[1], of) for between, of in classes.items() if between}
    }
    found = []
    for cell in cells:
        if between := _between(cell):
            pairs = met[between[1], classes[between]][int(cell.pattern.partition(CLASS)[2])]
            cell = replace(cell, rate=pairs / max(1, requests))
        found.append(cell)
    return found


def _of_all(parts: list[list[Fraction]], classes: int) -> list[Fraction]:
    """Pairs of all parts, by class."""
    return [sum((pairs[k] for pairs in parts), Fraction(0)) for k in range(classes)]


def _between(cell: Cell) -> tuple[Event, int] | None:
    """The check and the lag of a cell of pairs of requests; None of any other."""
    name, _, _ = cell.pattern.partition(CLASS)
    if cell.event not in (Event.MATCH, Event.PAIR, Event.LENGTH_PAIR) or not name.startswith(REQUESTS):
        return None
    return cell.event, int(name.removeprefix(REQUESTS))
