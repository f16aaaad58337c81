"""The reference with a fault of its tokens, residuals or drafts, and a sampler that is wrong."""

from typing import Any

import numpy as np
import torch

from pp3 import Batch, Emission
from pp3.harness.samplers.torch_controls import StandardRejection
from pp3.kernels import reference


def wrong_tokens(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
    """One token in 4,096 is the one after the right one."""
    out = REAL(rows, row, support, tickets, rejected, w64).copy()
    bad = (w64[:, 1] >> 20) == 77
    out[bad] = (out[bad] + 1) % rows.quanta.shape[1]
    return out


def wrong_residuals(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
    """One replacement in three comes from the target."""
    return REAL(rows, row, support, tickets, rejected & (w64[:, 3] % 3 > 0), w64)


def wrong_drafts(*arguments: Any) -> Any:
    """One draft in 16 is the first of its support."""
    drafts = PROPOSE(*arguments)
    bad = drafts.token % 16 == 3
    return drafts._replace(token=np.where(bad, drafts.ids[:, 0], drafts.token).astype(np.int32))


REAL, PROPOSE = reference._emit, reference.propose_rows
FAULTS = {
    "tokens": ("_emit", wrong_tokens),
    "residuals": ("_emit", wrong_residuals),
    "drafts": ("propose_rows", wrong_drafts),
}


class Wrong(StandardRejection):
    """Replaces the last token of some rounds, and now and then by one that is impossible."""

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        judged = super().run(batch)
        tokens, rows = judged.tokens.clone(), torch.arange(len(batch))
        last = (judged.num_sampled - 1).long()
        likely = batch.target_probs[rows, last].argmax(dim=-1).to(tokens.dtype)
        tokens[rows[::7], last[::7]] = likely[::7]
        return Emission(tokens=tokens, num_sampled=judged.num_sampled)
