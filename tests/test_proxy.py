"""Layout, pipes, and rounds over a proxy in a thread and in a process: faults, deaths and pauses end in -1 drafts.

Each row carries a nonce (tests/proxy_rounds.py). What a round came to is counted, and the counts add up.
"""

import importlib.util
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pp3.harness.transport import admission
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.frame import Mode, Status
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.layout import CONTROL_AT, PAGE_BYTES, Page, State, layout_of
from pp3.harness.transport.link import pair
from pp3.harness.transport.pages import Cause, Pages, Take
from pp3.harness.transport.place import Place
from pp3.harness.transport.proxy import ProcessProxy
from pp3.harness.transport.records import COMMAND_BYTES, RECORD_BYTES, Command, Record
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.remote import Drafted, RemoteRound, drafted
from pp3.harness.transport.ring import Ring
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.speculator import GuardedSpeculator
from pp3.harness.transport.step import Row, Step
from pp3.harness.transport.worker import Worker, as_it_is

ROOT = Path(__file__).resolve().parent.parent
PATIENT = 30.0  # seconds that no round here takes
BRISK = 0.25  # where the watchdog is meant to bite
SHARED = Path("/dev/shm")


def load_rounds() -> ModuleType:
    """tests/proxy_rounds.py as a module."""
    spec = importlib.util.spec_from_file_location("proxy_rounds", Path(__file__).parent / "proxy_rounds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rounds = load_rounds()


def segments() -> set[str]:
    """Names of shared memory that Python has made."""
    return {path.name for path in SHARED.iterdir() if path.name.startswith("psm_")}


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    before = segments(), len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    mine = {name for name in segments() - before[0]}
    assert mine == set()
    assert threading.active_count() == before[2]
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 1  # the resource tracker's pipe, once
    assert not Path(f"/proc/self/task/{os.getpid()}/children").read_text().split() or only_tracker()


def only_tracker() -> bool:
    """Whether the children of this process are Python's own resource tracker."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return all(b"resource_tracker" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)


@dataclass(slots=True)
class Rig:
    """An engine, its channel and a drafter that can be told to misbehave."""

    place: Place
    seconds: float
    rng: random.Random
    deliver: Callable[[Step, bytes], list[bytes]] = as_it_is
    status: Callable[[Step], list[int] | None] = lambda step: None
    attach: Callable[[Ring], Any] | None = None
    mine: Hello = field(default_factory=lambda: rounds.MINE)
    theirs: Hello | None = None
    number: int = 0
    generations: list[int] = field(default_factory=lambda: [0] * 4)
    causes: Counter[Cause] = field(default_factory=Counter)
    worker: Any = None
    channel: Any = None

    def start(self, wait: bool = True) -> "Rig":
        """Begin."""
        self.worker = Worker(
            self.theirs or self.mine,
            rounds.DEPTH,
            lambda step: rounds.reply_to(step, self.status(step)),
            lambda step, frame: self.deliver(step, frame),
        )
        terms = Terms(mine=self.mine, session=bytes(range(16)), depth=rounds.DEPTH, vocab=rounds.VOCAB)
        self.channel = Channel(terms, self.place, self.worker.dial, self.seconds, self.attach)
        if wait:
            self.channel.wait_ready()
        return self

    def step(self) -> Step:
        """The next round."""
        self.number += 1
        step: Step = rounds.random_step(self.rng, self.number, self.generations)
        return step

    def round(self, failed: set[int] = frozenset()) -> tuple[Step, Drafted]:  # type: ignore[assignment]  # empty
        """One round, checked."""
        step = self.step()
        found = RemoteRound(self.channel).run(step)
        self.causes[found.cause] += 1
        rounds.check(step, found, failed)
        return step, found

    def close(self) -> None:
        """End."""
        self.channel.close()
        self.worker.join()


@pytest.fixture(params=list(Place))
def rig(request: pytest.FixtureRequest, rng: np.random.Generator) -> Iterator[Rig]:
    """Not started; ended whatever happens."""
    made = Rig(request.param, PATIENT, random.Random(int(rng.integers(1 << 62))))
    yield made
    if made.channel is not None:
        made.close()


class Elsewhere:
    """Rows that the host does not write itself: here, from a list of steps."""

    def __init__(self, ring: Ring, steps: list[Step]) -> None:
        self.ring, self.steps, self.ended = ring, steps, 0

    def issue(self, entry: int, ticket: int, slots: list[int]) -> None:
        """See channel.Writer."""
        rows = self.ring.rows(entry, len(slots))
        for i, row in enumerate(self.steps[-1].rows):
            assert row.slot == slots[i]
            position = row.position - (1 << 64 if row.position >> 63 else 0)
            rows[i] = row.seed, row.sampled, row.generation, position
        self.ring.stamp(entry)[0] = ticket

    def close(self) -> None:
        """See channel.Writer: the memory must still be there."""
        self.ring.stamp(0)[0] = 0
        self.ended += 1


@pytest.mark.parametrize(
    ("n", "depth", "mode", "size"),
    [(4, 5, Mode.SAMPLED, 5320), (4, 5, Mode.UNSAMPLED, 184), (1, 4, Mode.SAMPLED, 1072), (1, 4, Mode.UNSAMPLED, 44)],
)
def test_the_layout_grows_in_sampled_mode_alone(n: int, depth: int, mode: Mode, size: int) -> None:
    """Sizes of the text, and that no field overlaps another or a control word."""
    layout = layout_of(n, depth, mode)
    assert layout.size == size
    at = 0
    for _, dtype, shape, offset in layout.fields:
        assert offset == at
        at += np.dtype(dtype).itemsize * int(np.prod(shape))
    assert at == size < CONTROL_AT < PAGE_BYTES == 65_536


def test_a_page_holds_what_was_written(rng: np.random.Generator) -> None:
    """Every field, little-endian at its place; the control words are apart."""
    step = rounds.random_step(random.Random(int(rng.integers(1 << 62))), 7, [0] * 4)
    reply, layout = rounds.reply_to(step), layout_of(step.n, step.depth, Mode.SAMPLED)
    content = np.full(PAGE_BYTES, 0xA5, np.uint8)
    page = Page(content)
    page.write(layout, 2**63 + 5, reply)
    page.mark(State.PUBLISHED, 9)
    assert page.control == (State.PUBLISHED, 9)
    assert (content[layout.size : CONTROL_AT] == 0xA5).all()
    assert int.from_bytes(content[:8].tobytes(), "little") == 2**63 + 5
    landed = page.read(layout)
    content[: layout.size] = 0  # what was read is a copy
    assert landed.round == 2**63 + 5
    for name in ("status", "tokens", "confidence", "mask", "ids", "q"):
        assert np.array_equal(getattr(landed, name), getattr(reply, name)), name


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failed_page_has_the_same_layout_and_no_law(mode: Mode) -> None:
    """Whatever was there before."""
    layout = layout_of(3, 5, mode)
    page = Page(np.full(PAGE_BYTES, 0x3F, np.uint8))
    page.fail(layout, 12, Status.TIMED_OUT)
    landed = page.read(layout)
    assert (landed.round, landed.status.tolist()) == (12, [2, 2, 2])
    assert (landed.tokens == -1).all()
    assert not landed.confidence.any()
    if mode is Mode.SAMPLED:
        assert landed.mask is not None
        assert landed.ids is not None
        assert landed.q is not None
        assert not landed.mask.any()
        assert not landed.q.any()
        assert (landed.ids == np.arange(32)).all()


def test_a_page_has_one_size() -> None:
    """Any other is refused."""
    with pytest.raises(ValueError, match="65536"):
        Page(np.zeros(4096, np.uint8))


def test_records_are_written_in_one_piece() -> None:
    """No larger than what a pipe takes whole, and read back equal."""
    assert max(COMMAND_BYTES, RECORD_BYTES) <= select.PIPE_BUF
    command = Command(ticket=2**63, page=3)
    assert Command.unpack(command.pack()) == command
    for refusal in (None, *Refusal):
        record = Record(ticket=5, page=2, cause=Cause.REFUSED, refusal=refusal, late=3)
        assert Record.unpack(record.pack()) == record


@pytest.mark.parametrize("at", [12, 16])
def test_a_record_of_no_cause_or_refusal_is_refused(at: int) -> None:
    """So that a round that meets one fails closed."""
    content = bytearray(Record(ticket=5, page=2, cause=Cause.REFUSED).pack())
    content[at] = 0xFF
    with pytest.raises(ValueError, match="255"):
        Record.unpack(bytes(content))


def test_the_ring_carries_every_integer() -> None:
    """Extremes of u64 and i64, in the last entry; without its stamp an entry is not taken."""
    content = np.zeros(PAGE_BYTES, np.uint8)
    ring = Ring(content)
    rows = (
        Row(slot=3, generation=2**32 - 1, position=2**64 - 1, seed=-(2**63), sampled=True),
        Row(slot=0, generation=0, position=2**63, seed=2**63 - 1),
    )
    step = Step(mode=Mode.SAMPLED, round=2**64 - 1, depth=4, rows=rows)
    ring.put(255, 8, step)
    assert ring.take(255, 8, 0) == step
    assert ring.take(255, 9, 0) is None


def test_pages_refuse_what_was_not_lent() -> None:
    """A record of a free page, or for another ticket than it is lent for."""
    pages = Pages.of([1, 2], watchdog=3)
    assert pages.claim(7) == 1
    with pytest.raises(ValueError, match="lent for None"):
        pages.settle(7, 2, 7)
    with pytest.raises(ValueError, match="lent for 7"):
        pages.settle(8, 1, 8)
    assert pages.settle(6, 3, 7) is Take.STALE
    assert pages.settle(7, 1, 7) is Take.MINE
    assert pages.free == [2]
    pages.release()
    assert pages.free == [2, 1]
    assert [pages.claim(8), pages.claim(9), pages.claim(10)] == [2, 1, None]


def test_a_frame_crosses_a_link_whole() -> None:
    """Also an empty one, which is no end; the end is one."""
    ours, theirs = pair()
    for frame in (b"x" * 5412, b"", b"y"):
        assert ours.send(frame)
        assert theirs.receive(PATIENT) == frame
    assert theirs.receive(0) is None
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive(PATIENT)
    assert not theirs.send(b"z")
    theirs.close()


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


def test_the_guarded_entry_asks_only_for_what_was_admitted(rig: Rig) -> None:
    """Depth, mode and slots of the session."""
    engine = admission.Engine(
        sampler_marker=admission.SAMPLER_MARKER, runner_marker=admission.RUNNER_MARKER, depths=(5,), slots=2
    )
    granted = admission.admit(engine, {admission.ENGINE_SWITCH: "1"})
    steps: list[Step] = []
    rig.attach = lambda ring: Elsewhere(ring, steps)
    rig.start()
    speculator = GuardedSpeculator(granted, rig.channel)
    row = Row(slot=1, generation=1, position=0, sampled=True)
    step = Step(mode=Mode.SAMPLED, round=1, depth=5, rows=(row,))
    for other in (
        replace(step, depth=4),
        replace(step, mode=Mode.UNSAMPLED, rows=(replace(row, sampled=False),)),
        replace(step, rows=(replace(row, slot=2),)),
    ):
        with pytest.raises(ValueError, match="admitted"):
            speculator.submit(other)
    speculator.submit(step)
    rounds.check(step, speculator.collect())
    steps.append(replace(step, round=2))
    for slots in ([2], [-1]):
        with pytest.raises(ValueError, match="admitted"):
            speculator.submit_gathered(2, slots, slots)
    speculator.submit_gathered(2, [1], [1])
    found = speculator.collect()
    assert found.cause is Cause.DELIVERED
    rounds.check(steps[0], found)


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


def test_a_writer_ends_before_the_memory_that_it_writes_to(rig: Rig) -> None:
    """One a ring; a proxy that is replaced takes none of it away from under a writer."""
    steps: list[Step] = []
    made: list[Elsewhere] = []

    def attach(ring: Ring) -> Elsewhere:
        made.append(Elsewhere(ring, steps))
        return made[-1]

    rig.attach = attach
    rig.start()
    for number in range(1, 7):
        step = rig.step()
        steps.append(step)
        if number == 3:
            os.write(rig.channel.incarnation.pipes.records, b"\xff" * RECORD_BYTES)
        layout = layout_of(step.n, step.depth, step.mode)
        rig.channel.submit_gathered(number, layout, [row.slot for row in step.rows], [row.slot for row in step.rows])
        found = drafted(rig.channel.collect())
        rounds.check(step, found)
        assert found.cause is (Cause.FOREIGN if number == 3 else Cause.DELIVERED)
        rig.channel.wait_ready()
    assert [writer.ended for writer in made] == [1, 0]
    rig.close()
    assert [writer.ended for writer in made] == [1, 1]
    rig.channel = None


def test_rows_from_elsewhere_need_a_writer(rig: Rig) -> None:
    """Or nothing would ever be stamped."""
    rig.start()
    with pytest.raises(ValueError, match="no writer"):
        rig.channel.submit_gathered(1, layout_of(1, 5, Mode.SAMPLED), [0], [0])
    rig.round()


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


def test_the_process_loads_neither_torch_nor_triton(rng: np.random.Generator) -> None:
    """Of the modules of a fresh one, and of the libraries that a serving one has mapped."""
    code = "import pp3.harness.transport.proxy_process, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pp3.harness.transport.serve" in done.stdout.split()
    assert {"torch", "triton"} & set(done.stdout.split()) == set()
    rig = Rig(Place.PROCESS, PATIENT, random.Random(int(rng.integers(1 << 62)))).start()
    rig.round()
    proxy = rig.channel.running
    assert isinstance(proxy, ProcessProxy)
    assert proxy.process.pid != os.getpid()
    mapped = Path(f"/proc/{proxy.process.pid}/maps").read_text()
    assert "numpy" in mapped
    assert "torch" not in mapped
    assert "triton" not in mapped
    rig.close()


class Tormentor:
    """Kills or pauses the process of a proxy at a random instant of each round."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.done = rng, Counter[str]()

    def during(self, rig: Rig) -> tuple[Step, Drafted]:
        """One round, while something happens to the proxy."""
        proxy = rig.channel.running
        assert isinstance(proxy, ProcessProxy)
        what = self.rng.choice(("kill", "pause", "pause"))
        instant, pause = self.rng.uniform(0, 400e-6), self.rng.choice((0.0, 1e-3, BRISK * 1.5, None))
        began = threading.Event()

        def strike() -> None:
            began.wait()
            until = time.perf_counter() + instant
            while time.perf_counter() < until:
                pass
            proxy.process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what == "pause" and pause is not None:
                threading.Event().wait(pause)
                proxy.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=strike)
        thread.start()
        began.set()
        found = rig.round()
        thread.join()
        self.done[what] += 1
        return found


