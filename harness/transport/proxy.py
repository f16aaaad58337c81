"""Where a proxy runs: in a thread of the engine, or in a process of its own that loads neither torch nor triton.

Both run serve.Proxy over the same memory and the same pipes. The memory is a segment of multiprocessing.shared_memory
whose name is given up at once: the process gets its descriptor, so that whoever is killed leaves nothing behind.
Linux: the descriptor is that of /dev/shm.
"""

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Protocol

import numpy as np

from pp3.harness.transport.layout import PAGE_BYTES, Bytes
from pp3.harness.transport.link import Link
from pp3.harness.transport.place import Place
from pp3.harness.transport.records import READY, Command
from pp3.harness.transport.serve import Proxy, Terms

MODULE = "pp3.harness.transport.proxy_process"
STOP_SECONDS = 2.0  # for a process to end by itself


class Segment:
    """Pages of shared memory without a name."""

    def __init__(self, pages: int) -> None:
        self._memory = SharedMemory(create=True, size=pages * PAGE_BYTES)
        try:
            self.descriptor = os.open(f"/dev/shm/{self._memory.name}", os.O_RDWR)
        finally:
            self._memory.unlink()
        whole = np.frombuffer(self._memory.buf or b"", np.uint8, pages * PAGE_BYTES)
        self.pages: list[Bytes] = [whole[i * PAGE_BYTES : (i + 1) * PAGE_BYTES] for i in range(pages)]

    def close(self) -> None:
        """Unmap; every view must be gone."""
        self.pages.clear()
        os.close(self.descriptor)
        self._memory.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """Descriptors of the two pipes between engine and proxy."""

    commands: int  # the proxy reads
    orders: int  # the engine writes
    records: int  # proxy and watchdog write
    news: int  # the engine reads

    @classmethod
    def make(cls) -> "Pipes":
        """Two pipes."""
        commands, orders = os.pipe()
        news, records = os.pipe()
        return cls(commands=commands, orders=orders, records=records, news=news)


class Running(Protocol):
    """A proxy that was started."""

    def alive(self) -> bool:
        """Whether it still runs."""

    def stop(self, orders: int, wait: float) -> None:
        """End it, by force after so many seconds where that is possible; it holds nothing afterwards."""


class ThreadProxy:
    """A proxy in a thread."""

    def __init__(self, segment: Segment, claims: int, pipes: Pipes, link: Link, terms: Terms) -> None:
        pages = segment.pages
        self._proxy = Proxy(pages[0], pages[1 : claims + 1], pipes.commands, pipes.records, link, terms)
        self._link, self._commands = link, pipes.commands
        self._thread = threading.Thread(target=self._run, name="pp3-proxy", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """See Running."""
        return self._thread.is_alive()

    def stop(self, orders: int, wait: float) -> None:
        """See Running."""
        os.write(orders, Command(ticket=READY).pack())
        self._thread.join()
        os.close(self._commands)
        self._proxy.close()

    def _run(self) -> None:
        try:
            self._proxy.run()
        finally:
            self._link.close()


class ProcessProxy:
    """A proxy in a process. The link belongs to it from now on."""

    def __init__(self, segment: Segment, claims: int, pipes: Pipes, link: Link, terms: Terms) -> None:
        mine = terms.mine
        said = {
            "claims": claims,
            "commands": pipes.commands,
            "depth": terms.depth,
            "identities": [identity.hex() for identity in (mine.target, mine.draft, mine.markov)],
            "link": link.end.fileno(),
            "memory": segment.descriptor,
            "mode": terms.mode.value,
            "records": pipes.records,
            "session": terms.session.hex(),
            "vocab": terms.vocab,
        }
        kept = (pipes.commands, pipes.records, segment.descriptor, link.end.fileno())
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, json.dumps(said)], pass_fds=kept, stdin=subprocess.DEVNULL
        )
        os.close(pipes.commands)
        link.close()

    def alive(self) -> bool:
        """See Running."""
        return self.process.poll() is None

    def stop(self, orders: int, wait: float) -> None:
        """See Running."""
        try:
            os.write(orders, Command(ticket=READY).pack())
            self.process.wait(wait)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
        self.process.wait()


PLACES: dict[Place, type[ThreadProxy] | type[ProcessProxy]] = {
    Place.THREAD: ThreadProxy,
    Place.PROCESS: ProcessProxy,
}
