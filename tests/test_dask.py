"""Pieces on real Dask workers, which are killed, paused and started late: none is lost, none is counted twice.

A scheduler and workers are processes of their own on this machine. What they run here is a small campaign, whose
kernels' evidence is made by hand (quick_pieces); each piece is held up by the test, so that a kill meets it at work.
"""

import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pp3.harness import canonical
from pp3.harness.backends import Backend
from pp3.harness.campaign import load
from pp3.harness.errors import Exit
from pp3.harness.shards.cut import cut

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = 'targets = ["sparse-tail"]\nrequests = 97\npaired = 5\ndepths = [4]\n'
OF_RUN = ("run", "execution", "environment", "timings")
SOON = 60.0  # seconds within which whatever is waited for must come
QUICK = {  # what is minutes in Dask's defaults
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "60s",
    "OPENBLAS_NUM_THREADS": "1",  # a fork has one thread only
}
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


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    """What every process is a fork of."""
    env = os.environ | QUICK | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", FORKS, str(Path(__file__).parent)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdout is not None
        assert forks.stdout.readline() == "ready\n"
        yield forks


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, forks: subprocess.Popen[str]) -> Iterator[Cluster]:
    """A scheduler; everything is ended afterwards."""
    cluster = Cluster(tmp_path_factory.mktemp("dask"), forks)
    yield cluster
    cluster.end()


@pytest.fixture
def whole(cluster: Cluster) -> bytes:
    """The counts of the campaign in one process, without Dask."""
    assert cluster.campaign("whole", "--device", "cpu").wait(SOON) == Exit.INCONCLUSIVE
    return counted(cluster.folder / "whole-out")


def counted(folder: Path) -> bytes:
    """Of the receipt in a folder: everything but when and how it was run."""
    [path] = folder.glob("2*.json")
    predicate = canonical.decode(path.read_bytes())["predicate"]
    return canonical.encode({key: value for key, value in predicate.items() if key not in OF_RUN})


def disturbed(cluster: Cluster, name: str, whole: bytes, chance: random.Random) -> None:
    """One campaign during which a worker is killed, one is paused, and one comes late, in an order of chance."""
    first, second = cluster.worker(), cluster.worker()
    campaign = cluster.campaign(name)
    soon(lambda: cluster.at_work(first) and cluster.at_work(second))
    killed, paused = chance.sample([first, second], 2)
    held = chance.random() < 0.5
    steps: list[Callable[[], object]] = [
        killed.kill,
        lambda: paused.signal(signal.SIGSTOP),
        cluster.worker,
    ]
    chance.shuffle(steps)
    for step in steps:
        step()
    late = cluster.workers[-1]
    soon(lambda: cluster.at_work(late))
    cluster.open_gate()
    if not held:
        paused.signal(signal.SIGCONT)
    assert campaign.wait(2 * SOON) == Exit.INCONCLUSIVE, campaign.log.read_text()
    assert counted(cluster.folder / f"{name}-out") == whole
    folder = cluster.folder / name
    manifest = canonical.decode((folder / "campaign.json").read_bytes())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]
    pieces = [event["piece"] for event in events if event["event"] == "piece"]
    assert sorted(pieces) == sorted(path.stem for path in (folder / "parts").iterdir())
    assert len(set(pieces)) == len(pieces)
    assert not (folder / "unequal").exists()
    assert manifest["counter"] == 3
    for worker in cluster.workers:
        worker.kill()
    shutil.rmtree(cluster.marks)
    cluster.marks.mkdir()
    cluster.workers.clear()


def rounds(cluster: Cluster, whole: bytes, times: int, seed: str) -> None:
    """So many disturbed campaigns on one scheduler."""
    chance = random.Random(seed)
    for number in range(times):
        disturbed(cluster, f"run-{number}", whole, chance)


def test_three_disturbed_campaigns(cluster: Cluster, whole: bytes, request: pytest.FixtureRequest) -> None:
    """Killed, paused, late: the counts of one process, byte for byte."""
    rounds(cluster, whole, 3, request.node.nodeid)


@pytest.mark.soak
def test_a_hundred_disturbed_campaigns(cluster: Cluster, whole: bytes, request: pytest.FixtureRequest) -> None:
    """The same, a hundred times."""
    rounds(cluster, whole, 100, request.node.nodeid)


