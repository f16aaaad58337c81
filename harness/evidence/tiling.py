"""What the counts of one target and depth must add up to, whatever the sampler did: each request is counted whole."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from operator import gt

from pp3.harness.cells import Cell, Event
from pp3.harness.errors import VerificationError
from pp3.harness.neighbours import REQUESTS, pairs_in, stretches_in

Sum = tuple[str, int, int]  # what, the sum found, the sum it must be


def check_halves(counts: Mapping[str, Sequence[int]], first: Mapping[str, Sequence[int]], step: str) -> None:
    """VerificationError unless no count of the first half is larger than that of the whole."""
    for cell, found in counts.items():
        half = first[cell]
        if len(half) != len(found) or any(map(gt, half, found)):
            raise VerificationError(f"{step}: {cell}: its first half is no part of its counts")


def of(cells: Sequence[Cell], found: Mapping[str, Sequence[int]], depth: int, parts: Sequence[int]) -> list[Sum]:
    """Every sum that follows from the requests, which came in `parts`, one after the other."""
    requests = sum(parts)
    totals: dict[tuple[Event, int], int] = {}
    lengths = [0] * (depth + 1)
    outside = 0
    for cell in cells:
        counts = found[cell.id]
        totals[cell.event, cell.position] = totals.get((cell.event, cell.position), 0) + sum(counts)
        if cell.event is Event.LENGTH:
            outside += counts[-1]
            for length, count in zip(cell.atoms.tolist(), counts, strict=False):
                lengths[length] += count
    emitted = {
        j: sum(totals.get((event, j), 0) for event in (Event.TOKEN, Event.FULL_TARGET, Event.BONUS))
        for _, j in totals
        if j >= 0
    }
    drafted: dict[int, Fraction] = {}
    for cell in cells:
        if cell.event is Event.PROPOSAL:
            drafted[cell.position] = drafted.get(cell.position, Fraction(0)) + cell.rate
    sums = [(f"drafts at {j}", totals[Event.PROPOSAL, j], int(requests * rate)) for j, rate in drafted.items()]
    if (Event.LENGTH, -1) in totals:
        sums.append(("lengths", totals[Event.LENGTH, -1], requests))
    if (Event.LENGTH, -1) in totals and not outside:
        reached = [sum(lengths[j:]) for j in range(depth + 1)]
        sums += [(f"tokens at position {j}", emitted.get(j, 0), reached[j]) for j in range(depth + 1)]
        for (event, j), count in totals.items():
            if event is Event.RESIDUAL:
                stopped = lengths[j] - sum(totals.get((kind, j), 0) for kind in (Event.FULL_TARGET, Event.BONUS))
                sums.append((f"residual tokens at position {j}", count, stopped))
    return sums + _judged(totals) + _between(cells, found, parts)


def _judged(totals: Mapping[tuple[Event, int], int]) -> list[Sum]:
    """Each draft that is judged is kept or replaced; each token after another is one of its position."""
    sums = []
    for (event, j), count in totals.items():
        if event is Event.ACCEPT:
            parts = totals.get((Event.KEPT, j), 0) + totals.get((Event.RESIDUAL, j), 0)
            sums += [(f"drafts judged at position {j}", count, totals.get((Event.TOKEN, j), 0))]
            sums += [(f"drafts kept and replaced at position {j}", parts, count)]
        elif event is Event.RECOVERY:
            sums.append((f"drafts and what replaced them at {j}", count, totals.get((Event.RESIDUAL, j), 0)))
        elif event is Event.PREFIX:
            sums.append((f"equal and unequal neighbours at {j}", totals.get((Event.MATCH, j), 0), count))
    return sums


def _between(cells: Sequence[Cell], found: Mapping[str, Sequence[int]], parts: Sequence[int]) -> list[Sum]:
    """Pairs of requests and stretches, which follow from the number of requests alone."""
    by_lag: dict[tuple[Event, int], int] = {}
    sums = []
    for cell in cells:
        if cell.position >= 0:
            continue
        name = cell.pattern.partition("/")[0]
        if cell.event in (Event.MATCH, Event.PAIR, Event.LENGTH_PAIR):
            key = cell.event, int(name.removeprefix(REQUESTS))
            by_lag[key] = by_lag.get(key, 0) + sum(found[cell.id])
        elif cell.event is Event.REPEAT:
            length = int(name.removeprefix("stretches-of-"))
            wanted = sum(stretches_in(part, length) for part in parts)
            sums.append((f"{cell.event.value} {name}", sum(found[cell.id]), wanted))
    for (event, lag), count in by_lag.items():
        sums.append((f"{event.value} at a distance of {lag}", count, sum(pairs_in(part, lag) for part in parts)))
    return sums
