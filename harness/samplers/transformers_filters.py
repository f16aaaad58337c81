"""transformers' filtered sampling: the processors that `generate` builds for a request that samples, and its draw.

They take one setting for a whole batch, so rows of equal settings go together. Temperature 0 is refused by `generate`.
"""

import importlib
from typing import Any

import torch

from pp3.harness.filters import ENGINES
from pp3.harness.samplers.contract import Batch, Description, Kind, Randomness
from pp3.harness.samplers.transformers_speculative import UTILS, source_of

RULES = ENGINES["transformers"]
PROCESSORS = "transformers.generation.logits_process"


class Filters:
    """Processors in the order of `generate`, softmax, torch.multinomial."""

    def __init__(self) -> None:
        package = importlib.import_module("transformers")
        self.version, self.settings = package.__version__, package.GenerationConfig
        self.modules = [importlib.import_module(name) for name in (UTILS, PROCESSORS)]
        self.mixin = self.modules[0].GenerationMixin()

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="transformers-filters",
            kind=Kind.PLAIN,
            version=self.version,
            files=tuple(map(source_of, self.modules)),
            randomness=Randomness.GLOBAL,
            filters=("temperature", "top_k", "top_p", "min_p"),
            order=RULES.order,
            ties=RULES.ties,
            top_p_ties=RULES.top_p_ties,
            top_p_hit=RULES.hit,
        )

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        logits = batch.logits
        columns = [(batch.temperature, 1.0), (batch.top_k, 0.0), (batch.top_p, 1.0), (batch.min_p, 0.0)]
        settings = torch.stack(
            [torch.full_like(logits[:, 0], off).double() if own is None else own.double() for own, off in columns], 1
        )
        kinds, kind_of = torch.unique(settings, dim=0, return_inverse=True)
        tokens = torch.empty(len(batch), dtype=torch.int64, device=logits.device)
        for number, setting in enumerate(kinds.tolist()):
            rows = (kind_of == number).nonzero()[:, 0]
            tokens[rows] = self._sample(logits[rows], *setting)
        return tokens

    def _sample(self, logits: torch.Tensor, temperature: float, top_k: float, top_p: float, min_p: float) -> Any:
        """One token [n] for each row of logits [n, vocab]."""
        settings = self.settings(
            do_sample=True, temperature=temperature, top_k=int(top_k), top_p=top_p, min_p=min_p or None
        )
        process = self.mixin._get_logits_processor(settings, input_ids_seq_length=1)
        prompt = torch.zeros(len(logits), 1, dtype=torch.int64, device=logits.device)
        probs = torch.softmax(process(prompt, logits.clone()), dim=-1)
        return torch.multinomial(probs, num_samples=1)[:, 0]
