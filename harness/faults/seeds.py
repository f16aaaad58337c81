"""A fault at many seeds: its first one tells whether it is fast, and so how many of those asked for are run.

The rule: a fault or control is fast if its first seed took at most FAST seconds of one processor. All seeds that are
asked for are run of a fast one, SLOW of them of any other, and one of a fault that an enumeration shows, which has no
seed. It is CAUGHT if its named check rejects it at 99 of 100 of the seeds run, or more; a control must pass all.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pp3.harness.faults.exact import PREFIX, said_by
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.tried import Tried, attempt
from pp3.harness.verdict import Verdict

FAST = 5.0  # CPU seconds a seed: twice what any takes here but two doses of 0.003
SLOW = 10  # seeds of what takes longer
ENOUGH = 99  # of 100 seeds at which the named check must reject


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What became of one more seed."""

    caught: bool  # by the named check; of a control, by nothing
    cpu_seconds: float


def first(one: Fault | Control, device: str) -> Row:
    """The row of the first seed."""
    started = time.perf_counter(), time.process_time()
    seen = tried(one, 1, device)
    fault = one if isinstance(one, Fault) else None
    exact = fault is not None and fault.witness.startswith(PREFIX)
    caught = bool(said_by(fault)) if fault is not None and exact else _caught(one, seen)
    quiet = seen.judged.verdict is Verdict.PASS
    spent = time.process_time() - started[1]
    return Row(
        id=one.id,
        cause=fault.cause if fault else "control",
        about=one.about,
        report=fault.report if fault else "",
        witness=fault.witness if fault else "",
        sole=fault is not None and fault.sole,
        verdict=verdict_of(one, int(caught and (quiet or not exact)), 1),
        caught_by=seen.witnesses(),
        marginal=seen.marginal(),
        ships=seen.ships(),
        requests=seen.trial.requests,
        seeds=1,
        caught=int(caught),
        effect=seen.reason,
        seconds=time.perf_counter() - started[0],
        cpu_seconds=spent,
        fast=spent <= FAST,
    )


def again(one: Fault | Control, counter: int, device: str) -> Again:
    """One more seed."""
    started = time.process_time()
    caught = _caught(one, tried(one, counter, device))
    return Again(caught=caught, cpu_seconds=time.process_time() - started)


def more(row: Row, asked: int) -> range:
    """Counters of the seeds that are run after the first."""
    if row.witness.startswith(PREFIX):
        return range(0)
    return range(2, (asked if row.fast else min(asked, SLOW)) + 1)


def joined(one: Fault | Control, row: Row, found: Sequence[Again]) -> Row:
    """The row of all seeds, the first and these."""
    if not found:
        return row
    seeds, caught = row.seeds + len(found), row.caught + sum(seed.caught for seed in found)
    spent = row.cpu_seconds + sum(seed.cpu_seconds for seed in found)
    return replace(row, seeds=seeds, caught=caught, verdict=verdict_of(one, caught, seeds), cpu_seconds=spent / seeds)


def verdict_of(one: Fault | Control, caught: int, seeds: int) -> Outcome:
    """What so many of these seeds come to."""
    if isinstance(one, Control):
        return Outcome.CONTROL_PASS if caught == seeds else Outcome.CONTROL_FAIL
    if 100 * caught < ENOUGH * seeds:
        return Outcome.ESCAPED
    return Outcome.EXACT_ONLY if one.witness.startswith(PREFIX) else Outcome.CAUGHT


def tried(one: Fault | Control, counter: int, device: str = "cpu") -> Tried:
    """One trial in this process, on the targets and with the requests that are planned for it."""
    return attempt(one.sampler(), one.id, one.targets, one.requests, counter, device)


def _caught(one: Fault | Control, seen: Tried) -> bool:
    """Whether a seed came out as it must: of a control, without anything against it."""
    if isinstance(one, Control):
        return seen.judged.verdict is Verdict.PASS
    return one.witness in seen.witnesses()
