"""Draft `depth` tokens a request through a toy Markov head, greedily or by tickets, on one rank or on two.

Each rank holds a shard of the vocabulary: base logits and the head's bias for its own columns. A draft is conditioned
on the draft before it, so the peer gets every chosen token. `draft` reads no switch and no kernel of the proposal;
`draft_sampled` needs an admission of the drafter. Both give the same bits on one rank and on two, ties across the
border included.

Of two shards the leader sees either all logits (full staging) or the 32 best of each shard (candidates). A compact row
of these, in ascending order of their global ids, has the same first 32 by (value descending, id ascending) as the whole
row: whatever is among the first 32 of the row is among the first 32 of its shard. NaN and +inf rank first, so that a
row that fails whole fails compact; a shard of -inf alone is legal, and its first 32 ids stand for it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import torch

from pp3.harness.errors import CampaignError
from pp3.harness.transport.admission import Admission, Side, held
from pp3.harness.transport.ranks import LEADER, Ranks, mirrored

SUPPORT = 32
ID_BITS = 18  # of the largest vocabulary
SIGN = 0x80000000
ALL = 0xFFFFFFFF


class Exchange(StrEnum):
    """What the leader sees of the peer's shard."""

    STAGING = "staging"  # all logits
    CANDIDATES = "candidates"  # the 32 best and their ids


