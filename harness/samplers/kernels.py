"""The Triton kernels as a sampler under test, through the launchers that users call, `rows_per_launch` rows a launch.

On a GPU many rounds are captured into one CUDA graph and replayed over static buffers, as an engine would; the rest of
a batch runs eagerly. Without one the same code runs in Triton's interpreter. Outputs are filled with an illegal value
beforehand, so that an unwritten one cannot pass.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pp3 import __version__
from pp3.harness import interpreter
from pp3.harness.samplers.contract import WANTED, Batch, Description, Emission, Kind, target_table
from pp3.harness.upload import upload
from pp3.kernels import proposal, reference, verifier
from pp3.kernels.addressing import Purpose
from pp3.targets import Target

ROUNDS_PER_GRAPH = 32
STREAMS = 8
ALIGNED = 8  # entries: 16 bytes of BF16, twice as many of FP32
ILLEGAL = -(1 << 30)


class KernelSampler:
    """Proposal and verification of the kernels, on one device."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        if self.device.type == "cpu":
            interpreter.settle()
        self._carriers: dict[Target, _Carriers] = {}  # by object: a target's digest takes longer than a launch
        self._captured: tuple[Any, ...] = (None,)  # the last graph, what it was made for first

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="pp3-top32",
            version=__version__,
            kind=Kind.PIPELINE,
            backend="cuda" if self.device.type == "cuda" else "interpreter",
            module=__name__,
            min_vocab=reference.MIN_VOCAB,
            max_vocab=reference.MAX_VOCAB,
        )

    def run(self, batch: Batch) -> Emission:
        """See the contract."""
        if batch.target not in self._carriers:
            self._carriers[batch.target] = _Carriers(batch.target, self.device)
        carriers = self._carriers[batch.target]
        buffers = _Buffers(batch, self.device)
        step = batch.rows_per_launch
        chunk = step * ROUNDS_PER_GRAPH
        done = 0
        with np.errstate(all="ignore"):  # in the interpreter masked lanes are NumPy's
            if self.device.type == "cuda" and len(batch) >= 2 * chunk:
                done = self._replay(batch, carriers, buffers, chunk)
            for first in range(done, len(batch), step):
                _round(batch, carriers, buffers.rows(first, min(first + step, len(batch))))
        return buffers.emission()

    def steps(self, batch: Batch) -> dict[str, Callable[[], object]]:
        """The parts of one launch of a whole batch, and both, to be timed: over static buffers, so they can be
        captured."""
        carriers, at = _Carriers(batch.target, self.device), _Buffers(batch, self.device)
        _propose(batch, carriers, at)
        return {
            "proposal": lambda: _propose(batch, carriers, at),
            "verify": lambda: _verify(batch, carriers, at),
            "round": lambda: _round(batch, carriers, at),
        }

    def _replay(self, batch: Batch, carriers: "_Carriers", buffers: "_Buffers", chunk: int) -> int:
        """Run as many whole chunks as there are by graph replay; the number of requests done."""
        made_for = (batch.target, batch.depth, batch.rows_per_launch, batch.carrier, bool(batch.sampled.all()))
        if self._captured[0] != made_for:
            self._captured = (None,)  # its memory can be used for the next
            self._captured = (made_for, *self._capture(batch, carriers, buffers, chunk))
        _, graph, static = self._captured
        whole = len(batch) // chunk * chunk
        for first in range(0, whole, chunk):
            there = buffers.rows(first, first + chunk)
            static.read_inputs(there)
            graph.replay()
            static.write_outputs(there)
        return whole

    def _capture(
        self, batch: Batch, carriers: "_Carriers", buffers: "_Buffers", chunk: int
    ) -> tuple[torch.cuda.CUDAGraph, "_Buffers"]:
        """A graph of the launches of a chunk, and the buffers that it reads and writes."""
        static = buffers.rows(0, chunk).clone()
        views = [static.rows(first, first + batch.rows_per_launch) for first in range(0, chunk, batch.rows_per_launch)]
        streams = [torch.cuda.Stream() for _ in range(STREAMS)]  # type: ignore[no-untyped-call]  # torch leaves it untyped
        streams[0].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[0]):
            _round(batch, carriers, views[0])  # compile outside the capture
        torch.cuda.current_stream().wait_stream(streams[0])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            main = torch.cuda.current_stream()
            for stream in streams:  # rounds are independent: let the GPU overlap them
                stream.wait_stream(main)
            for number, view in enumerate(views):
                with torch.cuda.stream(streams[number % STREAMS]):
                    _round(batch, carriers, view)
            for stream in streams:
                main.wait_stream(stream)
        return graph, static


class _Carriers:
    """The tables of one target on the device; rows begin at multiples of ALIGNED, which makes their copies fast."""

    def __init__(self, target: Target, device: torch.device) -> None:
        self.vocab = target.vocab
        self._logits = _aligned(torch.tensor(target.draft_logits).to(torch.bfloat16)).to(device)  # [rows, V or more]
        self._probs = _aligned(torch.tensor(target_table(target))).to(device)  # [2 * rows, V or more]
        self.logits = self._logits[:, : target.vocab]
        self.row_of = torch.tensor(target.row_of).to(device)
        self.context_of = torch.tensor(target.context_of).to(device)

    def chosen_logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n] of the logits, [n, V]."""
        return self._logits.index_select(0, rows)[:, : self.vocab]

    def chosen_probs(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, columns] of the probabilities, [n, columns, V]."""
        chosen = self._probs.index_select(0, rows.reshape(-1))
        return chosen.view(*rows.shape, chosen.shape[1])[..., : self.vocab]


