"""Open the engine that a command names: in process by name, or at an address; and the checkpoints that it serves."""

import importlib
from dataclasses import dataclass
from pathlib import Path

from pp3.harness.engine.checkpoint import EPSILON, Checkpoint, open_checkpoint, word_of
from pp3.harness.engine.contract import Engine
from pp3.harness.engine.law import Law, logits_of
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.engine.tensors import Loaded
from pp3.harness.errors import CampaignError

IN_PROCESS = ("transformers", "reference")
SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which engine, and what it serves, as the command line says."""

    engine: str
    model: str | None
    checkpoint: Path | None
    draft: Path | None
    dtype: str
    device: str  # auto, cuda or cpu; of an engine in process

    def checked(self) -> tuple[Checkpoint, Checkpoint | None]:
        """The checkpoints. CampaignError for options that do not go together, and for folders that are none."""
        served = self.engine.startswith(SCHEMES)
        if not served and self.engine not in IN_PROCESS:
            raise CampaignError(f"--engine {self.engine!r}: give {', '.join(IN_PROCESS)}, or an address as http://...")
        if self.checkpoint is None:
            raise CampaignError("--engine needs --checkpoint DIR, the folder of the model that it serves")
        if served and not self.model:
            raise CampaignError("--engine URL needs --model NAME, the name that the engine knows the model by")
        if self.dtype not in (*Loaded,):
            raise CampaignError(f"--dtype {self.dtype!r}: give {', '.join(Loaded)}")
        target = open_checkpoint(self.checkpoint, "target")
        draft = None if self.draft is None else open_checkpoint(self.draft, "draft")
        if draft is not None and draft.chain is not target.chain:
            raise CampaignError(
                f"{self.draft} drafts for {draft.chain.name}, and {self.checkpoint} is {target.chain.name}"
            )
        return target, draft


def open_engine(where: Where, target: Checkpoint, draft: Checkpoint | None) -> Engine:
    """The engine. PP3Error (69) for one that is not installed, CampaignError for one that cannot be reached."""
    if where.engine == "transformers":
        from pp3.harness.engine.transformers_engine import TransformersEngine

        return TransformersEngine(target.path, draft.path if draft else None, where.dtype, device_of(where.device))
    if where.engine == "reference":
        dtype = Loaded(where.dtype)
        laws = [_logits(one, dtype) for one in (target, draft) if one is not None]
        return ReferenceEngine(laws[0], target.chain.class_of, target.chain.end, laws[1] if draft else None)
    texts = {word_of(token): token for token in range(target.chain.vocab)}
    completions = importlib.import_module("pp3.harness.engine.completions")
    found: Engine = completions.connect(
        where.engine, where.model, target.chain.vocab, speculate=draft is not None, texts=texts
    )
    return found


def device_of(wanted: str) -> str:
    """auto is the GPU if there is one."""
    if wanted != "auto":
        return wanted
    from pp3.harness.backends import cuda_available

    return "cuda" if cuda_available() else "cpu"


def _logits(one: Checkpoint, dtype: Loaded) -> Law:
    return logits_of(one.tensors, one.chain, dtype, EPSILON)
