"""Semantics section 4 read aloud, for the tests of the wire: integers, struct and loops, nothing of the package.

`judge_*` give the code of the first rule that a frame breaks, or None. `Frame` holds a reply field by field, so that a
mutation changes what it means to change. As long as the section: its rules, and what breaks each.
"""

import math
import random
import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

SESSION = bytes(range(100, 116))
IDENTITIES = bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32
NAME = b"dyadic24-floor-first-v1".ljust(32, b"\0")
TAU_BITS = 0x3F333333  # 0.7 in FP32
ONE = 1 << 24


def integer(content: bytes, at: int, size: int = 4, signed: bool = False) -> int:
    """One little-endian integer."""
    return int.from_bytes(content[at : at + size], "little", signed=signed)


def judge_header(content: bytes, kind: int, flags: int, session: bytes, sequence: int, length: int) -> str | None:
    """The frame's own fields, in the order of the text."""
    for code, got, wanted in (
        ("frame-magic", content[:4], b"PP3F"),
        ("frame-version", integer(content, 4, 2), 1),
        ("frame-kind", integer(content, 6, 2), kind),
        ("frame-flags", integer(content, 8), flags),
        ("frame-session", content[12:28], session),
        ("frame-sequence", integer(content, 28, 8), sequence),
        ("frame-length", integer(content, 36), length),
    ):
        if got != wanted:
            return code
    return None


def judge_hello(content: bytes, mode: int) -> str | None:
    """Of a peer that must be of this mode; unsampled, it says mode 0 and need not be capable."""
    if len(content) != 196:
        return "short" if len(content) < 196 else "long"
    header = judge_header(content, 1, 0, SESSION, 0, 156)
    if header:
        return header
    for code, fine in (
        ("hello-mode", integer(content, 40) == mode),
        ("hello-capability", mode == 0 or integer(content, 44) & 8 == 8),
        ("hello-semantic", integer(content, 48) == 1),
        ("hello-name", content[52:84] == NAME),
        ("hello-target", content[84:116] == IDENTITIES[0]),
        ("hello-draft", content[116:148] == IDENTITIES[1]),
        ("hello-markov", content[148:180] == IDENTITIES[2]),
        ("hello-top-k", integer(content, 180) == 32),
        ("hello-tau", integer(content, 184) == TAU_BITS),
        ("hello-depth-minimum", integer(content, 188) == 4),
        ("hello-depth-maximum", integer(content, 192) == 5),
    ):
        if not fine:
            return code
    return None


def judge_step(content: bytes, mode: int, depth: int, sequence: int) -> str | None:
    """Of a session of this mode; the 16-byte records are there in sampled mode alone."""
    if len(content) < 64:
        return "short"
    header = judge_header(content, 2, mode, SESSION, sequence, len(content) - 40)
    if header:
        return header
    n = integer(content, 48)
    for code, fine in (
        ("step-n", 1 <= n <= 4),
        ("step-depth", integer(content, 52) == depth),
        ("step-flags", integer(content, 56) == mode),
        ("step-reserved", integer(content, 60) == 0),
    ):
        if not fine:
            return code
    before = 16 * n if mode else 0
    if len(content) != 64 + before + 16 * n:
        return "short" if len(content) < 64 + before + 16 * n else "long"
    seen = []
    for row in range(n):
        sampling, place = 64 + 16 * row, 64 + before + 16 * row
        slot = integer(content, place)
        for code, fine in (
            ("step-temperature", not mode or integer(content, sampling + 8) < 2),
            ("step-padding", not mode or integer(content, sampling + 12) == 0),
            ("step-slot", slot < 4),
            ("step-slot-twice", slot not in seen),
        ):
            if not fine:
                return code
        seen.append(slot)
    return None


