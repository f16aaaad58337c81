"""Drive the pieces of a campaign through an executor: each once, again if its worker was lost, never for ever."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Any

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.order import Order, perform

TRIES = 3  # workers that a piece may lose
LOOK = 5.0  # seconds between two looks at who is there

Seconds = Callable[[], float]
Take = Callable[[dict[str, Any]], None]
Tell = Callable[[str, dict[str, Any]], None]  # an event, and what is to be said of it


class PoisonError(PP3Error):
    """A piece ends every worker that runs it."""

    exit_code = Exit.INTERNAL


class SilentError(PP3Error):
    """No piece has ended for too long."""

    exit_code = Exit.UNAVAILABLE


def drive(
    orders: Mapping[str, Order],
    engine: Engine,
    take: Take,
    tell: Tell = lambda event, said: None,
    silence: Seconds = lambda: math.inf,
    work: Callable[[Order], dict[str, Any]] = perform,
) -> None:
    """Run every order; `take` is given each part, here, as it comes.

    silence: seconds without any piece that ends after which it gives up, asked again after each piece.
    PoisonError names a piece that lost TRIES workers, SilentError the pieces after which nothing came. Any other error
    of a piece ends the campaign with its name; what was taken is kept by whoever took it.
    """
    if orders:
        _Drive(orders, engine, take, tell, silence, work).run()


class _Drive:
    def __init__(
        self,
        orders: Mapping[str, Order],
        engine: Engine,
        take: Take,
        tell: Tell,
        silence: Seconds,
        work: Callable[[Order], dict[str, Any]],
    ) -> None:
        self.orders, self.engine, self.take, self.tell, self.silence, self.work = (
            orders,
            engine,
            take,
            tell,
            silence,
            work,
        )
        self.waiting = deque(orders)
        self.suspects: deque[str] = deque()  # lost in company: each is run alone, to see who it was
        self.running: dict[Future[Any], str] = {}
        self.lost = Counter[str]()

    def run(self) -> None:
        executor = self.engine.start()
        try:
            while self.waiting or self.suspects or self.running:
                if not self._hand_over(executor):
                    executor = self._again(executor)
                    continue
                if self.running and not self._take(self._wait()):
                    executor = self._again(executor)
        finally:
            self.engine.stop(executor)

    def _wait(self) -> set[Future[Any]]:
        """Pieces that have ended, one at least. SilentError if none does."""
        begun, silence = time.monotonic(), self.silence()
        while True:
            left = begun + silence - time.monotonic()
            done, _ = wait(self.running, min(max(0.0, left), LOOK), FIRST_COMPLETED)
            if done:
                return done
            if left <= 0:
                break
            self.engine.look()
        named = ", ".join(sorted(self.running.values())[:3])
        raise SilentError(
            f"no piece has ended for {silence:g} s; {len(self.running)} are out: {named}; look for a worker that "
            "hangs, then go on with --resume, which waits longer; --stall-timeout says how long"
        )

    def _hand_over(self, executor: Executor) -> bool:
        """Hand over as many pieces as there is room for, suspects alone; False if the executor is broken."""
        while True:
            if self.suspects and self.running:
                return True
            source = self.suspects or self.waiting
            if not source or len(self.running) >= self.engine.ahead:
                return True
            name = source.popleft()
            try:
                future = executor.submit(self.work, self.orders[name])
            except BrokenExecutor:
                if self.running:
                    source.appendleft(name)
                return self._lose([] if self.running else [name])
            self.running[future] = name
            if not self._take({other for other in self.running if other.done()}):
                return False
            if source is self.suspects:
                return True

    def _take(self, done: set[Future[Any]]) -> bool:
        """Take what has ended; False if the executor is broken."""
        broken = []
        for future in done:
            name = self.running.pop(future)
            try:
                part = future.result()
            except BrokenExecutor:
                broken.append(name)
            except self.engine.lost as error:
                self.tell("lost", {"piece": name, "why": str(error)})
                self._count(name)
                self.waiting.append(name)
            except CancelledError:
                raise PP3Error(
                    f"piece {name}: the executor has dropped it; is its scheduler gone? Go on with --resume",
                    Exit.UNAVAILABLE,
                ) from None
            except PP3Error as error:
                raise type(error)(f"piece {name}: {error}", error.exit_code) from error
            except Exception as error:
                raise PP3Error(f"piece {name}: {type(error).__name__}: {error}") from error
            else:
                self.take(part)
        return not broken or self._lose(broken)

    def _lose(self, broken: list[str]) -> bool:
        """The executor broke while these and all that run were out: who was alone has done it."""
        names = [*broken, *self.running.values()]
        self.running.clear()
        self.tell("broken", {"pieces": sorted(names)})
        if len(names) == 1:
            self._count(names[0])
        self.suspects.extend(names)
        return False

    def _count(self, name: str) -> None:
        self.lost[name] += 1
        if self.lost[name] >= TRIES:
            raise PoisonError(
                f"piece {name} has ended {self.lost[name]} workers, one after another; run it alone to see why, or "
                "go on with --resume"
            )

    def _again(self, executor: Executor) -> Executor:
        self.engine.stop(executor)
        return self.engine.start()
