"""Time contestants against each other: graphs of some rounds, replayed in turn between events, waited for at the end.

The order turns by one place a repetition, so that nobody always follows the same one, and what slows a machine down for
a while falls on all. In a cold case L2 is overwritten before every replay, outside the events, and every round has
tensors of its own. Of a slow peer a sample has fewer rounds. What cannot be captured, since it waits for the host, is
timed by events around its calls, and says so.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pp3.harness.probe.plan import MUST, WARMUPS

LONG_NS = 2_000_000  # a sample of a slow peer need not last longer: more rounds say no more
FLUSH = 4  # times the size of L2 that is written to overwrite it


class Method(StrEnum):
    """How rounds are launched."""

    GRAPH = "graph"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One sampler in one case."""

    name: str
    step: Callable[[int], object]  # one round on the tensors of a set
    check: Callable[[int], str]  # after so many rounds: "" or why its times do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A contestant, compiled and ready."""

    contestant: Contestant
    method: Method
    rounds: int
    launches: int  # of a round: nodes of its graph; 0 where there is no graph
    replay: Callable[[], None]


class Clock(Protocol):
    """What events and graphs are to a GPU."""

    def prepare(self, contestant: Contestant, sets: int, rounds: int) -> Prepared:
        """Compile, and capture if that can be done."""

    def flush(self) -> None:
        """Overwrite L2."""

    def mark(self) -> Any:
        """An event, recorded now."""

    def between(self, before: Any, after: Any) -> int:
        """Nanoseconds between two events that have happened."""

    def wait(self) -> None:
        """Wait for all that was launched."""


def measure(clock: Clock, prepared: Sequence[Prepared], repetitions: int, cold: bool) -> dict[str, list[int]]:
    """Samples of each contestant in the order measured: nanoseconds of its `rounds` rounds."""
    for one in prepared:
        for _ in range(WARMUPS):
            one.replay()
    events: dict[str, list[tuple[Any, Any]]] = {one.contestant.name: [] for one in prepared}
    for repetition in range(repetitions):
        turn = repetition % len(prepared)
        for one in [*prepared[turn:], *prepared[:turn]]:
            if cold:
                clock.flush()
            before = clock.mark()
            one.replay()
            events[one.contestant.name].append((before, clock.mark()))
    clock.wait()
    return {name: [max(1, clock.between(*pair)) for pair in pairs] for name, pairs in events.items()}


def rounds_run(one: Prepared, repetitions: int) -> int:
    """Rounds that `measure` makes a contestant run."""
    return one.rounds * (WARMUPS + repetitions)


class Gpu:
    """Events and graphs of torch."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        size = torch.cuda.get_device_properties(0).L2_cache_size * FLUSH
        self._spread = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._driver = ctypes.CDLL("libcuda.so.1")

    def prepare(self, contestant: Contestant, sets: int, rounds: int) -> Prepared:
        """See Clock."""
        cuda = self._torch.cuda
        aside = cuda.Stream()
        aside.wait_stream(cuda.current_stream())
        with cuda.stream(aside):
            for at in range(sets):
                contestant.step(at)
        cuda.current_stream().wait_stream(aside)
        ready = self._captured(contestant, sets, rounds, aside)
        if contestant.name in MUST:
            return ready
        enough = max(1, -(-LONG_NS // self._round(ready)))
        return ready if enough >= rounds else self._captured(contestant, sets, enough, aside)

    def _captured(self, contestant: Contestant, sets: int, rounds: int, aside: Any) -> Prepared:
        """A graph of some rounds, or their calls where the host is waited for."""

        def steps() -> None:
            for at in range(rounds):
                contestant.step(at % sets)

        self.wait()
        try:
            graph = self._torch.cuda.CUDAGraph(keep_graph=True)
            with self._torch.cuda.stream(aside):
                graph.capture_begin()
                try:
                    steps()
                finally:
                    graph.capture_end()
            graph.instantiate()
        except RuntimeError:  # of a capture that the host waits in
            self.wait()
            return Prepared(contestant=contestant, method=Method.EVENTS, rounds=rounds, launches=0, replay=steps)
        launches = self._nodes(graph) // rounds
        return Prepared(
            contestant=contestant, method=Method.GRAPH, rounds=rounds, launches=launches, replay=graph.replay
        )

    def _round(self, ready: Prepared) -> int:
        """Nanoseconds of a round, by the second of two replays."""
        ready.replay()
        before = self.mark()
        ready.replay()
        after = self.mark()
        self.wait()
        return max(1, self.between(before, after) // ready.rounds)

    def flush(self) -> None:
        """See Clock."""
        self._spread.zero_()

    def mark(self) -> Any:
        """See Clock."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, before: Any, after: Any) -> int:
        """See Clock."""
        milliseconds: float = before.elapsed_time(after)
        return round(milliseconds * 1e6)

    def wait(self) -> None:
        """See Clock."""
        self._torch.cuda.synchronize()

    def _nodes(self, graph: Any) -> int:
        """Nodes of a captured graph: kernels, copies and fills."""
        count = ctypes.c_size_t()
        failed = self._driver.cuGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
        if failed:
            raise RuntimeError(f"cuGraphGetNodes failed with {failed}")
        return count.value
