"""The drafter's side of the wire: answer HELLO, then every STEP by what a producer makes of it.

What it refuses it does not answer; the engine's watchdog ends such a round.
"""

import threading
from collections.abc import Callable

from pp3.harness.transport import hello, step, wire
from pp3.harness.transport.frame import HEADER_BYTES
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.link import Link, pair
from pp3.harness.transport.refusal import FrameError

Produce = Callable[[step.Step], wire.Reply]
Deliver = Callable[[step.Step, bytes], list[bytes]]  # what goes onto the wire in place of a reply: to plant faults


def as_it_is(_: step.Step, frame: bytes) -> list[bytes]:
    """No fault."""
    return [frame]


def serve(link: Link, mine: Hello, depth: int, produce: Produce, deliver: Deliver = as_it_is) -> None:
    """Serve one session until the peer is gone. FrameError for a HELLO that is refused, after mine was sent."""
    try:
        frame = link.receive() or b""
        link.send(hello.encode(mine, frame[12:28].ljust(16, b"\0")))
        session, sequence = hello.judge(frame, mine), 0
        while True:
            content = link.receive() or b""
            sequence += 1
            try:
                asked = step.decode(content, mine.mode, depth, session, sequence)
            except FrameError:
                sequence -= len(content) < HEADER_BYTES  # no step was sent
                continue
            for answer in deliver(asked, wire.encode(produce(asked), asked.round, session, sequence)):
                link.send(answer)
    except EOFError:
        return
    finally:
        link.close()


class Worker:
    """A drafter in threads, one a connection; `dial` is what a Channel takes."""

    def __init__(self, mine: Hello, depth: int, produce: Produce, deliver: Deliver = as_it_is) -> None:
        self._mine, self._depth, self._produce, self._deliver = mine, depth, produce, deliver
        self._threads: list[threading.Thread] = []
        self.refused: list[FrameError] = []  # a HELLO each

    def dial(self) -> Link:
        """A new connection, served from now on."""
        theirs, mine = pair()
        thread = threading.Thread(target=self._run, args=(mine,), name="pp3-worker", daemon=True)
        self._threads.append(thread)
        thread.start()
        return theirs

    def join(self) -> None:
        """Wait for the end of every session: each has lost its peer."""
        for thread in self._threads:
            thread.join()

    def _run(self, link: Link) -> None:
        try:
            serve(link, self._mine, self._depth, self._produce, self._deliver)
        except FrameError as error:
            self.refused.append(error)
