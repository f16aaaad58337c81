"""A sampler that pp3 can judge. Put yours in the place of the lines in `run`."""

import torch

from pp3 import Batch, Description


class MySampler:
    """Draws one token from each row of logits."""

    def describe(self) -> Description:
        """Who it is and what it claims; `filters` names the settings that it applies."""
        return Description(name="my-sampler", kind="plain", version="0.1", filters=("temperature",))

    def run(self, batch: Batch) -> torch.Tensor:
        """Tokens [n]. batch.logits is [n, vocab] fp32, batch.temperature [n]; batch.top_k, top_p, min_p, seeds, ...

        What a batch offers, to a verifier too, is in docs/samplers.md.
        """
        probs = torch.softmax(batch.logits / batch.temperature[:, None], dim=-1)
        return torch.multinomial(probs, 1, generator=batch.generator)[:, 0]
