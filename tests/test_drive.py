"""Pieces through any executor: each once, a lost worker's again, a poison piece named, and never a hang."""

import itertools
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.operations import campaign, engines
from pp3.harness.operations import drive as driving
from pp3.harness.operations.drive import TRIES, PoisonError, SilentError, drive
from pp3.harness.operations.engines import Engine, gpus, lanes, serial
from pp3.harness.operations.order import ForeignSourcesError, Order, perform, sources_sha256

ORDERS: dict[str, Order] = {f"piece-{number}": {"name": f"piece-{number}", "number": number} for number in range(20)}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is started anew finds the work of this file where pytest has it: as tests.test_drive."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))


def square(order: Order) -> dict[str, Any]:
    """Work that cannot fail."""
    return {"name": order["name"], "square": order["number"] ** 2, "pid": os.getpid()}


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


def visible(order: Order) -> dict[str, Any]:
    """Which GPU this process may see."""
    return {"name": order["name"], "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", "unset")}


def taken(engine: Engine, orders: dict[str, Order], work: Callable[..., Any] = square) -> dict[str, dict[str, Any]]:
    """What came of each piece; each came once."""
    found: dict[str, dict[str, Any]] = {}

    def take(part: dict[str, Any]) -> None:
        assert part["name"] not in found
        found[part["name"]] = part

    drive(orders, engine, take, work=work)
    return found


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