@dataclass(slots=True)
class Frame:
    """A reply; q and confidence as the bits of FP32."""

    vocab: int
    asked_generations: list[int]
    asked_sampled: list[bool]
    asked_round: int
    asked_sequence: int
    asked_depth: int
    mode: int  # 2, or 0
    magic: bytes = b"PP3F"
    version: int = 1
    kind: int = 3
    flags: int = 2
    session: bytes = SESSION
    sequence: int = 0
    length: int = 0
    round: int = 0
    n: int = 0
    depth: int = 0
    body_flags: int = 2
    reserved: int = 0
    status: list[int] = field(default_factory=list)
    generation: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)  # row by row
    confidence: list[int] = field(default_factory=list)
    trailer: tuple[bytes, int, int, int] = (b"PP3Q", 1, 0, 0)
    mask: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # row by row, position by position
    q: list[int] = field(default_factory=list)

    def body(self) -> bytes:
        """All before the CRC."""
        parts = [
            struct.pack("<QIIII", self.round, self.n, self.depth, self.body_flags, self.reserved),
            struct.pack(f"<{len(self.status)}i", *self.status),
            struct.pack(f"<{len(self.generation)}I", *self.generation),
            struct.pack(f"<{len(self.tokens)}i", *self.tokens),
            struct.pack(f"<{len(self.confidence)}I", *self.confidence),
        ]
        if self.mode:
            parts += [
                struct.pack("<4sIII", *self.trailer),
                struct.pack(f"<{len(self.mask)}i", *self.mask),
                struct.pack(f"<{len(self.ids)}i", *self.ids),
                struct.pack(f"<{len(self.q)}I", *self.q),
            ]
        return b"".join(parts)

    def content(self, crc: int | None = None) -> bytes:
        """The frame, with its own CRC or another."""
        body = self.body()
        head = struct.pack(
            "<4sHHI16sQI",
            self.magic,
            self.version,
            self.kind,
            self.flags,
            self.session,
            self.sequence,
            self.length,
        )
        end = b"" if not self.mode else struct.pack("<I", zlib.crc32(body) if crc is None else crc)
        return head + body + end

    def row_slice(self, row: int) -> slice:
        """Places of a row's ids and q."""
        wide = self.asked_depth * 32
        return slice(row * wide, (row + 1) * wide)


