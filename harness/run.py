"""Run a campaign: the one place that meets both a GPU and the counts the battery judges.

Order: known answers, bits, paired temperature 0, the sampled requests of every cell, then timings. On a GPU the kernels
run every request; without one the NumPy reference does, and the kernels run the bits sample in Triton's interpreter, in
a process of their own beside it.
"""

import signal
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from pp3.harness import backends, paired, stopwatch
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, check_sampler, pair_shards, parts_of
from pp3.harness.design import cells_of, lags_of
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.kernel_evidence import PARTS, campaign_document, kernel_evidence, kernels_of
from pp3.harness.places import halves
from pp3.harness.requests import batches, sampled_batch
from pp3.harness.samplers.contract import Description, Sampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import BREACHES, Tally

Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(slots=True, kw_only=True)
class Measured:
    """Everything a run found, in integers and plain strings; nothing judged."""

    sampler: Description
    counts: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # (cell id, batch size)
    first: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # the same of the first half of the requests
    strays: list[dict[str, Any]] = field(default_factory=list)
    breaches: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BREACHES, 0))
    pairs: list[dict[str, Any]] = field(default_factory=list)
    kernels: dict[str, Any] = field(default_factory=dict)  # known answers, bits and identity of the kernels
    timings: list[dict[str, Any]] = field(default_factory=list)  # id, unit, samples; no part of any count
    requests: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def run(campaign: Campaign, seed: Seed, device: Backend, progress: Progress) -> Measured:
    """Run every part of a campaign on `device`: CUDA, or REFERENCE with the kernels in the interpreter beside it."""
    if device is Backend.CUDA:
        return _on_gpu(campaign, seed, progress)
    sampler = ReferenceSampler()
    check_sampler(campaign, sampler.describe())
    measured = Measured(sampler=sampler.describe())
    document = campaign_document(campaign)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        try:
            with _interrupts_held():  # a pool interrupted in its start cannot be shut down; workers inherit the mask
                parts = {
                    part: pool.submit(kernel_evidence, part, Backend.INTERPRETER, document, seed.value)
                    for part in PARTS
                }
            _campaign(campaign, seed, sampler, measured, progress)
            measured.kernels = _wait(parts, progress)
            _time(campaign, seed, sampler, measured, stopwatch.ROWS, Backend.REFERENCE)
        except BaseException:
            for process in list((pool._processes or {}).values()):  # running samples would hold up Ctrl-C
                process.terminate()
            raise
    return measured


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold SIGINT back; one that came is delivered at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_gpu(campaign: Campaign, seed: Seed, progress: Progress) -> Measured:
    backends.start(Backend.CUDA)
    from pp3.harness.samplers.kernels import KernelSampler

    sampler = KernelSampler("cuda")
    check_sampler(campaign, sampler.describe())
    measured = Measured(sampler=sampler.describe())
    document = campaign_document(campaign)
    found = {}
    for number, part in enumerate(PARTS[:-1]):
        progress("kernels", number, len(PARTS))
        started = time.perf_counter()
        found[part] = kernel_evidence(part, Backend.CUDA, document, seed.value)
        measured.seconds[f"kernels: {part}"] = time.perf_counter() - started
    _campaign(campaign, seed, sampler, measured, progress)
    found["identity"] = kernel_evidence("identity", Backend.CUDA, document, seed.value)  # all kernels are compiled now
    progress("kernels", len(PARTS), len(PARTS))
    measured.kernels = kernels_of(found)
    rows = min(max(campaign.spec.batch_sizes), stopwatch.MOST)
    _time(campaign, seed, sampler, measured, rows, Backend.CUDA)
    return measured


def run_parts(
    campaign: Campaign, seed: Seed, device: Backend, parts: Collection[tuple[str, int]], progress: Progress
) -> Measured:
    """Run some (target name, depth) of a campaign, each request under its number in the whole; the kernels' evidence is
    not made."""
    backends.start(device)
    sampler: Sampler = ReferenceSampler()
    if device is Backend.CUDA:
        from pp3.harness.samplers.kernels import KernelSampler

        sampler = KernelSampler("cuda")
    measured = Measured(sampler=sampler.describe())
    _campaign(campaign, seed, sampler, measured, progress, parts)
    return measured


