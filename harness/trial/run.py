"""Run a trial: every problem's requests through the sampler, counted on its device. The one place that meets both."""

import time

import numpy as np

from pp3.harness.run import halves
from pp3.harness.samplers.contract import Batch, Description, Kind, Sampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally, start_of
from pp3.harness.trial import drafts, guard
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Progress, Trial
from pp3.harness.trial.problems import Problem

ROWS = {"cuda": 1 << 17, "cpu": 1 << 13}
LAUNCHES = 8  # of a problem, at least, so that one can be compared with the next
LEAST_ROWS = 256
ENTRIES = 1 << 24  # of one tensor: a sort holds some, and samplers share a GPU


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
    rows, kind = rows_of(trial.who, device, problem.vocab * (problem.depth + 1), end - first), Kind(trial.who.kind)
    tally = Tally(problem.target, problem.depth, problem.cells)
    try:
        guard.reset(sampler)
        for half, last in halves(first, end):
            for low in range(half, last, rows):
                batch = batch_of(problem, trial.who, seed, low, min(low + rows, last), device)
                emission = guard.run(sampler, batch, kind)
                guard.count(tally, batch, emission)
                measured.requests += len(batch)
                progress(trial.who.name, min(low + rows, last), trial.requests)
            if not measured.first:
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


def rows_of(who: Description, device: str, width: int, requests: int) -> int:
    """Requests a launch: as many as the sampler takes, or as suit the device, a request's entries, and LAUNCHES."""
    most = min(ROWS["cuda" if device.startswith("cuda") else "cpu"], ENTRIES // width)
    return who.rows_per_launch or max(1, min(most, max(-(-requests // LAUNCHES), LEAST_ROWS)))


def batch_of(problem: Problem, who: Description, seed: Seed, first: int, last: int, device: str) -> Batch:
    """Requests [first, last) of a problem."""
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
    )
