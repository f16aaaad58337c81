"""The watchdog: a thread of the engine that publishes a failed reply when a round's time has passed.

It writes a page of its own, in the layout of the round, and sends the record through the same pipe as the proxy, so
that the engine waits in one place and takes whichever comes first. Whoever waits needs no timeout.
"""

import math
import os
import threading
import time
from dataclasses import dataclass

from pp3.harness.transport.frame import Status
from pp3.harness.transport.layout import Page, ReplyLayout, State
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """A round that is waited for."""

    ticket: int
    round: int
    layout: ReplyLayout
    deadline: float  # of time.monotonic


class Watchdog:
    """One thread; one round at a time."""

    def __init__(self, page: Page, number: int, records: int) -> None:
        self._page, self._number, self._records = page, number, records
        self._condition = threading.Condition()
        self._armed: Armed | None = None
        self._wakes = math.inf  # when the thread looks again by itself
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="pp3-watchdog", daemon=True)
        self._thread.start()

    def arm(self, armed: Armed) -> None:
        """Publish a failure for this round at its deadline."""
        with self._condition:
            self._armed = armed
            if armed.deadline < self._wakes:
                self._condition.notify()

    def disarm(self) -> None:
        """The round has ended."""
        with self._condition:
            self._armed = None

    def publish(self, armed: Armed, cause: Cause) -> None:
        """Publish a failure for a round that cannot be asked for."""
        with self._condition:
            self._publish(armed, cause)

    def close(self) -> None:
        """End the thread."""
        with self._condition:
            self._ended, self._armed = True, None
            self._condition.notify()
        self._thread.join()

    def _publish(self, armed: Armed, cause: Cause) -> None:
        status = Status.TIMED_OUT if cause is Cause.TIMED_OUT else Status.FAILED
        self._page.fail(armed.layout, armed.round, status)
        self._page.mark(State.PUBLISHED, armed.ticket)
        os.write(self._records, Record(ticket=armed.ticket, page=self._number, cause=cause).pack())

    def _run(self) -> None:
        with self._condition:
            while not self._ended:
                armed, now = self._armed, time.monotonic()
                if armed is None:
                    self._wakes = math.inf
                    self._condition.wait()
                elif armed.deadline > now:
                    self._wakes = armed.deadline
                    self._condition.wait(armed.deadline - now)
                else:
                    self._publish(armed, Cause.TIMED_OUT)
                    self._armed = None
