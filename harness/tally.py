"""Count the events of a batch on the device it ran on; only integers leave it.

A tally is one int64 vector: every cell's histogram over the vocabulary (lengths over 0..depth), then four counts of
events no law allows. Tallies of parts add up to the tally of the whole.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.cells import Cell, Event
from pp3.harness.samplers.contract import INVALIDATED, Batch, Emission
from pp3.kernels.reference import OK
from pp3.targets import Target

BREACHES = ("failed", "illegal-token", "illegal-length", "draft-not-echoed", "unreachable")


class Tally:
    """Counts of one target and depth."""

    def __init__(self, target: Target, depth: int, cells: list[Cell]) -> None:
        self.target, self.depth, self.cells = target, depth, cells
        self.width = target.vocab
        shape = (len(Event), depth + 1, target.contexts)
        self.index = np.full(shape, -1, np.int64)
        self.length_index = np.full(len(target.patterns), -1, np.int64)
        kinds = list(Event)
        for number, cell in enumerate(cells):
            if cell.event is Event.LENGTH:
                self.length_index[target.patterns.index(cell.pattern)] = number
            else:
                self.index[kinds.index(cell.event), cell.position, cell.context] = number
        self.counts = np.zeros(len(cells) * self.width, np.int64)
        self._pending: list[Any] = []
        self.breaches = dict.fromkeys(BREACHES, 0)

    def add(self, batch: Batch, emission: Emission) -> None:
        """Count a batch whose requests are all sampled."""
        if isinstance(emission.tokens, np.ndarray):
            self._add(np, batch, emission, np.asarray)
            return
        import torch

        device = emission.tokens.device
        self._add(torch, batch, emission, lambda array: torch.as_tensor(array).to(device))

    def _add(self, xp: Any, batch: Batch, emission: Emission, put: Any) -> None:
        """The same few operations in NumPy and torch; `xp` is either."""
        depth, vocab = self.depth, self.width
        tokens, proposed, drafts = emission.tokens, emission.proposed, emission.drafts
        good = emission.status == OK
        legal_length = (emission.num_sampled >= 1) & (emission.num_sampled <= depth + 1)
        counted = good & legal_length
        kept = xp.where(counted, emission.num_sampled - 1, -1)
        index, context_of = put(self.index), put(self.target.context_of)
        void = put(batch.given == INVALIDATED)
        kinds = {event: number for number, event in enumerate(Event)}
        start = xp.zeros_like(kept)
        illegal = echo = unreachable = 0
        for j in range(depth + 1):
            before = drafts[:, j - 1] if j else start
            context = context_of[xp.where((before > 0) & (before < vocab), before, 0)] if j else start
            token = tokens[:, j]
            reached = kept >= j
            inside = (token >= 0) & (token < vocab)
            illegal += int((reached & ~inside).sum())
            counts = reached & inside
            if j == depth:
                unreachable += self._count(counts, index[kinds[Event.BONUS], j][context], token)
                continue
            echo += int(((kept > j) & (token != drafts[:, j])).sum())
            unreachable += self._count(counts & ~void[:, j], index[kinds[Event.TOKEN], j][context], token)
            unreachable += self._count(counts & void[:, j], index[kinds[Event.FULL_TARGET], j][context], token)
            replaced = counts & (kept == j) & ~void[:, j]
            unreachable += self._count(replaced, index[kinds[Event.RESIDUAL], j][context], token)
            drawn = proposed[:, j - 1] if j else start
            context = context_of[xp.where((drawn > 0) & (drawn < vocab), drawn, 0)] if j else start
            inside = (proposed[:, j] >= 0) & (proposed[:, j] < vocab)
            judged = (drafts[:, j] >= INVALIDATED) & (drafts[:, j] < vocab)
            illegal += int((good & ~(inside & judged)).sum())
            unreachable += self._count(good & inside, index[kinds[Event.PROPOSAL], j][context], proposed[:, j])
        pattern = put(pattern_of(self.target, batch.requests))
        unreachable += self._count(counted, put(self.length_index)[pattern], xp.where(counted, kept, 0))
        counts = xp.bincount(xp.concatenate(self._pending), minlength=len(self.counts))
        self.counts += counts if isinstance(counts, np.ndarray) else counts.cpu().numpy()
        self._pending.clear()
        found = ((~good).sum(), (good & ~legal_length).sum(), echo)
        for name, value in zip(("failed", "illegal-length", "draft-not-echoed"), found, strict=True):
            self.breaches[name] += int(value)
        self.breaches["illegal-token"] += illegal
        self.breaches["unreachable"] += unreachable

    def _count(self, which: Any, cell: Any, outcome: Any) -> int:
        """Note the outcomes of the chosen requests under their cells; how many had no cell."""
        cell, outcome = cell[which], outcome[which]
        known = cell >= 0
        self._pending.append(cell[known] * self.width + outcome[known])
        return int((~known).sum())

    def histograms(self) -> list[list[int]]:
        """Each cell's counts: one an atom, then one for everything its law forbids."""
        table = self.counts.reshape(len(self.cells), self.width)
        found = []
        for cell, row in zip(self.cells, table, strict=True):
            inside = row[cell.atoms]
            found.append([*inside.tolist(), int(row.sum() - inside.sum())])
        return found

    def strays(self) -> list[tuple[str, int, int]]:
        """Every forbidden outcome that was seen: cell, token or length, count."""
        table = self.counts.reshape(len(self.cells), self.width)
        seen = []
        for cell, row in zip(self.cells, table, strict=True):
            outside = row.copy()
            outside[cell.atoms] = 0
            seen += [(cell.id, int(token), int(outside[token])) for token in np.flatnonzero(outside)]
        return seen


def pattern_of(target: Target, requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Which of the target's patterns each request number [n] has: they are dealt in turn."""
    return requests % len(target.patterns)
