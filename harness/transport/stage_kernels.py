"""The Triton kernels at both ends of a path, on a GPU: drafts, dense q by slot, verification."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pp3.harness.samplers import kernels
from pp3.harness.samplers.contract import Batch, Description, Emission
from pp3.harness.samplers.kernels import KernelSampler
from pp3.harness.transport.buffers import Proposals, Sparse
from pp3.harness.transport.slots import Round
from pp3.harness.transport.stage import Landing
from pp3.kernels.reference import ONE, Proposal

Array = npt.NDArray[Any]
ROWS = 64  # a launch: frames are of four at most, and a launch of four costs as much


class KernelLanding:
    """Dense q on the GPU."""

    def __init__(self, slots: int, depth: int, vocab: int, device: torch.device) -> None:
        self._proposals, self._device = Proposals(slots, depth, vocab, device), device

    def land(self, landed: Round) -> tuple[Array, Array]:
        """See stage.Landing."""
        there = Sparse(**{name: torch.from_numpy(values).to(self._device) for name, values in landed._asdict().items()})
        self._proposals.begin(there.slots, there.generation)
        self._proposals.store(there)
        drafts = self._proposals.take(there.slots, there.generation)
        q = self._proposals.q[there.slots].gather(2, there.ids.long())
        return drafts.cpu().numpy(), (q * ONE).int().cpu().numpy()


class KernelStage:
    """Proposal and verification of the kernels."""

    def __init__(self, device: str) -> None:
        self._sampler = KernelSampler(device)

    def describe(self) -> Description:
        """See stage.Stage."""
        return self._sampler.describe()

    def propose(self, batch: Batch) -> Proposal:
        """See stage.Stage."""
        carriers, buffers = self._tables(batch), kernels._Buffers(batch, self._sampler.device)
        with np.errstate(all="ignore"):
            for view in _launches(buffers, len(batch)):
                kernels._propose(batch, carriers, view)
        status = buffers["proposal_status"][:, None].expand(-1, batch.depth)
        fields = (status, buffers["proposed"], buffers["support"], buffers["tickets"])
        return Proposal(*(field.cpu().numpy() for field in fields))

    def proposed(self, proposal: Proposal) -> Any:
        """See stage.Stage."""
        return torch.from_numpy(proposal.token).to(self._sampler.device)

    def verify(self, batch: Batch, ids: Array, tickets: Array) -> Emission:
        """See stage.Stage."""
        carriers, buffers = self._tables(batch), kernels._Buffers(batch, self._sampler.device)
        given = {"drafts": batch.given, "support": ids, "tickets": tickets}
        for name, values in given.items():
            buffers[name].copy_(torch.from_numpy(values))
        buffers["proposal_status"].zero_()
        with np.errstate(all="ignore"):
            for view in _launches(buffers, len(batch)):
                kernels._verify(batch, carriers, view)
        return buffers.emission()

    def direct(self, batch: Batch) -> Emission:
        """See stage.Stage."""
        return self._sampler.run(batch)

    def slots(self, slots: int, depth: int, vocab: int) -> Landing:
        """See stage.Stage."""
        return KernelLanding(slots, depth, vocab, self._sampler.device)

    def _tables(self, batch: Batch) -> Any:
        held = self._sampler._carriers
        digest = batch.target.digest()
        if digest not in held:
            held[digest] = kernels._Carriers(batch.target, self._sampler.device)
        return held[digest]


def _launches(buffers: Any, n: int) -> list[Any]:
    return [buffers.rows(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]
