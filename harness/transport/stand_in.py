"""A drafter that answers what a campaign has drafted before, and what befalls its frames (faults.py)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.contract import Batch
from pp3.harness.transport import wire
from pp3.harness.transport.faults import KINDS, Fault, Frame
from pp3.harness.transport.frame import HEADER_BYTES, Status
from pp3.harness.transport.step import Step
from pp3.kernels.reference import Proposal

Array = npt.NDArray[Any]
KEPT_ROUNDS = 64  # the engine may have given a round up before the drafter sees it
CONFIDENCE = np.float32(0.5)


def answers_of(batch: Batch, proposal: Proposal, kinds: Array) -> wire.Reply:
    """What the drafter answers, of all requests [n] of a batch at once; generations are those of a step."""
    failed, late = kinds == KINDS.index(Fault.FAILED), kinds == KINDS.index(Fault.TIMED_OUT)
    status = np.select([failed, late], [Status.FAILED, Status.TIMED_OUT], proposal.status[:, 0]).astype("<i4")
    ok = status == Status.OK
    law = (ok & batch.sampled)[:, None, None]
    return wire.Reply(
        status=status,
        generation=np.zeros(len(status), "<u4"),
        tokens=np.where(ok[:, None], proposal.token, -1).astype("<i4"),
        confidence=np.where(ok[:, None], CONFIDENCE, 0).repeat(batch.depth, axis=1).astype("<f4"),
        mask=law[:, 0, 0].astype("<i4"),
        ids=np.where(law, proposal.ids, wire.PADDING).astype("<i4"),
        q=(np.where(law, proposal.tickets, 0) * 2.0**-24).astype("<f4"),
    )


class StandIn:
    """What a Worker produces and delivers, by round."""

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[Step, Frame, wire.Reply]] = {}
        self._held: list[bytes] = []
        self.answers: wire.Reply | None = None  # to the batch of now

    def expect(self, step: Step, frame: Frame) -> None:
        """The rows of a round that will be asked for."""
        if self.answers is None:
            raise ValueError("no answers were given")
        self._rounds[step.round] = (step, frame, self.answers)
        self._rounds.pop(step.round - KEPT_ROUNDS, None)

    def forget(self) -> None:
        """A connection has ended, and with it the frame that was held back: the next one has another session."""
        self._held = []

    def produce(self, asked: Step) -> wire.Reply:
        """The rows of a round. ValueError, which ends the session, if it was not to be asked for like this."""
        step, frame, answers = self._rounds[asked.round]
        if asked != step or answers.mask is None or answers.ids is None or answers.q is None:
            raise ValueError(f"asked for {asked}, not for {step}")
        rows = list(frame.rows)
        return wire.Reply(
            status=answers.status[rows],
            generation=np.array([row.generation for row in asked.rows], "<u4"),
            tokens=answers.tokens[rows],
            confidence=answers.confidence[rows],
            mask=answers.mask[rows],
            ids=answers.ids[rows],
            q=answers.q[rows],
        )

    def deliver(self, asked: Step, frame: bytes) -> list[bytes]:
        """The frame, or what is left of it; one that was held back comes before the next."""
        _, of, _ = self._rounds[asked.round]
        before, self._held = self._held, []
        if of.fault is Fault.CORRUPT:
            return [*before, spoilt(frame, of.pick)]
        if of.fault is Fault.LATE:
            self._held = [frame]
        return before if of.fault in (Fault.MISSING, Fault.LATE) else [*before, frame]


def spoilt(frame: bytes, pick: int) -> bytes:
    """A frame that must be refused: a bit of the body flipped, cut short, drawn out, or another session's."""
    way, at = pick % 4, HEADER_BYTES + (pick >> 8) % (len(frame) - HEADER_BYTES)
    if way == 0:
        return frame[:at] + bytes([frame[at] ^ (1 << (pick >> 5) % 8)]) + frame[at + 1 :]
    if way == 1:
        return frame[:at]
    if way == 2:
        return frame + b"\0"
    return frame[:12] + bytes([frame[12] ^ 1]) + frame[13:]
