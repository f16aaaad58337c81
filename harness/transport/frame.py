"""The frame around every body of the wire: `<4sHHI16sQI`, 40 bytes (semantics section 4).

    magic PP3F | version u16 1 | kind u16 | flags u32 | session [16] | sequence u64 | body length u32

Little-endian. Whoever receives a frame accepts or refuses it, field by field in this order, and repairs nothing.
"""

import struct
from enum import IntEnum
from typing import NoReturn

from pp3.harness.transport.refusal import FrameError, Refusal

HEADER = struct.Struct("<4sHHI16sQI")
HEADER_BYTES = HEADER.size
MAGIC, VERSION = b"PP3F", 1
SESSION_BYTES = 16
MAX_ROWS, SLOTS = 4, 4
DEPTHS = (4, 5)
SUPPORT, SEMANTIC = 32, 1
FIELDS = (
    Refusal.FRAME_MAGIC,
    Refusal.FRAME_VERSION,
    Refusal.FRAME_KIND,
    Refusal.FRAME_FLAGS,
    Refusal.FRAME_SESSION,
    Refusal.FRAME_SEQUENCE,
    Refusal.FRAME_LENGTH,
)


class Kind(IntEnum):
    """What a frame carries."""

    HELLO = 1
    STEP = 2
    REPLY = 3


class Mode(IntEnum):
    """What two peers agree on for a session. The value is the flags of STEP and REPLY, and HELLO's sample_mode."""

    UNSAMPLED = 0
    SAMPLED = 2


class Status(IntEnum):
    """What became of a row."""

    OK = 0
    FAILED = 1
    TIMED_OUT = 2


def flags_of(kind: Kind, mode: Mode) -> int:
    """Frame flags: none in a HELLO, the mode elsewhere."""
    return 0 if kind is Kind.HELLO else mode.value


def header(kind: Kind, mode: Mode, session: bytes, sequence: int, body_bytes: int) -> bytes:
    """The 40 bytes before a body."""
    return HEADER.pack(MAGIC, VERSION, kind, flags_of(kind, mode), session, sequence, body_bytes)


def judge_header(frame: bytes, expected: bytes) -> None:
    """FrameError with the code of the first field of a frame of 40 bytes or more that is not the expected one."""
    if frame[:HEADER_BYTES] == expected:
        return
    first_difference(HEADER, FIELDS, frame[:HEADER_BYTES], expected)


def first_difference(layout: struct.Struct, codes: tuple[Refusal, ...], got: bytes, expected: bytes) -> NoReturn:
    """Refuse two unequal records of one layout under the code of the first field that differs."""
    pairs = zip(codes, layout.unpack(got), layout.unpack(expected), strict=True)
    code, value, wanted = next((code, value, wanted) for code, value, wanted in pairs if value != wanted)
    raise FrameError(code, f"it is {value!r}, must be {wanted!r}")


def refuse_size(received: int, wanted: int) -> None:
    """FrameError unless so many bytes were received as wanted."""
    if received != wanted:
        code = Refusal.SHORT if received < wanted else Refusal.LONG
        raise FrameError(code, f"{received} bytes, must be {wanted}")


def sequence_of(frame: bytes, session: bytes) -> int | None:
    """The sequence that a frame of this session claims, to tell late from wrong; None for another frame."""
    if len(frame) < HEADER_BYTES:
        return None
    magic, version, _, _, whose, sequence, _ = HEADER.unpack_from(frame)
    return int(sequence) if (magic, version, whose) == (MAGIC, VERSION, session) else None
