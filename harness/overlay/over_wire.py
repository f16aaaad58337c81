"""The overlays at the end of the whole path: every proposal is encoded, goes over the wire and through a proxy.

Requests whose first draft is to be void lose their proposal on the way, by a fault (transport/faults.py). The engine
then holds tokens that nothing vouches for any more, and the runner overlay must void them. The test surface: no
switch is read.
"""

from typing import Any

import numpy.typing as npt
import torch

from pp3.harness.overlay.load import Opened
from pp3.harness.overlay.pipeline import Overlay
from pp3.harness.samplers.contract import INVALIDATED, Batch, Description, Emission
from pp3.harness.transport.buffers import Sparse, q_of
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import Landing
from pp3.harness.transport.stage_kernels import KernelLanding
from pp3.kernels.reference import FAILED, OK, Proposal

Array = npt.NDArray[Any]


class OverWire(Overlay):
    """The overlays behind the wire. `close` ends proxy and drafter."""

    def __init__(self, opened: Opened, device: str, place: Place) -> None:
        super().__init__(opened, device)
        self.place = place
        self._way = PathSampler(_Stage(self), place)

    @property
    def journey(self) -> dict[str, Any]:
        """What became of the requests on the way, in receipt form."""
        return self._way.journey.plain()

    def close(self) -> None:
        """End what runs."""
        self._way.close()

    def _launch(self, batch: Batch) -> Emission:
        return self._way.run(batch) if batch.carrier else super()._launch(batch)


class _Stage:
    """Both ends of the path: transport/stage.Stage."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def describe(self) -> Description:
        """See Stage."""
        return self._overlay.describe()

    def propose(self, batch: Batch) -> Proposal:
        """See Stage."""
        drafts = self._overlay.propose(batch)
        fields = (drafts.status[:, None].expand(-1, batch.depth), drafts.token, drafts.ids, drafts.tickets)
        return Proposal(*(field.cpu().numpy() for field in fields))

    def proposed(self, proposal: Proposal) -> Any:
        """See Stage."""
        return torch.from_numpy(proposal.token).to(self._overlay.device)

    def verify(self, batch: Batch, ids: Array, tickets: Array) -> Emission:
        """See Stage: what arrived lands in the batch's slots again, by the engine's own buffers."""
        device = torch.device(self._overlay.device)
        given, support, shares = (torch.from_numpy(part).to(device) for part in (batch.given, ids, tickets))
        likely = support.gather(2, shares.argmax(dim=2, keepdim=True))[..., 0]
        tokens = torch.where(given == INVALIDATED, likely, given)  # a void draft of a row that arrived has one too
        lost = (given == INVALIDATED).all(dim=1)
        landed = Sparse(
            slots=batch.slots,
            generation=batch.generation,
            status=torch.where(lost, FAILED, OK).int(),
            sampled=torch.tensor(batch.sampled, dtype=torch.int32, device=device),
            tokens=tokens,
            ids=support,
            q=q_of(shares),
        )
        return self._overlay.verify(batch, landed, torch.where(lost[:, None], tokens, given))

    def direct(self, batch: Batch) -> Emission:
        """See Stage."""
        return self._overlay.point_mass(batch, self._overlay.propose(batch).token)

    def slots(self, slots: int, depth: int, vocab: int) -> Landing:
        """See Stage."""
        return KernelLanding(slots, depth, vocab, torch.device(self._overlay.device))
