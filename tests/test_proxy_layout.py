"""What engine and proxy share: the layout, pages, records, the ring of notices, and frames over a link."""

import random
import select
from collections.abc import Iterator

import numpy as np
import pytest
from proxy_rig import PATIENT, nothing_left, rounds

from pp3.harness.transport.frame import Mode, Status
from pp3.harness.transport.layout import CONTROL_AT, PAGE_BYTES, Page, State, layout_of
from pp3.harness.transport.link import pair
from pp3.harness.transport.pages import Cause, Pages, Take
from pp3.harness.transport.records import COMMAND_BYTES, RECORD_BYTES, Command, Record
from pp3.harness.transport.refusal import Refusal
from pp3.harness.transport.ring import Ring
from pp3.harness.transport.step import Row, Step


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    with nothing_left():
        yield


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