def bits_of(value: float) -> int:
    """FP32 as an integer."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def judge_reply(content: bytes, asked: Frame) -> str | None:
    """Against what was asked for."""
    n, depth, vocab, sampled = len(asked.asked_sampled), asked.asked_depth, asked.vocab, asked.mode == 2
    body = 24 + 8 * n + 8 * n * depth + (16 + 4 * n + 256 * n * depth + 4 if sampled else 0)
    if len(content) != 40 + body:
        return "short" if len(content) < 40 + body else "long"
    header = judge_header(content, 3, asked.mode, SESSION, asked.asked_sequence, body)
    if header:
        return header
    if sampled and zlib.crc32(content[40:-4]) != integer(content, len(content) - 4):
        return "crc"
    for code, got, wanted in (
        ("body-round", integer(content, 40, 8), asked.asked_round),
        ("body-n", integer(content, 48), n),
        ("body-depth", integer(content, 52), depth),
        ("body-flags", integer(content, 56), asked.mode),
        ("body-reserved", integer(content, 60), 0),
    ):
        if got != wanted:
            return code
    at = 64
    status = struct.unpack_from(f"<{n}i", content, at)
    generation = struct.unpack_from(f"<{n}I", content, at + 4 * n)
    tokens = struct.unpack_from(f"<{n * depth}i", content, at + 8 * n)
    confidence = struct.unpack_from(f"<{n * depth}f", content, at + 8 * n + 4 * n * depth)
    at += 8 * n + 8 * n * depth
    mask: tuple[int, ...] = (0,) * n
    ids: tuple[int, ...] = ()
    q: tuple[float, ...] = ()
    if sampled:
        if content[at : at + 4] != b"PP3Q":
            return "trailer-magic"
        for code, got, wanted in (
            ("trailer-semantic", integer(content, at + 4), 1),
            ("trailer-n", integer(content, at + 8), n),
            ("trailer-depth", integer(content, at + 12), depth),
        ):
            if got != wanted:
                return code
        at += 16
        mask = struct.unpack_from(f"<{n}i", content, at)
        ids = struct.unpack_from(f"<{32 * n * depth}i", content, at + 4 * n)
        q = struct.unpack_from(f"<{32 * n * depth}f", content, at + 4 * n + 128 * n * depth)
    for row in range(n):
        mine = slice(row * depth, (row + 1) * depth)
        found = _judge_row(
            asked, row, status[row], generation[row], mask[row], tokens[mine], confidence[mine], vocab, sampled
        )
        if found is None and sampled:
            wide = slice(row * depth * 32, (row + 1) * depth * 32)
            found = _judge_law(mask[row], tokens[mine], ids[wide], q[wide], vocab)
        if found:
            return found
    return None


def _judge_row(
    asked: Frame,
    row: int,
    status: int,
    generation: int,
    mask: int,
    tokens: tuple[int, ...],
    confidence: tuple[float, ...],
    vocab: int,
    sampled: bool,
) -> str | None:
    if status not in (0, 1, 2):
        return "row-status"
    if generation != asked.asked_generations[row]:
        return "row-generation"
    if sampled and (mask not in (0, 1) or (mask == 1) != (status == 0 and asked.asked_sampled[row])):
        return "row-mask"
    for value in confidence:
        if math.isnan(value) or math.isinf(value) or (status != 0 and value != 0):
            return "row-confidence"
    for token in tokens:
        if (status == 0 and not 0 <= token < vocab) or (status != 0 and token != -1):
            return "row-token"
    return None


def _judge_law(
    mask: int, tokens: tuple[int, ...], ids: tuple[int, ...], q: tuple[float, ...], vocab: int
) -> str | None:
    for token in ids:
        if not 0 <= token < vocab:
            return "row-id-range"
    for at, token in enumerate(ids):
        place = at % 32
        if (mask and place and token <= ids[at - 1]) or (not mask and token != place):
            return "row-id-order"
    tickets = []
    for value in q:
        if math.isnan(value) or math.isinf(value) or math.copysign(1, value) < 0 or value > 1:
            return "row-q"
        scaled = value * ONE
        if scaled != int(scaled):
            return "row-q"
        tickets.append(int(scaled))
    positions = len(tokens)
    for j in range(positions):
        if sum(tickets[32 * j : 32 * j + 32]) != (ONE if mask else 0):
            return "row-mass"
    for j in range(positions):
        held = [
            t
            for token, t in zip(ids[32 * j : 32 * j + 32], tickets[32 * j : 32 * j + 32], strict=True)
            if token == tokens[j]
        ]
        if mask and not (held and held[0]):
            return "row-undrawable"
    return None


def sound(rng: random.Random, mode: int = 2) -> Frame:
    """A frame that is accepted: any n, depth, statuses and temperatures."""
    n, depth, vocab = rng.randint(1, 4), rng.choice((4, 5)), rng.choice((32, 33, 97, 12_301, 262_144))
    sampled = [mode == 2 and rng.random() < 0.7 for _ in range(n)]
    made = Frame(
        vocab=vocab,
        asked_generations=[rng.getrandbits(32) for _ in range(n)],
        asked_sampled=sampled,
        asked_round=rng.getrandbits(64),
        asked_sequence=rng.getrandbits(64),
        asked_depth=depth,
        mode=mode,
    )
    made.flags = made.body_flags = mode
    made.sequence, made.round, made.n, made.depth = made.asked_sequence, made.asked_round, n, depth
    made.length = 24 + 8 * n + 8 * n * depth + (20 + 4 * n + 256 * n * depth if mode else 0)
    made.generation = list(made.asked_generations)
    made.trailer = (b"PP3Q", 1, n, depth)
    for row in range(n):
        status = rng.choice((0, 0, 0, 0, 1, 2))
        made.status.append(status)
        made.mask.append(int(status == 0 and sampled[row]))
        for _ in range(depth):
            ids, tickets = list(range(32)), [0] * 32
            token = rng.randrange(vocab) if status == 0 else -1
            if made.mask[-1]:
                ids = sorted(rng.sample(range(vocab), 32))
                tickets = _shares(rng)
                token = rng.choice([one for one, share in zip(ids, tickets, strict=True) if share])
            made.tokens.append(token)
            made.confidence.append(bits_of(rng.uniform(-3, 3)) if status == 0 else rng.choice((0, 0, 0, 0x80000000)))
            made.ids += ids
            made.q += struct.unpack("<32I", struct.pack("<32f", *[share / ONE for share in tickets]))
    return made


def _shares(rng: random.Random) -> list[int]:
    """32 integers that sum to 2^24, some of them 0."""
    if rng.random() < 0.1:
        shares = [0] * 32
        shares[rng.randrange(32)] = ONE
        return shares
    edges = sorted(int(rng.random() * (ONE + 1)) for _ in range(31))
    return [high - low for low, high in zip([0, *edges], [*edges, ONE], strict=True)]


ODD_BITS = (
    0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0xBF800000, 0x3F800001, 0x40000000,
    0x00000001, 0x33000000, 0x33800001, 0x3EFFFFFF, 0x3F800000, 0x00000000, 0x33800000,
)  # fmt: skip
ODD_INTEGERS = (0, 1, 2, 3, 4, 5, 6, 8, 31, 32, 255, 256, 1 << 16, (1 << 31) - 1)


def other(rng: random.Random, value: int, bits: int) -> int:
    """Another unsigned integer: near, odd, or any."""
    choice = rng.random()
    if choice < 0.4:
        return (value + rng.choice((-2, -1, 1, 2))) % (1 << bits)
    if choice < 0.7:
        return rng.choice(ODD_INTEGERS) % (1 << bits)
    return value ^ (1 << rng.randrange(bits))


def other_signed(rng: random.Random, value: int, vocab: int) -> int:
    """Another signed 32-bit integer: near, at the edges of a vocabulary, or any."""
    near = (value + 1, value - 1, -1, -2, 0, vocab - 1, vocab, vocab + 1, -(1 << 31), (1 << 31) - 1, vocab // 2)
    return max(-(1 << 31), min((1 << 31) - 1, rng.choice(near)))


CHANGED = ("status", "generation", "tokens", "confidence", "mask", "ids", "q")  # lists that a mutation writes to


def mutate(rng: random.Random, frame: Frame, aim: str) -> Frame:
    """A copy with one change that aims at a rule; what it comes to is the judges' to say."""
    copies: Any = {name: list(getattr(frame, name)) for name in CHANGED}
    made = replace(frame, **copies)
    rows, wide = len(made.status), len(made.ids)
    row = rng.randrange(rows)
    at = rng.randrange(len(made.tokens))
    deep = rng.randrange(wide)
    trailer: list[Any] = list(made.trailer)
    match aim:
        case "frame-magic":
            made.magic = bytes([made.magic[0] ^ (1 << rng.randrange(8))]) + made.magic[1:]
        case "frame-version":
            made.version = other(rng, made.version, 16)
        case "frame-kind":
            made.kind = rng.choice((1, 2, 0, 4, 3))
        case "frame-flags":
            made.flags = other(rng, made.flags, 32)
        case "frame-session":
            spot = rng.randrange(16)
            made.session = made.session[:spot] + bytes([made.session[spot] ^ 1]) + made.session[spot + 1 :]
        case "frame-sequence":
            made.sequence = other(rng, made.sequence, 64)
        case "frame-length":
            made.length = other(rng, made.length, 32)
        case "body-round":
            made.round = other(rng, made.round, 64)
        case "body-n":
            made.n = other(rng, made.n, 32)
        case "body-depth":
            made.depth = other(rng, made.depth, 32)
        case "body-flags":
            made.body_flags = other(rng, made.body_flags, 32)
        case "body-reserved":
            made.reserved = other(rng, made.reserved, 32)
        case "trailer-magic":
            trailer[0] = rng.choice((b"PP3F", b"pp3Q", b"PP3R", b"\0P3Q"))
        case "trailer-semantic":
            trailer[1] = other(rng, 1, 32)
        case "trailer-n":
            trailer[2] = other(rng, rows, 32)
        case "trailer-depth":
            trailer[3] = other(rng, made.asked_depth, 32)
        case "row-status":
            made.status[row] = rng.choice((3, -1, 1, 2, 0, 1 << 30, 255))
        case "row-generation":
            made.generation[row] = other(rng, made.generation[row], 32)
        case "row-mask":
            made.mask[row] = rng.choice((0, 1, 2, -1, 1 - made.mask[row]))
        case "row-confidence":
            made.confidence[at] = rng.choice(ODD_BITS)
        case "row-token":
            made.tokens[at] = other_signed(rng, made.tokens[at], made.vocab)
        case "row-id-range":
            made.ids[deep] = rng.choice((-1, made.vocab, made.vocab + 5, -(1 << 31), (1 << 31) - 1, made.vocab - 1))
        case "row-id-order":
            beside = deep ^ 1
            if rng.random() < 0.5:
                made.ids[deep], made.ids[beside] = made.ids[beside], made.ids[deep]
            else:
                made.ids[deep] = made.ids[beside]
        case "row-q":
            made.q[deep] = rng.choice(ODD_BITS)
        case "row-mass":
            if rng.random() < 0.5:
                made.q[deep] = bits_of(rng.randrange(ONE + 1) / ONE)
            else:
                made.q[deep], made.q[deep ^ 1] = made.q[deep ^ 1], made.q[deep]
        case "row-undrawable":
            held = made.ids[32 * at : 32 * at + 32]
            missing = [token for token in range(min(made.vocab, 200)) if token not in held]
            empty = [token for token, q in zip(held, made.q[32 * at : 32 * at + 32], strict=True) if not q]
            made.tokens[at] = rng.choice(missing + empty) if missing + empty else made.tokens[at]
        case "whole-row":
            _swap_rows(made, row, rng.randrange(rows))
        case "nothing":
            pass
    made.trailer = (trailer[0], trailer[1], trailer[2], trailer[3])
    return made


