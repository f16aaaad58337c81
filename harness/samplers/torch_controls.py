"""Controls written with torch alone: samplers that must pass, in the fewest lines that do the job."""

import torch

from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness

FILTERS = ("temperature",)


class Multinomial:
    """softmax, then torch.multinomial."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(name="torch-multinomial", kind=Kind.PLAIN, version=torch.__version__, filters=FILTERS)

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        probs = torch.softmax(batch.logits / batch.temperature[:, None], dim=-1)
        return torch.multinomial(probs, 1, generator=batch.generator)


class ExponentialRace:
    """softmax, then the first arrival of exponential clocks: probs / E, argmax."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(name="torch-exponential-race", kind=Kind.PLAIN, version=torch.__version__, filters=FILTERS)

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        probs = torch.softmax(batch.logits / batch.temperature[:, None], dim=-1)
        clocks = torch.empty_like(probs).exponential_(generator=batch.generator)
        return (probs / clocks).argmax(dim=-1)


class StandardRejection:
    """Leviathan et al. 2023, vectorised: min(1, P/Q), then (P - Q)+, then the bonus."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="torch-standard-rejection",
            kind=Kind.VERIFIER,
            version=torch.__version__,
            target_carrier=Carrier.PROBS,
            draft_carrier=Carrier.PROBS,
            randomness=Randomness.GENERATOR,
            greedy=True,
            ragged=True,
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        n, depth = len(batch), batch.depth
        target, proposal = batch.target_probs, batch.draft_probs
        void = batch.draft_ids < 0  # or absent: either ends the round with a draw from the target's row
        ids = batch.draft_ids.clamp(min=0).long()
        p = target[:, :depth].gather(2, ids[..., None])[..., 0]
        q = proposal.gather(2, ids[..., None])[..., 0]
        coins = torch.rand(n, depth, generator=batch.generator, device=target.device, dtype=torch.float64)
        kept = (coins * q < p) & ~void
        length = kept.long().cumprod(dim=1).sum(dim=1)
        at = length.clamp(max=depth - 1)
        rows = torch.arange(n, device=target.device)
        law = target[rows, length]
        residual = (law - proposal[rows, at]).clamp(min=0)
        replace = (length < depth) & ~void[rows, at]
        law = torch.where(replace[:, None], residual, law)
        last = torch.multinomial(law, 1, generator=batch.generator)
        tokens = torch.full((n, depth + 1), -1, device=target.device)
        tokens[:, :depth] = ids
        tokens.scatter_(1, length[:, None], last)
        return Emission(tokens=tokens, num_sampled=length + 1)
