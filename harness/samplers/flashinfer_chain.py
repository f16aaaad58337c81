"""FlashInfer's verifier of a chain of drafts, as flashinfer-python 0.6.18.post1 has it.

A draft is kept while u * draft < target, u in (0, 1]; the first that is not is replaced from (target - draft)+, and the
bonus follows a chain that is kept whole. Columns after the last token are -1. Both counters are added to; the one of
accepted drafts draws anew for the first rejected one and is not used. A draft of -1 is read as an index.
"""

import torch

from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness, Void
from pp3.harness.samplers.flashinfer_sampling import ELEMENTS, ROWS, package, sources

DEEPEST = 7


class Chain:
    """chain_speculative_sampling, called once for a batch."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="flashinfer-chain",
            kind=Kind.VERIFIER,
            version=package().__version__,
            files=sources(),
            target_carrier=Carrier.PROBS,
            draft_carrier=Carrier.PROBS,
            randomness=Randomness.GENERATOR,
            row_key="slot",
            void=Void.UNSUPPORTED,
            greedy=True,
            max_vocab=ELEMENTS // (ROWS * (DEEPEST + 1)) - 1,
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        accepted = torch.zeros(len(batch), dtype=torch.int32, device=batch.device)
        emitted = torch.zeros_like(accepted)
        tokens, _, drafts = package().sampling.chain_speculative_sampling(
            batch.draft_probs,
            batch.draft_ids,
            batch.target_probs,
            accepted,
            emitted,
            generator=batch.generator,
        )
        return Emission(tokens=tokens, num_sampled=drafts + 1)
