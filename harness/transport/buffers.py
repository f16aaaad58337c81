"""Proposals kept by state slot, from the round that makes them to the one verification that may use them.

A slot holds one generation of a request. A proposal lands in it (`store`), is handed over once (`take`) and is gone;
what has not landed since, was failed, or belongs to another generation is handed over as -1 drafts, and q of that slot
is zero: a verifier then draws from the full target. Batch order never matters. No host synchronisation.
"""

from dataclasses import dataclass
from typing import Any

import torch

from pp3.harness.transport.ranks import Ranks, mirrored
from pp3.kernels import scatter
from pp3.kernels.reference import FAILED, OK, ONE

SEMANTIC = "pp3-sampler-overlay/dyadic24-floor-first-v1"  # what `draft_logits` carries, for a verifier that knows it
NOBODY = -1  # generation of a slot that no request has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sparse:
    """A round of proposals as it travels, by row of a batch."""

    slots: torch.Tensor  # [n] int64
    generation: torch.Tensor  # [n] int64
    status: torch.Tensor  # [n] int32
    sampled: torch.Tensor  # [n] int32
    tokens: torch.Tensor  # [n, depth] int32
    ids: torch.Tensor  # [n, depth, 32] int32
    q: torch.Tensor  # [n, depth, 32] fp32, multiples of 2^-24

    def mirrored(self, ranks: Ranks) -> "Sparse":
        """The leader's round on every rank; slots and generations are each rank's own."""
        parts = (self.status, self.sampled, self.tokens, self.ids, self.q)
        status, sampled, tokens, ids, q = mirrored(ranks, parts)
        return Sparse(
            slots=self.slots,
            generation=self.generation,
            status=status,
            sampled=sampled,
            tokens=tokens,
            ids=ids,
            q=q,
        )


def q_of(tickets: torch.Tensor) -> torch.Tensor:
    """FP32 probabilities of integer shares of 2^24: exact."""
    return tickets.float() / ONE


class Proposals:
    """Dense q, drafts and who they belong to, for `slots` state slots on one device."""

    def __init__(self, slots: int, depth: int, vocab: int, device: torch.device | str) -> None:
        ints: Any = {"dtype": torch.int32, "device": device}
        self.slots = slots
        self.q = torch.zeros(slots, depth, vocab, dtype=torch.float32, device=device)
        # One row more than there are slots: what names no slot of its own is written there and never read.
        self._drafts = torch.full((slots + 1, depth), -1, **ints)
        self._valid = torch.zeros(slots + 1, **ints)
        self._failed = torch.ones(slots + 1, **ints)
        self._generation = torch.full((slots + 1,), NOBODY, dtype=torch.int64, device=device)

    @property
    def valid(self) -> torch.Tensor:
        """[slots] int32: 1 where a proposal has landed and was not handed over."""
        return self._valid[: self.slots]

    @property
    def carrier(self) -> torch.Tensor:
        """q [slots, depth, vocab] as an engine's `draft_logits`, marked with what it carries.

        pp3_semantic names the meaning; pp3_failed [slots] int32 is 1 where the last `take` handed over no proposal.
        """
        q: Any = self.q  # the marks travel with the tensor
        q.pp3_semantic, q.pp3_failed = SEMANTIC, self._failed[: self.slots]
        return self.q

    def begin(self, slots: torch.Tensor, generation: torch.Tensor) -> None:
        """New requests [n] int64 in these slots, or a reset: what the slots held is gone."""
        at, own = self._places(slots)
        self._drop(slots, at)
        self._generation[at] = torch.where(own, generation, NOBODY)

    def store(self, landed: Sparse) -> torch.Tensor:
        """Let a round land; the status [n] int32 of each row, ok where it may be used.

        The batch's slots lose what they held. A row fails (semantics section 4 says what a receiver has refused before)
        whose generation is not the slot's, whose slot is none or named twice, or whose carrier is not as
        kernels/scatter.py has it.
        """
        at, own = self._places(landed.slots)
        known = own & (self._generation[at] == landed.generation)
        self._drop(landed.slots, at)
        status = torch.where(known & (landed.status == OK), OK, FAILED).int()
        judged = scatter.scatter(landed.slots, status, landed.sampled, landed.tokens, landed.ids, landed.q, self.q)
        fine = judged == OK
        self._drafts[at] = torch.where(fine[:, None], landed.tokens, -1)
        self._valid[at] = fine.int()
        return judged

    def take(self, slots: torch.Tensor, generation: torch.Tensor) -> torch.Tensor:
        """Hand over the drafts [n, depth] int32 of a batch, -1 where none has landed since, and call them used.

        q stays for the verification that follows, zero where the drafts are -1. A slot named twice is handed to nobody.
        """
        at, own = self._places(slots)
        fresh = own & (self._valid[at] == 1) & (self._generation[at] == generation)
        drafts = torch.where(fresh[:, None], self._drafts[at], -1)
        self._failed.fill_(1)  # who is not in this batch has no proposal either
        self._failed[at] = (~fresh).int()
        scatter.clear(torch.where(fresh, -1, slots), self.q)
        self._valid.index_fill_(0, at, 0)
        self._drafts.index_fill_(0, at, -1)
        return drafts

    def _drop(self, slots: torch.Tensor, at: torch.Tensor) -> None:
        scatter.clear(slots, self.q)
        self._valid.index_fill_(0, at, 0)  # an indexed assignment of a number would wait for the device
        self._drafts.index_fill_(0, at, -1)
        self._failed.index_fill_(0, at, 1)

    def _places(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the state of each row [n] lies, and whether the slot is in range and this row's alone."""
        inside = (slots >= 0) & (slots < self.slots)
        at = torch.where(inside, slots, self.slots)
        rows = torch.zeros(self.slots + 1, dtype=torch.int64, device=slots.device)
        rows.index_add_(0, at, torch.ones_like(at))
        return at, inside & (rows[at] == 1)
