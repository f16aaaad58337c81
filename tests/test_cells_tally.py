"""Counting: cells tile the requests, parts add up, NumPy and torch agree, and each breach has its own name."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.oracle import Law
from pp3.harness.run import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import BREACHES, Tally, pattern_of
from pp3.targets import NAMES, Target, build, invalidated
from pp3.targets.target import ONE, POSITIONS

Array = npt.NDArray[Any]
SEED = Seed(bytes(range(32)))
REQUESTS = 1003  # odd, and no multiple of the patterns
FIELDS = ("status", "tokens", "num_sampled", "proposed", "drafts", "support", "tickets")
NONE = dict.fromkeys(BREACHES, 0)


def requests(target: Target, depth: int, first: int = 0, last: int = REQUESTS) -> tuple[Batch, Emission]:
    """What the reference emits for requests [first, last)."""
    batch = sampled_batch(target, depth, 4, SEED, first, last)
    return batch, ReferenceSampler().run(batch)


def tally_of(target: Target, depth: int, *parts: tuple[Batch, Emission]) -> Tally:
    """The tally of some batches."""
    tally = Tally(target, depth, enumerate_cells(Law(target), depth))
    for batch, emission in parts:
        tally.add(batch, emission)
    return tally


def on_torch(emission: Emission) -> Emission:
    """The same emission as tensors."""
    return Emission(**{name: torch.tensor(getattr(emission, name)) for name in FIELDS})


def totals(tally: Tally) -> dict[tuple[Event, int], int]:
    """Events counted by kind and position."""
    found: dict[tuple[Event, int], int] = defaultdict(int)
    for cell, counts in zip(tally.cells, tally.histograms(), strict=True):
        found[cell.event, cell.position] += sum(counts)
    return found


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_cells_tile_the_requests(name: str, depth: int) -> None:
    """Each request proposes at every position, emits at every position it reaches, and has one length."""
    target = build(name)
    batch, emission = requests(target, depth)
    tally = tally_of(target, depth, (batch, emission))
    assert tally.breaches == NONE
    assert tally.strays() == []
    found = totals(tally)
    lengths = emission.num_sampled - 1
    void = batch.given == -1
    assert found[Event.LENGTH, -1] == REQUESTS
    for j in range(depth):
        reached = lengths >= j
        assert found[Event.PROPOSAL, j] == REQUESTS
        assert found[Event.TOKEN, j] == (reached & ~void[:, j]).sum()
        assert found[Event.FULL_TARGET, j] == (reached & void[:, j]).sum()
        assert found[Event.RESIDUAL, j] == ((lengths == j) & ~void[:, j]).sum()
    assert found[Event.BONUS, depth] == (lengths == depth).sum()
    assert sum(found.values()) == tally.counts.sum()


@pytest.mark.parametrize("name", ["context", "invalidated"])
def test_every_count_is_that_of_a_plain_loop(name: str) -> None:
    """One request after the other, one event after the other."""
    target, depth = build(name), 4
    batch, emission = requests(target, depth, 0, 301)
    expected: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def note(event: Event, where: str, outcome: int) -> None:
        expected[f"{name}/depth-{depth}/{event.value}/{where}"][int(outcome)] += 1

    def at(j: int, previous: Array) -> str:
        context = int(target.context_of[previous[j - 1]]) if j else 0
        return f"position-{j}/context-{context}"

    for i, request in enumerate(batch.requests.tolist()):
        proposed, tokens, kept = emission.proposed[i], emission.tokens[i], int(emission.num_sampled[i]) - 1
        pattern = target.patterns[request % len(target.patterns)]
        for j in range(depth):
            note(Event.PROPOSAL, at(j, proposed), proposed[j])
        for j in range(kept + 1):
            void = j < depth and invalidated(pattern, depth)[j]
            event = Event.BONUS if j == depth else Event.FULL_TARGET if void else Event.TOKEN
            note(event, at(j, tokens), tokens[j])
            if event is Event.TOKEN and j == kept:
                note(Event.RESIDUAL, at(j, tokens), tokens[j])
        note(Event.LENGTH, pattern, kept)
    tally = tally_of(target, depth, (batch, emission))
    found = {
        cell.id: {int(atom): count for atom, count in zip(cell.atoms, counts, strict=False) if count}
        for cell, counts in zip(tally.cells, tally.histograms(), strict=True)
        if any(counts)
    }
    assert found == expected
    assert len(found) > 10


@pytest.mark.parametrize("name", NAMES)
def test_counts_follow_the_law(name: str) -> None:
    """Expected events a cell: rate times requests, within six sigma of a binomial count, plus one for rare cells."""
    target, depth = build(name), 5
    tally = tally_of(target, depth, requests(target, depth, 0, 20_000))
    for cell, counts in zip(tally.cells, tally.histograms(), strict=True):
        expected = 20_000 * float(cell.rate)
        assert abs(sum(counts) - expected) <= 6 * expected**0.5 + 1, cell.id


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up(name: str) -> None:
    target, depth = build(name), 5
    whole = tally_of(target, depth, requests(target, depth))
    edges = [0, 1, 18, 500, REQUESTS]
    spans = list(itertools.pairwise(edges))
    together = tally_of(target, depth, *(requests(target, depth, first, last) for first, last in spans))
    assert (together.counts == whole.counts).all()
    apart = [tally_of(target, depth, requests(target, depth, first, last)) for first, last in spans]
    assert (np.sum([tally.counts for tally in apart], axis=0) == whole.counts).all()


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_torch_agree(name: str) -> None:
    target, depth = build(name), 4
    batch, emission = requests(target, depth)
    bad = damaged(emission, "tokens", (7, 0), target.vocab)
    for given in (emission, bad):
        one, other = tally_of(target, depth, (batch, given)), tally_of(target, depth, (batch, on_torch(given)))
        assert (one.counts == other.counts).all()
        assert one.breaches == other.breaches
        assert one.strays() == other.strays()


def test_empty_batch() -> None:
    target = build("context")
    tally = tally_of(target, 4, requests(target, 4, 5, 5))
    assert (int(tally.counts.sum()), tally.breaches) == (0, NONE)


def damaged(emission: Emission, field: str, index: Any, value: int) -> Emission:
    """One entry of one field changed."""
    array = getattr(emission, field).copy()
    array[index] = value
    return replace(emission, **{field: array})


def stopped(emission: Emission) -> int:
    """A request whose first draft was rejected."""
    return int(np.flatnonzero(emission.num_sampled == 1)[0])


@pytest.mark.parametrize("put", [pytest.param(lambda e: e, id="numpy"), pytest.param(on_torch, id="torch")])
@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        pytest.param(
            "context",
            lambda e, v: damaged(e, "tokens", (stopped(e), 0), v),
            {"illegal-token": 1},
            id="token-is-the-vocabulary",
        ),
        pytest.param(
            "context",
            lambda e, v: damaged(e, "tokens", (stopped(e), 0), -1),
            {"illegal-token": 1},
            id="token-is-padding",
        ),
        pytest.param(
            "context",
            lambda e, v: damaged(e, "proposed", (3, 3), v),
            {"illegal-token": 1},
            id="draft-is-the-vocabulary",
        ),
        pytest.param(
            "context", lambda e, v: damaged(e, "proposed", (3, 3), -7), {"illegal-token": 1}, id="draft-is-negative"
        ),
        pytest.param("context", lambda e, v: damaged(e, "num_sampled", 3, 0), {"illegal-length": 1}, id="length-0"),
        pytest.param(
            "context", lambda e, v: damaged(e, "num_sampled", 3, 6), {"illegal-length": 1}, id="length-6-of-5"
        ),
        pytest.param(
            "context", lambda e, v: damaged(e, "num_sampled", 3, -9), {"illegal-length": 1}, id="length-negative"
        ),
        pytest.param("context", lambda e, v: damaged(e, "status", 3, 1), {"failed": 1}, id="one-failed"),
        pytest.param("context", lambda e, v: damaged(e, "status", slice(0, 5), -9), {"failed": 5}, id="five-unwritten"),
        pytest.param(
            "equal-q", lambda e, v: damaged(e, "tokens", (3, 0), other(e, 3)), {"draft-not-echoed": 1}, id="not-echoed"
        ),
        pytest.param(
            "disjoint",
            lambda e, v: kept_although_disjoint(e),
            {"unreachable": 2},
            id="a-position-the-law-never-reaches",
        ),
    ],
)
def test_each_breach_has_its_own_name(
    name: str,
    damage: Callable[[Emission, int], Emission],
    expected: dict[str, int],
    put: Callable[[Emission], Emission],
) -> None:
    target = build(name)
    batch, emission = requests(target, 4)
    assert tally_of(target, 4, (batch, put(emission))).breaches == NONE
    tally = tally_of(target, 4, (batch, put(damage(emission, target.vocab))))
    assert tally.breaches == NONE | expected


def other(emission: Emission, i: int) -> int:
    """Another token of the same request's support."""
    token = int(emission.tokens[i, 0])
    return next(int(t) for t in emission.support[i, 0] if t != token)


