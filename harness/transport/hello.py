"""HELLO: what two peers must agree on before a session, as a frame of 196 bytes with sequence 0 (semantics section 4).

Body `<III32s32s32s32sIfII`: sample mode, capability, semantic, semantic name, identities of target, draft and Markov
head (opaque, compared), top-k, tau, least and largest depth. Standard verification is implied by semantic 1.
A peer whose switch is off says mode 0 and no capability; each side judges the other's HELLO by its own mode, so that
one switch alone is refused by both. Sampled or not, the other fields must be equal.
"""

import struct
from dataclasses import dataclass

from pp3.harness.transport import frame as frames
from pp3.harness.transport.frame import HEADER_BYTES, Kind, Mode
from pp3.harness.transport.refusal import HELLO_RULES, FrameError, Refusal

BODY = struct.Struct("<III32s32s32s32sIfII")
FRAME_BYTES = HEADER_BYTES + BODY.size
NAME = b"dyadic24-floor-first-v1"
IDENTITY_BYTES = 32
CAPABLE = 8  # the bit of `capability` that must be set; the others are ignored
TAU = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What one peer is. ValueError for an identity that has not 32 bytes."""

    mode: Mode
    target: bytes
    draft: bytes
    markov: bytes

    def __post_init__(self) -> None:
        for name in ("target", "draft", "markov"):
            if len(getattr(self, name)) != IDENTITY_BYTES:
                raise ValueError(f"{name} identity has {len(getattr(self, name))} bytes; it must have {IDENTITY_BYTES}")

    def body(self) -> bytes:
        """The 156 bytes after the header."""
        sampled = self.mode is Mode.SAMPLED
        depths = min(frames.DEPTHS), max(frames.DEPTHS)
        return BODY.pack(
            self.mode,
            CAPABLE if sampled else 0,
            frames.SEMANTIC,
            NAME,
            self.target,
            self.draft,
            self.markov,
            frames.SUPPORT,
            TAU,
            *depths,
        )


def encode(mine: Hello, session: bytes) -> bytes:
    """The frame that opens a session."""
    return frames.header(Kind.HELLO, mine.mode, session, 0, BODY.size) + mine.body()


def judge(frame: bytes, mine: Hello, session: bytes | None = None) -> bytes:
    """The session of a peer's HELLO that agrees with mine. FrameError names the first field that does not.

    `session` is the one that this side has opened; None on the side that learns it here.
    """
    frames.refuse_size(len(frame), FRAME_BYTES)
    theirs = session if session is not None else frame[12:28]
    frames.judge_header(frame, frames.header(Kind.HELLO, mine.mode, theirs, 0, BODY.size))
    got, wanted = BODY.unpack_from(frame, HEADER_BYTES), BODY.unpack(mine.body())
    for at, (code, value, expected) in enumerate(zip(HELLO_RULES, got, wanted, strict=True)):
        differs = value != expected
        if code is Refusal.HELLO_CAPABILITY:
            differs = mine.mode is Mode.SAMPLED and not value & CAPABLE
        if differs:
            raise FrameError(code, f"the peer's field {at} is {value!r}, must be {expected!r}")
    return theirs
