"""Run null campaigns: at the level of counts all cells of a chunk at once, at the level of requests one by one."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import numpy as np

from pp3.harness.backends import Backend
from pp3.harness.battery import Counts, Many, cells_read
from pp3.harness.calibrate import far
from pp3.harness.calibrate.found import Battery, Found, battery_of, observe
from pp3.harness.calibrate.plan import CHUNK, Level, Plan, of_plan, seed_of, stream
from pp3.harness.campaign import Campaign, parts_of
from pp3.harness.cells import Cell
from pp3.harness.design import Check
from pp3.harness.errors import PP3Error
from pp3.harness.run import run_parts
from pp3.harness.seeds import Seed
from pp3.harness.verdict import merge

Progress = Callable[[str, int, int], None]
FEW = 10  # campaigns of requests that one process runs at once
DIED = "a process that ran null campaigns was killed, as for want of memory: give fewer --jobs"
Task = tuple[str, int, int]  # a level, or the far tails; where it begins, and its end
TAILS = "tails"
SOME = 16  # checks whose far tails one process finds at once


def run(plan: Plan, seed: Seed, jobs: int, progress: Progress) -> tuple[dict[Level, Found], list[dict[str, Any]]]:
    """Both levels, and the far tail of every check of both."""
    work = Worker(plan, seed)
    many = len(work.tailed)
    tasks = [*_tasks(plan), *((TAILS, low, min(low + SOME, many)) for low in range(0, many, SOME))]
    found = {level: Found() for level in Level}
    rows: dict[int, list[dict[str, Any]]] = {}
    totals = {name: sum(end - low for level, low, end in tasks if level == name) for name, _, _ in tasks}
    done = dict.fromkeys(totals, 0)
    for (name, low, end), part in _results(work, tasks, jobs):
        done[name] += end - low
        if isinstance(part, Found):
            found[Level(name)].add(part)
        else:
            rows[low] = part
        progress("far tails" if name == TAILS else f"campaigns of {name}", done[name], totals[name])
    return found, [row for low in sorted(rows) for row in rows[low]]


def _tasks(plan: Plan) -> Iterator[Task]:
    for level, step in ((Level.REQUESTS, FEW), (Level.COUNTS, CHUNK)):  # the slow ones first
        campaigns = plan.campaigns[level]
        for low in range(0, campaigns, step):
            yield level.value, low, min(low + step, campaigns)


class Worker:
    """What one process needs for any task."""

    def __init__(self, plan: Plan, seed: Seed) -> None:
        self.plan, self.seed = plan, seed
        self._batteries: dict[Level, Battery] = {}
        self._far: list[tuple[Level, Check]] = []

    def battery(self, level: Level) -> Battery:
        """The battery of a level's campaign, designed once."""
        if level not in self._batteries:
            self._batteries[level] = battery_of(self.plan.of[level])
        return self._batteries[level]

    @property
    def tailed(self) -> list[tuple[Level, Check]]:
        """Every check of both campaigns that decides far out, found once."""
        if not self._far:
            self._far = [(level, check) for level in Level for check in far.checks_of(self.plan.of[level])]
        return self._far

    def do(self, task: Task) -> Found | list[dict[str, Any]]:
        """One task."""
        name, low, end = task
        if name == TAILS:
            return [
                far.row(level, check, self.plan.of[level], stream(self.seed, TAILS, low + place))
                for place, (level, check) in enumerate(self.tailed[low:end])
            ]
        level = Level(name)
        battery, spin = self.battery(level), stream(self.seed, f"{name}/pit", low)
        if level is Level.COUNTS:
            counts = drawn(battery, self.plan.of[level], end - low, stream(self.seed, name, low))
        else:
            counts = ran(battery, self.plan.of[level], [seed_of(self.seed, number) for number in range(low, end)])
        return observe(battery, counts, low, spin)


_WORKER: Worker | None = None


def _begin(plain: dict[str, Any], seed: bytes) -> None:
    global _WORKER  # one a process, begun once
    _WORKER = Worker(of_plan(plain), Seed(seed))


def _do(task: Task) -> Found | list[dict[str, Any]]:
    assert _WORKER is not None
    return _WORKER.do(task)


def _results(work: Worker, tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Found | list[dict[str, Any]]]]:
    """Results as they come; here if there is one process."""
    if jobs == 1:
        yield from ((task, work.do(task)) for task in tasks)
        return
    start = (work.plan.plain, work.seed.value)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=start) as pool:
        try:
            waiting = {pool.submit(_do, task): task for task in tasks}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool:
            raise PP3Error(DIED) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def cells_of(battery: Battery) -> dict[str, Cell]:
    """Every cell that the battery reads, by id."""
    pooled = {one.cell.id: one.cell for check in battery.checks for one in check.cells}
    return {cell.id: cell for check in battery.checks for cell in check.single} | pooled


def drawn(battery: Battery, campaign: Campaign, campaigns: int, rng: np.random.Generator) -> Many:
    """Counts of each cell by itself, from its exact law, its events at their planned number: [campaigns, atoms + 1]."""
    found: dict[str, Any] = {}
    for name, cell in sorted(cells_of(battery).items()):
        counts = rng.multinomial(far.events_of(cell, campaign), cell.probabilities(), campaigns)
        found[name] = np.pad(counts, ((0, 0), (0, 1)))  # none is impossible
    return found


def ran(battery: Battery, campaign: Campaign, seeds: list[Seed]) -> Many:
    """Counts of whole campaigns of the reference, [campaigns, atoms + 1]; PP3Error for a breach, which is no null."""
    rows: list[Counts] = []
    for seed in seeds:
        measured = run_parts(campaign, seed, Backend.REFERENCE, parts_of(campaign), lambda *_: None)
        rows.append(merge(measured.counts))
        impossible = sum(counts[-1] for counts in rows[-1].values())
        if impossible or any(measured.breaches.values()):
            raise PP3Error(
                f"a campaign of the reference met {impossible} impossible outcomes and {measured.breaches}: it does "
                "not emit its law, and nothing can be calibrated by it; run pp3 qualify"
            )
    return {name: np.array([row[name] for row in rows]) for name in {n for c in battery.checks for n in cells_read(c)}}
