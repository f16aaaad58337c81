"""A round of drafts as the engine uses it: what did not arrive whole is -1, for that request alone.

`RemoteRound` is a test surface: it reads no switch and asks for no admission. Serving code takes GuardedSpeculator.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pp3.harness.transport.channel import Channel, Settled
from pp3.harness.transport.frame import Status
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.refusal import Refusal
from pp3.harness.transport.step import Step

INVALIDATED = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drafted:
    """Drafts of one round. A row that is not ok has -1 in every position, which draws from the full target."""

    drafts: npt.NDArray[np.int32]  # [n, depth]
    status: npt.NDArray[np.int32]  # [n] of Status
    with_law: npt.NDArray[np.bool_]  # [n] whether q holds a law: ok and T > 0; the others take the greedy branch or -1
    ids: npt.NDArray[np.int32] | None  # [n, depth, 32]
    q: npt.NDArray[np.float32] | None  # [n, depth, 32]
    cause: Cause
    refusal: Refusal | None = None


def drafted(settled: Settled) -> Drafted:
    """What the engine verifies."""
    landed = settled.landed
    ok = landed.status == Status.OK
    if settled.cause is not Cause.DELIVERED and ok.any():
        raise AssertionError(f"a round that ended as {settled.cause.name} has rows that are ok")
    return Drafted(
        drafts=np.where(ok[:, None], landed.tokens, np.int32(INVALIDATED)),
        status=landed.status,
        with_law=ok & (landed.mask == 1) if landed.mask is not None else np.zeros(len(ok), np.bool_),
        ids=landed.ids,
        q=landed.q,
        cause=settled.cause,
        refusal=settled.refusal,
    )


class RemoteRound:
    """Rounds over a channel, without a guard."""

    TEST_SURFACE: ClassVar[bool] = True

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def run(self, step: Step) -> Drafted:
        """One round, from asking to drafts."""
        self.channel.submit(step)
        return drafted(self.channel.collect())
