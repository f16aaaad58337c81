"""Pieces through any executor: each once, a lost worker's again, a poison piece named, and never a hang."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from driven import ORDERS, square, taken

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.operations import drive as driving
from pp3.harness.operations import engines
from pp3.harness.operations.drive import TRIES, PoisonError, SilentError, drive
from pp3.harness.operations.engines import Engine, lanes, serial
from pp3.harness.operations.order import Order


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is started anew finds the work of this file where pytest has it: as tests.test_drive."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))


def die_at(order: Order) -> dict[str, Any]:
    """Work that ends its process at one piece, as often as its folder has no file for it."""
    mark = Path(order["folder"]) / str(len(list(Path(order["folder"]).iterdir())))
    if order["number"] == order["at"] and len(list(mark.parent.iterdir())) < order["times"]:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(order)


def hang(order: Order) -> dict[str, Any]:
    """Work that never ends, at one piece."""
    if order["number"] == 3:
        threading.Event().wait()
    return square(order)


def of_pool(workers: int) -> Engine:
    """Python's own pool of processes, which breaks as a whole when one of them dies."""
    return Engine(start=lambda: ProcessPoolExecutor(workers, get_context("spawn")), ahead=2 * workers)


ENGINES: dict[str, Callable[[], Engine]] = {
    "in this process": lambda: serial(apart=False),
    "threads": lambda: Engine(start=lambda: ThreadPoolExecutor(4), ahead=8),
    "a pool of processes": lambda: of_pool(2),
    "one process a lane": lambda: lanes(["", ""]),
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_any_executor_runs_every_piece_once(engine: Callable[[], Engine]) -> None:
    """Whoever it is by."""
    found = taken(engine(), ORDERS)
    assert {name: part["square"] for name, part in found.items()} == {
        name: order["number"] ** 2 for name, order in ORDERS.items()
    }


@pytest.mark.parametrize("engine", [ENGINES["a pool of processes"], ENGINES["one process a lane"]])
def test_a_lost_worker_s_piece_is_run_again(engine: Callable[[], Engine], tmp_path: Path) -> None:
    """SIGKILL from inside, once less than is too often; no piece is lost or counted twice."""
    orders = {
        name: order | {"folder": str(tmp_path), "at": 5, "times": TRIES - 1} for name, order in list(ORDERS.items())[:8]
    }
    assert taken(engine(), orders, die_at).keys() == orders.keys()
    assert len(list(tmp_path.iterdir())) == TRIES - 1


@pytest.mark.parametrize("engine", [ENGINES["a pool of processes"], ENGINES["one process a lane"]])
def test_a_poison_piece_is_named(engine: Callable[[], Engine], tmp_path: Path) -> None:
    """And no innocent one, though it ran beside it."""
    orders = {name: order | {"folder": str(tmp_path), "at": 2, "times": 99} for name, order in list(ORDERS.items())[:8]}
    with pytest.raises(PoisonError, match=f"piece piece-2 has ended {TRIES} workers"):
        taken(engine(), orders, die_at)


class Broken(Executor):
    """An executor that has no worker left."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        raise BrokenExecutor("no worker")


def test_an_executor_that_cannot_start_ends() -> None:
    """It is tried again, not for ever."""
    started = []

    def start() -> Executor:
        started.append(1)
        return Broken()

    with pytest.raises(PoisonError, match="piece piece-"):
        taken(Engine(start=start, ahead=4), ORDERS)
    assert len(started) <= len(ORDERS) * TRIES


def test_silence_ends_a_campaign() -> None:
    """A hung worker is not waited for: the piece is named, and the processes are ended."""
    engine = lanes(["", ""])
    executors: list[Executor] = []
    watched = Engine(
        start=lambda: executors.append(engine.start()) or executors[0],  # type: ignore[func-returns-value]  # appends
        ahead=engine.ahead,
        lost=engine.lost,
        stop=engine.stop,
    )
    with pytest.raises(
        SilentError, match=r"no piece has ended for 2 s; 1 are out: piece-3; .* --resume, which waits longer"
    ):
        drive(ORDERS, watched, lambda part: None, silence=lambda: 2.0, work=hang)
    [executor] = executors
    assert isinstance(executor, engines.Lanes)
    for pool in executor._open:
        assert not [process for process in (pool._processes or {}).values() if process.is_alive()]


def test_an_engine_may_see_that_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """While pieces are out, it is asked now and then."""
    monkeypatch.setattr(driving, "LOOK", 0.05)
    release = threading.Event()

    def look() -> None:
        raise PP3Error("no workers", Exit.UNAVAILABLE)

    def stop(executor: Executor) -> None:
        release.set()
        executor.shutdown(wait=True)

    engine = Engine(start=lambda: ThreadPoolExecutor(1), ahead=4, look=look, stop=stop)
    with pytest.raises(PP3Error, match="no workers"):
        drive(ORDERS, engine, lambda part: None, work=lambda order: {"waited": release.wait()})


def test_an_error_of_a_piece_names_it() -> None:
    """Its own kind is kept where it is ours; nothing more is begun."""
    begun = []

    def fail(order: Order) -> dict[str, Any]:
        begun.append(order["name"])
        if order["number"] == 2:
            raise CampaignError("bad") if len(begun) == 3 and order["kind"] == "ours" else ZeroDivisionError("oh")
        return square(order)

    ours = {name: order | {"kind": "ours"} for name, order in ORDERS.items()}
    with pytest.raises(CampaignError, match="piece piece-2: bad"):
        taken(serial(apart=False), ours, fail)
    theirs = {name: order | {"kind": "theirs"} for name, order in ORDERS.items()}
    begun.clear()
    with pytest.raises(PP3Error, match="piece piece-2: ZeroDivisionError: oh"):
        taken(serial(apart=False), theirs, fail)
    assert len(begun) == 3


def test_what_was_taken_before_an_error_is_kept() -> None:
    """In order, in this process."""
    found = []

    def fail(order: Order) -> dict[str, Any]:
        if order["number"] == 4:
            raise KeyboardInterrupt
        return square(order)

    with pytest.raises(KeyboardInterrupt):
        drive(ORDERS, serial(apart=False), lambda part: found.append(part["name"]), work=fail)
    assert found == [f"piece-{number}" for number in range(4)]
