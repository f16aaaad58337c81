"""FlashInfer's sampling kernels as flashinfer-python 0.6.18.post1 has them: plain draws, top-k, top-p, min-p.

A row draws from the seed and offset of its launch and from its place there; of tensors of seeds the kernels read the
first element alone, so a generator says as much. top-k keeps a token while fewer than k lie strictly above it, top-p
while less than p does, min-p from p times the maximum: ties are kept whole, and a sum that equals p stops.
"""

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pp3.harness.filters import ENGINES, Rules
from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness

FIRST, JOINT = ENGINES["flashinfer"], ENGINES["flashinfer-joint"]
SOURCES = (
    "sampling.py",
    "data/csrc/sampling.cu",
    "data/csrc/renorm.cu",
    "data/include/flashinfer/sampling.cuh",
    "data/include/flashinfer/topk.cuh",
)
ELEMENTS = 1 << 32  # of one launch: the kernels address them in 32 bits
ROWS = 64  # the harness gives a launch more only where they have fewer entries than 2^26 (harness/trial/run.py)
Drawn = tuple[torch.Tensor, torch.Tensor | None]  # [n] int32 ids; [n] bool, False where a row was no law


def package() -> Any:
    """FlashInfer; each of its kernels is compiled when first called."""
    return importlib.import_module("flashinfer")


def sources() -> tuple[tuple[str, str], ...]:
    """Name and SHA-256 of the files that the kernels are compiled from."""
    home = Path(package().__file__).parent
    found = [(name, home / name) for name in SOURCES if (home / name).is_file()]
    return tuple((f"flashinfer/{name}", hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """One entry point, called once for a batch, every setting a tensor by row."""

    name: str
    draw: Callable[[Any, Batch], Drawn]  # of flashinfer.sampling and a batch
    carrier: Carrier
    filters: tuple[str, ...] = ()
    rules: Rules = FIRST

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name=self.name,
            kind=Kind.PLAIN,
            version=package().__version__,
            files=sources(),
            target_carrier=self.carrier,
            randomness=Randomness.GENERATOR,
            row_key="slot",
            filters=self.filters,
            order=self.rules.order,
            ties=self.rules.ties,
            top_p_ties=self.rules.top_p_ties,
            top_p_hit=self.rules.hit,
            max_vocab=ELEMENTS // ROWS - 1,
        )

    def run(self, batch: Batch) -> Emission:
        """One token a row; the status of a row that the kernel calls no law is 1."""
        tokens, lawful = self.draw(package().sampling, batch)
        return Emission(tokens=tokens, status=None if lawful is None else (~lawful).int())


def _heated(batch: Batch) -> torch.Tensor:
    """[n, vocab] fp32 logits; no entry point takes a temperature."""
    logits: torch.Tensor = batch.logits / batch.temperature[:, None]
    return logits


def _top_k(batch: Batch) -> torch.Tensor:
    """[n] int32, the vocabulary where it is off: the kernels would keep nothing of a top-k of 0."""
    off = torch.full((len(batch),), batch.vocab, dtype=torch.int32, device=batch.device)
    return off if batch.top_k is None else torch.where(batch.top_k > 0, batch.top_k, off)


def _share(batch: Batch, setting: torch.Tensor | None, off: float) -> torch.Tensor:
    """[n] fp32 top-p or min-p."""
    if setting is not None:
        return setting
    return torch.full((len(batch),), off, dtype=torch.float32, device=batch.device)


def _from_logits(sampling: Any, batch: Batch) -> Drawn:
    return sampling.sampling_from_logits(_heated(batch), generator=batch.generator), None


def _from_probs(sampling: Any, batch: Batch) -> Drawn:
    drawn: Drawn = sampling.sampling_from_probs(batch.probs, generator=batch.generator, return_valid=True)
    return drawn


def _by_top_k(sampling: Any, batch: Batch) -> Drawn:
    drawn: Drawn = sampling.top_k_sampling_from_probs(
        batch.probs, _top_k(batch), generator=batch.generator, return_valid=True
    )
    return drawn


def _by_top_p(sampling: Any, batch: Batch) -> Drawn:
    drawn: Drawn = sampling.top_p_sampling_from_probs(
        batch.probs, _share(batch, batch.top_p, 1.0), generator=batch.generator, return_valid=True
    )
    return drawn


def _by_min_p(sampling: Any, batch: Batch) -> Drawn:
    drawn: Drawn = sampling.min_p_sampling_from_probs(
        batch.probs, _share(batch, batch.min_p, 0.0), generator=batch.generator, return_valid=True
    )
    return drawn


def _by_both(order: str) -> Callable[[Any, Batch], Drawn]:
    """top-k and top-p of probabilities in an order that FlashInfer names."""

    def draw(sampling: Any, batch: Batch) -> Drawn:
        drawn: Drawn = sampling.top_k_top_p_sampling_from_probs(
            batch.probs,
            _top_k(batch),
            _share(batch, batch.top_p, 1.0),
            filter_apply_order=order,
            generator=batch.generator,
            return_valid=True,
        )
        return drawn

    return draw


def _by_both_of_logits(order: str) -> Callable[[Any, Batch], Drawn]:
    """The same of logits: masked by top-k, or left whole, before torch's softmax."""

    def draw(sampling: Any, batch: Batch) -> Drawn:
        tokens = sampling.top_k_top_p_sampling_from_logits(
            _heated(batch),
            _top_k(batch),
            _share(batch, batch.top_p, 1.0),
            filter_apply_order=order,
            generator=batch.generator,
        )
        return tokens, None

    return draw


LOGITS, PROBS, BOTH = Carrier.LOGITS, Carrier.PROBS, ("top_k", "top_p")
from_logits = Plain(name="flashinfer-logits", draw=_from_logits, carrier=LOGITS, filters=("temperature",))
from_probs = Plain(name="flashinfer-probs", draw=_from_probs, carrier=PROBS)
top_k = Plain(name="flashinfer-top-k", draw=_by_top_k, carrier=PROBS, filters=("top_k",))
top_p = Plain(name="flashinfer-top-p", draw=_by_top_p, carrier=PROBS, filters=("top_p",))
min_p = Plain(name="flashinfer-min-p", draw=_by_min_p, carrier=PROBS, filters=("min_p",))
top_k_top_p = Plain(name="flashinfer-top-k-top-p", draw=_by_both("top_k_first"), carrier=PROBS, filters=BOTH)
joint = Plain(name="flashinfer-top-k-top-p-joint", draw=_by_both("joint"), carrier=PROBS, filters=BOTH, rules=JOINT)
top_k_top_p_logits = Plain(
    name="flashinfer-top-k-top-p-logits",
    draw=_by_both_of_logits("top_k_first"),
    carrier=LOGITS,
    filters=("temperature", *BOTH),
)
joint_logits = Plain(
    name="flashinfer-top-k-top-p-joint-logits",
    draw=_by_both_of_logits("joint"),
    carrier=LOGITS,
    filters=("temperature", *BOTH),
    rules=JOINT,
)