def _campaign(
    campaign: Campaign,
    seed: Seed,
    sampler: Sampler,
    measured: Measured,
    progress: Progress,
    parts: Collection[tuple[str, int]] | None = None,
) -> None:
    """Run the parts, by default all of them, without the kernels' evidence."""
    wanted = parts_of(campaign) if parts is None else parts
    started = time.perf_counter()
    next_request = _pairs(campaign, seed, sampler, measured, progress, wanted)
    measured.seconds["paired"] = time.perf_counter() - started
    started = time.perf_counter()
    sizes = campaign.spec.batch_sizes
    total = sum(campaign.requests_of(depth, size) for _, depth in wanted for size in sizes)
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            if (target.name, depth) not in wanted:
                next_request += sum(campaign.requests_of(depth, size) for size in sizes)
                continue
            cells = cells_of(target, depth, lags_of(campaign))
            for size in sizes:
                tally = Tally(target, depth, cells)
                last = next_request + campaign.requests_of(depth, size)
                for part, (low, high) in zip(
                    (measured.first, measured.counts), halves(next_request, last), strict=True
                ):
                    for batch in batches(sampler, target, depth, size, seed, low, high):
                        tally.add(batch, sampler.run(batch))
                        measured.requests += len(batch)
                        progress("requests", measured.requests, total)
                    part |= {(cell.id, size): found for cell, found in zip(cells, tally.histograms(), strict=True)}
                next_request = last
                measured.strays += [
                    {"batch": size, "cell": cell, "count": count, "outcome": token}
                    for cell, token, count in tally.strays()
                ]
                for name, count in tally.breaches.items():
                    measured.breaches[name] += count
    measured.seconds["requests"] = time.perf_counter() - started


def _time(
    campaign: Campaign, seed: Seed, sampler: stopwatch.Timed, measured: Measured, rows: int, device: Backend
) -> None:
    """Time one launch of each target at the largest depth, when all is counted."""
    started, depth = time.perf_counter(), max(campaign.spec.depths)
    batches = [sampled_batch(target, depth, rows, seed, 0, rows) for target in campaign.targets]
    measured.timings = stopwatch.measure(sampler, batches, device is Backend.CUDA)
    measured.seconds["timings"] = time.perf_counter() - started


def _pairs(
    campaign: Campaign,
    seed: Seed,
    sampler: Sampler,
    measured: Measured,
    progress: Progress,
    wanted: Collection[tuple[str, int]],
) -> int:
    """Paired requests come first, so that their numbers do not depend on how many sampled ones follow."""
    next_request = done = 0
    for target, depth, pairs in pair_shards(campaign):
        if (target.name, depth) not in wanted:
            next_request += paired.rows_for(pairs)
            continue
        tally = paired.run(sampler, target, depth, seed, next_request, pairs)
        next_request += paired.rows_for(pairs)
        measured.pairs.append({"depth": depth, "target": target.name, **tally.plain()})
        done += pairs
        progress("paired", done, campaign.spec.paired)
    return next_request


def _wait(parts: "dict[str, Future[list[dict[str, Any]]]]", progress: Progress) -> dict[str, Any]:
    stage = "kernels in the interpreter"
    names = {future: part for part, future in parts.items()}
    found: dict[str, list[dict[str, Any]]] = {}
    progress(stage, 0, len(parts))
    try:
        for future in as_completed(names):
            found[names[future]] = future.result()
            progress(stage, len(found), len(parts))
    except PP3Error as error:
        if error.exit_code is not Exit.UNAVAILABLE:
            raise
        return {"bits": [], "conform": [], "identity": {}, "missing": str(error)}
    return kernels_of(found)
