"""A scheduler and workers of Dask, processes of their own on this machine."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

CAMPAIGN = 'targets = ["sparse-tail"]\nrequests = 97\npaired = 5\ndepths = [4]\n'
SOON = 60.0  # seconds within which whatever is waited for must come
# One process loads everything once, and every process of a test is a fork of it. Of a worker each piece leaves a mark
# when it begins, and waits until the gate is open: a kill then meets it half-way.
FORKS = """
import json, os, select, signal, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import quick_pieces
from distributed.cli import dask_scheduler, dask_worker
from pp3.harness import cli
from pp3.harness.operations import dask_engine, order, own
from pp3.harness.shards import count

quick_pieces.install()
real = count.count


def worker(folder, address, *sources):
    folder = Path(folder)

    def held(campaign, seed, sampler, backend, piece):
        (folder / f"{os.getpid()}-{piece.name}-{time.monotonic_ns()}").touch()
        while not (folder / "gate").exists():
            select.select([], [], [], 0.01)
        if (folder / "poison").exists() and (folder / "poison").read_text() == piece.name:
            os._exit(1)
        return real(campaign, seed, sampler, backend, piece)

    count.count = held
    for module in (order, dask_engine) if sources else ():
        module.sources_sha256 = lambda kind: sources[0]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--death-timeout", "60"]
    dask_worker.main([address, *options], standalone_mode=False)


def scheduler(file):
    dask_scheduler.main(
        ["--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file], standalone_mode=False
    )


def campaign(*arguments):
    return cli.run(["qualify", *arguments])


order.sources_sha256("qualify")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    what, folder, log, arguments = json.loads(line)
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(output, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = globals()[what](*arguments)
    sys.stdout.flush()
    Path(f"{log}.new").write_text(str(int(code or 0)))
    Path(f"{log}.new").rename(f"{log}.exit")
    os._exit(0)
"""


class Fork:
    """One process of a test."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self.end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if not select.select([self.end], [], [], 0)[0]:
            return None
        done = self.log.with_name(f"{self.log.name}.exit")
        return int(done.read_text()) if done.exists() else -signal.SIGKILL

    def wait(self, seconds: float) -> int | None:
        """Likewise, after so many seconds at most."""
        select.select([self.end], [], [], seconds)
        return self.poll()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        signal.pidfd_send_signal(self.end, number)

    def kill(self) -> None:
        """End it, also if it is stopped."""
        if self.poll() is None:
            self.signal(signal.SIGKILL)
            self.wait(SOON)


class Cluster:
    """A scheduler and workers on this machine."""

    def __init__(self, folder: Path, forks: subprocess.Popen[str]) -> None:
        self.folder, self.marks, self.forks = folder, folder / "marks", forks
        self.marks.mkdir(parents=True)
        (folder / "small.toml").write_text(CAMPAIGN)
        self.started: list[Fork] = []
        self.workers: list[Fork] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", str(file))
        soon(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def _start(self, what: str, *arguments: str) -> Fork:
        log = self.folder / f"log-{len(self.started)}"
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.write(json.dumps([what, str(self.folder), str(log), arguments]) + "\n")
        self.forks.stdin.flush()
        self.started.append(Fork(int(self.forks.stdout.readline()), log))
        return self.started[-1]

    def worker(self, *sources: str) -> Fork:
        """Start a worker; with another digest of its sources if one is given."""
        self.workers.append(self._start("worker", str(self.marks), self.address, *sources))
        return self.workers[-1]

    def campaign(self, name: str, *more: str) -> Fork:
        """Start a campaign on it."""
        given = ("--campaign", "small.toml", "--counter", "3", "--dir", name, "--out", f"{name}-out")
        return self._start("campaign", *given, *(more or ("--dask", self.address, "--device", "cpu")))

    def open_gate(self) -> None:
        """Let pieces end."""
        (self.marks / "gate").touch()

    def at_work(self, worker: Fork) -> bool:
        """Whether a worker has begun a piece."""
        return any(self.marks.glob(f"{worker.pid}-*"))

    def end(self) -> None:
        """End everything."""
        for process in reversed(self.started):
            process.kill()
            os.close(process.end)


def soon(what: Callable[[], object]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < deadline
        select.select([], [], [], 0.02)
