"""The engine's side of a proxy: submit a round, collect what it came to, begin again when the proxy is lost.

Order of a page: claimed by the engine and lent with its ticket, published by its writer, taken by the engine for its
ticket alone, copied, released, and only then free to be claimed again (pages.py). Every hand-over is a record in a
pipe. A proxy that has died, or whose last `patience` rounds ended by time, is replaced with all its memory, pipes and
connection, under another session; until the new one has said hello, rounds fail at once.
"""

import hashlib
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.transport.frame import SESSION_BYTES, Status
from pp3.harness.transport.layout import PAGE_BYTES, Landed, Page, ReplyLayout, State, layout_of
from pp3.harness.transport.link import Link
from pp3.harness.transport.pages import Cause, Pages, Take
from pp3.harness.transport.place import Place
from pp3.harness.transport.proxy import PLACES, STOP_SECONDS, Pipes, Running, Segment
from pp3.harness.transport.records import READY, Command, Record, read_record
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.ring import Ring
from pp3.harness.transport.serve import HELLO_SECONDS, Terms
from pp3.harness.transport.step import Step
from pp3.harness.transport.watchdog import Armed, Watchdog

CLAIMS = 4  # pages that can be lent
PATIENCE = 3  # rounds in a row that end by time, before a proxy counts as lost
SHORTEST_REST, LONGEST_REST = 0.05, 5.0  # seconds between proxies that never say hello
LOST = (Cause.TIMED_OUT, Cause.UNREADABLE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """What a round came to."""

    landed: Landed
    cause: Cause
    refusal: Refusal | None = None


class Writer(Protocol):
    """Whoever writes rows into a ring from elsewhere, as gather.Gather does; it ends before the ring's memory does."""

    def issue(self, entry: int, ticket: int, slots: Any) -> None:
        """Write the rows of slots, then the stamp."""

    def close(self) -> None:
        """Nothing is written any more."""


class Incarnation:
    """One proxy with all that is its own."""

    def __init__(self, terms: Terms, place: Place, link: Link, attach: Callable[[Ring], Writer] | None) -> None:
        self.terms = terms
        self.segment = Segment(CLAIMS + 2)
        pages = self.segment.pages
        self.ring = Ring(pages[0])
        self.writer = attach(self.ring) if attach else None
        self.views = [Page(page) for page in pages[1:]]
        self.pipes = Pipes.make()
        self.pages = Pages.of(range(1, CLAIMS + 1), watchdog=CLAIMS + 1)
        self.watchdog = Watchdog(self.views[CLAIMS], CLAIMS + 1, self.pipes.records)
        self.proxy: Running = PLACES[place](self.segment, CLAIMS, self.pipes, link, terms)
        self.ready: Record | None = None

    def page(self, number: int) -> Page:
        """A page by the number that records use."""
        return self.views[number - 1]

    def close(self, wait: float) -> None:
        """End the proxy, by force after so many seconds, and give everything back."""
        self.proxy.stop(self.pipes.orders, wait)
        self.watchdog.close()
        if self.writer is not None:
            self.writer.close()
        self.ring.close()
        for page in self.views:
            page.close()
        for descriptor in (self.pipes.orders, self.pipes.records, self.pipes.news):
            os.close(descriptor)
        self.segment.close()


class Channel:
    """One engine's way to its drafter. One round at a time: submit, then collect.

    `dial` makes a new connection whenever a proxy begins, and `attach` a writer for its ring; `seconds` is how long a
    round is waited for.
    """

    def __init__(
        self,
        terms: Terms,
        place: Place,
        dial: Callable[[], Link],
        seconds: float,
        attach: Callable[[Ring], Writer] | None = None,
    ) -> None:
        self._terms, self._place, self._dial, self._seconds, self._attach = terms, place, dial, seconds, attach
        self._begun = self._ticket = self._timed_out = self._failures = 0
        self._not_before = 0.0  # another proxy is begun, if the one of now never was ready
        self.late = 0  # replies that came after their round, as the proxy of now has last said
        self._round: Armed | None = None
        self._now = self._begin()

    @property
    def proxies(self) -> int:
        """How many proxies were begun so far."""
        return self._begun

    @property
    def running(self) -> Running:
        """The proxy of now."""
        return self._now.proxy

    @property
    def incarnation(self) -> Incarnation:
        """All that belongs to the proxy of now."""
        return self._now

    def wait_ready(self) -> None:
        """Wait until the drafter has agreed. FrameError says what differs; PP3Error (69) if it is silent."""
        if self._now.ready is None:
            poll = select.poll()
            poll.register(self._now.pipes.news, select.POLLIN)
            if not poll.poll(round((HELLO_SECONDS + 5) * 1000)):
                raise PP3Error("the proxy does not start; see what it printed", Exit.UNAVAILABLE)
            self._now.ready = read_record(self._now.pipes.news)
        said = self._now.ready
        if said.refusal is not None:
            raise FrameError(said.refusal, "the drafter's HELLO differs; both sides must be set alike")
        if said.cause is not Cause.DELIVERED:
            raise PP3Error(f"the drafter said no HELLO ({said.cause.name.lower()})", Exit.UNAVAILABLE)

    def submit(self, step: Step, seconds: float | None = None) -> None:
        """Ask for a round, and wait for it so long; by default as long as for any."""
        ticket, page = self._open(step.round, layout_of(step.n, step.depth, step.mode), seconds)
        if page is not None:
            self._now.ring.put(page, ticket, step)
            self._send(ticket, page)

    def submit_gathered(self, number: int, layout: ReplyLayout, slots: list[int], there: Any) -> None:
        """Ask for a round whose rows the attached writer takes from elsewhere, where the slots are `there`.

        The command is sent at once; the proxy waits for the stamp. ValueError without a writer.
        """
        if self._now.writer is None:
            raise ValueError("no writer is attached to the rings of this channel")
        ticket, page = self._open(number, layout, None)
        if page is not None:
            self._now.ring.begin(page, number, layout.depth, layout.mode, slots)
            self._send(ticket, page)
            self._now.writer.issue(page, ticket, there)

    def collect(self) -> Settled:
        """What the round came to; waits for it, but never longer than its time."""
        if self._round is None:
            raise ValueError("no round was submitted")
        now, awaited = self._now, self._round
        try:
            record = self._await(now, awaited)
            settled = self._read(record, awaited)
        except ValueError:  # fail closed: nothing of this proxy is used any more
            settled = self._foreign(awaited)
        now.watchdog.disarm()
        now.pages.release()
        self._round = None
        self._timed_out = self._timed_out + 1 if settled.cause in LOST else 0
        if settled.cause in (Cause.PEER_LOST, Cause.FOREIGN) or self._timed_out >= PATIENCE or not now.proxy.alive():
            self._again()
        return settled

    def close(self) -> None:
        """End the proxy."""
        self._now.close(STOP_SECONDS)

    def _open(self, number: int, layout: ReplyLayout, seconds: float | None) -> tuple[int, int | None]:
        """A ticket, and a page that is claimed for it and watched; None if the round has failed already."""
        if self._round is not None:
            raise ValueError("a round is submitted and not collected")
        now = self._now
        self._ticket += 1
        armed = Armed(
            ticket=self._ticket,
            round=number,
            layout=layout,
            deadline=time.monotonic() + (self._seconds if seconds is None else seconds),
        )
        self._round = armed
        if now.ready is None:
            self._look_for_ready()
        if now.ready is None or now.ready.cause is not Cause.DELIVERED:
            now.watchdog.publish(armed, Cause.PROXY_DOWN)
            return self._ticket, None
        page = now.pages.claim(self._ticket)
        if page is None:
            now.watchdog.publish(armed, Cause.NO_PAGE)
            return self._ticket, None
        now.page(page).mark(State.CLAIMED, self._ticket)
        now.watchdog.arm(armed)
        return self._ticket, page

    def _send(self, ticket: int, page: int) -> None:
        with suppress(BrokenPipeError):  # the proxy has died: the watchdog ends the round
            os.write(self._now.pipes.orders, Command(ticket=ticket, page=page).pack())

    def _await(self, now: Incarnation, awaited: Armed) -> Record:
        """The record that ends this round. ValueError for one that is foreign."""
        while True:
            record = read_record(now.pipes.news)
            if record.ticket == READY:
                now.ready = record
            elif now.pages.settle(record.ticket, record.page, awaited.ticket) is Take.MINE:
                self.late = record.late if record.page != now.pages.watchdog else self.late
                return record

    def _read(self, record: Record, awaited: Armed) -> Settled:
        """Copy the page of a record. ValueError if it holds anything but this round."""
        page = self._now.page(record.page)
        if record.cause is Cause.UNREADABLE:  # the proxy did not know the layout
            page.fail(awaited.layout, awaited.round, Status.FAILED)
        landed = page.read(awaited.layout)
        if page.control != (State.PUBLISHED, awaited.ticket) or landed.round != awaited.round:
            raise ValueError(f"page {record.page} holds {page.control} of round {landed.round}, not {awaited}")
        page.mark(State.FREE, awaited.ticket)
        return Settled(landed=landed, cause=record.cause, refusal=record.refusal)

    def _foreign(self, awaited: Armed) -> Settled:
        """A failed round, from memory that no proxy can write."""
        page = Page(np.zeros(PAGE_BYTES, np.uint8))
        page.fail(awaited.layout, awaited.round, Status.FAILED)
        return Settled(landed=page.read(awaited.layout), cause=Cause.FOREIGN)

    def _look_for_ready(self) -> None:
        if select.select([self._now.pipes.news], [], [], 0)[0]:
            record = read_record(self._now.pipes.news)
            self._now.ready = record if record.ticket == READY else None

    def _again(self) -> None:
        """Replace the proxy, unless the drafter has refused the session; after one that never began, not at once."""
        said = self._now.ready
        if said is not None and said.refusal is not None:
            return
        if said is None or said.cause is not Cause.DELIVERED:
            if time.monotonic() < self._not_before:
                return
            self._failures += 1
        else:
            self._failures = 0
        self._now.close(0)
        self._now = self._begin()
        self._not_before = time.monotonic() + min(LONGEST_REST, SHORTEST_REST * 2**self._failures)

    def _begin(self) -> Incarnation:
        """A proxy with a session of its own."""
        session = hashlib.blake2b(
            self._terms.session + self._begun.to_bytes(8, "little"), digest_size=SESSION_BYTES
        ).digest()
        self._begun += 1
        self._timed_out = self.late = 0
        return Incarnation(replace(self._terms, session=session), self._place, self._dial(), self._attach)
