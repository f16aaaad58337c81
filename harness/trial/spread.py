"""Spread the targets of one trial over several processes, each heard by a thread of its own."""

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from pp3.harness.trial.plan import Progress

WAIT = 0.5  # seconds between two looks at whether to stop
Part = TypeVar("Part")


def dealt(sizes: dict[str, int], parts: int) -> list[list[str]]:
    """Names in at most so many parts of about equal size: the largest first, each to the smallest part so far."""
    found: list[list[str]] = [[] for _ in range(min(parts, len(sizes)))]
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        min(found, key=lambda part: sum(sizes[one] for one in part)).append(name)
    return found


def beside(parts: list[list[str]], run: Callable[[int, list[str]], Part], stop: threading.Event) -> Iterator[Part]:
    """Run every part in a thread, by its number and names; what became of each, as they end. An error stops all."""
    with ThreadPoolExecutor(len(parts)) as pool:
        try:
            for future in as_completed([pool.submit(run, *numbered) for numbered in enumerate(parts)]):
                yield future.result()
        except BaseException:
            stop.set()
            raise


def summed(progress: Progress, total: int) -> Callable[[int], Progress]:
    """A progress for each part, which together make up one of `total` requests."""
    done = Counter[int]()

    def of_part(number: int) -> Progress:
        def say(stage: str, count: int, _: int) -> None:
            done[number] = count
            progress(stage, sum(done.copy().values()), total)

        return say

    return of_part


Slots = queue.SimpleQueue[str]  # of processes at once: what each may see of the GPUs, "" for all that there are


def slots_for(jobs: int, gpus: Sequence[str] = ()) -> Slots:
    """So many slots, dealt to the GPUs in turn."""
    found: Slots = queue.SimpleQueue()
    for number in range(jobs):
        found.put(gpus[number % len(gpus)] if gpus else "")
    return found


@contextlib.contextmanager
def slot(slots: Slots, stop: threading.Event) -> Iterator[str]:
    """Wait for a slot that several trials share; its GPU. KeyboardInterrupt if `stop` is set before one is free."""
    while True:
        try:
            free = slots.get(timeout=WAIT)
            break
        except queue.Empty:
            if stop.is_set():
                raise KeyboardInterrupt from None
    try:
        yield free
    finally:
        slots.put(free)
