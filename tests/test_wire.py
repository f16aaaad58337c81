"""The wire against semantics section 4: known answers, sizes, every rule, its order, and an independent decoder.

tests/wire_text.py reads the text aloud and shares nothing with the package.
"""

import importlib.util
import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pp3.harness.transport import conform_wire, hello, step, wire
from pp3.harness.transport.bench import largest_round
from pp3.harness.transport.frame import Mode, sequence_of
from pp3.harness.transport.refusal import HELLO_RULES, REPLY_RULES, STEP_RULES, FrameError, Refusal

VECTORS = Path(__file__).parent / "vectors" / "wire.json"
QUICK, WHOLE, PARTS = 20_000, 1_000_000, 50
LEAST = 1_000  # of each code in WHOLE frames; a fifth of its share in QUICK ones
KINDS = ("reply", "reply", "reply", "hello", "step")  # of frames, dealt in turn


def load_text() -> ModuleType:
    """tests/wire_text.py as a module."""
    spec = importlib.util.spec_from_file_location("wire_text", Path(__file__).parent / "wire_text.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


text = load_text()
MINE = hello.Hello(mode=Mode.SAMPLED, target=bytes([1]) * 32, draft=bytes([2]) * 32, markov=bytes([3]) * 32)


def asked_of(frame: Any) -> wire.Asked:
    """What a frame of wire_text is held against."""
    return wire.Asked(
        mode=Mode(frame.mode),
        session=text.SESSION,
        sequence=frame.asked_sequence,
        round=frame.asked_round,
        depth=frame.asked_depth,
        generations=tuple(frame.asked_generations),
        sampled=tuple(frame.asked_sampled),
        vocab=frame.vocab,
    )


def code_of(judge: Callable[[], object]) -> str | None:
    """The code of a refusal, or None."""
    try:
        judge()
    except FrameError as error:
        return error.code.value if str(error).startswith(f"{error.code.value}: ") else str(error)
    return None


def one(rng: random.Random, kind: str) -> tuple[str | None, str | None, bytes]:
    """The two decisions about a mutated frame, and the frame. One that is accepted says what its bytes say."""
    if kind == "reply":
        frame, content = text.reply(rng)
        asked = asked_of(frame)

        def decoded() -> None:
            reply = wire.decode(content, asked)
            assert wire.encode(reply, asked.round, text.SESSION, asked.sequence) == content

        return code_of(decoded), text.judge_reply(content, frame), content
    if kind == "hello":
        mode, content = text.hello(rng)
        mine = replace(MINE, mode=Mode(mode))
        return code_of(lambda: hello.judge(content, mine, text.SESSION)), text.judge_hello(content, mode), content
    mode, depth, sequence, content = text.step(rng)

    def taken() -> None:
        asked = step.decode(content, Mode(mode), depth, text.SESSION, sequence)
        assert step.encode(asked, text.SESSION, sequence) == content

    return code_of(taken), text.judge_step(content, mode, depth, sequence), content


def campaign(rng: np.random.Generator, count: int) -> Counter[str]:
    """Mutated frames; how often each code came, and None as accepted."""
    generator = random.Random(int(rng.integers(1 << 62)))
    found: Counter[str] = Counter()
    for number in range(count):
        mine, independent, content = one(generator, KINDS[number % len(KINDS)])
        assert mine == independent, content.hex()
        found[mine or "accepted"] += 1
    return found


def test_known_answers() -> None:
    """Every case of the file."""
    result = conform_wire.run(VECTORS)
    assert (result.passed, result.total, result.first_difference) == (117, 117, None)


@pytest.mark.parametrize(
    ("n", "depth", "mode", "size"),
    [(1, 5, Mode.SAMPLED, 1416), (4, 5, Mode.SAMPLED, 5412), (1, 4, Mode.SAMPLED, 1152), (4, 4, Mode.SAMPLED, 4356),
     (2, 5, Mode.UNSAMPLED, 160)],
)  # fmt: skip
def test_sizes_of_a_reply(n: int, depth: int, mode: Mode, size: int) -> None:
    """With frame, as the text gives them."""
    assert wire.layout(n, depth, mode).itemsize == size


def test_sizes_of_the_other_frames() -> None:
    """HELLO 196; a step of four 24 + 4 * 32 after its header."""
    assert len(hello.encode(MINE, text.SESSION)) == hello.FRAME_BYTES == 196
    assert step.body_bytes(4, Mode.SAMPLED) == 152
    assert step.body_bytes(4, Mode.UNSAMPLED) == 88


def test_a_code_is_one_rule() -> None:
    """No code belongs to no group, none to two."""
    frame = [code for code in Refusal if code.startswith(("short", "long", "frame-"))]
    groups = [*frame, *HELLO_RULES, *STEP_RULES, *REPLY_RULES]
    assert sorted(groups) == sorted(Refusal)


def test_what_is_encoded_is_decoded() -> None:
    """Every field of the largest round, and views of the frame's own bytes."""
    asked, reply = largest_round()
    frame = wire.encode(reply, asked.round, text.SESSION, 5)
    back = wire.decode(frame, wire.Asked.by(asked, text.SESSION, 5, 129_280))
    for name in ("status", "generation", "tokens", "confidence", "mask", "ids", "q", "tickets"):
        assert np.array_equal(getattr(back, name), getattr(reply, name)), name
    assert not back.tokens.flags.writeable


def test_rows_without_a_law_carry_none() -> None:
    """reply_of: a failed row loses everything, a greedy one its law; the receiver accepts the frame."""
    rows = tuple(step.Row(slot=i, generation=i, position=0, sampled=i != 1) for i in range(3))
    asked = step.Step(mode=Mode.SAMPLED, round=1, depth=4, rows=rows)
    _, source = largest_round(4, 3)
    assert source.ids is not None
    made = wire.reply_of(asked, np.array([0, 0, 2]), source.tokens, source.confidence, source.ids, source.tickets)
    back = wire.decode(wire.encode(made, 1, text.SESSION, 2), wire.Asked.by(asked, text.SESSION, 2, 129_280))
    assert back.mask is not None
    assert back.ids is not None
    assert back.q is not None
    assert back.mask.tolist() == [1, 0, 0]
    assert (back.tokens[1] == source.tokens[1]).all()
    assert (back.tokens[2] == -1).all()
    assert not back.q[1:].any()
    assert (back.ids[1:] == np.arange(32)).all()


@pytest.mark.parametrize("mode", list(Mode))
def test_mixed_pairs_are_refused_at_hello(mode: Mode) -> None:
    """One switch alone: each side refuses the other's mode, and equal modes agree."""
    mine = hello.Hello(mode=mode, target=MINE.target, draft=MINE.draft, markov=MINE.markov)
    for other in Mode:
        theirs = hello.Hello(mode=other, target=MINE.target, draft=MINE.draft, markov=MINE.markov)
        frame = hello.encode(theirs, text.SESSION)
        code = code_of(lambda frame=frame: hello.judge(frame, mine))  # type: ignore[misc]  # bound
        assert code == (None if other is mode else "hello-mode")


def test_the_second_side_learns_the_session() -> None:
    """Who opens names it."""
    assert hello.judge(hello.encode(MINE, text.SESSION), MINE) == text.SESSION


ROWS = (step.Row(slot=0, generation=0, position=0), step.Row(slot=0, generation=1, position=0))
IMPOSSIBLE: dict[str, Callable[[], object]] = {
    "no rows": lambda: step.Step(mode=Mode.SAMPLED, round=0, depth=4, rows=()),
    "a slot twice": lambda: step.Step(mode=Mode.SAMPLED, round=0, depth=4, rows=ROWS),
    "depth 6": lambda: step.Step(mode=Mode.SAMPLED, round=0, depth=6, rows=ROWS[:1]),
    "sampled in mode 0": lambda: step.Step(
        mode=Mode.UNSAMPLED, round=0, depth=4, rows=(step.Row(slot=0, generation=0, position=0, sampled=True),)
    ),
    "a short identity": lambda: hello.Hello(mode=Mode.SAMPLED, target=b"", draft=MINE.draft, markov=MINE.markov),
    "tickets in mode 0": lambda: (
        wire.Reply(
            status=np.zeros(1, np.int32),
            generation=np.zeros(1, np.uint32),
            tokens=np.zeros((1, 4), np.int32),
            confidence=np.zeros((1, 4), np.float32),
        ).tickets
    ),
}


@pytest.mark.parametrize("make", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_frame_can_carry_is_not_made(make: Callable[[], object]) -> None:
    """Checked where it enters."""
    with pytest.raises(ValueError, match=r"\w"):
        make()


def test_the_sequence_of_what_is_no_frame_of_ours() -> None:
    """Too short, or of another session: none."""
    frame = hello.encode(MINE, text.SESSION)
    assert sequence_of(frame, text.SESSION) == 0
    assert sequence_of(frame[:39], text.SESSION) is None
    assert sequence_of(frame, bytes(16)) is None


def test_the_independent_decoder_accepts_what_is_sound(rng: np.random.Generator) -> None:
    """And so does ours: every size, status and temperature, both modes, with values."""
    generator = random.Random(int(rng.integers(1 << 62)))
    for number in range(400):
        frame = text.sound(generator, (2, 0)[number % 4 == 3])
        content = frame.content()
        assert text.judge_reply(content, frame) is None
        reply = wire.decode(content, asked_of(frame))
        assert reply.status.tolist() == frame.status
        assert reply.tokens.ravel().tolist() == frame.tokens
        assert reply.confidence.view(np.uint32).ravel().tolist() == frame.confidence
        if reply.ids is not None and reply.q is not None:
            assert reply.ids.ravel().tolist() == frame.ids
            assert reply.q.view(np.uint32).ravel().tolist() == frame.q
        assert wire.encode(reply, frame.round, text.SESSION, frame.sequence) == content


def test_two_decoders_decide_alike(rng: np.random.Generator) -> None:
    """Mutated frames: equal codes, each code met, some frames accepted."""
    found = campaign(rng, QUICK)
    assert {code for code in Refusal if found[code.value] < LEAST * QUICK // WHOLE // 5} == set()
    assert found["accepted"] > QUICK // 50


def part(seed: int) -> Counter[str]:
    """A share of the million, for a process of its own."""
    return campaign(np.random.default_rng(seed), WHOLE // PARTS)


@pytest.mark.soak
def test_two_decoders_decide_a_million_alike(rng: np.random.Generator) -> None:
    """Every code at least a thousand times; in as many processes as may run at once."""
    seeds = rng.integers(1 << 62, size=PARTS).tolist()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("fork")) as pool:
        found = sum(pool.map(part, seeds), Counter[str]())
    print(dict(sorted(found.items())))  # for docs/integration.md: pytest -s
    assert found.total() == WHOLE
    assert {code: found[code.value] for code in Refusal if found[code.value] < LEAST} == {}


def skewed(change: Callable[[Any], None], sampled: bool = True, status: int = 0) -> tuple[bytes, wire.Asked]:
    """The frame of one row at depth 4, changed."""
    generator = random.Random(1)
    while True:
        frame = text.sound(generator)
        same = (len(frame.status), frame.asked_sampled[0], frame.status[0]) == (1, sampled, status)
        if same and frame.vocab > 40:
            break
    change(frame)
    return frame.content(), asked_of(frame)


def put(name: str, at: int, value: int) -> Callable[[Any], None]:
    """Set one entry of a field."""

    def change(frame: Any) -> None:
        getattr(frame, name)[at] = value

    return change


SINGLE: dict[str, tuple[Callable[[Any], None], bool, int, Refusal | None]] = {
    "confidence of minus zero on a failed row is zero": (put("confidence", 0, 0x80000000), True, 1, None),
    "a subnormal confidence on a failed row": (put("confidence", 3, 1), True, 1, Refusal.ROW_CONFIDENCE),
    "minus zero is no q": (put("q", 0, 0x80000000), False, 0, Refusal.ROW_Q),
    "the least subnormal is no multiple": (put("q", 5, 1), True, 0, Refusal.ROW_Q),
    "half a ticket": (put("q", 5, 0x33000000), True, 0, Refusal.ROW_Q),
    "a ticket on a greedy row": (put("q", 5, 0x33800000), False, 0, Refusal.ROW_MASS),
    "padding that ascends": (put("ids", 31, 40), False, 0, Refusal.ROW_ID_ORDER),
    "mask 2": (put("mask", 0, 2), True, 0, Refusal.ROW_MASK),
    "a greedy row with a mask": (put("mask", 0, 1), False, 0, Refusal.ROW_MASK),
}


@pytest.mark.parametrize(("change", "sampled", "status", "code"), SINGLE.values(), ids=SINGLE)
def test_a_single_rule(change: Callable[[Any], None], sampled: bool, status: int, code: Refusal | None) -> None:
    """Cases that a reader of the text could take either way."""
    content, asked = skewed(change, sampled, status)
    assert code_of(lambda: wire.decode(content, asked)) == (code.value if code else None)
