"""Open the engine that a command names: in process by name, or at an address; and the checkpoints that it serves."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pp3.harness.engine.checkpoint import EPSILON, Checkpoint, open_checkpoint
from pp3.harness.engine.contract import LEFT_OUT, Engine, Facts
from pp3.harness.engine.law import Law, logits_of
from pp3.harness.engine.plan import IDS, PROMPTS
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.engine.tensors import Loaded
from pp3.harness.engine.words import texts_of
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
    without: tuple[str, ...] = ()  # parameters that no request may have
    prompts: str = IDS  # this and the others: of an engine at an address
    dialect: str = "auto"
    timeout_s: float = 120.0  # of a whole answer
    retries: int = 3
    key_file: Path | None = None  # holds what is sent as a bearer token

    def checked(self) -> tuple[Checkpoint, Checkpoint | None]:
        """The checkpoints. CampaignError for options that do not go together, and for folders that are none."""
        far = served(self.engine)
        if not far and self.engine not in IN_PROCESS:
            raise CampaignError(f"--engine {self.engine!r}: give {', '.join(IN_PROCESS)}, or an address as http://...")
        if self.checkpoint is None:
            raise CampaignError("--engine needs --checkpoint DIR, the folder of the model that it serves")
        if far and not self.model:
            raise CampaignError("--engine URL needs --model NAME, the name that the engine knows the model by")
        if self.prompts not in PROMPTS:
            raise CampaignError(f"--prompts {self.prompts!r}: give {' or '.join(PROMPTS)}")
        if self.dtype not in (*Loaded,):
            raise CampaignError(f"--dtype {self.dtype!r}: give {', '.join(Loaded)}")
        target = open_checkpoint(self.checkpoint, "target")
        draft = None if self.draft is None else open_checkpoint(self.draft, "draft")
        if draft is not None and draft.chain is not target.chain:
            raise CampaignError(
                f"{self.draft} drafts for {draft.chain.name}, and {self.checkpoint} is {target.chain.name}"
            )
        return target, draft


def served(engine: str) -> bool:
    """Whether it is at an address."""
    return engine.startswith(SCHEMES)


def open_engine(where: Where, target: Checkpoint, draft: Checkpoint | None) -> Engine:
    """The engine. PP3Error (69) for one that is not installed, CampaignError for one that cannot be reached, and for a
    parameter to leave out that it does not offer."""
    engine = _opened(where, target, draft)
    if where.without:
        try:
            engine.facts = left_out(engine.facts, where.without)
        except CampaignError:
            engine.close()
            raise
    return engine


def left_out(facts: Facts, names: Iterable[str]) -> Facts:
    """An engine's facts without some of the parameters that it offers; its settings, which a receipt binds, say so."""
    for name in names:
        if name not in facts.supports:
            raise CampaignError(f"--without {name}: {facts.name} has {', '.join(sorted(facts.supports))}")
    said = ", ".join(sorted(set(names)))
    return replace(facts, supports=facts.supports - set(names), settings={**facts.settings, LEFT_OUT: said})


def _opened(where: Where, target: Checkpoint, draft: Checkpoint | None) -> Engine:
    """See open_engine."""
    if where.engine == "transformers":
        from pp3.harness.engine.transformers_engine import TransformersEngine

        return TransformersEngine(target.path, draft.path if draft else None, where.dtype, device_of(where.device))
    if where.engine == "reference":
        dtype = Loaded(where.dtype)
        laws = [_logits(one, dtype) for one in (target, draft) if one is not None]
        return ReferenceEngine(laws[0], target.chain.class_of, target.chain.end, laws[1] if draft else None)
    completions = importlib.import_module("pp3.harness.engine.completions")
    found: Engine = completions.connect(
        where.engine,
        where.model,
        target.chain.vocab,
        speculate=draft is not None,
        timeout_s=where.timeout_s,
        retries=where.retries,
        dialect=where.dialect,
        texts=texts_of(target.path),
        key=None if where.key_file is None else key_of(where.key_file),
        prompts=where.prompts,
    )
    return found


def key_of(path: Path) -> str:
    """What a file holds, as it is sent. CampaignError, which shows none of it, for what cannot be sent."""
    try:
        key = path.read_text("ascii").strip()
    except OSError as error:
        raise CampaignError(f"--key-file {path}: {error.strerror}; give a file that can be read") from None
    except UnicodeDecodeError:
        key = ""
    if not key or not key.isprintable():
        raise CampaignError(f"--key-file {path}: it must hold one line of ASCII, the key")
    return key


def device_of(wanted: str) -> str:
    """auto is the GPU if there is one."""
    if wanted != "auto":
        return wanted
    from pp3.harness.backends import cuda_available

    return "cuda" if cuda_available() else "cpu"


def _logits(one: Checkpoint, dtype: Loaded) -> Law:
    return logits_of(one.tensors, one.chain, dtype, EPSILON)
