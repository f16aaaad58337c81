"""transformers' speculative sampling: what assisted generation judges a draft model's tokens with when it samples.

One request a call, drafts and target as processed logits, random numbers from torch's global generator, which the
harness seeds.
"""

import hashlib
import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness, Void

UTILS = "transformers.generation.utils"
EMPTY = -1  # a column that nothing was emitted to


class Speculative:
    """`_speculative_sampling`, called for every request of a batch in turn."""

    def __init__(self) -> None:
        self.version = importlib.import_module("transformers").__version__
        self.utils = importlib.import_module(UTILS)
        self.judge = self.utils._speculative_sampling
        # 5.17 wants to know whether the drafts end with a stop, 5.24 no more: these never do.
        known = inspect.signature(self.judge).parameters
        self.more = {"is_done_candidate": False} if "is_done_candidate" in known else {}

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="transformers-speculative",
            kind=Kind.VERIFIER,
            version=self.version,
            files=(source_of(self.utils),),
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.SCALED_LOGITS,
            randomness=Randomness.GLOBAL,
            void=Void.UNSUPPORTED,
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        drafts, proposal, target = batch.draft_ids.long(), batch.scaled_draft_logits, batch.target_logits
        tokens = torch.full((len(batch), batch.depth + 1), EMPTY, dtype=torch.int64, device=target.device)
        rounds, kept = [], []
        with torch.inference_mode(), one_thread():  # `generate` keeps no gradients either
            for ids, q, p in zip(drafts.split(1), proposal.split(1), target.split(1), strict=True):
                emitted, count = self.judge(
                    candidate_input_ids=ids,
                    candidate_logits=q,
                    candidate_length=batch.depth,
                    new_logits=p,
                    **self.more,
                )
                rounds.append(emitted[0])
                kept.append(count)
        filled = torch.nn.utils.rnn.pad_sequence(rounds, batch_first=True, padding_value=EMPTY)
        tokens[:, : filled.shape[1]] = filled
        return Emission(tokens=tokens, num_sampled=torch.stack(kept) + 1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Rows of a few tokens take 0.1 ms a call; sharing them out among threads takes several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def source_of(module: Any) -> tuple[str, str]:
    """Name and SHA-256 of the file of a module."""
    path = Path(module.__file__)
    return f"{module.__name__.replace('.', '/')}{path.suffix}", hashlib.sha256(path.read_bytes()).hexdigest()
