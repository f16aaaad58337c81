"""Rounds over a proxy in a thread: faults, late replies and foreign records end in -1 drafts.

Each row carries a nonce (tests/proxy_rounds.py). What a round came to is counted, and the counts add up.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from proxy_rig import PATIENT, Rig, nothing_left, rigged, rounds

from pp3.harness.transport.frame import Mode, Status
from pp3.harness.transport.layout import State, layout_of
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.records import RECORD_BYTES, Record
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.remote import RemoteRound
from pp3.harness.transport.step import Row, Step

BRISK = 0.25  # where the watchdog is meant to bite


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    with nothing_left():
        yield


@pytest.fixture(params=list(Place))
def rig(request: pytest.FixtureRequest, rng: np.random.Generator) -> Iterator[Rig]:
    """Not started; ended whatever happens."""
    with rigged(request.param, rng) as made:
        yield made


def test_rounds_arrive(rig: Rig) -> None:
    """Every row its own; greedy rows have tokens and no law."""
    rig.start()
    for _ in range(50):
        rig.round()
    assert rig.causes == {Cause.DELIVERED: 50}
    assert rig.channel.proxies == 1


def test_a_row_that_fails_fails_alone(rig: Rig) -> None:
    """Failed and late rows are -1; the others of the round are whole."""
    rig.status = lambda step: [(0, 1, 0, 2)[row.slot] for row in step.rows]
    rig.start()
    for _ in range(20):
        step, found = rig.round()
        assert found.status.tolist() == [(0, 1, 0, 2)[row.slot] for row in step.rows]
    assert rig.causes == {Cause.DELIVERED: 20}


def flip(frame: bytes) -> bytes:
    """One bit of the body is another."""
    return frame[:100] + bytes([frame[100] ^ 4]) + frame[101:]


BAD: dict[str, tuple[Callable[[bytes], list[bytes]], Refusal]] = {
    "a bit of the body": (lambda frame: [flip(frame)], Refusal.CRC),
    "cut short": (lambda frame: [frame[:-1]], Refusal.SHORT),
    "empty": (lambda frame: [b""], Refusal.SHORT),
    "drawn out": (lambda frame: [frame + b"\0"], Refusal.LONG),
    "another session": (lambda frame: [frame[:12] + bytes(16) + frame[28:]], Refusal.FRAME_SESSION),
    "a sequence ahead": (lambda frame: [frame[:34] + b"\1" + frame[35:]], Refusal.FRAME_SEQUENCE),
}


@pytest.mark.parametrize(("spoil", "code"), BAD.values(), ids=BAD)
def test_a_refused_reply_is_minus_one(rig: Rig, spoil: Callable[[bytes], list[bytes]], code: Refusal) -> None:
    """With its code; the next round is whole."""
    rig.deliver = lambda step, frame: spoil(frame) if step.round % 2 else [frame]
    rig.start()
    for number in range(1, 9):
        step, found = rig.round(set(range(4)) if number % 2 else set())
        assert found.cause is (Cause.REFUSED if number % 2 else Cause.DELIVERED)
        assert found.refusal is (code if number % 2 else None)
        assert found.status.tolist() == [number % 2] * step.n


def test_replies_that_come_twice_or_late_are_dropped(rig: Rig) -> None:
    """A stale frame before, and a double behind, the right one: never consumed, and counted."""
    kept: list[bytes] = []

    def deliver(step: Step, frame: bytes) -> list[bytes]:
        kept.append(frame)
        return [*kept[-2:-1], frame, frame]

    rig.deliver = deliver
    rig.start()
    for _ in range(20):
        rig.round()
    assert rig.causes == {Cause.DELIVERED: 20}
    assert rig.channel.late >= 19


def test_a_missing_reply_ends_by_the_watchdog(rig: Rig) -> None:
    """Once, and the late reply that follows is not the next round's."""
    held: list[bytes] = []

    def deliver(step: Step, frame: bytes) -> list[bytes]:
        if step.round == 3:
            held.append(frame)
            return []
        return [*held, frame]

    rig.deliver, rig.seconds = deliver, BRISK
    rig.start()
    for number in range(1, 8):
        step, found = rig.round(set(range(4)) if number == 3 else set())
        if number == 3:
            assert found.cause is Cause.TIMED_OUT
            assert found.status.tolist() == [Status.TIMED_OUT] * step.n


