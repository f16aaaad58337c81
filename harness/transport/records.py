"""What goes through the pipes between engine and proxy: records of one size, written in one piece.

A write of no more than PIPE_BUF bytes to a pipe is whole or does not happen (POSIX), so that a writer that is killed
leaves no half record. A pipe also orders: what was written to memory before a record is there for whoever reads it.
"""

import os
import struct
from dataclasses import dataclass
from typing import ClassVar

from pp3.harness.transport.pages import Cause
from pp3.harness.transport.refusal import Refusal

READY = 0  # the ticket of a record that speaks of no round
REFUSALS = tuple(Refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """To the proxy: the entry of this ticket is, or will be, in the ring. Ticket 0 ends it."""

    ticket: int
    page: int = 0

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<QQ")

    def pack(self) -> bytes:
        """16 bytes."""
        return self.LAYOUT.pack(self.ticket, self.page)

    @classmethod
    def unpack(cls, content: bytes) -> "Command":
        """Of 16 bytes."""
        ticket, page = cls.LAYOUT.unpack(content)
        return cls(ticket=ticket, page=page)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """To the engine: this page is published for this ticket."""

    ticket: int
    page: int
    cause: Cause
    refusal: Refusal | None = None
    late: int = 0  # replies to earlier rounds that the proxy has dropped so far

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<QIIII")

    def pack(self) -> bytes:
        """24 bytes."""
        code = 0 if self.refusal is None else REFUSALS.index(self.refusal) + 1
        return self.LAYOUT.pack(self.ticket, self.page, self.cause, code, self.late & 0xFFFFFFFF)

    @classmethod
    def unpack(cls, content: bytes) -> "Record":
        """Of 24 bytes. ValueError for a cause or a refusal that there is not."""
        ticket, page, cause, code, late = cls.LAYOUT.unpack(content)
        if code > len(REFUSALS):
            raise ValueError(f"refusal {code} of a record; there are {len(REFUSALS)}")
        refusal = REFUSALS[code - 1] if code else None
        return cls(ticket=ticket, page=page, cause=Cause(cause), refusal=refusal, late=late)


COMMAND_BYTES, RECORD_BYTES = Command.LAYOUT.size, Record.LAYOUT.size


def read_record(descriptor: int) -> Record:
    """Wait for the next record. EOFError if nobody can write one any more."""
    content = os.read(descriptor, RECORD_BYTES)
    if len(content) != RECORD_BYTES:
        raise EOFError(f"{len(content)} bytes of a record; it has {RECORD_BYTES}")
    return Record.unpack(content)
