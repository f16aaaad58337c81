"""Executors for the pieces of a campaign: in this process, one process a GPU, or workers on many machines (Dask).

Any `concurrent.futures.Executor` will do; an Engine says how to start one, how many pieces it is given at once, and how
it says that a worker was lost.
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from queue import SimpleQueue
from typing import Any

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.interrupts import held_until_released

Work = Callable[..., Any]


class WorkerLostError(Exception):
    """The process that ran a piece is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A way to run pieces."""

    start: Callable[[], Executor]  # again after a loss that broke the executor
    ahead: int  # pieces that are handed over at once
    lost: tuple[type[BaseException], ...] = ()  # beside BrokenExecutor: the worker of that piece was lost
    stop: Callable[[Executor], None] = lambda executor: executor.shutdown(
        wait=False, cancel_futures=True
    )  # also at the end
    close: Callable[[], None] = lambda: None  # of one that was not started
    look: Callable[[], None] = lambda: None  # now and then while pieces are out; raises if nobody can run them
    begin: Callable[[dict[str, Any]], None] = lambda manifest: None  # before the first piece; refuses foreign workers


class Serial(Executor):
    """Run each piece where it is handed over; in two processes beside it, those that Triton's interpreter runs."""

    def __init__(self, apart: bool) -> None:
        self._pool = ProcessPoolExecutor(2, get_context("spawn"), _enter, ("",)) if apart else None

    def submit(self, fn: Work, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor. An interrupt is raised here, not kept in the future."""
        if self._pool is not None and args and str(args[0].get("name", "")).startswith("kernels,"):
            with held_until_released(), _Held():  # a pool that is interrupted in its start cannot be shut down
                return self._pool.submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See Executor; without waiting, what runs beside is ended."""
        if self._pool is not None:
            _end(self._pool, wait)


class Lanes(Executor):
    """One process a lane, each with the GPU of that name ("" for all that there are); a lost one is replaced."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self._free: SimpleQueue[tuple[str, ProcessPoolExecutor]] = SimpleQueue()
        for lane in lanes:
            self._free.put((lane, _one(lane)))
        self._threads = ThreadPoolExecutor(len(lanes))
        self._open: set[ProcessPoolExecutor] = set()
        self._ended = False

    def submit(self, fn: Work, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor; WorkerLostError in the future of the piece whose process is gone."""
        return self._threads.submit(self._run, fn, *args, **kwargs)

    def _run(self, fn: Work, *args: Any, **kwargs: Any) -> Any:
        lane, pool = self._free.get()
        try:
            if self._ended:
                raise WorkerLostError("the executor is shut down")
            self._open.add(pool)
            with _Held():
                future = pool.submit(fn, *args, **kwargs)
            return future.result()
        except BrokenExecutor as error:
            _end(pool, False)
            self._open.discard(pool)
            pool = _one(lane)
            raise WorkerLostError(f"its process is gone: {error}") from None
        finally:
            self._free.put((lane, pool))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See Executor; without waiting, every process is ended."""
        self._ended = not wait
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for pool in list(self._open):
            _end(pool, wait)


def serial(apart: bool = True) -> Engine:
    """In this process."""
    return Engine(start=lambda: Serial(apart), ahead=8)


def lanes(names: Sequence[str]) -> Engine:
    """One process for each name of a GPU, as CUDA_VISIBLE_DEVICES takes it."""
    return Engine(start=lambda: Lanes(names), ahead=2 * len(names), lost=(WorkerLostError,))


def gpus(wanted: str) -> list[str]:
    """Names of the GPUs to use: `all`, or how many. PP3Error: 69 if they are not there, 2 for what is neither."""
    import importlib.util

    if wanted != "all" and not (wanted.isdecimal() and int(wanted) > 0):
        raise PP3Error(f"--gpus {wanted!r}: give all, or how many", Exit.USAGE)
    count = 0
    if importlib.util.find_spec("torch") is not None:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    found = named[:count] if named else [str(number) for number in range(count)]
    if not found or (wanted != "all" and int(wanted) > len(found)):
        raise PP3Error(f"--gpus {wanted}: {len(found)} GPUs are visible here", Exit.UNAVAILABLE)
    return found if wanted == "all" else found[: int(wanted)]


def _one(lane: str) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _enter, (lane,))


def _enter(gpu: str) -> None:
    """Begin a process: on its GPU, deaf to Ctrl-C, which its parent hears, and gone as soon as its parent is."""
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def leave() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _end(pool: ProcessPoolExecutor, wait: bool) -> None:
    processes = list((pool._processes or {}).values())
    if not wait:
        for process in processes:
            process.kill()
    pool.shutdown(wait, cancel_futures=True)


class _Held:
    """Hold SIGINT back from this thread, so that a process that it starts begins deaf to it."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)
