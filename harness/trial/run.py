"""Run a trial: every problem's requests through the sampler, counted on its device. The one place that meets both."""

import time

import numpy as np

from pp3.harness.ahead import ahead
from pp3.harness.samplers.contract import Batch, Description, Kind, Sampler
from pp3.harness.samplers.stream import Stream
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally, start_of
from pp3.harness.trial import drafts, guard
from pp3.harness.trial.launches import rows_of
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Progress, Trial
from pp3.harness.trial.problems import Problem


def run(trial: Trial, sampler: Sampler, seed: Seed, device: str, progress: Progress) -> Measured:
    """Run every problem."""
    measured = Measured()
    for problem in trial.problems:
        measured.add(run_problem(trial, problem, sampler, seed, device, progress))
    return measured


def run_problem(
    trial: Trial, problem: Problem, sampler: Sampler, seed: Seed, device: str, progress: Progress
) -> Measured:
    """Run one problem; it ends where the sampler breaks the contract, and the next may begin."""
    started, measured = time.perf_counter(), Measured()
    first, end = trial.span_of(problem)
    rows, kind = rows_of(trial.who, problem, end - first, device), Kind(trial.who.kind)
    patterns, starts = len(problem.target.patterns), problem.target.starts
    stream = Stream(seed=seed, name=problem.name, first=first, rows=rows, patterns=patterns, starts=starts)
    tally = Tally(problem.target, problem.depth, problem.cells)
    batches = (
        batch_of(problem, trial.who, seed, low, min(low + rows, end), device, stream) for low in range(first, end, rows)
    )
    try:
        guard.reset(sampler)
        for batch in ahead(batches):
            emission = guard.run(sampler, batch, kind)
            guard.count(tally, batch, emission)
            measured.requests += len(batch)
            progress(trial.who.name, first + measured.requests, trial.requests)
            if not measured.first and 2 * measured.requests >= end - first:
                measured.first = {cell.id: found for cell, found in zip(tally.cells, tally.histograms(), strict=True)}
    except guard.BreachError as breach:
        measured.broken[problem.name] = str(breach)
    for cell, counts in zip(tally.cells, tally.histograms(), strict=True):
        measured.counts[cell.id] = counts
    measured.strays = [{"cell": cell, "count": seen, "outcome": outcome} for cell, outcome, seen in tally.strays()]
    measured.breaches = {f"{problem.name}/{name}": seen for name, seen in tally.breaches.items() if seen}
    guard.release(device)
    measured.seconds[problem.name] = time.perf_counter() - started
    return measured


def batch_of(
    problem: Problem, who: Description, seed: Seed, first: int, last: int, device: str, stream: Stream | None = None
) -> Batch:
    """Requests [first, last) of a problem, as a part of its stream if there is one."""
    target, requests = problem.target, np.arange(first, last)
    given = drafts.given(target, problem.depth, seed, requests, Kind(who.kind) is not Kind.VERIFIER)
    sampled = target.tables.temperature[start_of(target, requests)] > 0
    for shared in (requests, given, sampled):
        shared.flags.writeable = False
    return Batch(
        target=target,
        depth=problem.depth,
        seed=seed,
        requests=requests,
        sampled=sampled,
        given=given,
        rows_per_launch=len(requests),
        device=device,
        turn=None if stream is None else stream.turn(first, last - first),
    )