class Hands(Executor):
    """Pieces that end when the test says so; what is out, in the order of handing over."""

    def __init__(self) -> None:
        self.out: dict[str, Future[Any]] = {}
        self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        future: Future[Any] = Future()
        self.out[args[0]["name"]] = future
        self.most = max(self.most, len(self.out))
        return future

    def end(self, name: str) -> None:
        """One piece ends well."""
        self.out.pop(name).set_result({"name": name})


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Drive pieces whose every wait is over at once: at each look the test does something, and the clock goes on by a
    second. The names of the pieces that were taken, and of the looks between them."""

    def polled(
        hands: Hands, at_look: Callable[[int], object], silence: Callable[[], float] = lambda: 1e9, ahead: int = 4
    ) -> list[str]:
        said: list[str] = []
        looks = itertools.count()
        now = [0.0]

        def look() -> None:
            number = next(looks)
            said.append("look")
            now[0] += 1
            at_look(number)

        monkeypatch.setattr(driving, "LOOK", 0.0)
        monkeypatch.setattr(driving, "time", SimpleNamespace(monotonic=lambda: now[0]))
        engine = Engine(start=lambda: hands, ahead=ahead, look=look)
        drive(ORDERS, engine, lambda part: said.append(part["name"]), silence=silence)
        return said

    return polled


def test_what_has_ended_is_taken_at_the_next_poll(polled: Callable[..., list[str]]) -> None:
    """Whichever it is, and as many as have; in between the engine is looked at."""
    hands = Hands()

    def at_look(number: int) -> None:
        if number % 3 == 2:  # two looks in vain, then the youngest two
            for name in list(hands.out)[-2:]:
                hands.end(name)

    said = polled(hands, at_look)
    assert [len(list(group)) for what, group in itertools.groupby(said, "look".__eq__)] == [3, 2] * (len(ORDERS) // 2)
    taken = [name for name in said if name != "look"]
    assert sorted(taken) == sorted(ORDERS)
    assert set(taken[:2]) == {"piece-2", "piece-3"}
    assert taken[-2:] != ["piece-18", "piece-19"]


def test_no_more_are_out_than_the_engine_takes(polled: Callable[..., list[str]]) -> None:
    """And no fewer, while there are any: what has ended is replaced before the next look."""
    hands, out = Hands(), []

    def at_look(number: int) -> None:
        out.append(len(hands.out))
        hands.end(next(iter(hands.out)))

    polled(hands, at_look, ahead=3)
    assert hands.most == 3
    assert out == [3] * (len(ORDERS) - 2) + [2, 1]


def test_a_piece_that_ends_at_once_is_taken_before_the_next_is_handed_over() -> None:
    """As of an executor that runs each where it is handed over: nothing is lost to an end in between."""
    said = []

    def work(order: Order) -> dict[str, Any]:
        said.append(f"run {order['name']}")
        return square(order)

    drive(ORDERS, serial(apart=False), lambda part: said.append(f"take {part['name']}"), work=work)
    assert said == [f"{what} {name}" for name in ORDERS for what in ("run", "take")]


def test_silence_is_counted_from_the_last_piece(polled: Callable[..., list[str]]) -> None:
    """A piece every four seconds ends no campaign that waits five; then none for five does."""
    hands, said = Hands(), []

    def at_look(number: int) -> None:
        said.append(number)
        if number % 4 == 3 and len(said) < 40:
            hands.end(next(iter(hands.out)))

    with pytest.raises(SilentError, match=r"no piece has ended for 5 s; 4 are out: piece-10, piece-11, piece-12;"):
        polled(hands, at_look, silence=lambda: 5.0)
    assert said == list(range(36 + 5))


def test_silence_is_asked_for_after_each_piece(polled: Callable[..., list[str]]) -> None:
    """As it grows with what pieces take."""
    hands, limits = Hands(), iter(range(2, 100))

    def at_look(number: int) -> None:
        if number in (1, 4, 8):  # the last of 2, 3 and 4 seconds; then none of 5
            hands.end(next(iter(hands.out)))

    with pytest.raises(SilentError, match="no piece has ended for 5 s"):
        polled(hands, at_look, silence=lambda: float(next(limits)))
    assert next(limits) == 6


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


def test_each_lane_has_its_gpu() -> None:
    """As CUDA_VISIBLE_DEVICES, before anything can have asked for it."""
    found = taken(lanes(["GPU-a", "GPU-b"]), ORDERS, visible)
    assert {part["gpu"] for part in found.values()} == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("wanted", "code"), [("none", 2), ("0", 2), ("-1", 2), ("1.5", 2), ("all", 69), ("2", 69)])
def test_gpus_that_are_not_there(wanted: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is run."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PP3Error, match=f"--gpus '?{wanted}") as raised:
        gpus(wanted)
    assert raised.value.exit_code == code


@pytest.mark.parametrize(("named", "wanted", "found"), [("", "all", ["0", "1"]), ("3,GPU-x", "1", ["3"])])
def test_gpus_are_named_as_the_driver_takes_them(
    named: str, wanted: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, or as CUDA_VISIBLE_DEVICES names them."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus(wanted) == found


def test_a_worker_with_other_sources_refuses() -> None:
    """By digest, before it does anything."""
    manifest = {"kind": "qualify", "sourcesSha256": "0" * 64}
    with pytest.raises(
        ForeignSourcesError,
        match=f"this worker: its sources hash to {sources_sha256('qualify')}, those of the campaign to 000",
    ):
        perform({"manifest": manifest, "name": "x"})


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    """SIGKILL of the parent leaves no worker behind."""
    context = get_context("spawn")
    process = context.Process(target=_parent, args=(str(tmp_path),))
    process.start()
    deadline = time.monotonic() + 30
    while not (pids := [int(path.name) for path in tmp_path.iterdir()]) and time.monotonic() < deadline:
        process.join(0.05)
    assert pids
    end = os.pidfd_open(pids[0])
    process.kill()
    process.join()
    assert select.select([end], [], [], 30)[0] == [end]
    os.close(end)


def _parent(folder: str) -> None:
    drive({"x": {"name": "x", "folder": folder}}, lanes([""]), lambda part: None, work=_wait)


def _wait(order: Order) -> dict[str, Any]:
    (Path(order["folder"]) / str(os.getpid())).touch()
    threading.Event().wait()
    return {}


def test_sigterm_ends_a_campaign_where_ctrl_c_is_ignored() -> None:
    """As a shell leaves it for what it runs with `&`: SIGINT is ignored, and SIGTERM alone can end it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), campaign.terminated():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
