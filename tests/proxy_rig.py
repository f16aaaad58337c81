"""An engine, its channel and a drafter that can be told to misbehave, and what is left of them."""

import importlib.util
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pp3.harness.transport.channel import Channel
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.remote import Drafted, RemoteRound
from pp3.harness.transport.ring import Ring
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.step import Step
from pp3.harness.transport.worker import Worker, as_it_is

PATIENT = 30.0  # seconds that no round here takes
SHARED = Path("/dev/shm")


def load_rounds() -> ModuleType:
    """tests/proxy_rounds.py as a module."""
    spec = importlib.util.spec_from_file_location("proxy_rounds", Path(__file__).parent / "proxy_rounds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rounds = load_rounds()


def segments() -> set[str]:
    """Names of shared memory that Python has made."""
    return {path.name for path in SHARED.iterdir() if path.name.startswith("psm_")}


def only_tracker() -> bool:
    """Whether the children of this process are Python's own resource tracker."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return all(b"resource_tracker" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)


@contextmanager
def nothing_left() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    before = segments(), len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    mine = {name for name in segments() - before[0]}
    assert mine == set()
    assert threading.active_count() == before[2]
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 1  # the resource tracker's pipe, once
    assert not Path(f"/proc/self/task/{os.getpid()}/children").read_text().split() or only_tracker()


@dataclass(slots=True)
class Rig:
    """An engine, its channel and a drafter that can be told to misbehave."""

    place: Place
    seconds: float
    rng: random.Random
    deliver: Callable[[Step, bytes], list[bytes]] = as_it_is
    status: Callable[[Step], list[int] | None] = lambda step: None
    attach: Callable[[Ring], Any] | None = None
    mine: Hello = field(default_factory=lambda: rounds.MINE)
    theirs: Hello | None = None
    number: int = 0
    generations: list[int] = field(default_factory=lambda: [0] * 4)
    causes: Counter[Cause] = field(default_factory=Counter)
    worker: Any = None
    channel: Any = None

    def start(self, wait: bool = True) -> "Rig":
        """Begin."""
        self.worker = Worker(
            self.theirs or self.mine,
            rounds.DEPTH,
            lambda step: rounds.reply_to(step, self.status(step)),
            lambda step, frame: self.deliver(step, frame),
        )
        terms = Terms(mine=self.mine, session=bytes(range(16)), depth=rounds.DEPTH, vocab=rounds.VOCAB)
        self.channel = Channel(terms, self.place, self.worker.dial, self.seconds, self.attach)
        if wait:
            self.channel.wait_ready()
        return self

    def step(self) -> Step:
        """The next round."""
        self.number += 1
        step: Step = rounds.random_step(self.rng, self.number, self.generations)
        return step

    def round(self, failed: set[int] = frozenset()) -> tuple[Step, Drafted]:  # type: ignore[assignment]  # empty
        """One round, checked."""
        step = self.step()
        found = RemoteRound(self.channel).run(step)
        self.causes[found.cause] += 1
        rounds.check(step, found, failed)
        return step, found

    def close(self) -> None:
        """End."""
        self.channel.close()
        self.worker.join()


@contextmanager
def rigged(place: Place, rng: np.random.Generator) -> Iterator[Rig]:
    """One that is not started; ended whatever happens."""
    made = Rig(place, PATIENT, random.Random(int(rng.integers(1 << 62))))
    yield made
    if made.channel is not None:
        made.close()