def torment(rng: np.random.Generator, count: int) -> tuple[Rig, Tormentor]:
    """Rounds of which each is struck; one that is not struck must arrive after a proxy has said hello."""
    generator = random.Random(int(rng.integers(1 << 62)))
    rig, tormentor = Rig(Place.PROCESS, BRISK, generator).start(), Tormentor(generator)
    for _ in range(count):
        tormentor.during(rig)
        rig.channel.wait_ready()
    proxy = rig.channel.running
    proxy.process.send_signal(signal.SIGCONT)
    rig.close()
    assert rig.causes.total() == count == tormentor.done.total()
    assert set(rig.causes) <= {Cause.DELIVERED, Cause.TIMED_OUT, Cause.NO_PAGE, Cause.PROXY_DOWN}
    return rig, tormentor


def test_a_proxy_that_is_killed_or_paused_leaves_no_stale_law(rng: np.random.Generator) -> None:
    """Twenty rounds; the checks of each round and of what is left are in Rig and in the fixture."""
    rig, tormentor = torment(rng, 20)
    assert rig.channel.proxies > 1
    assert tormentor.done["kill"] > 0


@pytest.mark.soak
def test_a_thousand_rounds_under_kills_and_pauses(rng: np.random.Generator) -> None:
    """The same, a thousand times; each kind of loss must come."""
    rig, tormentor = torment(rng, 1_000)
    assert rig.channel.proxies > 100
    assert min(tormentor.done.values()) > 200
    assert rig.causes[Cause.DELIVERED] > 0
    assert rig.causes[Cause.TIMED_OUT] > 100


ENGINE = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("proxy_rounds", sys.argv[1])
rounds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rounds)
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.place import Place
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.worker import Worker
worker = Worker(rounds.MINE, 5, rounds.reply_to)
terms = Terms(mine=rounds.MINE, session=bytes(16), depth=5, vocab=rounds.VOCAB)
channel = Channel(terms, Place.PROCESS, worker.dial, 30.0)
channel.wait_ready()
print(channel.running.process.pid, flush=True)
sys.stdin.read()
"""


def test_an_engine_that_is_killed_leaves_nothing() -> None:
    """Neither shared memory nor a proxy: it ends with the pipe of its commands."""
    before = segments()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ENGINE, str(Path(__file__).parent / "proxy_rounds.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        proxy = os.pidfd_open(pid)
        engine.kill()
        engine.wait()
        assert select.select([proxy], [], [], PATIENT)[0], "the proxy outlived its engine"
        os.close(proxy)
    assert segments() <= before
