"""Run the pieces of a plan through an engine. The one place that meets both an engine and the battery."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from pp3.harness.engine.asks import Piece, asks_of
from pp3.harness.engine.compare import paths, replayed
from pp3.harness.engine.conditions import Kind, Order
from pp3.harness.engine.contract import Answer, Ask, Engine
from pp3.harness.engine.plan import Plan
from pp3.harness.engine.tally import Counter, Found, Told, matched
from pp3.harness.seeds import Seed, integers

Progress = Callable[[str, int, int], None]  # stage, done, total
ARRANGEMENTS = ("alone", "batch", "order", "slot")
FILLERS = 5  # requests before those that are to have other slots


@runtime_checkable
class Reseeded(Protocol):
    """An engine whose numbers follow from a seed."""

    def reseed(self, seed: int) -> None:
        """What requests without a seed draw from."""
        ...


@runtime_checkable
class Replacing(Protocol):
    """An engine that is asked again when an answer does not come whole."""

    replaced: dict[str, int]  # attempts, by why


class Runner:
    """Runs pieces of one plan."""

    def __init__(self, plan: Plan, seed: Seed, engine: Engine) -> None:
        self.plan, self.seed, self.engine = plan, seed, engine
        self.counters = {
            condition.name: Counter(
                plan.chain,
                plan.logits,
                plan.draft,
                condition,
                [cell for cell in plan.cells if cell.condition == condition.name],
                plan.facts.stop_emitted,
            )
            for condition in plan.conditions
        }

    def run(self, piece: Piece, said: Callable[[int], None] = lambda answers: None) -> Found:
        """Ask and count a piece; `said` is told how many answers have come."""
        found, engine = Found(), self.engine
        before = dict(engine.replaced) if isinstance(engine, Replacing) else {}
        self._run(piece, said, found)
        if isinstance(engine, Replacing):
            found.replaced = {name: count - before[name] for name, count in engine.replaced.items()}
        return found

    def _run(self, piece: Piece, said: Callable[[int], None], found: Found) -> None:
        condition = piece.condition
        asks = asks_of(self.plan, piece, self.seed)
        if condition.kind is Kind.REPLAY:
            self._replay(asks, found)
            return
        concurrency = 1 if condition.order is Order.ALONE else self.plan.concurrency
        sent = asks[::-1] if condition.order is Order.REVERSED else asks
        told = self._told(asks, self._collect(sent, concurrency, said), found)
        rng = generator(self.seed, f"ranks/{piece.name}")
        self.counters[condition.name].count(told, piece.start, concurrency, rng, found)
        if condition.kind is Kind.GREEDY and condition.speculate and "speculate" in self.plan.facts.supports:
            plain = [dataclasses.replace(ask, speculate=False) for ask in asks]
            other = self._told(plain, self._collect(plain, concurrency, said), found)
            self.counters[condition.name].count(other, piece.start, concurrency, rng, found)
            paths(found, told, other, self.plan.chain, self.counters[condition.name].laws[0])

    def _collect(self, asks: Sequence[Ask], concurrency: int, said: Callable[[int], None]) -> list[Answer]:
        answers: list[Answer] = []
        for answer in self.engine.answers(asks, concurrency):
            answers.append(answer)
            said(len(answers))
        return answers

    def _told(self, asks: Sequence[Ask], answers: Sequence[Answer], found: Found) -> Told:
        return matched(asks, answers, self.plan.chain.vocab, found)

    def _replay(self, asks: Sequence[Ask], found: Found) -> None:
        """The same requests again, in every arrangement under which the engine says that a seed decides."""
        company = self.plan.concurrency
        first = self._told(asks, self._collect(asks, 1, lambda answers: None), found)
        rng = generator(self.seed, "replay")
        for arrangement in ARRANGEMENTS:
            if arrangement not in self.plan.facts.replays:
                continue
            order = list(asks)
            if arrangement == "order":
                order = [asks[at] for at in rng.permutation(len(asks)).tolist()]
            if arrangement == "slot":
                order = [*fillers(asks), *asks]
            concurrency = 1 if arrangement == "alone" else company
            numbers = {ask.number for ask in asks}
            got = [a for a in self._collect(order, concurrency, lambda answers: None) if a.number in numbers]
            replayed(found, first, self._told(asks, got, found), arrangement)


def fillers(asks: Sequence[Ask]) -> list[Ask]:
    """Requests of other lengths and seeds, so that what follows them has other slots."""
    last = max(ask.number for ask in asks)
    return [
        dataclasses.replace(
            ask, number=last + 1 + at, length=1 + at, seed=None if ask.seed is None else ask.seed + len(asks) + at
        )
        for at, ask in enumerate(asks[:FILLERS])
    ]


def reseed(engine: Engine, seed: Seed) -> None:
    """Let an engine of this process draw from the seed of the run; an engine at an address draws its own numbers."""
    if isinstance(engine, Reseeded):
        engine.reseed(int.from_bytes(seed.value[16:20], "little"))


def generator(seed: Seed, label: str) -> np.random.Generator:
    """Numbers of the harness, which no draw of an engine follows from."""
    return np.random.Generator(np.random.Philox(key=integers(seed, label, 2)))
