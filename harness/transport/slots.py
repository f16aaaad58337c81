"""Proposals by state slot in NumPy: what buffers.Proposals does on a GPU, in the same words, for rounds on a CPU.

Contract: buffers.py and kernels/scatter.py; both give the same arrays (tests/test_wire_path.py). A round is [n] slots,
generations, statuses and T > 0, [n, depth] tokens, [n, depth, 32] ids and q.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pp3.harness.transport.frame import SUPPORT
from pp3.kernels.reference import FAILED, OK, ONE

Array = npt.NDArray[Any]
NOBODY = -1


class Round(NamedTuple):
    """A round of proposals as it travels, by row of a batch: the fields of buffers.Sparse."""

    slots: Array  # [n] int64
    generation: Array  # [n] int64
    status: Array  # [n] int32
    sampled: Array  # [n] int32
    tokens: Array  # [n, depth] int32
    ids: Array  # [n, depth, 32] int32
    q: Array  # [n, depth, 32] fp32


class Slots:
    """Dense q, drafts and who they belong to, for `slots` state slots."""

    def __init__(self, slots: int, depth: int, vocab: int) -> None:
        self.slots = slots
        self.q = np.zeros((slots, depth, vocab), np.float32)
        self._drafts = np.full((slots + 1, depth), -1, np.int32)
        self._valid = np.zeros(slots + 1, np.int32)
        self._generation = np.full(slots + 1, NOBODY, np.int64)
        self._held = np.zeros((slots, depth, SUPPORT), np.int64)  # ids that may be other than zero in q

    def begin(self, slots: Array, generation: Array) -> None:
        """New requests in these slots: what the slots held is gone."""
        at, own = self._places(slots)
        self._drop(at[at < self.slots])
        self._generation[at] = np.where(own, generation, NOBODY)

    def store(self, landed: Round) -> Array:
        """Let a round land; the status [n] int32 of each row, ok where it may be used."""
        at, own = self._places(landed.slots)
        known = own & (self._generation[at] == landed.generation)
        self._drop(at[at < self.slots])
        fine = known & (landed.status == OK) & self._legal(landed)
        with_law = np.flatnonzero(fine & (landed.sampled != 0))
        held, ids = at[with_law], landed.ids[with_law].astype(np.int64)
        self.q[held[:, None, None], np.arange(self.q.shape[1])[:, None], ids] = landed.q[with_law]
        self._held[held] = ids
        self._drafts[at] = np.where(fine[:, None], landed.tokens, -1)
        self._valid[at] = fine
        return np.where(fine, OK, FAILED).astype(np.int32)

    def take(self, slots: Array, generation: Array) -> Array:
        """Hand over the drafts [n, depth] int32 of a batch, -1 where none has landed since, and call them used."""
        at, own = self._places(slots)
        fresh = own & (self._valid[at] == 1) & (self._generation[at] == generation)
        drafts = np.where(fresh[:, None], self._drafts[at], np.int32(-1))
        self._clear(at[~fresh & (at < self.slots)])
        self._valid[at], self._drafts[at] = 0, -1
        return drafts

    def _legal(self, landed: Round) -> Array:
        """Whether each row is as kernels/scatter.py has it."""
        vocab = self.q.shape[2]
        ids, tokens, q = landed.ids, landed.tokens, landed.q
        ascending = (ids[..., 1:] > ids[..., :-1]).all(axis=(1, 2)) & (ids[..., 0] >= 0).all(axis=1)
        inside = (ids[..., -1] < vocab).all(axis=1) & ((tokens >= 0) & (tokens < vocab)).all(axis=1)
        fits = q.view(np.uint32) <= np.float32(1).view(np.uint32)
        scaled = np.where(fits, q, 0) * np.float32(ONE)
        tickets = scaled.astype(np.int64)
        whole = np.where(landed.sampled != 0, ONE, 0)[:, None]
        mass = (tickets.sum(axis=2) == whole).all(axis=1)
        on_token = np.where(ids == tokens[..., None], tickets, 0).sum(axis=2)
        drawable = ((on_token > 0) | (landed.sampled == 0)[:, None]).all(axis=1)
        legal: Array = ascending & inside & (fits & (tickets == scaled)).all(axis=(1, 2)) & mass & drawable
        return legal

    def _drop(self, at: Array) -> None:
        self._clear(at)
        self._valid[at], self._drafts[at] = 0, -1

    def _clear(self, at: Array) -> None:
        self.q[at[:, None, None], np.arange(self.q.shape[1])[:, None], self._held[at]] = 0

    def _places(self, slots: Array) -> tuple[Array, Array]:
        """Where the state of each row lies, and whether the slot is in range and this row's alone."""
        inside = (slots >= 0) & (slots < self.slots)
        at = np.where(inside, slots, self.slots)
        return at, inside & (np.bincount(at, minlength=self.slots + 1)[at] == 1)