def _swap_rows(made: Frame, row: int, beside: int) -> None:
    """Two whole rows change places: what is sound alone is another's here."""
    depth = made.asked_depth
    for values, width in (
        (made.status, 1),
        (made.mask, 1),
        (made.tokens, depth),
        (made.confidence, depth),
        (made.ids, 32 * depth),
        (made.q, 32 * depth),
    ):
        mine: Any = slice(row * width, (row + 1) * width)
        its: Any = slice(beside * width, (beside + 1) * width)
        values[mine], values[its] = values[its], values[mine]


AIMS = (
    "frame-magic", "frame-version", "frame-kind", "frame-flags", "frame-session", "frame-sequence", "frame-length",
    "body-round", "body-n", "body-depth", "body-flags", "body-reserved", "trailer-magic", "trailer-semantic",
    "trailer-n", "trailer-depth", "row-status", "row-generation", "row-mask", "row-confidence", "row-token",
    "row-id-range", "row-id-order", "row-q", "row-mass", "row-undrawable", "whole-row", "nothing", "short", "long",
    "bit",
)  # fmt: skip


def reply(rng: random.Random) -> tuple[Frame, bytes]:
    """What was asked for, and a mutated frame: half keep the CRC that the sound one had."""
    frame = sound(rng, rng.choice((2, 2, 2, 2, 0)))
    body = zlib.crc32(frame.body())
    aims = rng.choices(AIMS, k=rng.choice((1, 1, 1, 2)))
    made = frame
    for aim in aims:
        made = mutate(rng, made, aim)
    content = made.content(None if rng.random() < 0.5 else body)
    if "short" in aims:
        content = content[: rng.choice((0, 1, 39, 40, 63, len(content) // 2, len(content) - 1))]
    if "long" in aims:
        content += bytes(rng.choice((1, 4, 4000)))
    if "bit" in aims and content:
        spot = rng.randrange(len(content))
        content = content[:spot] + bytes([content[spot] ^ (1 << rng.randrange(8))]) + content[spot + 1 :]
    return frame, content


def hello(rng: random.Random) -> tuple[int, bytes]:
    """The mode of who judges, and a mutated HELLO of that mode."""
    mode = rng.choice((2, 2, 2, 0))
    capability = rng.choice((8, 9, 24, 0xFFFFFFFF) if mode else (0, 0, 8, 7))
    body = struct.pack("<III32s32s32s32sIIII", mode, capability, 1, NAME, *IDENTITIES, 32, TAU_BITS, 4, 5)
    content = bytearray(struct.pack("<4sHHI16sQI", b"PP3F", 1, 1, 0, SESSION, 0, 156) + body)
    fields = (
        (0, 4), (4, 2), (6, 2), (8, 4), (12, 16), (28, 8), (36, 4), (40, 4), (44, 4), (48, 4), (52, 32), (84, 32),
        (116, 32), (148, 32), (180, 4), (184, 4), (188, 4), (192, 4),
    )  # fmt: skip
    for at, size in rng.choices(fields, k=rng.choice((1, 1, 2))):
        if (at, size) == (44, 4):
            content[at : at + 4] = rng.choice((0, 7, 16, 0xFFFFFFF7, 8)).to_bytes(4, "little")
        else:
            spot = at + rng.randrange(size)
            content[spot] = rng.choice((content[spot] ^ (1 << rng.randrange(8)), 0, 255))
    return mode, _sized(rng, bytes(content))


def step(rng: random.Random) -> tuple[int, int, int, bytes]:
    """Mode, depth, sequence, and a mutated STEP."""
    mode = rng.choice((2, 2, 2, 0))
    n, depth, sequence = rng.randint(1, 4), rng.choice((4, 5)), rng.getrandbits(64)
    slots = rng.sample(range(4), n)
    sampling = [[rng.getrandbits(64) - (1 << 63), rng.randrange(2), 0] for _ in range(n)]
    places = [[slot, rng.getrandbits(32), rng.getrandbits(64)] for slot in slots]
    head = [rng.getrandbits(64), n, depth, mode, 0]
    length = 24 + (32 if mode else 16) * n
    fields: list[Any] = [b"PP3F", 1, 2, mode, SESSION, sequence, length]
    row = rng.randrange(n)
    aim = rng.randrange(16)
    match aim:
        case 0 | 1 | 2 | 3:
            head[1 + aim] = other(rng, head[1 + aim], 32)
        case 4:
            sampling[row][1] = rng.choice((2, 3, 1 << 31, 0))
        case 5:
            sampling[row][2] = other(rng, 0, 32)
        case 6:
            places[row][0] = rng.choice((4, 5, 255, 1 << 31))
        case 7:
            places[row][0] = places[rng.randrange(n)][0]
        case 8:
            fields[0] = b"PP3G"
        case 9:
            fields[1] = other(rng, 1, 16)
        case 10:
            fields[2] = other(rng, 2, 16)
        case 11:
            fields[3] = other(rng, mode, 32)
        case 12:
            fields[4] = bytes(16)
        case 13:
            fields[5] = other(rng, sequence, 64)
        case 14:
            fields[6] = other(rng, length, 32)
        case _:
            pass
    content = struct.pack("<4sHHI16sQI", *fields) + struct.pack("<QIIII", *head)
    if mode:
        content += b"".join(struct.pack("<qII", *one) for one in sampling)
    content += b"".join(struct.pack("<IIQ", *one) for one in places)
    return mode, depth, sequence, _sized(rng, content)


def _sized(rng: random.Random, content: bytes) -> bytes:
    """One frame in ten is cut short or drawn out."""
    choice = rng.random()
    if choice < 0.05:
        return content[: rng.randrange(len(content))]
    return content + bytes(rng.choice((1, 32))) if choice < 0.1 else content
