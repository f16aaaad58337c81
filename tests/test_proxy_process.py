"""A proxy in a process of its own: what it loads, and that deaths and pauses leave no stale law."""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from proxy_rig import PATIENT, Rig, nothing_left, segments

from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.proxy import ProcessProxy
from pp3.harness.transport.remote import Drafted
from pp3.harness.transport.step import Step

ROOT = Path(__file__).resolve().parent.parent
BRISK = 0.25  # where the watchdog is meant to bite


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    with nothing_left():
        yield


def test_the_process_loads_neither_torch_nor_triton(rng: np.random.Generator) -> None:
    """Of the modules of a fresh one, and of the libraries that a serving one has mapped."""
    code = "import pp3.harness.transport.proxy_process, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pp3.harness.transport.serve" in done.stdout.split()
    assert {"torch", "triton"} & set(done.stdout.split()) == set()
    rig = Rig(Place.PROCESS, PATIENT, random.Random(int(rng.integers(1 << 62)))).start()
    rig.round()
    proxy = rig.channel.running
    assert isinstance(proxy, ProcessProxy)
    assert proxy.process.pid != os.getpid()
    mapped = Path(f"/proc/{proxy.process.pid}/maps").read_text()
    assert "numpy" in mapped
    assert "torch" not in mapped
    assert "triton" not in mapped
    rig.close()


class Tormentor:
    """Kills or pauses the process of a proxy at a random instant of each round."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.done = rng, Counter[str]()

    def during(self, rig: Rig) -> tuple[Step, Drafted]:
        """One round, while something happens to the proxy."""
        proxy = rig.channel.running
        assert isinstance(proxy, ProcessProxy)
        what = self.rng.choice(("kill", "pause", "pause"))
        instant, pause = self.rng.uniform(0, 400e-6), self.rng.choice((0.0, 1e-3, BRISK * 1.5, None))
        began = threading.Event()

        def strike() -> None:
            began.wait()
            until = time.perf_counter() + instant
            while time.perf_counter() < until:
                pass
            proxy.process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what == "pause" and pause is not None:
                threading.Event().wait(pause)
                proxy.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=strike)
        thread.start()
        began.set()
        found = rig.round()
        thread.join()
        self.done[what] += 1
        return found


def torment(rng: np.random.Generator, count: int) -> tuple[Rig, Tormentor]:
    """Rounds of which each is struck; one that is not struck must arrive after a proxy has said hello."""
    generator = random.Random(int(rng.integers(1 << 62)))
    rig, tormentor = Rig(Place.PROCESS, BRISK, generator).start(), Tormentor(generator)
    for _ in range(count):
        tormentor.during(rig)
        rig.channel.wait_ready()
    proxy = rig.channel.running
    proxy.process.send_signal(signal.SIGCONT)
    rig.close()
    assert rig.causes.total() == count == tormentor.done.total()
    assert set(rig.causes) <= {Cause.DELIVERED, Cause.TIMED_OUT, Cause.NO_PAGE, Cause.PROXY_DOWN}
    return rig, tormentor


def test_a_proxy_that_is_killed_or_paused_leaves_no_stale_law(rng: np.random.Generator) -> None:
    """Twenty rounds; the checks of each round and of what is left are in Rig and in the fixture."""
    rig, tormentor = torment(rng, 20)
    assert rig.channel.proxies > 1
    assert tormentor.done["kill"] > 0


@pytest.mark.soak
def test_a_thousand_rounds_under_kills_and_pauses(rng: np.random.Generator) -> None:
    """The same, a thousand times; each kind of loss must come."""
    rig, tormentor = torment(rng, 1_000)
    assert rig.channel.proxies > 100
    assert min(tormentor.done.values()) > 200
    assert rig.causes[Cause.DELIVERED] > 0
    assert rig.causes[Cause.TIMED_OUT] > 100


ENGINE = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("proxy_rounds", sys.argv[1])
rounds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rounds)
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.place import Place
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.worker import Worker
worker = Worker(rounds.MINE, 5, rounds.reply_to)
terms = Terms(mine=rounds.MINE, session=bytes(16), depth=5, vocab=rounds.VOCAB)
channel = Channel(terms, Place.PROCESS, worker.dial, 30.0)
channel.wait_ready()
print(channel.running.process.pid, flush=True)
sys.stdin.read()
"""


def test_an_engine_that_is_killed_leaves_nothing() -> None:
    """Neither shared memory nor a proxy: it ends with the pipe of its commands."""
    before = segments()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ENGINE, str(Path(__file__).parent / "proxy_rounds.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        proxy = os.pidfd_open(pid)
        engine.kill()
        engine.wait()
        assert select.select([proxy], [], [], PATIENT)[0], "the proxy outlived its engine"
        os.close(proxy)
    assert segments() <= before
