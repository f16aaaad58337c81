"""Rounds for the verifier, with the carrier and by point masses, around the borders of its tiles and of real models.

The rows of a round are chosen from a table: mass everywhere, at tile borders, at one token, or half and half, so that
rounds stop at every kind of place and emit from the first and the last tile.
"""

from typing import Any

import numpy as np

from pp3.harness.exact.company import COMPANIES, SHARED, Array, Met, Run, addresses, count, met
from pp3.harness.exact.invariance_proposal import MODELS
from pp3.harness.seeds import integers
from pp3.kernels.reference import ONE, SUPPORT

SMALL = (32, 33, 1023, 1024, 1025, 2047, 2048, 2049, 4099)
WIDE = (16_384, 16_400, *MODELS)  # 16 tiles, the most of one compiled kernel, and one more
MOST_APART = 16_384
DEPTHS = (4, 5)
PATHS = ("carrier", "point-mass")
TILE = 1024
LAYOUTS = ("padded", "by-position", "fresh")
WAYS = (*COMPANIES, *LAYOUTS, "replayed", "strided", "offset")
COMPARED, FAILING = 8, 3
GREEDY, VOID, OUT_OF_RANGE = 6, 4, 7  # requests
POSITIONS = max(DEPTHS)
SPREAD, BORDERS, TIED, NAN, HEAVY, SURE = range(6)  # rows of the table: SURE is the first of POSITIONS
HALF, NEAR = SURE + POSITIONS, SURE + 2 * POSITIONS  # and so are these


def vocabularies(gpu: bool) -> tuple[int, ...]:
    """Sizes met on a device: the CPU leaves the wide ones to a GPU."""
    return SMALL + WIDE if gpu else SMALL


def ways(gpu: bool, vocab: int) -> tuple[str, ...]:
    """Company on any device; on a GPU the layouts, graph replay and, up to 16 tiles, columns apart and no alignment."""
    if not gpu:
        return COMPANIES
    return WAYS if vocab <= MOST_APART else WAYS[:-2]


def meet(run: Run, gpu: bool, vocab: int) -> Met:
    """The rounds of a vocabulary in every way of a device."""
    return met(run, ways(gpu, vocab), COMPARED, FAILING)


def size(gpu: bool) -> int:
    """Rounds compared for all vocabularies, depths and paths."""
    return len(DEPTHS) * len(PATHS) * sum(count(ways(gpu, vocab), COMPARED) for vocab in vocabularies(gpu))


class Table:
    """Target rows and proposals of one vocabulary, for both depths and paths."""

    def __init__(self, vocab: int) -> None:
        step = vocab // SUPPORT
        start = integers(SHARED, f"ids-{vocab}", POSITIONS).astype(np.int64)[:, None] % step
        self.ids = (start + step * np.arange(SUPPORT)).astype(np.int32)  # [POSITIONS, 32]
        shares = 1 + integers(SHARED, f"tickets-{vocab}", POSITIONS * SUPPORT).astype(np.int64) % 1000
        shares = shares.reshape(POSITIONS, SUPPORT)
        shares[:, 5] = 0
        self.tickets = (shares * ONE // shares.sum(axis=1, keepdims=True)).astype(np.int32)
        self.tickets[:, 0] += ONE - self.tickets.sum(axis=1, dtype=np.int32)
        lane = (7 * np.arange(POSITIONS) + 3) % SUPPORT
        self.drafts = self.ids[np.arange(POSITIONS), lane]
        self.vocab = vocab
        self.probs = self._probs()  # [rows, vocab]

    def _probs(self) -> Array:
        vocab = self.vocab
        weights = 1 + (integers(SHARED, f"weights-{vocab}", -(-vocab // 4)).view("<u2")[:vocab]).astype(np.int64)
        spread = weights / int(weights.sum())
        rows = np.zeros((NEAR + POSITIONS, vocab))
        borders = [token for first in range(0, vocab, TILE) for token in (first, min(first + TILE, vocab) - 1)]
        rows[BORDERS, borders] = 1 / len(np.unique(borders))
        rows[TIED] = 2.0**-140  # subnormal: on the grid of 2^-48 it is 0
        rows[TIED, [vocab // 3, vocab // 3 + 1, vocab // 2, vocab - 1]] = 0.25
        rows[[SPREAD, NAN]] = spread
        rows[NAN, vocab // 2] = np.nan
        rows[HEAVY] = spread * 1.01
        for j in range(POSITIONS):
            rows[SURE + j, self.drafts[j]] = 1
            rows[HALF + j] = spread / 2
            rows[HALF + j, self.drafts[j]] += 0.5
            rows[NEAR + j] = spread / 2
            rows[NEAR + j, self.ids[j]] += self.tickets[j] / (2 * ONE)
        found: Array = rows.astype(np.float32)
        return found


class Rounds:
    """All requests of one table, depth and path: those compared, those that fail, and the first under other keys."""

    def __init__(self, table: Table, depth: int, path: str) -> None:
        position = np.arange(depth)
        sure = SURE + position
        late = np.where(position < depth - 1, sure, SPREAD)  # rejected at the last position
        compared = [
            [*(NEAR + position), SPREAD],
            [*(HALF + position), BORDERS],
            [*sure, BORDERS],
            [BORDERS] * (depth + 1),
            [*np.where(position < depth - 2, sure, SPREAD), SPREAD],
            [*late, BORDERS],
            [TIED] * (depth + 1),
            [*sure, SPREAD],
        ]
        failing = [[*sure, NAN], [HEAVY, *sure], [*sure, SPREAD]]
        self.table = table
        self.row = np.array([*compared, *failing, *compared])  # [n, depth + 1]
        n = len(self.row)
        self.drafts = np.tile(table.drafts[:depth], (n, 1))
        again = COMPARED + FAILING
        for first in (0, again):
            self.drafts[first + VOID, depth - 2] = -1
            self.drafts[first + GREEDY] = np.where(position < depth - 1, table.vocab // 3, table.vocab - 1)
            self.drafts[first + OUT_OF_RANGE, 1] = table.vocab
        self.drafts[again - 1, depth - 1] = -2
        self.sampled = ~np.isin(np.arange(n), (GREEDY, again + GREEDY))
        self.ids = self.tickets = None
        if path == "carrier":
            turned = np.arange(n) % 2 == 1  # so that no two neighbours have one law
            tickets = np.where(turned[:, None, None], np.roll(table.tickets, 16, axis=1), table.tickets)[:, :depth]
            self.ids, self.tickets = np.tile(table.ids[:depth], (n, 1, 1)), np.ascontiguousarray(tickets)
        self.keys, self.rounds, self.positions = addresses(n)

    def inputs(self, which: Array) -> tuple[Any, ...]:
        """Drafts, ids, tickets, sampled, keys, rounds and positions of the requests of these numbers."""
        law = (None if part is None else part[which] for part in (self.ids, self.tickets))
        rest = (part[which] for part in (self.sampled, self.keys, self.rounds, self.positions))
        return (self.drafts[which], *law, *rest)
