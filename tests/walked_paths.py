"""Every path of a small pair of targets, walked one by one in fractions."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import BUCKETS, dependence_cells
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.trial.seen import seen
from pp3.targets import invalidated
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

Mass = dict[Any, Fraction]
ALL = frozenset(Event)


@dataclass(frozen=True)
class Step:
    """One position of a round: the draft, if one was judged, and the token emitted."""

    context: int
    draft: int | None
    token: int
    kept: bool


def who(**more: Any) -> Description:
    """A verifier whose laws travel as probabilities, so that every product is exact."""
    said: dict[str, Any] = {"name": "it", "kind": Kind.VERIFIER, "target_carrier": Carrier.PROBS, "greedy": True}
    return Description(**said | more)


def random_pair(rng: np.random.Generator, vocab: int, depth: int, contexts: int, **more: Any) -> Pair:
    """Rows of small integer shares, some of them 0, in contexts by the token before."""

    def rows(count: int) -> Any:
        shares = rng.integers(0, 6, (count, vocab)) + np.eye(vocab, dtype=np.int64)[rng.integers(0, vocab, count)]
        found = shares * ONE // shares.sum(axis=1, keepdims=True)
        found[np.arange(count), shares.argmax(axis=1)] += ONE - found.sum(axis=1)
        return found

    count = (depth + 1) * contexts
    return Pair(
        name="random",
        why="a test",
        weights=rows(count),
        draft_weights=rows(count),
        row_of=np.arange(count).reshape(depth + 1, contexts),
        context_of=np.arange(vocab) % contexts,
        **more,
    )


def law_of(weights: Any) -> Mass:
    """A row as probabilities."""
    total = int(weights.sum())
    return {token: Fraction(int(w), total) for token, w in enumerate(weights) if w}


def rounds(
    pair: Pair, pattern: str, start: int, compares: bool, from_residual: bool
) -> Iterator[tuple[list[Step], Fraction]]:
    """Every round of a request, with its probability."""
    void = (*invalidated(pattern, pair.depth), False)

    def walk(j: int, context: int, steps: list[Step], mass: Fraction) -> Iterator[tuple[list[Step], Fraction]]:
        row = pair.row_of[j, context]
        target, draft = law_of(pair.weights[row]), law_of(pair.draft_weights[row])
        left = {t: p - draft.get(t, 0) for t, p in target.items() if p > draft.get(t, 0)}
        if j == pair.depth or void[j]:
            whole = left if j < pair.depth and from_residual and left else target
            for token, p in whole.items():
                yield [*steps, Step(context, None, token, False)], mass * p / sum(whole.values())
            return
        for x, q in draft.items():
            keep = target.get(x, Fraction(0)) if compares else min(Fraction(1), target.get(x, Fraction(0)) / q)
            instead = {t: p for t, p in target.items() if t != x} if compares else left
            if keep:
                after = [*steps, Step(context, x, x, True)]
                yield from walk(j + 1, int(pair.context_of[x]), after, mass * q * keep)
            for token, p in instead.items() if keep < 1 else ():
                share = p / sum(instead.values())
                yield [*steps, Step(context, x, token, False)], mass * q * (1 - keep) * share

    yield from walk(0, start, [], Fraction(1))


def walked(pair: Pair, compares: bool = False, from_residual: bool = False) -> list[tuple[int, list[Step], Fraction]]:
    """Class, steps and probability of every round, classes dealt equally."""
    kinds = [(pattern, start) for start in range(pair.starts) for pattern in pair.patterns]
    return [
        (k, steps, mass / len(kinds))
        for k, (pattern, start) in enumerate(kinds)
        for steps, mass in rounds(pair, pattern, start, compares, from_residual)
    ]


def cells_of(pair: Pair, events: frozenset[Event] = ALL, **more: Any) -> list[Cell]:
    """The cells of a pair as a sampler of one declaration sees it."""
    return dependence_cells(Law(seen(pair, who(**more))), pair.depth, events)


def law(cell: Cell) -> Mass:
    """A cell's law."""
    return {int(code): Fraction(share, sum(cell.shares)) for code, share in zip(cell.atoms, cell.shares, strict=True)}


def normal(mass: Mass) -> Mass:
    """A law from masses."""
    total = sum(mass.values(), Fraction(0))
    return {outcome: part / total for outcome, part in mass.items() if part}


def tabled(joint: Mass, cell: Cell) -> Mass:
    """Masses of pairs of tokens by the cell's own buckets."""
    found: Mass = defaultdict(Fraction)
    for (one, other), mass in joint.items():
        found[int(cell.maps[0][one]) * BUCKETS + int(cell.maps[1][other])] += mass
    return found


def equal(joint: Mass) -> Mass:
    """Masses of unequal and equal pairs."""
    found: Mass = defaultdict(Fraction)
    for (one, other), mass in joint.items():
        found[int(one == other)] += mass
    return found


def is_right(cell: Cell, mass: Mass) -> None:
    """The cell's law is that of these masses, which add up to its rate."""
    assert law(cell) == normal(mass), cell.id
    assert cell.rate == sum(mass.values()), cell.id
    assert math.gcd(*cell.shares) == 1
    if cell.maps:
        assert cell.strata is not None
        assert cell.strata.tolist() == (cell.atoms // BUCKETS).tolist()
