"""Run planted faults and controls through run, tally and battery, and say which check catches which.

A fault is CAUGHT if its named check rejects it at its planned number of requests, whatever else does; ESCAPED if not.
EXACT-ONLY is one that no number of requests shows, of which its exact check must say something.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain, groupby
from multiprocessing import get_context

from pp3.harness.errors import PP3Error
from pp3.harness.faults import CONTROLS, FAULTS, seeds, texts
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.outcome import Row
from pp3.harness.faults.seeds import Again
from pp3.harness.faults.triton_fault import CONTROL, TextControl, TextFault
from pp3.harness.faults.triton_proposal import PROPOSAL
from pp3.harness.faults.triton_verifier import VERIFIER
from pp3.harness.faults.triton_wide import WIDE

THREADS = 1  # of torch, where faults run side by side
INTERPRET = "TRITON_INTERPRET"
DIED = "a process that ran faults was killed, as for want of memory: give fewer --jobs"
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
    found: list[One] = [*FAULTS, *VERIFIER, *PROPOSAL, *WIDE, CONTROL, *CONTROLS]
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
            if chosen is Way.LAWS:
                yield from _beside(pools[chosen], list(group), order)
                continue
            sent = [one for one in group if isinstance(one, TextFault | TextControl)]
            yield from pools[chosen].map(partial(_run, chosen, order), sent)


def row(one: Fault | Control, order: Order) -> Row:
    """Try one fault of the law or its control at some seeds, in this process."""
    found = seeds.first(one, order.device)
    return seeds.joined(
        one, found, [seeds.again(one, counter, order.device) for counter in seeds.more(found, order.seeds)]
    )


def _beside(pool: Executor, group: Sequence[One], order: Order) -> Iterator[Row]:
    """Faults of the law and controls, each seed by itself in any process of a pool; rows in their order."""
    begun = {one.id: pool.submit(_first, one.id, order.device) for one in group}
    left: dict[str, list[Future[Again]]] = {one.id: [] for one in group}
    try:
        if order.seeds > 1:
            names = {future: name for name, future in begun.items()}
            for future in as_completed(names):
                name = names[future]
                counters = seeds.more(future.result(), order.seeds)
                left[name] = [pool.submit(_again, name, counter, order.device) for counter in counters]
        for one in group:
            if isinstance(one, Fault | Control):
                yield seeds.joined(one, begun[one.id].result(), [future.result() for future in left[one.id]])
    except BrokenProcessPool:
        raise PP3Error(DIED) from None
    finally:
        waiting: list[Future[Row] | Future[Again]] = [*begun.values(), *chain.from_iterable(left.values())]
        for one_of in waiting:
            one_of.cancel()


def _first(id: str, device: str) -> Row:
    """In another process."""
    return seeds.first(_of_law(id), device)


def _again(id: str, counter: int, device: str) -> Again:
    """Likewise."""
    return seeds.again(_of_law(id), counter, device)


def _of_law(id: str) -> Fault | Control:
    one = every()[id]
    if not isinstance(one, Fault | Control):
        raise TypeError(f"{id} is a fault in a text")
    return one


def _run(way: Way, order: Order, one: TextFault | TextControl) -> Row:
    """Likewise, of a text."""
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