def test_a_shorter_time_after_a_longer_one_is_kept(rig: Rig) -> None:
    """The watchdog sleeps until the time of an earlier round, and must wake for an earlier deadline."""
    rig.deliver = lambda step, frame: [frame] if step.round < 3 else []
    rig.start()
    rig.round()
    rig.round()
    step = rig.step()
    started = time.monotonic()
    rig.channel.submit(step, BRISK)
    assert rig.channel.collect().cause is Cause.TIMED_OUT
    assert time.monotonic() - started < PATIENT / 2


def test_a_drafter_that_is_gone_is_dialled_again(rig: Rig) -> None:
    """Its round fails; the next proxy has another session and goes on."""
    rig.start()
    gone: list[int] = []

    def deliver(step: Step, frame: bytes) -> list[bytes]:
        if step.round == 3 and not gone:
            gone.append(1)
            raise EOFError
        return [frame]

    rig.deliver = deliver
    for number in range(1, 7):
        _, found = rig.round()
        assert (found.cause is Cause.PEER_LOST) == (number == 3)
        rig.channel.wait_ready()
    assert rig.channel.proxies == 2


@pytest.mark.parametrize("mode", list(Mode))
def test_one_switch_alone_is_refused_at_hello(rig: Rig, mode: Mode) -> None:
    """On both sides, by name; not a round is asked for."""
    other = Mode.UNSAMPLED if mode is Mode.SAMPLED else Mode.SAMPLED
    rig.mine, rig.theirs = replace(rounds.MINE, mode=mode), replace(rounds.MINE, mode=other)
    rig.start(wait=False)
    with pytest.raises(FrameError) as refused:
        rig.channel.wait_ready()
    assert refused.value.code is Refusal.HELLO_MODE
    step = replace(rig.step(), mode=mode, rows=(Row(slot=0, generation=1, position=0),))
    assert RemoteRound(rig.channel).run(step).cause is Cause.PROXY_DOWN
    rig.close()
    assert [error.code for error in rig.worker.refused] == [Refusal.HELLO_MODE]
    rig.channel = None


def test_mode_0_carries_tokens_alone(rig: Rig) -> None:
    """The short layout, the short frames, no law."""
    rig.mine = replace(rounds.MINE, mode=Mode.UNSAMPLED)
    rig.start()
    for number in range(1, 9):
        rows = tuple(Row(slot=slot, generation=number, position=5) for slot in rig.rng.sample(range(4), 3))
        step = Step(mode=Mode.UNSAMPLED, round=number, depth=5, rows=rows)
        found = RemoteRound(rig.channel).run(step)
        assert found.cause is Cause.DELIVERED
        assert found.q is None
        assert not found.with_law.any()
        for i, row in enumerate(rows):
            assert (found.drafts[i] == rounds.law_of(step, row)[0]).all()


def test_one_round_at_a_time(rig: Rig) -> None:
    """Neither two submits nor a collect of nothing."""
    rig.start()
    with pytest.raises(ValueError, match="no round"):
        rig.channel.collect()
    rig.channel.submit(rig.step())
    with pytest.raises(ValueError, match="not collected"):
        rig.channel.submit(rig.step())
    rig.channel.collect()


@pytest.mark.parametrize(
    "content",
    [Record(ticket=2, page=4, cause=Cause.DELIVERED).pack(), b"\xff" * RECORD_BYTES],
    ids=["a page that was never lent", "no record at all"],
)
def test_a_foreign_record_fails_closed(rig: Rig, content: bytes) -> None:
    """The round fails, and the proxy is replaced."""
    rig.start()
    rig.round()
    rig.channel.submit(rig.step())
    pipes = rig.channel.incarnation.pipes
    os.write(pipes.records, content)
    causes = [rig.channel.collect().cause]  # the proxy's own record may have come before it
    rig.channel.wait_ready()
    rig.channel.submit(rig.step())
    causes.append(rig.channel.collect().cause)
    assert Cause.FOREIGN in causes
    rig.channel.wait_ready()
    rig.round()
    assert rig.channel.proxies == 2


def test_a_page_that_holds_another_round_fails_closed(rig: Rig) -> None:
    """Whoever wrote it: the engine looks at round and control words, too."""
    rig.start()
    rig.round()
    now = rig.channel.incarnation
    rig.deliver = lambda step, frame: []
    step = rig.step()
    rig.channel.submit(step)
    page = next(iter(now.pages.lent))
    now.page(page).write(layout_of(step.n, 5, Mode.SAMPLED), step.round + 1, rounds.reply_to(step))
    now.page(page).mark(State.PUBLISHED, 2)
    os.write(now.pipes.records, Record(ticket=2, page=page, cause=Cause.DELIVERED).pack())
    assert rig.channel.collect().cause is Cause.FOREIGN
