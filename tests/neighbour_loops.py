"""What requests have in common, counted by plain loops."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import BUCKETS, LAGS, ROUNDS, WINDOW
from pp3.harness.neighbours import NONE, Neighbours

VOCAB, DEPTH, LENGTH = 40, 4, 7
Array = npt.NDArray[np.int64]
Counts = dict[tuple[str, int], int]  # by cell and code
MAPS = (np.arange(VOCAB) * BUCKETS // VOCAB, np.arange(VOCAB)[::-1] * BUCKETS // VOCAB)


def cell(event: Event, pattern: str, **more: Any) -> Cell:
    """A cell whose law is of no matter here."""
    return Cell(
        event=event,
        target="t",
        depth=DEPTH,
        position=-1,
        context=-1,
        pattern=pattern,
        atoms=np.arange(2),
        shares=(1, 1),
        rate=Fraction(1),
        **more,
    )


def cells_of(classes: int) -> list[Cell]:
    """One of everything, in an order that nothing may rely on."""
    found = [cell(Event.MATCH, f"requests-{lag}/class-{k}") for lag in LAGS for k in range(classes)]
    for k in range(classes):
        maps = MAPS if k % 2 == 0 else MAPS[::-1]
        found.append(cell(Event.PAIR, f"requests-1/class-{k}", maps=maps))
        found.append(cell(Event.LENGTH_PAIR, f"requests-1/class-{k}"))
    if classes == 1:
        found += [cell(Event.ROUND, f"{name}/class-0") for name in ROUNDS]
        found.append(cell(Event.REPEAT, f"stretches-of-{LENGTH}"))
    return found[::-1]


def counted(cells: list[Cell], parts: Sequence[tuple[Any, Any, Any]]) -> Counts:
    """Counts of (mask, cell, code), NumPy or torch."""
    found: Counts = defaultdict(int)
    for mask, number, code in parts:
        chosen = np.asarray(mask)
        for n, c in zip(np.asarray(number)[chosen].tolist(), np.asarray(code)[chosen].tolist(), strict=True):
            found[cells[n].id, c] += 1
    return found


def added(tokens: Array, kept: Array, classes: int, first: int, edges: Sequence[int], as_torch: bool) -> Counts:
    """Counts of requests from `first` on, handed over in the launches between edges."""
    cells, xp = cells_of(classes), torch if as_torch else np
    taker = Neighbours(cells, classes, DEPTH)
    parts = []
    for low, high in itertools.pairwise(edges):
        one, other = tokens[low:high], kept[low:high]
        given = (torch.tensor(one), torch.tensor(other)) if as_torch else (one, other)
        parts += taker.add(xp, first + low, *given)
    return counted(cells, parts + taker.rest(xp))


def one_by_one(tokens: Array, kept: Array, classes: int, first: int, window: int) -> Counts:
    """The same by plain loops, window by window."""
    found: Counts = defaultdict(int)
    name = {(c.event, c.pattern): c.id for c in cells_of(classes)}
    for start in range(0, len(tokens), window):
        mine, lengths = tokens[start : start + window].tolist(), kept[start : start + window].tolist()
        for i in range(len(mine)):
            k = (first + start + i) % classes
            maps = MAPS if k % 2 == 0 else MAPS[::-1]
            for lag in LAGS:
                if i // lag % 2 or i + lag >= len(mine):
                    continue
                one, other, where = mine[i], mine[i + lag], f"requests-{lag}/class-{k}"
                if NONE not in (one, other):
                    found[name[Event.MATCH, where], int(one == other)] += 1
                    if lag == 1:
                        found[name[Event.PAIR, where], int(maps[0][one]) * BUCKETS + int(maps[1][other])] += 1
                if lag == 1 and NONE not in (lengths[i], lengths[i + 1]):
                    code = lengths[i] * (DEPTH + 1) + lengths[i + 1]
                    found[name[Event.LENGTH_PAIR, where], code] += 1
        if classes == 1:
            stretches = [tuple(mine[i : i + LENGTH]) for i in range(len(mine) - LENGTH + 1)]
            times = {one: stretches.count(one) for one in stretches[::LENGTH]}
            for one in stretches[::LENGTH]:
                found[name[Event.REPEAT, f"stretches-of-{LENGTH}"], int(times[one] > 1)] += 1
    return found


def one_by_one_repeats(tokens: Array) -> int:
    """Repeats by a set of tuples."""
    found = 0
    for start in range(0, len(tokens), WINDOW):
        mine = tokens[start : start + WINDOW].tolist()
        times: dict[tuple[int, ...], int] = defaultdict(int)
        for i in range(len(mine) - LENGTH + 1):
            times[tuple(mine[i : i + LENGTH])] += 1
        found += sum(times[tuple(mine[i : i + LENGTH])] > 1 for i in range(0, len(mine) - LENGTH + 1, LENGTH))
    return found
