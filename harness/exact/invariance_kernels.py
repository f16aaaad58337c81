"""The kernels on one device in every way of invariance: a run takes row numbers and a way, and gives their outputs.

Output buffers are filled with an illegal value, then used for other work (the same rows with their tokens in reverse
order), then for the rows; `fresh` is the launch that allocates its own. Graph replay needs CUDA. Where rows lie past
2^31 elements only the last are of interest: the others are padding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pp3.harness.backends import Dtype
from pp3.harness.exact import invariance_proposal, invariance_verifier
from pp3.harness.exact.company import Array, Outputs
from pp3.harness.exact.invariance_proposal import Rows
from pp3.harness.exact.invariance_verifier import Rounds
from pp3.kernels import proposal, verifier

ILLEGAL = -(1 << 30)
PADDING = 37  # columns; odd, so that rows lose their alignment


class Proposals:
    """The rows of one vocabulary and dtype on a device."""

    def __init__(self, rows: Rows, device: torch.device) -> None:
        self.logits = stored(rows.logits, rows.dtype).to(device)
        self.sampled = torch.tensor(rows.sampled, dtype=torch.int32).to(device)
        self.address = [_words(part, device) for part in (rows.keys, rows.rounds, rows.positions)]

    def run(self, which: Array, way: str) -> Outputs:
        """Status, token, ids and tickets of the rows of these numbers."""
        if way == "shared":  # one row of logits by a stride of 0, drawn from under three keys
            other = invariance_proposal.COMPARED + invariance_proposal.FAILING
            keys = [[other, row, other + 1] for row in which.tolist()]
            parts = [self._run(self.logits[at[1] : at[1] + 1].expand(3, -1), at, way) for at in keys]
            return tuple(np.concatenate([part[1:2] for part in field]) for field in zip(*parts, strict=True))
        logits = _laid_out(self.logits[torch.from_numpy(which.copy())], way)
        return self._run(logits, which.tolist(), way)

    def _run(self, logits: torch.Tensor, which: list[int], way: str) -> Outputs:
        at = torch.tensor(which)
        sampled, keys, rounds, positions = (part[at] for part in (self.sampled, *self.address))
        out = None if way == "fresh" else proposal.empty_drafts(len(which), 1, logits.device)

        def launch(given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return proposal.propose(given, sampled, keys, rounds, positions, out=out)

        status, token, ids, tickets = _launched(launch, logits, out, way)
        return status, token[:, 0], ids[:, 0], tickets[:, 0]


class Verifications:
    """The rounds of one vocabulary, depth and path on a device."""

    def __init__(self, rounds: Rounds, device: torch.device) -> None:
        self.probs = torch.tensor(rounds.table.probs).to(device)
        self.row = torch.tensor(rounds.row).to(device)
        self.drafts = torch.tensor(rounds.drafts).to(device)
        self.law = [None if part is None else torch.tensor(part).to(device) for part in (rounds.ids, rounds.tickets)]
        self.sampled = torch.tensor(rounds.sampled, dtype=torch.int32).to(device)
        self.address = [_words(part, device) for part in (rounds.keys, rounds.rounds, rounds.positions)]

    def run(self, which: Array, way: str) -> Outputs:
        """Status, tokens and lengths of the rounds of these numbers."""
        at = torch.from_numpy(which.copy())
        probs = self.probs[self.row[at]]
        return self.judge(_by_position(probs) if way == "by-position" else _laid_out(probs, way), at, way)

    def judge(self, probs: torch.Tensor, at: torch.Tensor, way: str) -> Outputs:
        """Judge the drafts of requests at [n] against probs [n, depth + 1, vocab]."""
        drafts, sampled, keys, rounds, positions = (part[at] for part in (self.drafts, self.sampled, *self.address))
        ids, tickets = (None if part is None else part[at] for part in self.law)
        shapes = ((len(at),), (len(at), probs.shape[1]), (len(at),))
        buffers = [torch.empty(shape, dtype=torch.int32, device=probs.device) for shape in shapes]
        out = None if way == "fresh" else verifier.Verified(*buffers)

        def launch(given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return verifier.verify(given, drafts, ids, tickets, sampled, keys, rounds, positions, out=out)

        return _launched(launch, probs, out, way)


def stored(logits: Array, dtype: Dtype) -> torch.Tensor:
    """FP32 logits that are exact in a dtype, in that dtype; by their bits, since conversions may flush subnormals."""
    if dtype is Dtype.BF16:
        upper = (logits.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return torch.from_numpy(upper.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(logits.astype(np.float16) if dtype is Dtype.FP16 else logits.copy())


def late_proposals(rows: Rows, total: int, device: torch.device) -> Outputs:
    """The compared rows as the last of `total`."""
    count, vocab = invariance_proposal.COMPARED, rows.logits.shape[1]
    case = Proposals(rows, device)
    logits = torch.full((total, vocab), -1.0, dtype=case.logits.dtype, device=device)
    logits[-count:] = case.logits[:count]
    at = torch.cat([torch.zeros(total - count, dtype=torch.int64), torch.arange(count)])
    sampled, keys, rounds, positions = (part[at] for part in (case.sampled, *case.address))
    with np.errstate(all="ignore"):
        drafts = proposal.propose(logits, sampled, keys, rounds, positions)
    status, token, ids, tickets = (part[-count:].cpu().numpy() for part in drafts)
    return status, token[:, 0], ids[:, 0], tickets[:, 0]


def late_rounds(rounds: Rounds, total: int, device: torch.device, layout: str) -> Outputs:
    """The compared requests as the last of `total`; the rows of a request, or of a position, lie side by side."""
    count, (_, columns) = invariance_verifier.COMPARED, rounds.row.shape
    case = Verifications(rounds, device)
    shape = (columns, total) if layout == "by-position" else (total, columns)
    probs = torch.zeros(*shape, rounds.table.vocab, dtype=torch.float32, device=device)
    if layout == "by-position":
        probs = probs.transpose(0, 1)
    probs[-count:] = case.probs[case.row[:count]]
    at = torch.cat([torch.zeros(total - count, dtype=torch.int64), torch.arange(count)])
    return tuple(field[-count:] for field in case.judge(probs, at, "fresh"))


def _launched(
    launch: Callable[[torch.Tensor], tuple[torch.Tensor, ...]],
    given: torch.Tensor,
    out: tuple[torch.Tensor, ...] | None,
    way: str,
) -> Outputs:
    """The outputs of a launch, through buffers that held other work where there are any."""
    with np.errstate(all="ignore"):  # in the interpreter the kernel's masked lanes are NumPy's
        if out is None:
            return tuple(part.cpu().numpy() for part in launch(given))
        _spoil(out)
        launch(given.flip(-1))
        if way == "replayed":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                launch(given)
            _spoil(out)
            graph.replay()
        else:
            launch(given)
        return tuple(part.cpu().numpy() for part in out)


def _spoil(out: tuple[torch.Tensor, ...]) -> None:
    for buffer in out:
        buffer.fill_(ILLEGAL)


def _laid_out(rows: torch.Tensor, way: str) -> torch.Tensor:
    """The same rows [..., vocab] with NaN between rows, between columns or before the first, or as they are."""
    *outer, vocab = rows.shape
    if way == "padded":
        wide = rows.new_full((*(size + 1 for size in outer), vocab + PADDING), torch.nan)
        view = wide[tuple(slice(size) for size in rows.shape)]
    elif way == "strided":
        view = rows.new_full((*outer, 2 * vocab), torch.nan)[..., ::2]
    elif way == "offset":
        view = rows.new_full((rows.numel() + 1,), torch.nan)[1:].view(rows.shape)
    else:
        return rows
    view.copy_(rows)
    return view


def _by_position(probs: torch.Tensor) -> torch.Tensor:
    """The same target rows, those of one position side by side."""
    return probs.transpose(0, 1).contiguous().transpose(0, 1)


def _words(values: Array, device: torch.device) -> Any:
    return torch.from_numpy(values.view(np.int64).copy()).to(device)
