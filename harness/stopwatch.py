"""Time the launches of a campaign's sampler: the proposal, the verification and the whole round of every target.

Timings lie beside the counts and never among them: they are taken after the last request, on batches of their own.
Rows are dealt in turn, so that what slows a machine down for a while falls on all. A GPU replays a graph of some rounds
between two CUDA events, and is waited for once, at the end.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pp3.harness.samplers.contract import Batch

SAMPLES = 15  # of each row; a median's 95 % interval needs 7 (harness/regression/timings.py)
ROUNDS = 8  # between two events: one launch may be shorter than what the host needs to ask for the next
ROWS = 128  # requests of a round on a CPU; on a GPU the largest launch of the campaign, up to
MOST = 64  # so many: these are the times of an engine, and larger launches would take longer than the campaign
Step = Callable[[], object]


class Timed(Protocol):
    """A sampler whose launches can be timed."""

    def steps(self, batch: Batch) -> dict[str, Step]:
        """What one round of a batch does, by name; each step can be taken any number of times."""


def measure(sampler: Timed, batches: Sequence[Batch], on_gpu: bool) -> list[dict[str, Any]]:
    """SAMPLES times of every step of every batch, in the order measured: id, unit, samples."""
    steps = {
        f"{batch.target.name}/depth-{batch.depth}/rows-{len(batch)}/{name}": step
        for batch in batches
        for name, step in sampler.steps(batch).items()
    }
    samples = _by_events(steps) if on_gpu else _by_clock(steps)
    return [{"id": name, "samples": found, "unit": "ns"} for name, found in samples.items()]


def _by_clock(steps: Mapping[str, Step]) -> dict[str, list[int]]:
    """Nanoseconds of each step by the host's clock; the first of each is not counted."""
    samples: dict[str, list[int]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(SAMPLES):
        for name, step in steps.items():
            started = time.perf_counter_ns()
            step()
            samples[name].append(max(1, time.perf_counter_ns() - started))
    return samples


def _by_events(steps: Mapping[str, Step]) -> dict[str, list[int]]:
    """Nanoseconds of each step on the GPU: those of ROUNDS in one graph, divided by ROUNDS."""
    import torch

    graphs = {name: _captured(step) for name, step in steps.items()}
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in graphs}
    for _ in range(SAMPLES):
        for name, graph in graphs.items():
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch leaves it untyped
            before.record()
            graph.replay()
            after.record()
            events[name].append((before, after))
    torch.cuda.synchronize()
    return {
        name: [max(1, round(before.elapsed_time(after) * 1e6 / ROUNDS)) for before, after in pairs]
        for name, pairs in events.items()
    }


def _captured(step: Step) -> Any:
    """A CUDA graph of ROUNDS times one step, replayed once."""
    import torch

    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()  # compile outside the capture
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(ROUNDS):
            step()
    graph.replay()
    return graph
