"""STEP: what the engine asks of the drafter for one round (semantics section 4).

Body `<QIIII` round, n, depth, flags, 0; in sampled mode n records `<qII` seed, T>0, 0; then n records `<IIQ` slot,
generation, position. Fixed per session: mode and depth.
"""

import struct
from dataclasses import dataclass

from pp3.harness.transport import frame as frames
from pp3.harness.transport.frame import DEPTHS, HEADER_BYTES, MAX_ROWS, SLOTS, Kind, Mode
from pp3.harness.transport.refusal import FrameError, Refusal

HEAD = struct.Struct("<QIIII")
SAMPLING, PLACE = struct.Struct("<qII"), struct.Struct("<IIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request of a round."""

    slot: int  # 0 to 3
    generation: int  # u32: how often its slot was given away
    position: int  # u64: of its first draft
    seed: int = 0  # i64
    sampled: bool = False  # temperature > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One round. ValueError for rows that no frame can carry."""

    mode: Mode
    round: int
    depth: int
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        slots = [row.slot for row in self.rows]
        if not 1 <= len(slots) <= MAX_ROWS or len(set(slots)) < len(slots) or not set(slots) <= set(range(SLOTS)):
            raise ValueError(f"slots {slots}; a round has 1 to {MAX_ROWS} distinct ones below {SLOTS}")
        if self.depth not in DEPTHS:
            raise ValueError(f"depth {self.depth}; it must be one of {DEPTHS}")
        if self.mode is Mode.UNSAMPLED and any(row.sampled for row in self.rows):
            raise ValueError("a row with temperature > 0 in mode 0; it needs both switches")

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)


def body_bytes(n: int, mode: Mode) -> int:
    """Size of the body of n rows."""
    return HEAD.size + n * (PLACE.size + (SAMPLING.size if mode is Mode.SAMPLED else 0))


def encode(step: Step, session: bytes, sequence: int) -> bytes:
    """The frame of a step."""
    parts = [
        frames.header(Kind.STEP, step.mode, session, sequence, body_bytes(step.n, step.mode)),
        HEAD.pack(step.round, step.n, step.depth, step.mode, 0),
    ]
    if step.mode is Mode.SAMPLED:
        parts += [SAMPLING.pack(row.seed, row.sampled, 0) for row in step.rows]
    parts += [PLACE.pack(row.slot, row.generation, row.position) for row in step.rows]
    return b"".join(parts)


def decode(frame: bytes, mode: Mode, depth: int, session: bytes, sequence: int) -> Step:
    """The step of a frame. FrameError names the first rule that it breaks.

    Judged in this order: at least a header and the head of a body; the header, whose declared length is that of the
    bytes received; n, depth, flags, reserved; the size that n gives; then row by row T>0, padding, slot.
    """
    if len(frame) < HEADER_BYTES + HEAD.size:
        raise FrameError(Refusal.SHORT, f"{len(frame)} bytes, must be {HEADER_BYTES + HEAD.size} or more")
    frames.judge_header(frame, frames.header(Kind.STEP, mode, session, sequence, len(frame) - HEADER_BYTES))
    number, n, said_depth, flags, reserved = HEAD.unpack_from(frame, HEADER_BYTES)
    for code, value, fine, limit in (
        (Refusal.STEP_N, n, 1 <= n <= MAX_ROWS, f"1 to {MAX_ROWS}"),
        (Refusal.STEP_DEPTH, said_depth, said_depth == depth, depth),
        (Refusal.STEP_FLAGS, flags, flags == mode, mode.value),
        (Refusal.STEP_RESERVED, reserved, reserved == 0, 0),
    ):
        if not fine:
            raise FrameError(code, f"it is {value}, must be {limit}")
    frames.refuse_size(len(frame), HEADER_BYTES + body_bytes(n, mode))
    at, sampling = HEADER_BYTES + HEAD.size, [(0, 0, 0)] * n
    if mode is Mode.SAMPLED:
        sampling = [SAMPLING.unpack_from(frame, at + SAMPLING.size * i) for i in range(n)]
        at += SAMPLING.size * n
    rows: list[Row] = []
    for i, (seed, sampled, padding) in enumerate(sampling):
        slot, generation, position = PLACE.unpack_from(frame, at + PLACE.size * i)
        for code, value, fine in (
            (Refusal.STEP_TEMPERATURE, sampled, sampled in (0, 1)),
            (Refusal.STEP_PADDING, padding, padding == 0),
            (Refusal.STEP_SLOT, slot, slot < SLOTS),
            (Refusal.STEP_SLOT_TWICE, slot, all(row.slot != slot for row in rows)),
        ):
            if not fine:
                raise FrameError(code, f"row {i}: it is {value}")
        rows.append(Row(slot=slot, generation=generation, position=position, seed=seed, sampled=bool(sampled)))
    return Step(mode=mode, round=number, depth=depth, rows=tuple(rows))
