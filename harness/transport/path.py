"""A sampler whose proposals take the whole way: encoded, over the wire, through a proxy, by slots to dense q, verified.

It wraps the proposal and the verification of another (stage.py). Each frame is one round of a channel: a permutation of
the four slots, a new generation of each, seed and T > 0 as the engine would say them. What is verified is read back
from dense q. Requests whose first draft is to be -1 lose their proposal on the way (faults.py), and nothing but the
path makes their drafts -1. The test surface: no switch is read.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.contract import INVALIDATED, WANTED, Batch, Description, Emission
from pp3.harness.seeds import ROUND_BITS
from pp3.harness.transport import step as steps
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.faults import KINDS, Fault, Frame, deal
from pp3.harness.transport.frame import SLOTS, SUPPORT, Mode, Status
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.remote import Drafted, drafted
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.slots import Round
from pp3.harness.transport.stage import Stage
from pp3.harness.transport.stand_in import StandIn, answers_of
from pp3.harness.transport.worker import Worker
from pp3.kernels.reference import Proposal

Array = npt.NDArray[Any]
IDENTITY = b"pp3 toy target".ljust(32, b"\0"), b"pp3 toy draft".ljust(32, b"\0"), b"pp3 toy markov".ljust(32, b"\0")
LANES = 16  # frames that land together, each in four slots of its own
PERMUTATIONS = tuple(permutations(range(SLOTS)))
PATIENT, BRISK = 30.0, 0.002  # seconds that a reply is waited for: one that will come, one that will not
UNEXPECTED = "unexpected"  # a row that was lost otherwise than it should be, or that should not be
LOSSES = {  # what each fault looks like to the engine: of a reply that does not come it cannot tell whether it will
    Fault.FAILED: "failed",
    Fault.TIMED_OUT: "timed-out",
    Fault.CORRUPT: "refused",
    Fault.MISSING: "unanswered",
    Fault.LATE: "unanswered",
}
OTHER: dict[Cause, str] = {
    cause: cause.name.lower().replace("_", "-")
    for cause in Cause
    if cause not in (Cause.DELIVERED, Cause.REFUSED, Cause.TIMED_OUT)
}
SEEN = (*dict.fromkeys(LOSSES.values()), *OTHER.values(), UNEXPECTED)


@dataclass(slots=True)
class Journey:
    """What became of the requests that went over the path, in integers."""

    frames: int = 0
    rows: int = 0
    sampled: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    altered: int = 0  # rows that arrived and are not what was sent
    proxies: int = 0

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        kinds = [kind.value for kind in KINDS]
        return {
            "altered": self.altered,
            "counted": {kind: self.counted[kind] for kind in SEEN},
            "frames": self.frames,
            "injected": {kind: self.injected[kind] for kind in kinds},
            "proxies": self.proxies,
            "rows": self.rows,
            "sampled": self.sampled,
        }


class PathSampler:
    """See the contract of a sampler. `close` ends proxy and drafter."""

    TEST_SURFACE: ClassVar[bool] = True

    def __init__(self, stage: Stage, place: Place) -> None:
        self._stage, self._place = stage, place
        self.journey = Journey()
        self._sessions: dict[tuple[int, int], _Session] = {}

    def describe(self) -> Description:
        """That of the sampler whose proposals travel."""
        return self._stage.describe()

    def run(self, batch: Batch) -> Emission:
        """See the contract. Without a carrier nothing travels: that is the point-mass path."""
        if not batch.carrier:
            return self._stage.direct(batch)
        proposal = self._stage.propose(batch)
        label = f"{batch.target.name}/{batch.depth}/{int(batch.requests[0])}"
        dealt = deal(batch.seed, label, batch.given[:, 0] == INVALIDATED, batch.rows_per_launch)
        self.journey.injected.update(dealt.injected())
        session = self._opened(batch.depth, len(batch.target.context_of))
        landed = session.carry(batch, proposal, dealt.frames, dealt.kinds, self.journey)
        given = np.where(landed.lost[:, None], np.int32(INVALIDATED), batch.given)
        drafts = np.where(given == WANTED, landed.drafts, given).astype(np.int32)
        emission = self._stage.verify(replace(batch, given=drafts), landed.ids, landed.tickets)
        return replace(emission, proposed=self._stage.proposed(proposal))

    def close(self) -> None:
        """End what runs."""
        for session in self._sessions.values():
            session.close()
            self.journey.proxies += session.channel.proxies
        self._sessions.clear()

    def _opened(self, depth: int, vocab: int) -> "_Session":
        """The session of this depth and vocabulary."""
        if (depth, vocab) not in self._sessions:
            self._sessions[depth, vocab] = _Session(self._stage, self._place, depth, vocab)
        return self._sessions[depth, vocab]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Landed:
    """What the engine has of a batch when its rounds are over."""

    lost: Array  # [n] bool: no draft may be used
    drafts: Array  # [n, depth] int32
    ids: Array  # [n, depth, 32] int32
    tickets: Array  # [n, depth, 32] int32, read back from dense q


class _Session:
    """One drafter, one channel, and the slots that it lands in."""

    def __init__(self, stage: Stage, place: Place, depth: int, vocab: int) -> None:
        self.depth, self.vocab, self._stage = depth, vocab, stage
        mine = Hello(mode=Mode.SAMPLED, target=IDENTITY[0], draft=IDENTITY[1], markov=IDENTITY[2])
        self._drafter = StandIn()
        self._worker = Worker(mine, depth, self._drafter.produce, self._drafter.deliver)
        terms = Terms(mine=mine, session=bytes(16), depth=depth, vocab=vocab)
        self.channel = Channel(terms, place, self._worker.dial, PATIENT)
        self.channel.wait_ready()
        self._slots = stage.slots(LANES * SLOTS, depth, vocab)
        self._generations = [0] * SLOTS
        self._round = 0

    def close(self) -> None:
        """End proxy and drafter."""
        self.channel.close()
        self._worker.join()

    def carry(self, batch: Batch, proposal: Proposal, frames: list[Frame], kinds: Array, journey: Journey) -> _Landed:
        """Every frame, LANES of them at a time."""
        n = len(batch)
        said = _Said.of(batch)
        self._drafter.answers = answers_of(batch, proposal, kinds)
        found = _Landed(
            lost=np.ones(n, np.bool_),
            drafts=np.full((n, self.depth), INVALIDATED, np.int32),
            ids=np.tile(np.arange(SUPPORT, dtype=np.int32), (n, self.depth, 1)),
            tickets=np.zeros((n, self.depth, SUPPORT), np.int32),
        )
        for first in range(0, n and len(frames), LANES):
            group = frames[first : first + LANES]
            asked = [self._asked(said, frame) for frame in group]
            came = [self._one(step, frame, kinds, journey) for step, frame in zip(asked, group, strict=True)]
            self._land(group, asked, came, found)
        drawn = batch.sampled & ~found.lost
        there = ~found.lost
        expected = np.where(drawn[:, None, None], proposal.tickets, 0)
        journey.altered += int(
            (
                (found.drafts[there] != proposal.token[there]).any(axis=1)
                | (found.tickets[there] != expected[there]).any(axis=(1, 2))
                | (np.where(drawn[:, None, None], found.ids != proposal.ids, False)[there]).any(axis=(1, 2))
            ).sum()
        )
        journey.rows += n
        journey.sampled += int(batch.sampled.sum())
        return found

    def _asked(self, said: "_Said", frame: Frame) -> steps.Step:
        """The step of a frame: permuted slots, each with its next generation."""
        self._round += 1
        slots = PERMUTATIONS[frame.pick % len(PERMUTATIONS)][: len(frame.rows)]
        rows = []
        for slot, place in zip(slots, frame.rows, strict=True):
            self._generations[slot] += 1
            rows.append(
                steps.Row(
                    slot=slot,
                    generation=self._generations[slot],
                    position=said.positions[place],
                    seed=said.seeds[place],
                    sampled=said.sampled[place],
                )
            )
        return steps.Step(mode=Mode.SAMPLED, round=self._round, depth=self.depth, rows=tuple(rows))

    def _one(self, step: steps.Step, frame: Frame, kinds: Array, journey: Journey) -> Drafted:
        """One round over the wire, counted."""
        self._drafter.expect(step, frame)
        begun = self.channel.proxies
        self.channel.submit(step, BRISK if frame.fault in (Fault.MISSING, Fault.LATE) else None)
        came = drafted(self.channel.collect())
        if self.channel.proxies != begun:  # three rounds in a row that nobody answered
            self._drafter.forget()
            self.channel.wait_ready()
        journey.frames += 1
        for place, status in zip(frame.rows, came.status.tolist(), strict=True):
            seen, kind = seen_as(came, Status(status)), kinds[place]
            if seen:
                journey.counted[seen] += 1
            if seen != (LOSSES[KINDS[kind]] if kind >= 0 else ""):
                journey.counted[UNEXPECTED] += 1
        return came

    def _land(self, group: list[Frame], asked: list[steps.Step], came: list[Drafted], found: _Landed) -> None:
        """Put some rounds into slots, take them for verification, and read dense q at the ids that came."""
        rows = np.concatenate([frame.rows for frame in group])
        lanes = [lane * SLOTS for lane, step in enumerate(asked) for _ in step.rows]
        every = [row for step in asked for row in step.rows]
        ids = np.concatenate([_whole(one.ids) for one in came])
        landed = Round(
            slots=np.array([row.slot for row in every], np.int64) + np.array(lanes, np.int64),
            generation=np.array([row.generation for row in every], np.int64),
            status=np.concatenate([one.status for one in came]),
            sampled=np.concatenate([one.with_law for one in came]).astype(np.int32),
            tokens=np.concatenate([one.drafts for one in came]),
            ids=ids,
            q=np.concatenate([_whole(one.q) for one in came]),
        )
        drafts, tickets = self._slots.land(landed)
        found.lost[rows] = drafts[:, 0] == INVALIDATED
        found.drafts[rows] = drafts
        found.ids[rows] = ids
        found.tickets[rows] = tickets


def _whole(values: Array | None) -> Array:
    if values is None:
        raise AssertionError("a sampled round without a law's fields")
    return values


def seen_as(came: Drafted, status: Status) -> str:
    """Under what the engine counts a row that it has lost; "" of one that it has."""
    if came.cause is Cause.DELIVERED:
        return {Status.OK: "", Status.FAILED: "failed", Status.TIMED_OUT: "timed-out"}[status]
    return {Cause.REFUSED: "refused", Cause.TIMED_OUT: "unanswered"}.get(came.cause) or OTHER[came.cause]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What the engine says of each request of a batch."""

    seeds: list[int]
    positions: list[int]
    sampled: list[bool]

    @classmethod
    def of(cls, batch: Batch) -> "_Said":
        keys = (batch.requests >> ROUND_BITS).tolist()
        seeds = {key: batch.seed.request(key)[2] for key in set(keys)}
        return cls(
            seeds=[seeds[key] for key in keys], positions=batch.positions.tolist(), sampled=batch.sampled.tolist()
        )
