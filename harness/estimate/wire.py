"""Bytes of a round on the wire, frames of both directions (docs/semantics.md, section 4)."""

from dataclasses import dataclass

from pp3.harness.errors import CampaignError
from pp3.kernels.reference import SUPPORT

MOST_REQUESTS = 4  # of a STEP
FRAME, HEADER, RECORD, SLOT, TRAILER, WORD = 40, 24, 16, 16, 16, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Bytes of a STEP and of its REPLY."""

    step: int
    reply: int

    @property
    def total(self) -> int:
        """Both ways."""
        return self.step + self.reply


def sampled(requests: int, depth: int) -> Wire:
    """A round whose drafts carry their law. CampaignError for more requests than a STEP holds."""
    plain = unsampled(requests, depth)
    carrier = requests * (WORD + 2 * depth * SUPPORT * WORD)  # mask, ids, q
    return Wire(step=plain.step + requests * RECORD, reply=plain.reply + TRAILER + carrier + WORD)


def unsampled(requests: int, depth: int) -> Wire:
    """A round in mode 0: tokens alone. CampaignError for more requests than a STEP holds."""
    if not 1 <= requests <= MOST_REQUESTS:
        raise CampaignError(f"--batch {requests}: a STEP carries 1 to {MOST_REQUESTS} requests")
    return Wire(step=FRAME + HEADER + requests * SLOT, reply=FRAME + HEADER + requests * (2 * WORD + 2 * depth * WORD))
