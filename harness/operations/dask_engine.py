"""Dask's workers as an executor: a scheduler that is there already, whoever started its workers, wherever they are.

What Dask does itself is left to it: a task whose worker is lost goes to another one. What is added: no shard runs on
a worker with other sources, a campaign without workers ends, and a task that Dask gives up on is tried again, then
named.
"""

import time
from concurrent.futures import Executor
from typing import Any

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.order import ForeignSourcesError, sources_sha256

CONNECT = 10.0  # seconds to find the scheduler
WORKERS = 120.0  # seconds to wait for the first worker
AHEAD = 4096  # tasks that the scheduler holds
SHOWN = 3  # foreign workers that are named


def connect(address: str, workers: float = WORKERS) -> Engine:
    """An engine on the scheduler at this address, as `tcp://host:8786`. PP3Error (69): no Dask, no scheduler."""
    try:
        import distributed
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker
    except ModuleNotFoundError as error:
        raise PP3Error(
            f"--dask needs {error.name}, which is not installed: pip install 'pp3[dask]'", Exit.UNAVAILABLE
        ) from None
    try:
        client = distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise PP3Error(
            f"--dask {address}: no scheduler answers there ({type(error).__name__}: {error}); start one with "
            "dask scheduler, and give its address",
            Exit.UNAVAILABLE,
        ) from None

    def begin(manifest: dict[str, Any]) -> None:
        wait_for_workers(client, address, workers)
        check_sources(client.run(_sources, manifest["kind"], on_error="return"), manifest)

    def stop(executor: Executor) -> None:
        executor.shutdown(wait=False)
        client.close(timeout=CONNECT)

    return Engine(
        start=lambda: client.get_executor(pure=False),
        ahead=AHEAD,
        lost=(KilledWorker, CommClosedError),
        stop=stop,
        close=lambda: client.close(timeout=CONNECT),
        begin=begin,
        look=Watch(client, address, workers),
    )


def wait_for_workers(client: Any, address: str, seconds: float) -> None:
    """PP3Error (69) unless a worker is there, or comes within so many seconds."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        raise workerless(address, seconds) from None


def workerless(address: str, seconds: float) -> PP3Error:
    """What is said where there are none."""
    return PP3Error(
        f"--dask {address}: the scheduler has had no worker for {seconds:g} s; start some with dask worker {address}, "
        "then go on with --resume",
        Exit.UNAVAILABLE,
    )


class Watch:
    """Looks now and then whether anybody is there to run pieces."""

    def __init__(self, client: Any, address: str, seconds: float) -> None:
        self._client, self._address, self._seconds = client, address, seconds
        self._seen = time.monotonic()

    def __call__(self) -> None:
        """PP3Error (69) if the scheduler is gone, or has had no worker for so many seconds."""
        if self._client.status != "running":
            raise PP3Error(
                f"--dask {self._address}: the scheduler is gone; start it again, then go on with --resume",
                Exit.UNAVAILABLE,
            )
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > self._seconds:
            raise workerless(self._address, self._seconds)


def check_sources(found: dict[str, Any], manifest: dict[str, Any]) -> None:
    """ForeignSourcesError names each worker that has no pp3, or another one than the campaign."""
    foreign = [
        f"worker {worker}: it cannot say what its sources are: {said!r}"
        if isinstance(said, BaseException)
        else f"worker {worker}: its sources hash to {said}"
        for worker, said in sorted(found.items())
        if said != manifest["sourcesSha256"]
    ]
    if foreign:
        more = f"; and {len(foreign) - SHOWN} more of {len(found)} workers" if len(foreign) > SHOWN else ""
        raise ForeignSourcesError(
            f"{'; '.join(foreign[:SHOWN])}{more}; those of the campaign hash to {manifest['sourcesSha256']}: install "
            "the same pp3 everywhere"
        )


def _sources(kind: str) -> str:
    return sources_sha256(kind)
