"""Filtered sampling in torch, in the fewest lines that do it: a control for samplers that filter.

Temperature, then top-k, then top-p of what is left, then min-p; of tied tokens the lower ids are kept; top-p stops at
a sum that equals it; temperature 0 is the argmax. Sums and comparisons are in FP64, exact for multiples of 2^-24.
"""

import torch

from pp3.harness.filters import Hit, Order, Ties
from pp3.harness.samplers.contract import Batch, Carrier, Description, Kind


class Filters:
    """Sort, three masks, torch.multinomial; `carrier` says what it is fed: logits or probabilities."""

    def __init__(self, carrier: Carrier = Carrier.LOGITS) -> None:
        self.carrier = carrier

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="torch-filters" if self.carrier is Carrier.LOGITS else f"torch-filters-{self.carrier}",
            kind=Kind.PLAIN,
            version=torch.__version__,
            target_carrier=self.carrier,
            filters=("temperature", "top_k", "top_p", "min_p"),
            order=Order.TOP_K_FIRST,
            ties=Ties.LOWER_ID,
            top_p_ties=Ties.LOWER_ID,
            top_p_hit=Hit.STOPS,
            greedy=True,
        )

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        heat = batch.temperature.double()[:, None]
        if self.carrier is Carrier.LOGITS:
            probs = torch.softmax(batch.logits.double() / torch.where(heat > 0, heat, 1), dim=-1)
        else:
            probs = batch.probs.double()
        left, ids = probs.sort(dim=-1, descending=True, stable=True)
        rank = torch.arange(left.shape[1], device=left.device)
        if batch.top_k is not None:
            k = batch.top_k[:, None]
            left = left.where((k == 0) | (rank < k), 0)
        if batch.top_p is not None:
            p, sums = batch.top_p.double()[:, None], left.cumsum(dim=-1)
            left = left.where((p == 1) | (sums - left < p * sums[:, -1:]), 0)
        if batch.min_p is not None:
            left = left.where(left >= batch.min_p.double()[:, None] * left[:, :1], 0)
        left = left.where((heat > 0) | (rank == 0), 0)
        return ids.gather(1, torch.multinomial(left, 1, generator=batch.generator))


def of_probs() -> Filters:
    """The same, fed with probabilities."""
    return Filters(Carrier.PROBS)
