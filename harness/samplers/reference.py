"""The NumPy reference as a sampler under test: every distinct row is allocated and quantised once."""

from collections.abc import Callable
from functools import cache

import numpy as np

from pp3 import __version__
from pp3.harness.samplers.contract import WANTED, Batch, Description, Emission, Kind, target_table
from pp3.harness.tally import start_of
from pp3.kernels import reference
from pp3.kernels.addressing import Purpose
from pp3.targets import Target


class ReferenceSampler:
    """Proposal and verification of the reference, on the CPU."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="pp3-top32",
            version=__version__,
            kind=Kind.PIPELINE,
            backend="reference",
            module=__name__,
            min_vocab=reference.MIN_VOCAB,
            max_vocab=reference.MAX_VOCAB,
        )

    def run(self, batch: Batch) -> Emission:
        """See the contract. Rows are independent here, so the launch size changes nothing."""
        return self._verify(batch, self._propose(batch))

    def steps(self, batch: Batch) -> dict[str, Callable[[], object]]:
        """The parts of a round, and the whole, to be timed."""
        proposal = self._propose(batch)
        return {
            "proposal": lambda: self._propose(batch),
            "verify": lambda: self._verify(batch, proposal),
            "round": lambda: self.run(batch),
        }

    def _propose(self, batch: Batch) -> reference.Proposal:
        """Drafts of every position, [n, depth] a field."""
        target, depth = batch.target, batch.depth
        supports, _ = _tables(target)
        keys, rounds = batch.keys(Purpose.PROPOSAL), batch.rounds
        context = start_of(target, batch.requests)
        columns = []
        for j in range(depth):
            row = target.row_of[j, context]
            position = batch.positions + np.uint64(j)
            columns.append(reference.propose_rows(supports, row, batch.sampled, keys, rounds, position, reference.TAU))
            context = target.context_of[np.maximum(columns[-1].token, 0)]
        return reference.seal(reference.Proposal(*(np.stack(field, axis=1) for field in zip(*columns, strict=True))))

    def _verify(self, batch: Batch, proposal: reference.Proposal) -> Emission:
        """Judge the drafts, or those given instead."""
        target, depth = batch.target, batch.depth
        _, rows = _tables(target)
        start = start_of(target, batch.requests)
        drafts = np.where(batch.given == WANTED, proposal.token, batch.given).astype(np.int32)
        previous = target.context_of[np.maximum(drafts, 0)]
        context = np.concatenate([start[:, None], previous], axis=1)
        row = target.row_of[np.arange(depth + 1), context] + np.where(batch.sampled, 0, len(target.weights))[:, None]
        verified = reference.verify_rows(
            rows,
            row,
            drafts,
            proposal.ids if batch.carrier else None,
            proposal.tickets if batch.carrier else None,
            batch.sampled,
            batch.keys(Purpose.VERIFY),
            batch.rounds,
            batch.positions,
        )
        return Emission(
            status=np.where(proposal.status[:, 0] != reference.OK, proposal.status[:, 0], verified.status),
            tokens=verified.tokens,
            num_sampled=verified.num_sampled,
            proposed=proposal.token,
            drafts=drafts,
            support=proposal.ids,
            tickets=proposal.tickets,
        )


@cache
def _tables(target: Target) -> tuple[reference.Supports, reference.TargetRows]:
    return reference.allocate(target.draft_logits), reference.quantise(target_table(target))
