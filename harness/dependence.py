"""Cells of what may not depend on each other: tokens of a round, of neighbouring requests, and of one slot's rounds.

    prefix       a token, given the one before it in the round (the chain rule, summed over contexts)
    recovery     the token that replaces a draft, given the draft
    match        whether the first tokens of two requests are equal, or two neighbouring tokens of a round
    round-match  the same of one row or slot in two launches, also of its second token and its next first one, and of
                 neighbouring identities
    pair         the first tokens of two neighbouring requests, given the one
    length-pair  the numbers of drafts kept of two neighbouring requests, given the one
    repeat       whether a stretch of first tokens occurs twice within a window

A request is in one pair of a check, so that pairs are independent: overlapping ones are not chi-square distributed.
Tokens are put into at most BUCKETS ranges of ids of about equal mass, by the null alone. Requests of several patterns
or starts are dealt in turn: class k is followed by class k + lag.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pp3.harness.cells import Cell, Event
from pp3.harness.oracle import Law
from pp3.targets import drafts_of, invalidated

Weights = npt.NDArray[np.int64]
BUCKETS = 8
LAGS = (1, 2, 3, 4, 8, 16, 32, 64, 128)  # 3 is a batch size of the default campaign
WINDOW = 1 << 16  # requests within which pairs are made and stretches looked for
RARE = 1 << 60  # a stretch is so long that the chance that it occurs twice in a window is below one in RARE
LONGEST = 512  # tokens of a stretch
CARRIED = "carried"  # a slot's second token, and its first one of the next launch
ROUNDS = ("rows", "slots", "identities", CARRIED)
FINE = 1 << 40  # to which masses are rounded where ranges of ids are chosen


def dependence_cells(law: Law, depth: int, events: Collection[Event], lags: Sequence[int] = LAGS) -> list[Cell]:
    """Every cell of one target and depth, of the wanted events, in a fixed order; pairs of requests at these lags."""
    drafts_only = Event.TOKEN not in events and Event.PROPOSAL in events
    found: list[Cell] = []
    if Event.PREFIX in events:
        found += _prefixes(law, depth, drafts_only)
    if Event.RECOVERY in events:
        found += _recoveries(law, depth)
    first = [_first(law, depth, k, drafts_only) for k in range(classes(law))]
    for lag in lags:
        found += [_match(law, depth, f"requests-{lag}", k, first, lag) for k in range(len(first))]
    found += [_pair(law, depth, k, first) for k in range(len(first))]
    if len(first) == 1:
        second = _second(law, depth, drafts_only) if depth and not law.target.block else None
        for name in ROUNDS:
            one = second if name == CARRIED else first[0]
            if one is not None:
                found.append(_match(law, depth, name, 0, [one, first[0]], 1))
        found += _repeat(law, depth, first[0])
    if law.target.starts == 1 and depth:
        found += [_lengths(law, depth, k) for k in range(len(first))]
    return [cell for cell in found if cell.event in events]


def classes(law: Law) -> int:
    """How many kinds of requests are dealt in turn."""
    return len(law.target.patterns) * law.target.starts


def buckets(weights: Weights) -> Weights:
    """Ranges of ids of about equal mass: the bucket of each token [vocab], ascending, by the middle of its mass."""
    total = int(weights.sum())
    below = np.cumsum(weights) - weights
    found: Weights = np.minimum((2 * below + weights) * BUCKETS // (2 * total), BUCKETS - 1)
    return found


def stretch(shares: npt.NDArray[np.int64]) -> int:
    """Tokens of a stretch that a window repeats with a chance below 1 / RARE; 0 if there is none of LONGEST tokens.

    Each token of a repeat, given those before it, equals its like with at most the largest probability, overlapping
    or not; a window has at most WINDOW places for it.
    """
    largest = int(shares.max()) / int(shares.sum())
    if largest >= 1:
        return 0
    length = math.ceil((math.log2(RARE) + math.log2(WINDOW)) / -math.log2(largest))
    return length if length <= LONGEST else 0


def _cell(
    law: Law, event: Event, depth: int, pattern: str, table: dict[int, int], rate: Fraction, **more: object
) -> Cell:
    """A cell from the share of each code."""
    codes = [code for code, share in sorted(table.items()) if share]
    scale = math.gcd(*(table[code] for code in codes))
    fields = {"position": -1, "context": -1, "maps": (), "strata": None} | more
    return Cell(
        event=event,
        target=law.target.name,
        depth=depth,
        pattern=pattern,
        atoms=np.array(codes, np.int64),
        shares=tuple(table[code] // scale for code in codes),
        rate=rate,
        **fields,  # type: ignore[arg-type]  # names and types are Cell's own
    )


def _table(
    law: Law, event: Event, depth: int, pattern: str, one: Weights, other: Weights, rate: Fraction, **more: object
) -> Cell:
    """A cell of two tokens of which neither depends on the other: its law is given the bucket of the first."""
    maps = (buckets(_fine(one)), buckets(_fine(other)))
    first, second = _masses(maps[0], one), _masses(maps[1], other)
    table = {b * BUCKETS + c: first[b] * second[c] for b in first for c in second}
    return _strata(_cell(law, event, depth, pattern, table, rate, maps=maps, **more))


def _strata(cell: Cell, divisor: int = BUCKETS) -> Cell:
    """The cell as a law given the first part of its code."""
    return replace(cell, strata=cell.atoms // divisor)


def _masses(bucket: Weights, weights: Weights) -> dict[int, int]:
    """Exact mass of each bucket that has any."""
    found: dict[int, int] = {}
    tokens = np.flatnonzero(weights)
    for part, weight in zip(bucket[tokens].tolist(), weights[tokens].tolist(), strict=True):
        found[part] = found.get(part, 0) + weight
    return found


def _fine(weights: npt.NDArray[np.generic]) -> Weights:
    """Masses of any size over FINE, for the choice of ranges alone."""
    wide = weights.astype(np.float64)
    fine: Weights = np.rint(wide / wide.sum() * FINE).astype(np.int64)
    return fine


def _prefixes(law: Law, depth: int, drafts_only: bool) -> list[Cell]:
    """A token after a kept one, or a draft after a draft: as a table by buckets, and whether the two are equal."""
    target = law.target
    flow, emitted = (law.tickets, law.tickets) if drafts_only else (law.kept, target.weights)
    arriving: dict[tuple[int, int], dict[int, int]] = {}  # numerators over `whole`
    reached = {
        pattern: law.drafted(depth) if drafts_only else law.reached(depth, pattern) for pattern in target.patterns
    }
    whole = math.lcm(*(reach.denominator for part in reached.values() for reach in part.values()))
    for pattern in target.patterns:
        void = (*invalidated(pattern, depth), False)
        for (j, context), reach in reached[pattern].items():
            if void[j] and not drafts_only:
                continue
            row, share = flow[law.row(j, context)], reach.numerator * (whole // reach.denominator)
            tokens = np.flatnonzero(row)
            columns = (tokens, row[tokens], target.context_of[tokens])
            for token, weight, after in zip(*(column.tolist() for column in columns), strict=True):
                if (j + 1, after) in reached[pattern] and not void[j + 1]:
                    mass = arriving.setdefault((j + 1, after), {})
                    mass[token] = mass.get(token, 0) + share * weight
    found = []
    for (j, context), mass in sorted(arriving.items()):
        scale = math.lcm(*(whole // math.gcd(part, whole) for part in mass.values()))
        before = np.zeros(len(target.context_of), object)
        for token, part in mass.items():
            before[token] = part * scale // whole
        total = sum(before[token] for token in mass)
        rate = Fraction(total, scale * target.total * len(target.patterns))
        now = emitted[law.row(j, context)]
        where = f"position-{j}/context-{context}"
        at = {"position": j, "context": context}
        found.append(_table(law, Event.PREFIX, depth, where, before, now, rate, **at))
        equal = sum(before[token] * int(now[token]) for token in mass)
        table = {1: equal, 0: total * int(now.sum()) - equal}
        found.append(_cell(law, Event.MATCH, depth, f"positions/{where}", table, rate, **at))
    return found


def _recoveries(law: Law, depth: int) -> list[Cell]:
    """The draft that is replaced, and the token that replaces it."""
    target, found = law.target, []
    live: dict[tuple[int, int], Fraction] = {}
    for pattern in target.patterns:
        void, last = invalidated(pattern, depth), drafts_of(pattern, depth)
        for (j, context), rate in law.reached(depth, pattern).items():
            if j < last and not void[j]:
                live[j, context] = live.get((j, context), Fraction(0)) + rate / len(target.patterns)
    for (j, context), rate in sorted(live.items()):
        row, where = law.row(j, context), f"position-{j}/context-{context}"
        if not (chance := law.rejected(j, context)):
            continue
        rejected, at = law.tickets[row] - law.kept[row], {"position": j, "context": context}
        if not target.compares:
            residual = law.residual[row]
            found.append(_table(law, Event.RECOVERY, depth, where, rejected, residual, rate * chance, **at))
            continue
        maps, table = (buckets(rejected), buckets(law.residual[row])), dict[int, int]()
        for draft in np.flatnonzero(law.tickets[row]).tolist():
            for token in np.flatnonzero(target.weights[row]).tolist():
                if token != draft:
                    code = int(maps[0][draft]) * BUCKETS + int(maps[1][token])
                    table[code] = table.get(code, 0) + int(law.tickets[row][draft]) * int(target.weights[row][token])
        cell = _cell(law, Event.RECOVERY, depth, where, table, rate * chance, maps=maps, **at)
        found.append(_strata(cell))
    return found


def _first(law: Law, depth: int, k: int, drafts_only: bool) -> Weights:
    """Law of the first token, or draft, of requests of class k, [vocab]."""
    target = law.target
    pattern, start = target.patterns[k % len(target.patterns)], k // len(target.patterns)
    row = law.row(0, start)
    if drafts_only:
        drafted: Weights = law.tickets[row]
        return drafted
    void = depth > 0 and invalidated(pattern, depth)[0]
    found: Weights = (target.void_weights() if void else target.weights)[row]
    return found


def _second(law: Law, depth: int, drafts_only: bool) -> Weights | None:
    """Law of the second token, or draft, where there is one, [vocab] in proportion; None if there is none."""
    reached = law.drafted(depth) if drafts_only else law.reached(depth, law.target.patterns[0])
    at = {context: rate for (j, context), rate in reached.items() if j == 1}
    if not at:
        return None
    scale = math.lcm(*(rate.denominator for rate in at.values()))
    rows = (law.tickets if drafts_only else law.target.weights).astype(object)
    found: Weights = sum(rows[law.row(1, context)] * int(rate * scale) for context, rate in at.items())
    return found


def _match(law: Law, depth: int, name: str, k: int, first: list[Weights], lag: int) -> Cell:
    one, other = first[k], first[(k + lag) % len(first)]
    equal = sum(int(one[token]) * int(other[token]) for token in np.flatnonzero(one).tolist())
    table = {1: equal, 0: int(one.sum()) * int(other.sum()) - equal}
    where = f"{name}/class-{k}"
    if name in ROUNDS:
        return _cell(law, Event.ROUND, depth, where, table, Fraction(1, 2))
    return _cell(law, Event.MATCH, depth, where, table, Fraction(1, 2 * len(first)))


def _pair(law: Law, depth: int, k: int, first: list[Weights]) -> Cell:
    one, other = first[k], first[(k + 1) % len(first)]
    return _table(law, Event.PAIR, depth, f"requests-1/class-{k}", one, other, Fraction(1, 2 * len(first)))


def _lengths(law: Law, depth: int, k: int) -> Cell:
    patterns = law.target.patterns
    one, other = (law.lengths(depth, patterns[n % len(patterns)]) for n in (k, k + 1))
    scale = math.lcm(*(p.denominator for p in (*one, *other)))
    table = {
        i * (depth + 1) + j: int(p * scale) * int(q * scale) for i, p in enumerate(one) for j, q in enumerate(other)
    }
    cell = _cell(law, Event.LENGTH_PAIR, depth, f"requests-1/class-{k}", table, Fraction(1, 2 * len(patterns)))
    return _strata(cell, depth + 1)


def _repeat(law: Law, depth: int, first: Weights) -> list[Cell]:
    length = stretch(first)
    if not length:
        return []
    table = {0: RARE - 1, 1: 1}
    return [_cell(law, Event.REPEAT, depth, f"stretches-of-{length}", table, Fraction(1, length))]
