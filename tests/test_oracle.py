"""The oracle against every path of a small Markov target, walked one by one in fractions."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from pp3.harness.cells import Event, enumerate_cells
from pp3.harness.oracle import Law
from pp3.targets import NAMES, PATTERNS, Target, build, drafts_of, invalidated
from pp3.targets.target import ONE, POSITIONS

VOCAB, CONTEXTS = 34, 3
# Equal logits, so that the tickets are known without computing any: ONE over their number, the rest to the lowest id.
DRAFTED: tuple[tuple[int, ...], ...] = ((0, 1, 2, 7), (1, 3), (33,), (4, 5, 9))
WEIGHTS: tuple[dict[int, int], ...] = (
    {0: ONE // 2, 1: ONE // 4, 7: ONE // 8, 20: ONE // 8},
    {1: ONE // 2, 3: ONE // 2},  # the tickets themselves: an empty residual
    {0: 1, 5: ONE - 1},  # disjoint from the tickets
    {4: 3, 5: ONE // 3, 9: ONE - ONE // 3 - 3},
)
ROW_OF = np.array([[0, 1, 2], [3, 0, 1], [2, 3, 0], [1, 0, 3], [0, 3, 2], [3, 1, 0]])
Place = tuple[int, int]


def markov(patterns: tuple[str, ...] = PATTERNS) -> Target:
    """Four rows, three contexts, at most four tokens a law."""
    weights = np.zeros((4, VOCAB), np.int64)
    logits = np.full((4, VOCAB), -np.inf, np.float32)
    for row in range(4):
        weights[row, list(WEIGHTS[row])] = list(WEIGHTS[row].values())
        logits[row, list(DRAFTED[row])] = 1.0
    return Target(
        name="markov",
        why="small enough to walk",
        weights=weights,
        draft_logits=logits,
        row_of=ROW_OF,
        context_of=np.arange(VOCAB) % CONTEXTS,
        patterns=patterns,
    )


def tickets_of(row: int) -> dict[int, int]:
    """The tickets of a row of equal logits."""
    count = len(DRAFTED[row])
    found = dict.fromkeys(DRAFTED[row], ONE // count)
    found[DRAFTED[row][0]] += ONE - ONE // count * count
    return found


@dataclass
class Walk:
    """Every path of one round under one pattern: probabilities by event, position, context and outcome."""

    depth: int
    pattern: str
    reached: dict[Place, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    events: dict[tuple[Event, int, int], dict[int, Fraction]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Fraction))
    )
    lengths: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def __post_init__(self) -> None:
        self._step(0, 0, Fraction(1))

    def _step(self, j: int, context: int, mass: Fraction) -> None:
        row = int(ROW_OF[j, context])
        p = {token: Fraction(weight, ONE) for token, weight in WEIGHTS[row].items()}
        self.reached[j, context] += mass
        void = j < self.depth and invalidated(self.pattern, self.depth)[j]
        if j == drafts_of(self.pattern, self.depth) or void:
            event = Event.FULL_TARGET if void else Event.BONUS
            for token, share in p.items():
                self.events[event, j, context][token] += mass * share
            self.lengths[j] += mass
            return
        q = {token: Fraction(tickets, ONE) for token, tickets in tickets_of(row).items()}
        left = {token: max(share - q.get(token, Fraction(0)), Fraction(0)) for token, share in p.items()}
        for draft, chance in q.items():
            accepted = min(Fraction(1), p.get(draft, Fraction(0)) / chance)
            if accepted:
                for event, outcome in ((Event.TOKEN, draft), (Event.KEPT, draft), (Event.ACCEPT, 2 * draft + 1)):
                    self.events[event, j, context][outcome] += mass * chance * accepted
                self._step(j + 1, draft % CONTEXTS, mass * chance * accepted)
            if accepted < 1:
                rejected = mass * chance * (1 - accepted)
                self.lengths[j] += rejected
                self.events[Event.ACCEPT, j, context][2 * draft] += rejected
                for token, share in left.items():
                    for event in (Event.TOKEN, Event.RESIDUAL):
                        if share:
                            self.events[event, j, context][token] += rejected * share / sum(left.values())


def every_depth_and_pattern() -> list[Any]:
    """Rows of a table."""
    return [pytest.param(d, p, id=f"depth-{d}-{p}") for d, p in itertools.product((4, 5), PATTERNS)]


def test_tickets_are_those_of_equal_logits() -> None:
    law = Law(markov())
    for row in range(4):
        assert {t: int(law.tickets[row, t]) for t in np.flatnonzero(law.tickets[row])} == tickets_of(row)


@pytest.mark.parametrize(("depth", "pattern"), every_depth_and_pattern())
def test_every_path(depth: int, pattern: str) -> None:
    law, walk = Law(markov()), Walk(depth, pattern)
    assert law.reached(depth, pattern) == walk.reached
    assert law.lengths(depth, pattern) == [walk.lengths[n] for n in range(depth + 1)]
    assert sum(law.lengths(depth, pattern)) == 1


@pytest.mark.parametrize("depth", [4, 5])
def test_every_proposal(depth: int) -> None:
    """All positions are drafted, whatever would be accepted: chains of drafts alone."""
    expected: dict[Place, Fraction] = defaultdict(Fraction)
    chains = {(0, 0): Fraction(1)}
    for j in range(depth):
        following: dict[Place, Fraction] = defaultdict(Fraction)
        for (_, context), mass in chains.items():
            expected[j, context] += mass
            for token, tickets in tickets_of(int(ROW_OF[j, context])).items():
                following[j + 1, token % CONTEXTS] += mass * Fraction(tickets, ONE)
        chains = following
    found = Law(markov()).drafted(depth)
    assert found == expected
    assert [sum(p for (j, _), p in found.items() if j == position) for position in range(depth)] == [1] * depth


@pytest.mark.parametrize(("depth", "pattern"), every_depth_and_pattern())
def test_the_emitted_law_is_the_target(depth: int, pattern: str) -> None:
    """Kept and replaced together: P, exactly, at every position and context (Leviathan et al., appendix A.1)."""
    walk = Walk(depth, pattern)
    for (event, j, context), outcomes in walk.events.items():
        if event in (Event.RESIDUAL, Event.KEPT, Event.ACCEPT):
            continue
        total = sum(outcomes.values())
        law = {token: mass / total for token, mass in outcomes.items() if mass}
        assert law == {t: Fraction(w, ONE) for t, w in WEIGHTS[int(ROW_OF[j, context])].items()}
        assert total == walk.reached[j, context]


@pytest.mark.parametrize("depth", [4, 5])
def test_cells_are_the_walked_events(depth: int) -> None:
    """Atoms, law and rate of every cell, and no cell that no path reaches; patterns are dealt in turn."""
    target = markov()
    expected: dict[tuple[Event, int, int], dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    lengths = {}
    for pattern in PATTERNS:
        walk = Walk(depth, pattern)
        lengths[pattern] = {n: p for n, p in walk.lengths.items() if p}
        for key, outcomes in walk.events.items():
            for token, mass in outcomes.items():
                expected[key][token] += mass / len(PATTERNS)
    cells = enumerate_cells(Law(target), depth)
    assert len({cell.id for cell in cells}) == len(cells)
    emitted = {}
    for cell in cells:
        total = sum(cell.shares)
        law = {int(atom): Fraction(share, total) for atom, share in zip(cell.atoms, cell.shares, strict=True)}
        assert 0 not in law.values()
        assert list(law) == sorted(law)
        if cell.event is Event.LENGTH:
            assert law == lengths.pop(cell.pattern)
            assert cell.rate == Fraction(1, len(PATTERNS))
        elif cell.event is Event.PROPOSAL:
            row = int(ROW_OF[cell.position, cell.context])
            assert law == {token: Fraction(tickets, ONE) for token, tickets in tickets_of(row).items()}
            having = [pattern for pattern in PATTERNS if drafts_of(pattern, depth) > cell.position]
            share = Fraction(len(having), len(PATTERNS))
            assert cell.rate == Law(target).drafted(depth)[cell.position, cell.context] * share
        else:
            key = (cell.event, cell.position, cell.context)
            emitted[key] = {token: share * cell.rate for token, share in law.items()}
    assert not lengths
    assert emitted == expected


@pytest.mark.parametrize("name", [*NAMES, "markov"])
def test_kept_and_residual_make_the_target(name: str) -> None:
    target = markov() if name == "markov" else build(name)
    law = Law(target)
    assert (law.kept + law.residual == target.weights).all()
    assert (law.kept == np.minimum(target.weights, law.tickets)).all()
    assert (law.tickets.sum(axis=1) == ONE).all()
    for j, context in itertools.product(range(POSITIONS), range(target.contexts)):
        row = target.row_of[j, context]
        assert law.row(j, context) == row
        assert law.rejected(j, context) == 1 - Fraction(int(law.kept[row].sum()), ONE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [4, 5])
def test_lengths_of_the_built_in_targets(name: str, depth: int) -> None:
    law = Law(build(name))
    for pattern in law.target.patterns:
        lengths = law.lengths(depth, pattern)
        assert sum(lengths) == 1
        assert min(lengths) >= 0
        last = invalidated(pattern, depth).index(True) if any(invalidated(pattern, depth)) else depth
        assert not any(lengths[last + 1 :])
    if name == "disjoint":
        assert law.lengths(depth, "none") == [1] + [0] * depth
    if name == "equal-q":
        assert law.lengths(depth, "none") == [0] * depth + [1]


def test_more_contexts_than_positions() -> None:
    """Each draft is token 32, which leads to the last of eleven contexts and is always kept."""
    contexts = 11
    weights, logits = np.zeros((1, VOCAB), np.int64), np.full((1, VOCAB), -np.inf, np.float32)
    weights[0, 32], logits[0, 32] = ONE, 1.0
    last = 32 % contexts
    target = Target(
        name="wide",
        why="a context beyond the positions",
        weights=weights,
        draft_logits=logits,
        row_of=np.zeros((POSITIONS, contexts), np.int64),
        context_of=np.arange(VOCAB) % contexts,
        patterns=PATTERNS,
    )
    assert Law(target).drafted(4) == {(0, 0): 1} | {(position, last): 1 for position in range(1, 4)}
    assert Law(target).reached(4, "none") == {(0, 0): 1} | {(position, last): 1 for position in range(1, 5)}


class NeverRejects(Law):
    """Carries the whole target on: what is accepted is P, not min(P, Q)."""

    @cached_property
    def kept(self) -> Any:
        return self.target.weights


def test_a_wrong_oracle_is_caught() -> None:
    wrong, walk = NeverRejects(markov()), Walk(4, "none")
    assert wrong.lengths(4, "none") != [walk.lengths[n] for n in range(5)]
    assert wrong.reached(4, "none") != walk.reached
