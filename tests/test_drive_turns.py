"""When pieces are handed over and taken, and when silence is asked for."""

import itertools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import pytest
from driven import ORDERS, square

from pp3.harness.operations import drive as driving
from pp3.harness.operations.drive import SilentError, drive
from pp3.harness.operations.engines import Engine, serial
from pp3.harness.operations.order import Order


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
