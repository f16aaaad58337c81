"""Count the events of a batch on the device it ran on; only integers leave it.

A tally is one int64 vector: every cell's histogram over the vocabulary (lengths over 0..depth), then four counts of
events no law allows. Tallies of parts add up to the tally of the whole. Of a ragged batch the last token of a request
that keeps all its drafts is its bonus, at its own position; that of a request without drafts too, at position 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import BUCKETS
from pp3.harness.joint import size
from pp3.harness.neighbours import NONE, Neighbours, where
from pp3.harness.oracle import Judged
from pp3.harness.samplers.contract import ABSENT, INVALIDATED, Batch, Emission
from pp3.harness.upload import upload
from pp3.kernels.reference import OK

IDLE = 4096  # bins of what is not counted
LEAST_PENDING = 1 << 20  # codes that a CPU adds up at once
FEW = 8  # bins a code from which on adding them one by one is faster than a histogram
BREACHES = ("failed", "illegal-token", "illegal-length", "draft-not-echoed", "unreachable")


class Tally:
    """Counts of one target and depth."""

    def __init__(self, target: Judged, depth: int, cells: list[Cell]) -> None:
        self.target, self.depth, self.cells = target, depth, cells
        self.vocab = len(target.context_of)
        self.events = {cell.event for cell in cells}
        self.width = max((range_of(event, self.vocab, depth) for event in self.events), default=1)
        shape = (len(Event), depth + 1, target.row_of.shape[1])
        self.index = np.full(shape, -1, np.int64)
        self.whole = {event: np.full(len(target.patterns), -1, np.int64) for event in (Event.LENGTH, Event.JOINT)}
        kinds = list(Event)
        self.maps = {event: np.zeros((2, *shape[1:], self.vocab), np.int64) for event in (Event.PREFIX, Event.RECOVERY)}
        for number, cell in enumerate(cells):
            if cell.event in self.whole:
                self.whole[cell.event][target.patterns.index(cell.pattern)] = number
            elif cell.position >= 0:
                self.index[kinds.index(cell.event), cell.position, cell.context] = number
                if cell.maps:
                    self.maps[cell.event][:, cell.position, cell.context] = cell.maps
        self.counts = np.zeros(len(cells) * self.width, np.int64)
        self.neighbours = Neighbours(cells, len(target.patterns) * target.starts, depth)
        self._xp: Any = np
        self._pending: list[Any] = []
        self._held: dict[Any, Any] = {}  # what does not change, where the batches are
        self._counted: Any = None  # of batches whose counts have not left it
        self._seen: list[Any] = [0] * (len(BREACHES) - 1)
        self._breaches = dict.fromkeys(BREACHES, 0)

    @property
    def breaches(self) -> dict[str, int]:
        """Events that no law allows, by kind."""
        self._settle()
        return self._breaches

    def add(self, batch: Batch, emission: Emission) -> None:
        """Count a batch whose requests are all sampled."""
        if isinstance(emission.tokens, np.ndarray):
            self._add(np, batch, emission, np.asarray)
            return
        import torch

        device = emission.tokens.device
        self._add(torch, batch, emission, lambda array: upload(array, device))

    def _add(self, xp: Any, batch: Batch, emission: Emission, put: Any) -> None:
        """The same few operations in NumPy and torch; `xp` is either."""
        self._xp = xp
        depth, vocab, held = self.depth, self.vocab, self._tables(put)
        tokens, proposed, drafts = emission.tokens, emission.proposed, emission.drafts
        good = emission.status == OK
        given, requests = put(batch.given), put(batch.requests)
        num_drafts, void = (given != ABSENT).sum(axis=1), given == INVALIDATED
        legal_length = (emission.num_sampled >= 1) & (emission.num_sampled <= num_drafts + 1)
        counted = good & legal_length
        kept = xp.where(counted, emission.num_sampled - 1, -1)
        index, context_of = held["index"], held["context"]
        kinds = {event: number for number, event in enumerate(Event)}
        start, pattern = start_of(self.target, requests), pattern_of(self.target, requests)
        whole = counted
        # The first token, or draft, of each request, the second, and the one before this position.
        first = second = before = None
        illegal = echo = 0  # sums stay on the device: each look at one would wait for it
        for j in range(depth + 1):
            context = self._context(xp, context_of, drafts, j, start)
            token = tokens[:, j]
            reached = kept >= j
            inside = (token >= 0) & (token < vocab)
            illegal = illegal + (reached & ~inside).sum()
            whole = whole & (inside | ~reached)
            counts = reached & inside
            if j < depth:
                echo = echo + ((kept > j) & (token != drafts[:, j])).sum()
                judged = (drafts[:, j] >= INVALIDATED) & (drafts[:, j] < vocab)
                illegal = illegal + (good & (j < num_drafts) & ~judged).sum()
            token = xp.where(inside, token, 0)
            if self.target.lump is not None and j == 0:
                token = held["lump"][start, token]
            if Event.TOKEN in self.events:
                live = ~void[:, j] if j < depth else xp.ones_like(counted)
                last = (num_drafts == j) & (depth > 0)
                cell = xp.where(last, index[kinds[Event.BONUS], j][context], index[kinds[Event.TOKEN], j][context])
                self._count(xp, counts & live, cell, token)
                self._count(xp, counts & ~live, index[kinds[Event.FULL_TARGET], j][context], token)
                if j < depth and Event.ACCEPT in self.events:
                    draft = xp.where((drafts[:, j] > 0) & (drafts[:, j] < vocab), drafts[:, j], 0)
                    self._judged(xp, index[:, j], context, counts & live & ~last, kept - j, draft, token, j)
            if Event.PROPOSAL in self.events and j < depth:
                there = self._context(xp, context_of, proposed, j, start)
                inside = (proposed[:, j] >= 0) & (proposed[:, j] < vocab)
                drafted = good & (j < num_drafts)
                illegal = illegal + (drafted & ~inside).sum()
                self._count(xp, drafted & inside, index[kinds[Event.PROPOSAL], j][there], proposed[:, j])
                if Event.TOKEN not in self.events:
                    token, counts, live = xp.where(inside, proposed[:, j], 0), drafted & inside, drafted
                    context = there
            if before is None:
                first = xp.where(counts, token, NONE)
            elif Event.TOKEN in self.events or (Event.PROPOSAL in self.events and j < depth):
                self._after(xp, index[:, j], context, counts & live & (before >= 0), before, token, j)
            before = xp.where(counts, token, NONE)
            second = before if j == 1 else second
        if Event.LENGTH in self.events:
            cell = held[Event.LENGTH][pattern]
            self._count(xp, counted, cell, xp.where(counted, kept, 0))
        if Event.JOINT in self.events:
            cell, code = held[Event.JOINT][pattern], start * 0
            for j in range(depth + 1):
                code = xp.where(whole & (kept >= j), (code * vocab) + tokens[:, j] + 1, code)
            self._count(xp, whole, cell, code - 1)
        if len(batch):
            for which, cell, code in self.neighbours.add(xp, int(batch.requests[0]), first, kept):
                self._count(xp, which, cell, code)
            for which, cell, code in self.neighbours.rounds_of(xp, batch, first, second):
                self._count(xp, which, cell, code)
        seen = ((~good).sum(), illegal, (good & ~legal_length).sum(), echo)
        self._seen = [before + now for before, now in zip(self._seen, seen, strict=True)]
        if xp is not np or sum(map(len, self._pending)) >= LEAST_PENDING:
            self._take(xp)

    def flush(self) -> None:
        """Count the pairs of requests that wait for a window to fill: the next request begins a new one."""
        for which, cell, code in self.neighbours.rest(self._xp):
            self._count(self._xp, which, cell, code)
        self._settle()

    def _tables(self, put: Any) -> dict[Any, Any]:
        """What does not change, put where the batches are once."""
        if not self._held:
            given: dict[Any, Any] = {"index": self.index, "context": self.target.context_of, **self.whole, **self.maps}
            if self.target.lump is not None:
                given["lump"] = self.target.lump
            self._held = {name: put(values) for name, values in given.items()}
        return self._held

    def _judged(self, xp: Any, index: Any, context: Any, live: Any, left: Any, draft: Any, token: Any, j: int) -> None:
        """What became of the drafts at one position: `left` is how many more were kept, 0 where this one was not."""
        kinds = {event: number for number, event in enumerate(Event)}
        kept, replaced = live & (left > 0), live & (left == 0)
        maps = self._held[Event.RECOVERY][:, j]
        code = maps[0][context, draft] * BUCKETS + maps[1][context, token]
        self._count(xp, kept, index[kinds[Event.KEPT]][context], draft)
        self._count(xp, live, index[kinds[Event.ACCEPT]][context], 2 * draft + (left > 0))
        self._count(xp, replaced, index[kinds[Event.RESIDUAL]][context], token)
        self._count(xp, replaced, index[kinds[Event.RECOVERY]][context], code)

    def _after(self, xp: Any, index: Any, context: Any, which: Any, before: Any, token: Any, j: int) -> None:
        """A token and the one before it."""
        kinds = {event: number for number, event in enumerate(Event)}
        if Event.PREFIX in self.events:
            maps, past = self._held[Event.PREFIX][:, j], xp.where(which, before, 0)
            code = maps[0][context, past] * BUCKETS + maps[1][context, token]
            self._count(xp, which, index[kinds[Event.PREFIX]][context], code)
            self._count(xp, which, index[kinds[Event.MATCH]][context], (before == token) * 1)

    def _take(self, xp: Any) -> None:
        """Add up what is pending, where it is: a look at a number there would wait for it."""
        codes, bins = xp.concatenate(self._pending), len(self.counts) + 1 + IDLE
        self._pending.clear()
        if self._counted is None:
            self._counted = xp.zeros((bins,), dtype=xp.int64, **where(codes))
        if xp is not np:
            self._counted.scatter_add_(0, codes, xp.ones_like(codes[:1]).expand(len(codes)))
        elif bins > FEW * len(codes):
            np.add.at(self._counted, codes, 1)
        else:
            self._counted += np.bincount(codes, minlength=bins)

    def _settle(self) -> None:
        """Fetch what was added up; events that have no cell are unreachable."""
        if self._pending:
            self._take(self._xp)
        if self._counted is None:
            return
        counts = self._counted if isinstance(self._counted, np.ndarray) else self._counted.cpu().numpy()
        self.counts += counts[: len(self.counts)]
        for name, seen in zip(BREACHES, [*self._seen, counts[len(self.counts)]], strict=True):
            self._breaches[name] += int(seen)
        self._counted, self._seen = None, [0] * (len(BREACHES) - 1)

    def _context(self, xp: Any, context_of: Any, before: Any, j: int, start: Any) -> Any:
        """Context of position j: the class of the token before it."""
        if not j:
            return start
        token = before[:, j - 1]
        return context_of[xp.where((token > 0) & (token < self.vocab), token, 0)]

    def _count(self, xp: Any, which: Any, cell: Any, outcome: Any) -> None:
        """Note the chosen requests' outcomes under their cells; one without a cell goes to the bin after the cells'.

        On a GPU those that are not chosen go to IDLE bins that nobody reads: one bin would be a queue.
        """
        nowhere = len(self.counts)
        code = xp.where(cell >= 0, cell * self.width + outcome, nowhere)
        if xp is np:
            self._pending.append(code[np.broadcast_to(which, code.shape)])
            return
        code, which = xp.broadcast_tensors(code, which)
        self._pending.append(xp.where(which.reshape(-1), code.reshape(-1), self._idle(xp, code)))

    def _idle(self, xp: Any, like: Any) -> Any:
        """Bins that nobody reads, one after the other, [as many as there are codes]."""
        bins = self._held.get(IDLE)
        if bins is None or len(bins) < like.numel():
            bins = len(self.counts) + 1 + xp.arange(max(like.numel(), 1 << 16), **where(like)) % IDLE
            self._held[IDLE] = bins
        return bins[: like.numel()]

    def histograms(self) -> list[list[int]]:
        """Each cell's counts: one an atom, then one for everything its law forbids."""
        self.flush()
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


def range_of(event: Event, vocab: int, depth: int) -> int:
    """One past the largest code that can be counted of an event."""
    if event is Event.JOINT:
        return size(vocab, depth)
    return {
        Event.LENGTH: depth + 1,
        Event.LENGTH_PAIR: (depth + 1) ** 2,
        Event.ACCEPT: 2 * vocab,
        **dict.fromkeys((Event.PREFIX, Event.RECOVERY, Event.PAIR), BUCKETS**2),
        **dict.fromkeys((Event.MATCH, Event.ROUND, Event.REPEAT), 2),
    }.get(event, vocab)


def pattern_of(target: Judged, requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Which of the target's patterns each request number [n] has: they are dealt in turn."""
    return requests % len(target.patterns)


def start_of(target: Judged, requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """In which context each request number [n] starts: dealt in turn, one round of patterns after another."""
    return requests // len(target.patterns) % target.starts
