"""Pieces on real Dask workers, which are killed, paused and started late: none is lost, none is counted twice.

What they run here is a small campaign, whose kernels' evidence is made by hand (quick_pieces); each piece is held up by
the test, so that a kill meets it at work.
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
from dask_cluster import FORKS, SOON, Cluster, Fork, soon

from pp3.harness import canonical
from pp3.harness.backends import Backend
from pp3.harness.campaign import load
from pp3.harness.errors import Exit
from pp3.harness.shards.cut import cut

ROOT = Path(__file__).resolve().parents[1]
OF_RUN = ("run", "execution", "environment", "timings")
QUICK = {  # what is minutes in Dask's defaults
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "60s",
    "OPENBLAS_NUM_THREADS": "1",  # a fork has one thread only
}


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
