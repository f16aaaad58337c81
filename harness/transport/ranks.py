"""The ranks that share a vocabulary: one that has it all, or a leader and a peer of a torch.distributed group.

Bytes travel as they are, so that both ranks hold the same bits. Nothing here waits for a device.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist

LEADER, PEER = 0, 1
WORD = 4  # bytes of every dtype that `mirrored` packs


class Ranks(Protocol):
    """What a drafter needs of the ranks it runs on."""

    rank: int
    size: int

    def gather(self, part: torch.Tensor) -> list[torch.Tensor]:
        """Parts of one shape and dtype by rank, on the leader; nothing on the peer."""

    def spread(self, whole: torch.Tensor) -> None:
        """Give the peer the leader's values, in place."""


class Alone:
    """One rank that holds the whole vocabulary."""

    rank, size = LEADER, 1

    def gather(self, part: torch.Tensor) -> list[torch.Tensor]:
        """See Ranks."""
        return [part]

    def spread(self, whole: torch.Tensor) -> None:
        """See Ranks."""


class Two:
    """A leader and a peer. ValueError for a group of another size."""

    size = 2

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if dist.get_world_size(group) != self.size:
            raise ValueError(f"a group of {dist.get_world_size(group)} ranks; a vocabulary has {self.size} shards")
        self.group = group
        self.rank = dist.get_rank(group)
        self._leader, self._peer = (
            rank if group is None else dist.get_global_rank(group, rank) for rank in (LEADER, PEER)
        )

    def gather(self, part: torch.Tensor) -> list[torch.Tensor]:
        """See Ranks."""
        if self.rank == PEER:
            dist.send(_bytes(part.contiguous()), self._leader, group=self.group)
            return []
        other = torch.empty_like(part, memory_format=torch.contiguous_format)
        dist.recv(_bytes(other), self._peer, group=self.group)
        return [part, other]

    def spread(self, whole: torch.Tensor) -> None:
        """See Ranks; `whole` is contiguous."""
        dist.broadcast(_bytes(whole), self._leader, group=self.group)


def mirrored(ranks: Ranks, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leader's tensors on every rank, in one message. Each rank gives tensors of the same shapes and dtypes.

    ValueError for a dtype that is not 4 bytes wide.
    """
    if ranks.size == 1:
        return list(parts)
    for part in parts:
        if part.element_size() != WORD:
            raise ValueError(f"{part.dtype} has {part.element_size()} bytes an element; want {WORD}")
    packed = torch.cat([part.contiguous().view(torch.int32).reshape(-1) for part in parts])
    ranks.spread(packed)
    split = torch.split(packed, [part.numel() for part in parts])
    return [words.view(part.shape).view(part.dtype) for words, part in zip(split, parts, strict=True)]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes: not every backend carries BF16."""
    return tensor.view(torch.uint8)
