"""vLLM's classic verifier, of model runner V1: `rejection_sample` over probabilities, and torch's own generators.

It is handed the bonus token: here this adapter's own exact draw, so that cells of the bonus test the adapter.
"""

from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace

import torch

from pp3.harness.image.pins import Part
from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness, Void
from pp3.harness.samplers.vllm_image import Function, describe, open_part, seeded

GIVEN = (
    "draft_token_ids",
    "num_draft_tokens",
    "max_spec_len",
    "cu_num_draft_tokens",
    "draft_probs",
    "target_logits",
    "bonus_token_ids",
    "sampling_metadata",
)
LEFT = (
    "synthetic_mode",
    "synthetic_conditional_rates",
    "use_fp64_gumbel",
    "fly_window_size",
    "fly_entropy_threshold",
    "fly_entropy_top_k",
)


class Mode(StrEnum):
    """What it is given and held to; the value is part of its name."""

    PROBS = "classic"  # an invalidated draft must bring the full target, as documented
    RESIDUAL = "classic-residual"  # the same, held to what it does: the residual
    ONE_HOT = "classic-one-hot"  # without draft probabilities


class Classic:
    """`rejection_sample` on drafts of the harness."""

    def __init__(self, image: Path | None, version: str, mode: Mode) -> None:
        self.mode = mode
        self.loaded = open_part(image, version, Part.CLASSIC)
        self.verifier = Function(self.loaded, "rejection_sample", GIVEN, LEFT)

    def describe(self) -> Description:
        """See the contract."""
        return describe(
            self.loaded,
            f"vllm-{self.mode}",
            kind=Kind.VERIFIER,
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.ONE_HOT if self.mode is Mode.ONE_HOT else Carrier.PROBS,
            randomness=Randomness.GLOBAL,
            void=Void.RESIDUAL if self.mode is Mode.RESIDUAL else Void.FULL_TARGET,
            greedy=True,
            ragged=True,
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request; what follows the last token is -1."""
        target, counts = batch.target_logits, batch.tensors.num_drafts
        own = torch.arange(batch.depth, device=target.device) < counts[:, None]
        bonus = target[torch.arange(len(batch), device=target.device), counts.long()]
        sampled = batch.temperature > 0
        how = SimpleNamespace(
            all_greedy=not batch.sampled.any(),
            all_random=bool(batch.sampled.all()),
            temperature=batch.temperature,
            generators={},
        )
        with seeded(batch):
            tokens: torch.Tensor = self.verifier(
                draft_token_ids=batch.draft_ids[own],
                num_draft_tokens=batch.num_drafts.tolist(),
                max_spec_len=batch.depth,
                cu_num_draft_tokens=counts.cumsum(dim=0, dtype=torch.int32),
                draft_probs=None if self.mode is Mode.ONE_HOT else batch.draft_probs[own],
                target_logits=target[:, :-1][own],
                bonus_token_ids=torch.where(sampled, drawn(bonus), bonus.argmax(1))[:, None],
                sampling_metadata=how,
            )
        return Emission(tokens=tokens, num_sampled=(tokens >= 0).sum(dim=1))


def drawn(logits: torch.Tensor) -> torch.Tensor:
    """One token [n] a row [n, V], by exponential clocks in FP64."""
    probs = torch.softmax(logits.double(), dim=1)
    return (probs / torch.empty_like(probs).exponential_()).argmax(dim=1)


def standard(image: Path | None, version: str) -> Classic:
    """Held to its documentation."""
    return Classic(image, version, Mode.PROBS)


def residual(image: Path | None, version: str) -> Classic:
    """Held to what it does."""
    return Classic(image, version, Mode.RESIDUAL)


def one_hot(image: Path | None, version: str) -> Classic:
    """Each draft a point mass."""
    return Classic(image, version, Mode.ONE_HOT)
