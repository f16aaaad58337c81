"""vLLM's model runner V2: `rejection_sample`, one launch a batch, over state kept by slot as the runner keeps it.

Row i of a request judges draft i at position pos + i, the position of the token that went in. Slots that no row has
hold NaN, and so do drafts that a request does not have: what is read from elsewhere cannot pass. Randomness follows
from (seed, position).
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from pp3.harness.image.load import Loaded
from pp3.harness.image.pins import Part
from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness, Rule, Void
from pp3.harness.samplers.vllm_image import Function, describe, open_part

RATE = 0.5  # at which the synthetic mode keeps a draft, whatever its probabilities
FLY = {"fly_window_size": 1, "fly_entropy_threshold": 0.3, "fly_entropy_top_k": 3}
GIVEN = (
    "target_logits",
    "draft_logits",
    "draft_sampled",
    "cu_num_logits",
    "pos",
    "idx_mapping",
    "expanded_idx_mapping",
    "expanded_local_pos",
    "temperature",
    "seed",
    "num_speculative_steps",
    "synthetic_conditional_rates",
    "use_block_verification",
    *FLY,
)
LEFT = ("use_fp64", "contexts", "watermarking", "watermarking_skip_mask", "watermark_key")


class Mode(StrEnum):
    """What a verifier is told beyond its inputs; the value is part of its name."""

    STANDARD = "v2"
    ONE_HOT = "v2-one-hot"
    BLOCK = "v2-block"
    RAW_PROBS = "v2-raw-probs"
    SYNTHETIC = "v2-synthetic"
    FLY = "v2-fly"


RULES = {Mode.BLOCK: Rule.BLOCK, Mode.SYNTHETIC: Rule.LOSSY, Mode.FLY: Rule.LOSSY}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """State of all slots; only those of the batch's rows are filled."""

    index: torch.Tensor  # [n] int32: slot of each row
    temperature: torch.Tensor  # [slots] fp32
    seed: torch.Tensor  # [slots] int64

    @classmethod
    def of(cls, batch: Batch) -> "Slots":
        """The temperature and seed of each row, at its slot."""
        return cls(
            index=batch.slots.int(),
            temperature=by_slot(batch, batch.temperature, float("nan")),
            seed=by_slot(batch, batch.seeds, -1),
        )


def by_slot(batch: Batch, rows: torch.Tensor, empty: float) -> torch.Tensor:
    """Rows [n, ...] at their slots [slots, ...], `empty` elsewhere."""
    state = torch.full((batch.num_slots, *rows.shape[1:]), empty, dtype=rows.dtype, device=rows.device)
    state[batch.slots] = rows
    return state


def open_verifier(loaded: Loaded) -> Function:
    """`rejection_sample`, its parameters checked."""
    return Function(loaded, "rejection_sample", GIVEN, LEFT)


def verify(
    verifier: Function,
    batch: Batch,
    slots: Slots,
    target_logits: torch.Tensor,
    draft_logits: torch.Tensor | None,
    drafts: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One launch: target_logits [n, K + 1, V], draft_logits by slot [slots, K, V], drafts [n, K].

    A request has a row for each of its own drafts, and one more.
    """
    n, depth = len(batch), batch.depth
    steps = torch.arange(depth + 1, device=drafts.device)
    own = steps <= batch.tensors.num_drafts[:, None]
    last = torch.zeros(n, 1, dtype=torch.int32, device=drafts.device)  # the token before the drafts, which nobody reads
    tokens, num_sampled = verifier(
        target_logits=target_logits[own],
        draft_logits=draft_logits,
        draft_sampled=torch.cat([last, drafts.int()], dim=1)[own],
        cu_num_logits=torch.nn.functional.pad(own.sum(dim=1).cumsum(dim=0), (1, 0)).int(),
        pos=(batch.pos[:, None] + steps)[own],
        idx_mapping=slots.index,
        expanded_idx_mapping=slots.index[:, None].expand(n, depth + 1)[own],
        expanded_local_pos=steps.int().expand(n, depth + 1)[own],
        temperature=slots.temperature,
        seed=slots.seed,
        num_speculative_steps=depth,
        **options,
    )
    return tokens, num_sampled


class Verifier:
    """`rejection_sample` on drafts of the harness, in one mode."""

    def __init__(self, image: Path | None, version: str, mode: Mode) -> None:
        self.mode = mode
        self.loaded = open_part(image, version, Part.V2)
        self.verifier = open_verifier(self.loaded)

    def describe(self) -> Description:
        """See the contract."""
        return describe(
            self.loaded,
            f"vllm-{self.mode}",
            kind=Kind.VERIFIER,
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.ONE_HOT if self.mode is Mode.ONE_HOT else Carrier.LOGITS,
            randomness=Randomness.KEYED,
            rule=RULES.get(self.mode, Rule.STANDARD),
            void=Void.FULL_TARGET,
            greedy=True,
            ragged=True,
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        tokens, num_sampled = verify(
            self.verifier,
            batch,
            Slots.of(batch),
            batch.target_logits,
            self._draft_logits(batch),
            batch.draft_ids,
            **self._options(batch),
        )
        return Emission(tokens=tokens, num_sampled=num_sampled)

    def _draft_logits(self, batch: Batch) -> torch.Tensor | None:
        """Before temperature, by slot [slots, K, V]."""
        if self.mode is Mode.ONE_HOT:
            return None
        rows = batch.draft_probs if self.mode is Mode.RAW_PROBS else batch.draft_logits
        absent = torch.arange(batch.depth, device=rows.device) >= batch.tensors.num_drafts[:, None]
        return by_slot(batch, rows.masked_fill(absent[..., None], float("nan")), float("nan"))

    def _options(self, batch: Batch) -> dict[str, Any]:
        if self.mode is Mode.BLOCK:
            return {"use_block_verification": True}
        if self.mode is Mode.SYNTHETIC:
            return {"synthetic_conditional_rates": torch.full((batch.depth,), RATE, device=batch.target_logits.device)}
        return dict(FLY) if self.mode is Mode.FLY else {}


def standard(image: Path | None, version: str) -> Verifier:
    """With draft logits."""
    return Verifier(image, version, Mode.STANDARD)


def one_hot(image: Path | None, version: str) -> Verifier:
    """Without draft logits: each draft a point mass."""
    return Verifier(image, version, Mode.ONE_HOT)


def block(image: Path | None, version: str) -> Verifier:
    """Block verification."""
    return Verifier(image, version, Mode.BLOCK)


def raw_probs(image: Path | None, version: str) -> Verifier:
    """A negative control: probabilities where draft logits belong."""
    return Verifier(image, version, Mode.RAW_PROBS)


def synthetic(image: Path | None, version: str) -> Verifier:
    """A negative control: drafts are kept at a fixed rate."""
    return Verifier(image, version, Mode.SYNTHETIC)


def fly(image: Path | None, version: str) -> Verifier:
    """A negative control: rejections are taken back where the target is undecided."""
    return Verifier(image, version, Mode.FLY)
