"""A reply in shared memory: fields in a fixed order, inside a page of 65,536 bytes whose control words lie at its end.

    round u64 | status i32[n] | tokens i32[n, depth] | confidence f32[n, depth]
    in sampled mode then: mask i32[n] | ids i32[n, depth, 32] | q f32[n, depth, 32]

Four rows of depth 5: 184 bytes, in sampled mode 5,320. A failed reply has the same layout as any other. Control words,
i64: state, ticket. Who owns a page writes it; pages change hands by a pipe (channel.py), never by a control word.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.transport.frame import SUPPORT, Mode, Status
from pp3.harness.transport.wire import PADDING, Reply

PAGE_BYTES = 65_536
CONTROL_AT = PAGE_BYTES - 4_096
Bytes = npt.NDArray[np.uint8]


class State(IntEnum):
    """What a page holds, as its control word says."""

    FREE = 0
    CLAIMED = 1
    PUBLISHED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLayout:
    """Where the fields of n rows lie: name, dtype, shape, offset in bytes."""

    n: int
    depth: int
    mode: Mode
    fields: tuple[tuple[str, str, tuple[int, ...], int], ...]
    size: int


@cache
def layout_of(n: int, depth: int, mode: Mode) -> ReplyLayout:
    """The layout of n rows; it grows by mask, ids and q in sampled mode alone."""
    wide = (n, depth, SUPPORT)
    wanted: list[tuple[str, str, tuple[int, ...]]] = [
        ("round", "<u8", ()),
        ("status", "<i4", (n,)),
        ("tokens", "<i4", (n, depth)),
        ("confidence", "<f4", (n, depth)),
    ]
    if mode is Mode.SAMPLED:
        wanted += [("mask", "<i4", (n,)), ("ids", "<i4", wide), ("q", "<f4", wide)]
    fields, at = [], 0
    for name, dtype, shape in wanted:
        fields.append((name, dtype, shape, at))
        at += np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
    return ReplyLayout(n=n, depth=depth, mode=mode, fields=tuple(fields), size=at)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Landed:
    """A reply copied out of its page; in mode 0 mask, ids and q are None."""

    round: int
    status: npt.NDArray[np.int32]  # [n]
    tokens: npt.NDArray[np.int32]  # [n, depth]
    confidence: npt.NDArray[np.float32]  # [n, depth]
    mask: npt.NDArray[np.int32] | None = None  # [n]
    ids: npt.NDArray[np.int32] | None = None  # [n, depth, 32]
    q: npt.NDArray[np.float32] | None = None  # [n, depth, 32]


class Page:
    """One page of shared memory: views of it by layout, and its control words."""

    def __init__(self, content: Bytes) -> None:
        if len(content) != PAGE_BYTES:
            raise ValueError(f"a page of {len(content)} bytes; it must have {PAGE_BYTES}")
        self._content = content
        self._control = content[CONTROL_AT : CONTROL_AT + 16].view("<i8")
        self._views: dict[ReplyLayout, dict[str, Any]] = {}

    @property
    def control(self) -> tuple[State, int]:
        """State and ticket."""
        state, ticket = self._control.tolist()
        return State(state), ticket

    def mark(self, state: State, ticket: int) -> None:
        """Set the control words."""
        self._control[:] = state, ticket

    def views(self, layout: ReplyLayout) -> dict[str, Any]:
        """Arrays over the page, by field."""
        found = self._views.get(layout)
        if found is None:
            found = {}
            for name, dtype, shape, at in layout.fields:
                count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
                found[name] = self._content[at : at + count].view(dtype).reshape(shape)
            self._views[layout] = found
        return found

    def write(self, layout: ReplyLayout, number: int, reply: Reply) -> None:
        """Put the reply to round `number` into the page."""
        views = self.views(layout)
        views["round"][()] = number
        for name in [name for name, *_ in layout.fields[1:]]:
            views[name][...] = getattr(reply, name)

    def fail(self, layout: ReplyLayout, number: int, status: Status) -> None:
        """Put a reply into the page that has no draft and no law in any row."""
        views = self.views(layout)
        views["round"][()] = number
        views["status"][:] = status
        views["tokens"][:] = -1
        views["confidence"][:] = 0
        if layout.mode is Mode.SAMPLED:
            views["mask"][:] = 0
            views["ids"][:] = PADDING
            views["q"][:] = 0

    def read(self, layout: ReplyLayout) -> Landed:
        """A copy of what the page holds."""
        views = self.views(layout)
        copies = {name: view.copy() for name, view in views.items() if name != "round"}
        return Landed(round=int(views["round"]), **copies)

    def close(self) -> None:
        """Let go of the memory."""
        self._views.clear()
        del self._content, self._control
