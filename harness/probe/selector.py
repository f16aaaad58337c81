"""The selector's contestants that are ours, and the tensors that all of a case share.

A round drafts one token a request at each position, in order, by the launcher that users call. The tensors of a
vocabulary are made once, of the deepest and largest case; a smaller case takes their first positions and requests.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pp3.harness.probe import bits, rows
from pp3.harness.probe.bits import POISON
from pp3.harness.probe.plan import OURS, Case, Kind
from pp3.harness.probe.timing import Contestant
from pp3.kernels import proposal, reference
from pp3.kernels.reference import TAU

KEYS_SEED = 0x5050_3351


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Logits of one vocabulary and kind, who asks for drafts of them, and what the reference drafts."""

    logits: torch.Tensor  # [sets, depth, batch, vocab] bf16
    keys: torch.Tensor  # [batch] int64
    rounds: torch.Tensor  # [batch] int64
    positions: torch.Tensor  # [batch] int64, of column 0
    expected: list[reference.Proposal]  # of each set, arrays [depth, batch, ...]


def table(vocab: int, kind: Kind, sets: int, depth: int, batch: int, device: str) -> Table:
    """The tensors of every case of a vocabulary and kind, and the reference's drafts of all their rows."""
    logits = rows.make(kind, (sets, depth, batch, vocab), device)
    draw = np.random.default_rng(KEYS_SEED)
    keys = draw.integers(0, 1 << 63, batch, np.int64)
    rounds = draw.integers(0, 1 << 40, batch, np.int64)
    positions = draw.integers(0, 1 << 20, batch, np.int64)
    unsigned = (keys.view(np.uint64), rounds.view(np.uint64), positions.view(np.uint64))
    expected = [bits.drafts(one.float().cpu().numpy(), *unsigned, TAU) for one in logits]
    there = [torch.tensor(values, device=device) for values in (keys, rounds, positions)]
    return Table(logits=logits, keys=there[0], rounds=there[1], positions=there[2], expected=expected)


class Ours:
    """Rounds of our proposal on the tensors of a case, each set with outputs of its own."""

    def __init__(self, case: Case, data: Table) -> None:
        self.case, self.data = case, data
        batch, device = case.batch, data.logits.device
        self.logits = [one[: case.depth, :batch] for one in data.logits[: case.sets]]
        self.sampled = torch.ones(batch, dtype=torch.int32, device=device)
        self.keys, self.rounds, self.positions = (
            one[:batch].contiguous() for one in (data.keys, data.rounds, data.positions)
        )
        self.outs = [proposal.empty_drafts(batch, case.depth, device) for _ in self.logits]

    def step(self, at: int) -> None:
        """One round on a set."""
        for column in range(self.case.depth):
            proposal.propose(
                self.logits[at][column],
                self.sampled,
                self.keys,
                self.rounds,
                self.positions,
                TAU,
                out=self.outs[at],
                column=column,
            )

    def poison(self) -> None:
        """Fill the outputs with what no round writes."""
        for out in self.outs:
            for tensor in out:
                tensor.fill_(POISON)

    def compared(self, when: str) -> dict[str, Any]:
        """What lies in the outputs of all sets, held against the reference."""
        depth, batch = self.case.depth, self.case.batch
        mine, its = [], []
        for at, out in enumerate(self.outs):
            right = reference.Proposal(*(part[:depth, :batch] for part in self.data.expected[at]))
            sealed = reference.seal(reference.Proposal(*(np.swapaxes(part, 0, 1) for part in right)))
            mine.append(sealed)
            status, *rest = (tensor.cpu().numpy() for tensor in out)
            its.append((np.repeat(status[:, None], depth, axis=1), *rest))
        flat = [[_rows(parts) for parts in zip(*each, strict=True)] for each in (mine, its)]
        return bits.row_of(f"{self.case.id}/{when}", flat[0], flat[1], flat[0][0] == reference.FAILED)

    def contestant(self) -> Contestant:
        """To be timed; its bits are compared apart."""
        return Contestant(name=OURS, step=self.step, check=lambda _rounds: "")


def _rows(parts: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[Any]:
    """[batch, depth, ...] of every set as one axis of rows."""
    stacked = np.stack(parts)
    return stacked.reshape(-1, *stacked.shape[3:])