class Head(Protocol):
    """Draft logits of one batch, of this rank's columns [first, first + width) of a vocabulary."""

    @property
    def vocab(self) -> int:
        """Number of tokens of all shards."""

    @property
    def width(self) -> int:
        """Number of columns of this shard."""

    @property
    def first(self) -> int:
        """Token of column 0."""

    @property
    def depth(self) -> int:
        """Number of draft positions."""

    def logits(self, position: int, previous: torch.Tensor) -> torch.Tensor:
        """[n, width] BF16, FP16 or FP32 at a position after the tokens [n] before it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarkovHead:
    """Base logits of a batch, and a bias for each context of the previous token: a toy."""

    base: torch.Tensor  # [n, depth, width] BF16, FP16 or FP32
    bias: torch.Tensor  # [contexts, width], of the same dtype
    context_of: torch.Tensor  # [vocab] int64, of the whole vocabulary
    first: int = 0

    def __post_init__(self) -> None:
        width, shape = self.base.shape[2], tuple(self.bias.shape)
        if self.bias.ndim != 2 or shape[1] != width or not 0 <= self.first <= self.vocab - width:
            raise ValueError(f"bias {shape} for {width} columns from {self.first} on of a vocabulary of {self.vocab}")

    @property
    def vocab(self) -> int:
        """See Head."""
        return len(self.context_of)

    @property
    def width(self) -> int:
        """See Head."""
        return int(self.base.shape[2])

    @property
    def depth(self) -> int:
        """See Head."""
        return int(self.base.shape[1])

    def logits(self, position: int, previous: torch.Tensor) -> torch.Tensor:
        """See Head; after no token (-1) as after token 0."""
        return self.base[:, position] + self.bias[self.context_of[previous.clamp(min=0).long()]]

    def shard(self, rank: int) -> "MarkovHead":
        """The columns of one of two ranks; the leader has the lower half, the smaller of an odd vocabulary."""
        border = self.vocab // 2
        columns = slice(0, border) if rank == LEADER else slice(border, self.vocab)
        base, bias = self.base[:, :, columns].contiguous(), self.bias[:, columns].contiguous()
        return replace(self, base=base, bias=bias, first=columns.start)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """Who a draft is for, by row; u64 words as int64 bit patterns."""

    anchor: torch.Tensor  # [n] int32: the token before the first draft
    sampled: torch.Tensor  # [n] int32: temperature > 0
    keys: torch.Tensor  # [n] int64
    rounds: torch.Tensor  # [n] int64
    positions: torch.Tensor  # [n] int64: of the first draft


class Drafter:
    """Drafts on this rank's shard; the ranks call the same methods with their own columns of the same requests."""

    def __init__(self, ranks: Ranks, exchange: Exchange = Exchange.CANDIDATES) -> None:
        self.ranks, self.exchange = ranks, exchange

    def draft(self, head: Head, anchor: torch.Tensor) -> torch.Tensor:
        """The argmax at each position, lower id on ties: [n, depth] int32 on every rank, after anchor [n].

        NaN counts as the largest, as torch has it. Can be captured into a CUDA graph: no host synchronisation, nothing
        that depends on data. ValueError for one rank with a part of the vocabulary.
        """
        self._check(head)
        tokens = torch.empty(len(anchor), head.depth, dtype=torch.int32, device=anchor.device)
        previous = anchor
        for j in range(head.depth):
            value, at = head.logits(j, previous).max(dim=1)  # of equal ones the first
            previous = self._first(value.float(), (at + head.first).int())
            tokens[:, j] = previous
        return tokens

    def draft_sampled(self, admission: Admission, head: Head, requests: Requests, tau: float) -> Any:
        """Tokens drawn by tickets at every position, as pp3.kernels.proposal.Drafts, the same on every rank.

        CampaignError without an admission of the drafter, or for another depth than it admits; ValueError for shapes or
        dtypes outside the proposal's contract, or for one rank with a part of the vocabulary. No host synchronisation.
        """
        if head.depth != held(admission, Side.DRAFTER).depth:
            raise CampaignError(
                f"depth {head.depth}; the session was admitted with {admission.depth}, and it stays fixed"
            )
        return self._draw(head, requests, tau)

    def _draw(self, head: Head, requests: Requests, tau: float) -> Any:
        self._check(head)
        from pp3.kernels import proposal  # no default path imports it

        n, device = len(requests.anchor), requests.anchor.device
        out = proposal.empty_drafts(n, head.depth, device)
        previous = requests.anchor
        for j in range(head.depth):
            row, ids = self._whole_row(head, head.logits(j, previous))
            chosen = torch.empty(n, dtype=torch.int32, device=device)
            if self.ranks.rank == LEADER:
                proposal.propose(
                    row, requests.sampled, requests.keys, requests.rounds, requests.positions, tau, out=out, column=j
                )
                if ids is not None:
                    _name(out, j, ids)
                chosen = out.token[:, j].contiguous()
            self.ranks.spread(chosen)
            previous = chosen
        return proposal.Drafts(*mirrored(self.ranks, out))

    def _check(self, head: Head) -> None:
        if self.ranks.size == 1 and head.width != head.vocab:
            raise ValueError(f"one rank holds {head.width} columns of {head.vocab}")

    def _first(self, value: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """The better token [n] of all shards, on every rank: the leader's ids are the lower ones."""
        if self.ranks.size == 1:
            return token
        gathered = self.ranks.gather(torch.stack([value.view(torch.int32), token]))
        if gathered:
            (own, mine), (other, theirs) = gathered[0], gathered[1]
            ours, its = own.view(torch.float32), other.view(torch.float32)
            token = torch.where(~ours.isnan() & (its.isnan() | (its > ours)), theirs, mine)
        token = token.contiguous()
        self.ranks.spread(token)
        return token

    def _whole_row(self, head: Head, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """On the leader, rows [n, ...] to propose from, and the global ids of their columns if they are compact."""
        if self.ranks.size == 1:
            return logits, None
        if self.exchange is Exchange.STAGING or head.vocab < 2 * SUPPORT:  # a shard is no more than its candidates
            widest = head.vocab - head.vocab // 2  # both send as many columns as the larger shard has
            parts = self.ranks.gather(torch.nn.functional.pad(logits, (0, widest - head.width)))
            if not parts:
                return logits, None
            return torch.cat([parts[0][:, : head.width], parts[1]], dim=1), None
        value, ids = candidates(logits, head.first, SUPPORT)
        values, places = self.ranks.gather(value), self.ranks.gather(ids)
        return (torch.cat(values, dim=1), torch.cat(places, dim=1)) if values else (value, ids)


class UnguardedDrafter(Drafter):
    """A drafter that asks for no admission: a test surface, for campaigns."""

    TEST_SURFACE: ClassVar[bool] = True

    def draw(self, head: Head, requests: Requests, tau: float) -> Any:
        """As `draft_sampled`."""
        return self._draw(head, requests, tau)


def candidates(logits: torch.Tensor, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` best of each row [n, width] by (value descending, id ascending), in ascending order of their ids.

    Values as they are, and global ids int32, `first` being that of column 0: both [n, count]. -0.0 equals +0.0, NaN is
    larger than +inf.
    """
    bits = logits.float().view(torch.int32).long() & ALL
    bits = torch.where(bits == SIGN, 0, bits)
    rank = torch.where(bits >= SIGN, ~bits & ALL, bits | SIGN)
    rank = torch.where(logits.isnan(), ALL, rank)
    column = torch.arange(logits.shape[1], device=logits.device)
    key = (rank << ID_BITS) | (column ^ ((1 << ID_BITS) - 1))  # all different, so that topk has no ties to break
    best = key.topk(count, dim=1).indices.sort(dim=1).values
    return logits.gather(1, best), (best + first).int()


def _name(out: Any, column: int, ids: torch.Tensor) -> None:
    """Put global ids [n, compact] in the place of compact ones in one column; rows without tickets have ids 0..31."""
    token, support = out.token[:, column], out.ids[:, column]
    drawn = (out.tickets[:, column].sum(dim=1, keepdim=True)) > 0
    named = ids.gather(1, support.long().clamp(max=ids.shape[1] - 1))
    support.copy_(torch.where(drawn, named, support))
    chosen = ids.gather(1, token.clamp(min=0).long()[:, None])[:, 0]
    token.copy_(torch.where(token < 0, token, chosen))