def kept_although_disjoint(emission: Emission) -> Emission:
    """Request 3 keeps a draft that has no mass: a token and a residual at position 1, where no request can be."""
    found = damaged(emission, "tokens", (3, 0), int(emission.drafts[3, 0]))
    return damaged(damaged(found, "tokens", (3, 1), int(emission.tokens[3, 0])), "num_sampled", 3, 2)


def test_an_impossible_outcome_is_a_stray() -> None:
    target = build("disjoint")
    batch, emission = requests(target, 4)
    token = int(np.flatnonzero(target.weights[0] == 0)[0])
    tally = tally_of(target, 4, (batch, damaged(emission, "tokens", (3, 0), token)))
    assert tally.breaches == NONE
    place = "position-0/context-0"
    strays = tally.strays()
    assert strays == [(f"disjoint/depth-4/{kind}/{place}", token, 1) for kind in ("token", "residual")]
    forbidden = {cell.id: counts[-1] for cell, counts in zip(tally.cells, tally.histograms(), strict=True)}
    assert sum(forbidden.values()) == 2
    assert all(forbidden[cell] == count for cell, _, count in strays)


def test_a_context_no_path_reaches() -> None:
    """Tokens of context 1 have neither weight nor tickets; one that is emitted all the same is seen."""
    vocab = 40
    weights = np.zeros((2, vocab), np.int64)
    weights[:, [0, 2]] = ONE // 2
    logits = np.full((2, vocab), -np.inf, np.float32)
    logits[:, [0, 2]] = 1.0
    target = Target(
        name="even",
        why="odd tokens lead to a context of their own",
        weights=weights,
        draft_logits=logits,
        row_of=np.tile([0, 1], (POSITIONS, 1)),
        context_of=np.arange(vocab) % 2,
    )
    batch, emission = requests(target, 4)
    assert (emission.num_sampled == 5).all()
    assert tally_of(target, 4, (batch, emission)).breaches == NONE
    drafted = damaged(emission, "proposed", (3, 0), 1)  # a stray, and position 1 in context 1
    tally = tally_of(target, 4, (batch, drafted))
    assert tally.breaches == NONE | {"unreachable": 1}
    assert tally.strays() == [("even/depth-4/proposal/position-0/context-0", 1, 1)]
    emitted = damaged(damaged(emission, "drafts", (3, 1), 1), "tokens", (3, 1), 1)
    tally = tally_of(target, 4, (batch, emitted))
    assert tally.breaches == NONE | {"unreachable": 1}
    assert tally.strays() == [("even/depth-4/token/position-1/context-0", 1, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_patterns_are_dealt_in_turn(name: str) -> None:
    target = build(name)
    numbers = np.arange(2**20 - 3, 2**20 + 9)
    dealt = pattern_of(target, numbers)
    assert dealt.tolist() == [n % len(target.patterns) for n in numbers.tolist()]
    batch = sampled_batch(target, 5, 4, SEED, int(numbers[0]), int(numbers[-1]) + 1)
    for given, pattern in zip(batch.given.tolist(), dealt.tolist(), strict=True):
        assert [value == -1 for value in given] == list(invalidated(target.patterns[pattern], 5))
        assert set(given) <= {-1, -2}


def test_cell_probabilities_are_its_shares() -> None:
    cell = Cell(
        event=Event.LENGTH,
        target="t",
        depth=4,
        position=-1,
        context=-1,
        pattern="last",
        atoms=np.array([0, 2]),
        shares=(1, 3),
        rate=Law(build("disjoint")).lengths(4, "none")[0],
    )
    assert cell.probabilities().tolist() == [0.25, 0.75]
    assert cell.id == "t/depth-4/length/last"
