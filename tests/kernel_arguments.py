"""Arguments that the kernels' launchers take, for tests that spoil one."""

from typing import Any

import torch

from pp3.kernels import proposal
from pp3.kernels.reference import ONE, SUPPORT

POISON = -(1 << 30)


def poisoned(batch: int, depth: int) -> proposal.Drafts:
    """Buffers in which an unwritten entry shows."""
    drafts = proposal.empty_drafts(batch, depth, torch.device("cpu"))
    for tensor in drafts:
        tensor.fill_(POISON)
    return drafts


def propose_arguments() -> dict[str, Any]:
    """A call that works."""
    words = {name: torch.zeros(2, dtype=torch.int64) for name in ("keys", "rounds", "positions")}
    return {"logits": torch.zeros(2, 40), "sampled": torch.ones(2, dtype=torch.int32), **words}


def verify_arguments() -> dict[str, Any]:
    """A call that works."""
    words = {name: torch.zeros(2, dtype=torch.int64) for name in ("keys", "rounds", "positions")}
    return {
        "target_probs": torch.full((2, 5, 64), 1 / 64),
        "draft_ids": torch.zeros(2, 4, dtype=torch.int32),
        "support": torch.arange(SUPPORT, dtype=torch.int32).expand(2, 4, SUPPORT).contiguous(),
        "tickets": torch.full((2, 4, SUPPORT), ONE // SUPPORT, dtype=torch.int32),
        "sampled": torch.ones(2, dtype=torch.int32),
        **words,
    }
