"""Run planted faults and controls through run, tally and battery, and say which check catches which.

A fault is CAUGHT if its named check rejects it at its planned number of requests, whatever else does; ESCAPED if not.
EXACT-ONLY is one that no number of requests shows, of which its exact check must say something.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby
from multiprocessing import get_context

from pp3.harness.faults import CONTROLS, FAULTS, texts
from pp3.harness.faults.exact import PREFIX, said_by
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.tried import Tried, attempt
from pp3.harness.faults.triton_fault import CONTROL, TextControl, TextFault
from pp3.harness.faults.triton_proposal import PROPOSAL
from pp3.harness.faults.triton_verifier import VERIFIER
from pp3.harness.verdict import Verdict

THREADS = 1  # of torch, where faults run side by side
INTERPRET = "TRITON_INTERPRET"
One = Fault | TextFault | Control | TextControl


class Way(StrEnum):
    """Which processes run a fault."""

    HERE = "here"
    LAWS = "laws"  # several of those of the law
    FEW = "few"  # kernels in the interpreter
    MANY = "many"  # kernels on a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How each fault is run."""

    seeds: int = 1
    device: str = "cpu"
    requests: int = texts.REQUESTS  # of each law, of kernels on a GPU


def every() -> dict[str, One]:
    """All faults, then all controls, by id: those of the laws, those of texts."""
    found: list[One] = [*FAULTS, *VERIFIER, *PROPOSAL, CONTROL, *CONTROLS]
    return {one.id: one for one in found}


def rows(wanted: Iterable[One], order: Order, jobs: int) -> Iterator[Row]:
    """Their rows, in their order, as they come; several processes at once if jobs > 1.

    Kernels are compiled or interpreted for good when a process first loads them: each way has processes of its own,
    and on a GPU, which an illegal address may spoil, each fault has one.
    """
    known = every()

    def way(one: One) -> Way:
        """Which processes run it. A fault of the law holds functions, and goes to another process by its name."""
        if isinstance(one, TextFault | TextControl):
            return Way.FEW if texts.of_rows(one, order.device) else Way.MANY
        return Way.LAWS if jobs > 1 and known.get(one.id) is one else Way.HERE

    with ExitStack() as stack:
        pools: dict[Way, Executor] = {}
        for chosen, group in groupby(wanted, way):
            if chosen is Way.HERE:
                yield from (row(one, order) for one in group if isinstance(one, Fault | Control))
                continue
            if chosen not in pools:
                pools[chosen] = stack.enter_context(_processes(chosen, jobs))
            yield from pools[chosen].map(partial(_run, chosen, order), [_sent(one) for one in group])


def row(one: Fault | Control, order: Order) -> Row:
    """Try one fault of the law or its control at some seeds."""
    started = time.perf_counter()
    seeds = order.seeds
    first = tried(one, 1, order.device)
    named = _rejects(one)
    caught = sum(named(first if counter == 1 else tried(one, counter, order.device)) for counter in range(1, seeds + 1))
    fault = one if isinstance(one, Fault) else None
    if fault is None:
        verdict = Outcome.CONTROL_PASS if caught == seeds else Outcome.CONTROL_FAIL
    elif fault.witness.startswith(PREFIX):
        quiet = first.judged.verdict is Verdict.PASS
        verdict = Outcome.EXACT_ONLY if caught and quiet else Outcome.ESCAPED
    else:
        verdict = Outcome.CAUGHT if caught == seeds else Outcome.ESCAPED
    return Row(
        id=one.id,
        cause=fault.cause if fault else "control",
        about=one.about,
        report=fault.report if fault else "",
        witness=fault.witness if fault else "",
        sole=fault is not None and fault.sole,
        verdict=verdict,
        caught_by=first.witnesses(),
        marginal=first.marginal(),
        ships=first.ships(),
        requests=first.trial.requests,
        seeds=seeds,
        caught=caught,
        effect=first.reason,
        seconds=time.perf_counter() - started,
    )


def tried(one: Fault | Control, counter: int, device: str = "cpu") -> Tried:
    """One trial in this process, on the targets and with the requests that are planned for it."""
    return attempt(one.sampler(), one.id, one.targets, one.requests, counter, device)


def _rejects(one: Fault | Control) -> Callable[[Tried], bool]:
    """What must hold of every seed."""
    if isinstance(one, Control):
        return lambda seen: seen.judged.verdict is Verdict.PASS
    if one.witness.startswith(PREFIX):
        said = bool(said_by(one))
        return lambda seen: said
    return lambda seen: one.witness in seen.witnesses()


def _sent(one: One) -> TextFault | TextControl | str:
    return one if isinstance(one, TextFault | TextControl) else one.id


def _run(way: Way, order: Order, sent: TextFault | TextControl | str) -> Row:
    """In another process."""
    one = every()[sent] if isinstance(sent, str) else sent
    if isinstance(one, Fault | Control):
        return row(one, order)
    return texts.few(one) if way is Way.FEW else texts.many(one, order.requests, order.seeds)


def _processes(way: Way, jobs: int) -> ProcessPoolExecutor:
    once = 1 if way is Way.MANY else None
    return ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(way,), max_tasks_per_child=once
    )


def _begin(way: Way) -> None:
    """A new process: what it makes of kernels is decided before it loads any."""
    if way is Way.FEW:
        os.environ[INTERPRET] = "1"
    elif way is Way.MANY:
        os.environ.pop(INTERPRET, None)
    import torch

    torch.set_num_threads(THREADS)
