"""The proxy's loop: take a round from the ring, send its step, judge the reply, publish a page. No torch, no CUDA.

Runs in a thread or in a process of its own; both have the same pipes and the same memory. It waits for no reply longer
than until the next command: time is the watchdog's.
"""

import os
import select
from dataclasses import dataclass

from pp3.harness.transport import hello, step, wire
from pp3.harness.transport.frame import Mode, Status, sequence_of
from pp3.harness.transport.layout import Bytes, Page, ReplyLayout, State, layout_of
from pp3.harness.transport.link import Link
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.records import COMMAND_BYTES, READY, Command, Record
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.ring import Ring

HELLO_SECONDS = 10.0
ENTRY_SECONDS = 1.0  # for a GPU to write the rows of a round; the watchdog's time is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is fixed for a session."""

    mine: hello.Hello
    session: bytes
    depth: int
    vocab: int

    @property
    def mode(self) -> Mode:
        """Of the session."""
        return self.mine.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A step that was sent."""

    command: Command
    round: int
    layout: ReplyLayout
    asked: wire.Asked


class Proxy:
    """One session over one link. `memory` is the ring's page, then one page for each claim."""

    def __init__(
        self, memory: Bytes, pages: list[Bytes], commands: int, records: int, link: Link, terms: Terms
    ) -> None:
        self._ring, self._pages = Ring(memory), {number: Page(page) for number, page in enumerate(pages, 1)}
        self._commands, self._records, self._link, self._terms = commands, records, link, terms
        self._waiting: Waiting | None = None
        self._sequence = self._late = 0
        self._lost = False

    def run(self) -> None:
        """Say hello, then serve until told to end, or until the engine is gone."""
        ready = self._hello()
        self._send(ready)
        if ready.cause is not Cause.DELIVERED:
            return
        poll = select.poll()
        poll.register(self._link.end, select.POLLIN)
        poll.register(self._commands, select.POLLIN)
        wire_end = self._link.end.fileno()
        while True:
            woken = {descriptor for descriptor, _ in poll.poll()}
            if wire_end in woken and not self._receive():
                poll.unregister(wire_end)
            if self._commands in woken:
                content = os.read(self._commands, COMMAND_BYTES)
                if len(content) != COMMAND_BYTES or (command := Command.unpack(content)).ticket == READY:
                    return
                self._begin(command)

    def close(self) -> None:
        """Let go of the memory."""
        self._ring.close()
        for page in self._pages.values():
            page.close()

    def _hello(self) -> Record:
        """Send mine, judge theirs."""
        self._link.send(hello.encode(self._terms.mine, self._terms.session))
        try:
            frame = self._link.receive(HELLO_SECONDS)
            if frame is None:
                return Record(ticket=READY, page=0, cause=Cause.TIMED_OUT)
            hello.judge(frame, self._terms.mine, self._terms.session)
        except EOFError:
            return Record(ticket=READY, page=0, cause=Cause.PEER_LOST)
        except FrameError as error:
            return Record(ticket=READY, page=0, cause=Cause.REFUSED, refusal=error.code)
        return Record(ticket=READY, page=0, cause=Cause.DELIVERED)

    def _begin(self, command: Command) -> None:
        """Send the step of a command; whatever was waited for is given up."""
        if self._waiting:
            self._fail(self._waiting.command, self._waiting.round, self._waiting.layout, Cause.ABANDONED)
            self._waiting = None
        try:
            asked = self._ring.take(command.page, command.ticket, ENTRY_SECONDS)
        except ValueError:
            asked = None
        if asked is None or (asked.mode, asked.depth) != (self._terms.mode, self._terms.depth):
            self._fail(command, 0, layout_of(1, self._terms.depth, self._terms.mode), Cause.UNREADABLE)
            return
        layout = layout_of(asked.n, asked.depth, asked.mode)
        self._sequence += 1
        sent = not self._lost and self._link.send(step.encode(asked, self._terms.session, self._sequence))
        if not sent:
            self._fail(command, asked.round, layout, Cause.PEER_LOST)
            return
        self._waiting = Waiting(
            command=command,
            round=asked.round,
            layout=layout,
            asked=wire.Asked.by(asked, self._terms.session, self._sequence, self._terms.vocab),
        )

    def _receive(self) -> bool:
        """Judge a reply; False if the peer is gone. One to an earlier step is late: dropped, and counted."""
        waiting = self._waiting
        try:
            frame = self._link.receive() or b""
        except EOFError:
            self._lost, self._waiting = True, None
            if waiting:
                self._fail(waiting.command, waiting.round, waiting.layout, Cause.PEER_LOST)
            return False
        sequence = sequence_of(frame, self._terms.session)
        if waiting is None or (sequence is not None and sequence < waiting.asked.sequence):
            self._late += 1
            return True
        self._waiting = None
        try:
            reply = wire.decode(frame, waiting.asked)
        except FrameError as error:
            self._fail(waiting.command, waiting.round, waiting.layout, Cause.REFUSED, error.code)
            return True
        self._pages[waiting.command.page].write(waiting.layout, waiting.round, reply)
        self._publish(waiting.command, Cause.DELIVERED)
        return True

    def _fail(
        self, command: Command, number: int, layout: ReplyLayout, cause: Cause, refusal: Refusal | None = None
    ) -> None:
        self._pages[command.page].fail(layout, number, Status.FAILED)
        self._publish(command, cause, refusal)

    def _publish(self, command: Command, cause: Cause, refusal: Refusal | None = None) -> None:
        self._pages[command.page].mark(State.PUBLISHED, command.ticket)
        record = Record(ticket=command.ticket, page=command.page, cause=cause, refusal=refusal, late=self._late)
        self._send(record)

    def _send(self, record: Record) -> None:
        os.write(self._records, record.pack())