def test_a_worker_with_other_sources_is_refused(cluster: Cluster) -> None:
    """By digest, before any shard runs; the worker is named."""
    cluster.worker()
    foreign = cluster.worker("5" * 64)
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=SOON)
    campaign = cluster.campaign("d")
    assert campaign.wait(SOON) == Exit.NEGATIVE
    said = campaign.log.read_text()
    assert f"pp3: error: worker {address(foreign)}: its sources hash to {'5' * 64}; those of the campaign" in said
    assert said.count("worker tcp://") == 1  # the other one is not named
    assert list(cluster.marks.iterdir()) == []


def test_a_late_worker_with_other_sources_is_refused_too(cluster: Cluster) -> None:
    """It runs nothing; the campaign ends with its address and the piece that it was given."""
    cluster.worker()
    campaign = cluster.campaign("d")
    soon(lambda: cluster.at_work(cluster.workers[0]))
    foreign = cluster.worker("5" * 64)
    assert campaign.wait(SOON) == Exit.NEGATIVE
    said = campaign.log.read_text()
    assert "pp3: error: piece " in said
    assert f": worker {address(foreign)}: its sources hash to {'5' * 64}, those of the campaign" in said
    assert not cluster.at_work(foreign)


def test_foreign_workers_are_named_and_counted() -> None:
    """Those that differ, and those that cannot say, up to three."""
    from pp3.harness.operations.dask_engine import check_sources
    from pp3.harness.operations.order import ForeignSourcesError

    manifest = {"sourcesSha256": "a"}
    check_sources({"one": "a", "two": "a"}, manifest)
    found = {"one": "a", "two": "b", "three": ModuleNotFoundError("No module named 'pp3'"), "four": "c", "five": "d"}
    with pytest.raises(ForeignSourcesError) as raised:
        check_sources(found, manifest)
    said = str(raised.value)
    assert said.startswith("worker five: its sources hash to d; worker four: its sources hash to c; worker three: ")
    assert "No module named 'pp3'" in said
    assert "; and 1 more of 5 workers; those of the campaign hash to a: install" in said


def address(worker: Fork) -> str:
    """Of a Dask worker, by its own log."""
    [found] = set(re.findall(r"Start worker at: +(tcp://\S+)", worker.log.read_text()))
    return str(found)


def test_a_poison_piece_ends_with_its_name(cluster: Cluster) -> None:
    """Each worker that is given it is gone; others come, and the campaign ends all the same."""
    name = cut(load(cluster.folder / "small.toml"), Backend.REFERENCE)[7].name
    (cluster.marks / "poison").write_text(name)
    cluster.open_gate()
    cluster.worker()
    campaign = cluster.campaign("d")
    deadline = time.monotonic() + 2 * SOON
    while campaign.poll() is None:
        assert time.monotonic() < deadline
        if all(worker.poll() is not None for worker in cluster.workers):
            cluster.worker()
        select.select([], [], [], 0.05)
    assert campaign.poll() == Exit.INTERNAL
    assert f"piece {name} has ended" in campaign.log.read_text()


def test_no_scheduler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a port where nobody listens, and for what is no address."""
    from pp3.harness.errors import PP3Error
    from pp3.harness.operations import dask_engine

    monkeypatch.setattr(dask_engine, "CONNECT", 1.0)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(PP3Error, match=f"--dask {address}: no scheduler answers there") as raised:
            dask_engine.connect(address)
        assert raised.value.exit_code == Exit.UNAVAILABLE


def test_no_worker_is_told(cluster: Cluster) -> None:
    """After a while, with the way out."""
    from pp3.harness.errors import PP3Error
    from pp3.harness.operations import dask_engine

    engine = dask_engine.connect(cluster.address, workers=0.5)
    executor = engine.start()
    try:
        with pytest.raises(PP3Error, match=r"the scheduler has had no worker for 0\.5 s") as raised:
            engine.begin({"kind": "qualify", "sourcesSha256": "0" * 64})
        assert raised.value.exit_code == Exit.UNAVAILABLE
    finally:
        engine.stop(executor)


def test_without_dask_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that has it."""
    from pp3.harness.errors import PP3Error
    from pp3.harness.operations import dask_engine

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PP3Error, match=r"pip install 'pp3\[dask\]'") as raised:
        dask_engine.connect("tcp://127.0.0.1:9")
    assert raised.value.exit_code == Exit.UNAVAILABLE
