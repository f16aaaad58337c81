"""What proposes, keeps and verifies on one device, so that a path can lie between: here the NumPy reference."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.contract import Batch, Description, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.transport.slots import Round, Slots
from pp3.kernels.reference import OK, ONE, Proposal

Array = npt.NDArray[Any]


class Landing(Protocol):
    """State slots that rounds land in."""

    def land(self, landed: Round) -> tuple[Array, Array]:
        """Begin the requests of a round, store it, take it: drafts [n, depth], and the tickets [n, depth, 32] that
        dense q has at the ids of the round.
        """


class Stage(Protocol):
    """Both ends of a path, on one device; arrays that cross it are NumPy's."""

    def describe(self) -> Description:
        """Who proposes and verifies."""

    def propose(self, batch: Batch) -> Proposal:
        """Drafts of every position, [n, depth] a field."""

    def proposed(self, proposal: Proposal) -> Any:
        """The tokens of a proposal where emissions of this device are."""

    def verify(self, batch: Batch, ids: Array, tickets: Array) -> Emission:
        """Judge the drafts that a batch gives, by their law."""

    def direct(self, batch: Batch) -> Emission:
        """The whole round, without a path between."""

    def slots(self, slots: int, depth: int, vocab: int) -> Landing:
        """New state slots."""


class ReferenceLanding:
    """Slots in NumPy."""

    def __init__(self, slots: int, depth: int, vocab: int) -> None:
        self._slots = Slots(slots, depth, vocab)

    def land(self, landed: Round) -> tuple[Array, Array]:
        """See Landing."""
        self._slots.begin(landed.slots, landed.generation)
        self._slots.store(landed)
        drafts = self._slots.take(landed.slots, landed.generation)
        at = np.arange(self._slots.q.shape[1])[:, None]
        q = self._slots.q[landed.slots[:, None, None], at, landed.ids]
        return drafts, (q * np.float32(ONE)).astype(np.int32)


class ReferenceStage:
    """The NumPy reference."""

    def __init__(self) -> None:
        self._sampler = ReferenceSampler()

    def describe(self) -> Description:
        """See Stage."""
        return self._sampler.describe()

    def propose(self, batch: Batch) -> Proposal:
        """See Stage."""
        return self._sampler._propose(batch)

    def proposed(self, proposal: Proposal) -> Any:
        """See Stage."""
        return proposal.token

    def verify(self, batch: Batch, ids: Array, tickets: Array) -> Emission:
        """See Stage."""
        fine = np.full(batch.given.shape, OK, np.int32)
        return self._sampler._verify(batch, Proposal(fine, batch.given, ids, tickets))

    def direct(self, batch: Batch) -> Emission:
        """See Stage."""
        return self._sampler.run(batch)

    def slots(self, slots: int, depth: int, vocab: int) -> Landing:
        """See Stage."""
        return ReferenceLanding(slots, depth, vocab)
