"""PP3's own sampler through the contract of a foreign one: top-32 tickets, then standard rejection in integers.

The kernels get their rows as any sampler does, each request its own in memory. Random words are addressed: every draw
follows from the request's keys, round and position (semantics section 1).
"""

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from pp3 import __version__
from pp3.harness.samplers import reference as reference_sampler
from pp3.harness.samplers.contract import WANTED, Batch, Carrier, Description, Emission, Kind, Randomness, Void
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.kernels import addressing, reference
from pp3.kernels.addressing import Purpose


class Reference:
    """The NumPy reference, on the CPU: rows of the target's tables, each allocated once."""

    def describe(self) -> Description:
        """See the contract."""
        return _description("pp3-top32-reference", reference_sampler, reference, addressing)

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        return ReferenceSampler().run(batch)


class Kernels:
    """The Triton kernels through the launchers that users call, one launch for a whole batch.

    proposal, verifier: the modules of the launchers, pp3.kernels' own unless others are given.
    """

    def __init__(self, proposal: ModuleType | None = None, verifier: ModuleType | None = None) -> None:
        from pp3.kernels import proposal as our_proposal
        from pp3.kernels import verifier as our_verifier

        self.proposal: Any = proposal or our_proposal
        self.verifier: Any = verifier or our_verifier

    def describe(self) -> Description:
        """See the contract."""
        drafting, judging = self.proposal, self.verifier
        drafts = (drafting, drafting.allocation, drafting.allocation.exponential, drafting.search)
        wide = (drafting.selector, drafting.selector.groups, judging.walk)
        judges = (judging, judging.rejection, judging.rejection.philox, judging.row_sums)
        return _description("pp3-top32-kernels", *drafts, *wide, *judges, reference, addressing)

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        device = torch.device(batch.device)
        sampled = torch.tensor(batch.sampled, dtype=torch.int32, device=device)
        rounds, positions = (_bits(words, device) for words in (batch.rounds, batch.positions))
        drafts = self.proposal.empty_drafts(len(batch), batch.depth, device)
        keys = _bits(batch.keys(Purpose.PROPOSAL), device)
        with np.errstate(all="ignore"):  # in the interpreter masked lanes are NumPy's
            for j in range(batch.depth):
                previous = drafts.token[:, j - 1] if j else None
                logits = batch.draft_logits_after(j, previous).to(torch.bfloat16)
                self.proposal.propose(logits, sampled, keys, rounds, positions, out=drafts, column=j)
            given = batch.tensors.given
            verified_drafts = torch.where(given == WANTED, drafts.token, given)
            verified = self.verifier.verify(
                batch.target_probs_after(verified_drafts),
                verified_drafts,
                drafts.ids,
                drafts.tickets,
                sampled,
                _bits(batch.keys(Purpose.VERIFY), device),
                rounds,
                positions,
            )
        return Emission(
            status=torch.where(drafts.status != reference.OK, drafts.status, verified.status),
            tokens=verified.tokens,
            num_sampled=verified.num_sampled,
            proposed=drafts.token,
            drafts=verified_drafts,
            support=drafts.ids,
            tickets=drafts.tickets,
        )


def _description(name: str, *modules: ModuleType) -> Description:
    """Who a sampler is that is made of these modules."""
    return Description(
        name=name,
        version=__version__,
        kind=Kind.PIPELINE,
        files=tuple(_digest(module) for module in modules),
        target_carrier=Carrier.PROBS,
        draft_carrier=Carrier.TICKETS,
        randomness=Randomness.ADDRESSED,
        void=Void.FULL_TARGET,
        greedy=True,
        min_vocab=reference.MIN_VOCAB,
        max_vocab=reference.MAX_VOCAB,
    )


def _digest(module: ModuleType) -> tuple[str, str]:
    """Name and SHA-256 of a module's file."""
    content = Path(str(module.__file__)).read_bytes()
    return f"{module.__name__.replace('.', '/')}.py", hashlib.sha256(content).hexdigest()


def _bits(words: Any, device: torch.device) -> torch.Tensor:
    """u64 words [n] as the int64 bit patterns that a kernel takes."""
    return torch.tensor(words.view(np.int64), device=device)
