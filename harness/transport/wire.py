"""REPLY: the drafts of one round and the law each came from, accepted or refused as it stands (semantics section 4).

Body: `<QIIII` round, n, depth, flags, 0; status i32[n]; generation u32[n]; tokens i32[n, depth]; confidence f32[n,
depth]; in sampled mode the trailer `<4sIII` PP3Q, semantic, n, depth; mask i32[n]; ids i32[n, depth, 32]; q f32[n,
depth, 32]; CRC-32 of the body before it. The CRC finds corruption; it authenticates nothing.

Decoding looks at the whole reply at once. Only if something is wrong does it go row by row for the first broken rule.
"""

import math
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pp3.harness.transport import frame as frames
from pp3.harness.transport.frame import HEADER_BYTES, SUPPORT, Kind, Mode, Status
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.step import HEAD, Step
from pp3.kernels.reference import ONE

I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
TRAILER = struct.Struct("<4sIII")
TRAILER_MAGIC = b"PP3Q"
CRC_BYTES = 4
ONE_BITS = 0x3F800000  # of 1.0: as u32, +0.0 and every positive FP32 up to 1 lie at or below, all others above
U32 = np.dtype("<u4")
TICKETS = np.float32(ONE)
KNOWN = frozenset(Status)
PADDING = np.arange(SUPPORT, dtype=np.int32)
HEAD_CODES = (
    Refusal.BODY_ROUND,
    Refusal.BODY_N,
    Refusal.BODY_DEPTH,
    Refusal.BODY_FLAGS,
    Refusal.BODY_RESERVED,
)
TRAILER_CODES = (Refusal.TRAILER_MAGIC, Refusal.TRAILER_SEMANTIC, Refusal.TRAILER_N, Refusal.TRAILER_DEPTH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """One round of drafts; arrays are little-endian and of these dtypes. In mode 0 mask, ids and q are None."""

    status: I32  # [n] of Status
    generation: npt.NDArray[np.uint32]  # [n]
    tokens: I32  # [n, depth]
    confidence: F32  # [n, depth]
    mask: I32 | None = None  # [n] 1 where q holds a law
    ids: I32 | None = None  # [n, depth, 32] ascending
    q: F32 | None = None  # [n, depth, 32] multiples of 2^-24 that sum to 1 where mask is 1

    @property
    def tickets(self) -> I32:
        """q as integers over 2^24, [n, depth, 32]. ValueError in mode 0."""
        if self.q is None:
            raise ValueError("a reply in mode 0 has no q")
        return (self.q * TICKETS).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a reply is held against: the step that asked for it, and the session that the step was sent in."""

    mode: Mode
    session: bytes
    sequence: int
    round: int
    depth: int
    generations: tuple[int, ...]
    sampled: tuple[bool, ...]
    vocab: int

    @classmethod
    def by(cls, step: Step, session: bytes, sequence: int, vocab: int) -> "Asked":
        """By a step."""
        return cls(
            mode=step.mode,
            session=session,
            sequence=sequence,
            round=step.round,
            depth=step.depth,
            generations=tuple(row.generation for row in step.rows),
            sampled=tuple(row.sampled for row in step.rows),
            vocab=vocab,
        )


@cache
def layout(n: int, depth: int, mode: Mode) -> np.dtype[np.void]:
    """The frame of n rows as one record. Flat views of ids and q lie over the shaped ones; mode 0 lacks both."""
    at = HEADER_BYTES + HEAD.size
    wide = (n, depth, SUPPORT)
    fields: dict[str, tuple[str, tuple[int, ...], int]] = {}
    wanted: list[tuple[str, str, tuple[int, ...]]] = [
        ("status", "<i4", (n,)),
        ("generation", "<u4", (n,)),
        ("tokens", "<i4", (n, depth)),
        ("confidence", "<f4", (n, depth)),
    ]
    if mode is Mode.SAMPLED:
        wanted += [("trailer", "V1", (TRAILER.size,)), ("mask", "<i4", (n,)), ("ids", "<i4", wide), ("q", "<f4", wide)]
    for name, dtype, shape in wanted:
        fields[name] = (dtype, shape, at)
        at += np.dtype(dtype).itemsize * math.prod(shape)
    if mode is Mode.SAMPLED:
        flat, (ids_at, q_at) = (math.prod(wide),), (fields[name][2] for name in ("ids", "q"))
        fields |= {
            "flat_ids": ("<i4", flat, ids_at),
            "flat_q": ("<f4", flat, q_at),
            "bits": ("<u4", flat, q_at),
            "lists": ("<i4", (n * depth, SUPPORT), ids_at),
            "drawn": ("<i4", (n * depth, 1), fields["tokens"][2]),
        }
        at += CRC_BYTES
    names = list(fields)
    return np.dtype(
        {
            "names": names,
            "formats": [(fields[name][0], fields[name][1]) for name in names],
            "offsets": [fields[name][2] for name in names],
            "itemsize": at,
        }
    )


def reply_of(step: Step, status: Any, tokens: Any, confidence: Any, ids: Any, tickets: Any) -> Reply:
    """The reply to a step; arrays [n], [n, depth], [n, depth, 32] of any integers and floats.

    Rows that are not ok lose token, confidence and law, greedy ones their law.
    """
    ok = status == Status.OK
    mask = ok & np.array([row.sampled for row in step.rows])
    with_law = mask[:, None, None]
    sampled = step.mode is Mode.SAMPLED
    return Reply(
        status=status.astype("<i4"),
        generation=np.array([row.generation for row in step.rows], "<u4"),
        tokens=np.where(ok[:, None], tokens, -1).astype("<i4"),
        confidence=np.where(ok[:, None], confidence, 0).astype("<f4"),
        mask=mask.astype("<i4") if sampled else None,
        ids=np.where(with_law, ids, PADDING).astype("<i4") if sampled else None,
        q=(np.where(with_law, tickets, 0) * 2.0**-24).astype("<f4") if sampled else None,
    )


def encode(reply: Reply, number: int, session: bytes, sequence: int) -> bytes:
    """The frame of a reply to round `number`. Nothing is judged here: that is the receiver's part."""
    n, depth = reply.tokens.shape
    mode = Mode.UNSAMPLED if reply.mask is None else Mode.SAMPLED
    parts = [
        HEAD.pack(number, n, depth, mode, 0),
        reply.status.tobytes(),
        reply.generation.tobytes(),
        reply.tokens.tobytes(),
        reply.confidence.tobytes(),
    ]
    if reply.mask is not None and reply.ids is not None and reply.q is not None:
        parts += [
            TRAILER.pack(TRAILER_MAGIC, frames.SEMANTIC, n, depth),
            reply.mask.tobytes(),
            reply.ids.tobytes(),
            reply.q.tobytes(),
        ]
        body = b"".join(parts)
        parts = [body, zlib.crc32(body).to_bytes(CRC_BYTES, "little")]
    body_bytes = layout(n, depth, mode).itemsize - HEADER_BYTES
    return b"".join([frames.header(Kind.REPLY, mode, session, sequence, body_bytes), *parts])


def decode(frame: bytes, asked: Asked) -> Reply:
    """The reply of a frame, as views of its bytes. FrameError names the first rule that it breaks."""
    n, depth, mode = len(asked.sampled), asked.depth, asked.mode
    record = layout(n, depth, mode)
    size, sampled = record.itemsize, mode is Mode.SAMPLED
    frames.refuse_size(len(frame), size)
    frames.judge_header(frame, frames.header(Kind.REPLY, mode, asked.session, asked.sequence, size - HEADER_BYTES))
    if sampled:
        computed, said = zlib.crc32(memoryview(frame)[HEADER_BYTES:-CRC_BYTES]), frame[-CRC_BYTES:]
        if computed.to_bytes(CRC_BYTES, "little") != said:
            raise FrameError(Refusal.CRC, f"it is {int.from_bytes(said, 'little'):08x}, must be {computed:08x}")
    _same(HEAD, HEAD_CODES, frame, HEADER_BYTES, HEAD.pack(asked.round, n, depth, mode, 0))
    if sampled:
        wanted = TRAILER.pack(TRAILER_MAGIC, frames.SEMANTIC, n, depth)
        _same(TRAILER, TRAILER_CODES, frame, HEADER_BYTES + HEAD.size + 8 * n + 8 * n * depth, wanted)
    fields: Any = np.ndarray((), record, frame)
    reply = Reply(
        status=fields["status"],
        generation=fields["generation"],
        tokens=fields["tokens"],
        confidence=fields["confidence"],
        mask=fields["mask"] if sampled else None,
        ids=fields["ids"] if sampled else None,
        q=fields["q"] if sampled else None,
    )
    if not (_short_fine(reply, asked) and (not sampled or _laws_fine(reply, fields, asked))):
        _refuse_row(reply, asked)
    return reply


def _same(layout: struct.Struct, codes: tuple[Refusal, ...], frame: bytes, at: int, wanted: bytes) -> None:
    got = frame[at : at + layout.size]
    if got != wanted:
        frames.first_difference(layout, codes, got, wanted)


def _short_fine(reply: Reply, asked: Asked) -> bool:
    """Whether status, generation, mask, confidence and tokens of all rows break no rule."""
    status = reply.status.tolist()
    if not KNOWN.issuperset(status) or tuple(reply.generation.tolist()) != asked.generations:
        return False
    if any(status):
        rows = zip(status, reply.tokens.tolist(), reply.confidence.tolist(), strict=True)
    else:  # as most are: one row as long as all
        rows = zip((0,), (reply.tokens.reshape(-1).tolist(),), (reply.confidence.reshape(-1).tolist(),), strict=True)
    for state, row, certainty in rows:
        if state == 0:
            if min(row) < 0 or max(row) >= asked.vocab or not math.isfinite(sum(certainty)):
                return False
        elif set(row) != {-1} or set(certainty) != {0.0}:
            return False
    if reply.mask is None:
        return True
    wanted = [state == 0 and warm for state, warm in zip(status, asked.sampled, strict=True)]
    mask: list[int] = reply.mask.tolist()
    return mask == wanted


def _laws_fine(reply: Reply, fields: Any, asked: Asked) -> bool:
    """Whether ids and q of all rows break no rule, whose masks do not: each rule is looked at for all together."""
    ids, flat_q = fields["flat_ids"], fields["flat_q"]
    firsts, lasts = ids[::SUPPORT], ids[SUPPORT - 1 :: SUPPORT]
    if min(firsts.tolist()) < 0 or max(lasts.tolist()) >= asked.vocab:
        return False
    rising = np.count_nonzero(ids[1:] > ids[:-1]) - np.count_nonzero(firsts[1:] > lasts[:-1])
    if rising != len(firsts) * (SUPPORT - 1) or fields["bits"].max() > ONE_BITS:
        return False
    scaled = flat_q * TICKETS
    tickets = scaled.astype(np.int32)
    if tickets.astype(np.float32).tobytes() != scaled.tobytes():
        return False
    mask = fields["mask"].tolist()
    masses = np.add.reduce(tickets.reshape(-1, SUPPORT), axis=1, dtype=np.int32).tolist()
    if masses != [ONE * law for law in mask for _ in range(asked.depth)]:
        return False
    if 0 in mask and not (fields["ids"][fields["mask"] == 0] == PADDING).all():
        return False
    # Ids of a position are distinct, so it holds its token with a ticket once or never.
    held: list[int] = tickets[(fields["lists"] == fields["drawn"]).reshape(-1)].tolist()
    return len(held) - held.count(0) == int(sum(mask)) * asked.depth


def _refuse_row(reply: Reply, asked: Asked) -> NoReturn:
    """Refuse the first row that breaks a rule under the first rule that it breaks."""
    for row, (generation, sampled) in enumerate(zip(asked.generations, asked.sampled, strict=True)):
        for code, broken in _broken(reply, row, generation, sampled, asked.vocab):
            if broken:
                raise FrameError(code, f"row {row} breaks this rule")
    raise AssertionError("a reply without a broken row was refused")


def _broken(reply: Reply, row: int, generation: int, sampled: bool, vocab: int) -> Any:
    """Each rule of a row in order, with whether the row breaks it; those after a broken one are not looked at."""
    status = int(reply.status[row])
    ok = status == Status.OK
    tokens, confidence = reply.tokens[row], reply.confidence[row]
    yield Refusal.ROW_STATUS, status not in list(Status)
    yield Refusal.ROW_GENERATION, reply.generation[row] != generation
    if reply.mask is not None:
        yield Refusal.ROW_MASK, reply.mask[row] != (ok and sampled)
    yield Refusal.ROW_CONFIDENCE, not (np.isfinite(confidence) if ok else confidence == 0).all()
    yield Refusal.ROW_TOKEN, not (((tokens >= 0) & (tokens < vocab)) if ok else tokens == -1).all()
    if reply.ids is None or reply.q is None:
        return
    ids, q = reply.ids[row], reply.q[row]
    with_law = ok and sampled
    yield Refusal.ROW_ID_RANGE, ((ids < 0) | (ids >= vocab)).any()
    yield Refusal.ROW_ID_ORDER, not (ids[:, 1:] > ids[:, :-1] if with_law else ids == PADDING).all()
    yield Refusal.ROW_Q, (q.view(U32) > ONE_BITS).any()
    scaled = q * TICKETS
    tickets = np.floor(scaled)
    yield Refusal.ROW_Q, (tickets != scaled).any()
    yield Refusal.ROW_MASS, (tickets.astype(np.int64).sum(axis=1) != (ONE if with_law else 0)).any()
    drawable = ((ids == tokens[:, None]) & (tickets > 0)).any(axis=1)
    yield Refusal.ROW_UNDRAWABLE, with_law and not drawable.all()