def _aligned(table: torch.Tensor) -> torch.Tensor:
    """A table [rows, V] with columns added that nobody reads: they are NaN."""
    more = -table.shape[1] % ALIGNED
    return torch.nn.functional.pad(table, (0, more), value=float("nan"))


class _Buffers:
    """Inputs and outputs of n requests; a view of rows shares their memory."""

    INPUTS = ("sampled", "proposal_keys", "verify_keys", "rounds", "positions", "given")
    OUTPUTS = ("proposal_status", "proposed", "support", "tickets", "drafts", "status", "tokens", "num_sampled")

    def __init__(self, batch: Batch, device: torch.device) -> None:
        n, depth = len(batch), batch.depth

        def words(values: Any) -> Any:
            return upload(values.view(np.int64), device)

        def poisoned(*shape: int) -> torch.Tensor:
            return torch.full(shape, ILLEGAL, dtype=torch.int32, device=device)

        self.tensors: dict[str, torch.Tensor] = {
            "sampled": upload(batch.sampled, device).int(),
            "proposal_keys": words(batch.keys(Purpose.PROPOSAL)),
            "verify_keys": words(batch.keys(Purpose.VERIFY)),
            "rounds": words(batch.rounds),
            "positions": words(batch.positions),
            "given": upload(batch.given, device).int(),
            "proposal_status": poisoned(n),
            "proposed": poisoned(n, depth),
            "support": poisoned(n, depth, reference.SUPPORT),
            "tickets": poisoned(n, depth, reference.SUPPORT),
            "drafts": poisoned(n, depth),
            "status": poisoned(n),
            "tokens": poisoned(n, depth + 1),
            "num_sampled": poisoned(n),
        }

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.tensors[name]

    def rows(self, first: int, last: int) -> "_Buffers":
        view = object.__new__(_Buffers)
        view.tensors = {name: tensor[first:last] for name, tensor in self.tensors.items()}
        return view

    def clone(self) -> "_Buffers":
        copy = object.__new__(_Buffers)
        copy.tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return copy

    def read_inputs(self, other: "_Buffers") -> None:
        for name in self.INPUTS:
            self[name].copy_(other[name])

    def write_outputs(self, other: "_Buffers") -> None:
        for name in self.OUTPUTS:
            other[name].copy_(self[name])
            self[name].fill_(ILLEGAL)

    def emission(self) -> Emission:
        return Emission(
            status=torch.where(self["proposal_status"] != reference.OK, self["proposal_status"], self["status"]),
            tokens=self["tokens"],
            num_sampled=self["num_sampled"],
            proposed=self["proposed"],
            drafts=self["drafts"],
            support=self["support"],
            tickets=self["tickets"],
        )


def _round(batch: Batch, carriers: _Carriers, at: _Buffers) -> None:
    """One launch group: draft `depth` positions, replace what is given, verify."""
    _propose(batch, carriers, at)
    _verify(batch, carriers, at)


def _propose(batch: Batch, carriers: _Carriers, at: _Buffers) -> None:
    """Draft every position and replace what is given."""
    target, depth = batch.target, batch.depth
    drafts = proposal.Drafts(at["proposal_status"], at["proposed"], at["support"], at["tickets"])
    for j in range(depth):
        logits = _draft_logits(target, carriers, at, j)
        proposal.propose(
            logits, at["sampled"], at["proposal_keys"], at["rounds"], at["positions"], out=drafts, column=j
        )
    torch.where(at["given"] == WANTED, at["proposed"], at["given"], out=at["drafts"])


def _verify(batch: Batch, carriers: _Carriers, at: _Buffers) -> None:
    """Judge the drafts."""
    verifier.verify(
        _target_probs(batch, carriers, at),
        at["drafts"],
        at["support"] if batch.carrier else None,
        at["tickets"] if batch.carrier else None,
        at["sampled"],
        at["verify_keys"],
        at["rounds"],
        at["positions"],
        out=verifier.Verified(at["status"], at["tokens"], at["num_sampled"]),
    )


def _draft_logits(target: Target, carriers: _Carriers, at: _Buffers, j: int) -> torch.Tensor:
    """Logits [n, V] of draft j after the draft before it; one shared row (stride 0) where there is no context."""
    n = len(at["status"])
    if j == 0 or target.contexts == 1:
        row = int(target.row_of[j, 0])
        return carriers.logits[row : row + 1].expand(n, -1)
    previous = at["proposed"][:, j - 1].clamp(min=0).long()
    return carriers.chosen_logits(carriers.row_of[j][carriers.context_of[previous]])


def _target_probs(batch: Batch, carriers: _Carriers, at: _Buffers) -> torch.Tensor:
    """Target rows [n, depth + 1, V] after the drafts as verified; temperature-0 requests get the one-hot rows."""
    columns = batch.depth + 1
    if batch.target.contexts == 1 and bool(batch.sampled.all()):
        return carriers.chosen_probs(carriers.row_of[None, :columns, 0]).expand(len(at["status"]), -1, -1)
    previous = carriers.context_of[at["drafts"].clamp(min=0).long()]
    context = torch.cat([torch.zeros_like(previous[:, :1]), previous], dim=1)
    row = carriers.row_of[torch.arange(columns, device=context.device), context]
    greedy = (at["sampled"] == 0).long()[:, None] * len(batch.target.weights)
    return carriers.chosen_probs(row + greedy)
