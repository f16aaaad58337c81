"""vLLM's Gumbel-max sampler: as it draws plain tokens, and as its speculators draw drafts that its verifier judges.

A speculator keys draft j by its source position + 1, which is the position of verification row j (pos + j here), and
by the request's seed: the key of the residual draw that replaces draft j. Only a salt keeps the two apart.
"""

from pathlib import Path

import torch

from pp3.harness.errors import CampaignError
from pp3.harness.image.load import Loaded
from pp3.harness.image.pins import Part
from pp3.harness.samplers.contract import WANTED, Batch, Carrier, Description, Emission, Kind, Randomness, Void
from pp3.harness.samplers.vllm_image import Function, describe, open_part
from pp3.harness.samplers.vllm_v2 import Slots, open_verifier, verify

MODULE = "vllm.v1.worker.gpu.sample.gumbel"
GIVEN = (
    "logits",
    "expanded_idx_mapping",
    "temperature",
    "seed",
    "pos",
    "apply_temperature",
    "is_drafting",
    "logits_cache",
    "logits_cache_col",
)
LEFT = ("use_fp64", "logits_cache_source")


def open_sampler(loaded: Loaded) -> Function:
    """`gumbel_sample`, its parameters checked."""
    return Function(loaded, "gumbel_sample", GIVEN, LEFT)


def salt(sampler: Function, drafting: bool) -> dict[str, bool]:
    """Whether the noise is salted as a draft's; nothing to say before 0.29.0, which has no salt."""
    return {"is_drafting": drafting} if "is_drafting" in sampler.parameters else {}


class Gumbel:
    """`apply_temperature`, then `gumbel_sample`: the plain sampler of model runner V2."""

    def __init__(self, image: Path | None, version: str) -> None:
        self.loaded = open_part(image, version, Part.V2)
        self.sampler = open_sampler(self.loaded)
        heated = ("logits", "expanded_idx_mapping", "temperature")
        self.heat = Function(self.loaded, "apply_temperature", heated, module=MODULE)

    def describe(self) -> Description:
        """See the contract."""
        return describe(
            self.loaded,
            "vllm-gumbel",
            kind=Kind.PLAIN,
            randomness=Randomness.KEYED,
            filters=("temperature",),
            ties="lower-id",
            greedy=True,
        )

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        slots, logits = Slots.of(batch), batch.logits.clone()
        self.heat(logits=logits, expanded_idx_mapping=slots.index, temperature=slots.temperature)
        tokens: torch.Tensor = self.sampler(
            logits=logits,
            expanded_idx_mapping=slots.index,
            temperature=slots.temperature,
            seed=slots.seed,
            pos=batch.pos,
            apply_temperature=False,
            **salt(self.sampler, drafting=False),
        )
        return tokens


class Pipeline:
    """Drafts by `gumbel_sample`, which keeps their logits by slot, then `rejection_sample` over those."""

    def __init__(self, image: Path | None, version: str, name: str = "vllm-v2-pipeline", salted: bool = True) -> None:
        self.name, self.salted = name, salted
        self.loaded = open_part(image, version, Part.V2)
        self.sampler, self.verifier = open_sampler(self.loaded), open_verifier(self.loaded)

    def describe(self) -> Description:
        """See the contract."""
        return describe(
            self.loaded,
            self.name,
            kind=Kind.PIPELINE,
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.LOGITS,
            randomness=Randomness.KEYED,
            void=Void.FULL_TARGET,
            greedy=True,
            ragged=True,
        )

    def run(self, batch: Batch) -> Emission:
        """One launch a draft position, one for verification, which cuts the drafts that a request does not have."""
        slots = Slots.of(batch)
        shape = (batch.num_slots, batch.depth, batch.vocab)
        kept = torch.full(shape, float("nan"), device=slots.seed.device)
        drafted: list[torch.Tensor] = []
        for j in range(batch.depth):
            logits = batch.draft_logits_after(j, drafted[-1] if drafted else None)
            drafted.append(
                self.sampler(
                    logits=logits,
                    expanded_idx_mapping=slots.index,
                    temperature=slots.temperature,
                    seed=slots.seed,
                    pos=batch.pos + j,
                    apply_temperature=True,
                    logits_cache=kept,
                    logits_cache_col=torch.full((), j, dtype=torch.int64, device=logits.device),
                    **salt(self.sampler, self.salted),
                )
            )
        proposed = torch.stack(drafted, dim=1)
        given = batch.tensors.given
        drafts = torch.where(given == WANTED, proposed, given.long())
        tokens, num_sampled = verify(self.verifier, batch, slots, batch.target_logits_after(drafts), kept, drafts)
        return Emission(tokens=tokens, num_sampled=num_sampled, drafts=drafts, proposed=proposed)


def unsalted(image: Path | None, version: str) -> Pipeline:
    """A negative control: drafts share the noise of the draws that replace them, as up to 0.28.0."""
    sampler = Pipeline(image, version, "vllm-v2-unsalted", salted=False)
    if not salt(sampler.sampler, drafting=True):
        raise CampaignError(f"vllm {version} has no salt to leave out: vllm-v2-pipeline-{version} is the same")
    return sampler
