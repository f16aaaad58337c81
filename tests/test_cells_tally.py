"""Counting: cells tile the requests, every count is a plain loop's, parts add up, NumPy and torch agree."""

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tallied import REQUESTS, SEED, damaged, on_torch, requests, tally_of

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import BUCKETS, LAGS
from pp3.harness.design import cells_of
from pp3.harness.neighbours import pairs_in, stretches_in
from pp3.harness.oracle import Law
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.tally import BREACHES, Tally, pattern_of
from pp3.targets import NAMES, Target, build, invalidated

Array = npt.NDArray[Any]
NONE = dict.fromkeys(BREACHES, 0)
BETWEEN = (Event.PAIR, Event.LENGTH_PAIR, Event.REPEAT)  # and matches that have no position: of requests, not of one


def between(cell: Cell) -> bool:
    """Whether a cell counts pairs or stretches of requests, and not one request."""
    return cell.event in BETWEEN or (cell.event is Event.MATCH and cell.position < 0)


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
        assert found[Event.RECOVERY, j] == found[Event.RESIDUAL, j]
        assert found[Event.KEPT, j] == ((lengths > j) & ~void[:, j]).sum()
        assert found[Event.ACCEPT, j] == found[Event.TOKEN, j]
    for j in range(1, depth + 1):
        live = ~void[:, j] if j < depth else np.ones(REQUESTS, np.bool_)
        assert found[Event.PREFIX, j] == found[Event.MATCH, j] == ((lengths >= j) & live).sum()
    assert found[Event.MATCH, -1] == sum(pairs_in(REQUESTS, lag) for lag in LAGS)
    assert found[Event.PAIR, -1] == found[Event.LENGTH_PAIR, -1] == REQUESTS // 2
    assert found[Event.BONUS, depth] == (lengths == depth).sum()
    assert sum(found.values()) == tally.counts.sum()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", [0, 7])
def test_every_count_is_that_of_a_plain_loop(name: str, first: int) -> None:
    """One request after the other, one event after the other."""
    target, depth, last = build(name), 4, first + 301
    batch, emission = requests(target, depth, first, last)
    tally = tally_of(target, depth, (batch, emission))
    expected = one_by_one(target, depth, batch, emission) | across(target, depth, batch, emission, tally.cells)
    found = {
        cell.id: {int(atom): count for atom, count in zip(cell.atoms, counts, strict=False) if count}
        for cell, counts in zip(tally.cells, tally.histograms(), strict=True)
        if any(counts)
    }
    assert found == expected
    assert len(found) > 10


Expected = dict[str, dict[int, int]]


def counted() -> Expected:
    """No counts yet."""
    return defaultdict(lambda: defaultdict(int))


def one_by_one(target: Target, depth: int, batch: Batch, emission: Emission) -> Expected:
    """What each request is by itself."""
    expected, cells = counted(), {cell.id: cell for cell in cells_of(target, depth)}

    def note(event: Event, where: str, outcome: int) -> str:
        name = f"{target.name}/depth-{depth}/{event.value}/{where}"
        expected[name][int(outcome)] += 1
        return name

    def table(event: Event, where: str, one: int, other: int) -> None:
        maps = cells[f"{target.name}/depth-{depth}/{event.value}/{where}"].maps
        note(event, where, int(maps[0][one]) * BUCKETS + int(maps[1][other]))

    def at(j: int, previous: Array) -> str:
        context = int(target.context_of[previous[j - 1]]) if j else 0
        return f"position-{j}/context-{context}"

    for i, request in enumerate(batch.requests.tolist()):
        proposed, tokens, kept = emission.proposed[i], emission.tokens[i], int(emission.num_sampled[i]) - 1
        drafts = emission.drafts[i]
        pattern = target.patterns[request % len(target.patterns)]
        void = (*invalidated(pattern, depth), False)
        for j in range(depth):
            note(Event.PROPOSAL, at(j, proposed), proposed[j])
        for j in range(kept + 1):
            event = Event.BONUS if j == depth else Event.FULL_TARGET if void[j] else Event.TOKEN
            note(event, at(j, tokens), tokens[j])
            if event is Event.TOKEN:
                note(Event.ACCEPT, at(j, tokens), 2 * drafts[j] + (kept > j))
                if j < kept:
                    note(Event.KEPT, at(j, tokens), drafts[j])
                else:
                    note(Event.RESIDUAL, at(j, tokens), tokens[j])
                    table(Event.RECOVERY, at(j, tokens), drafts[j], tokens[j])
            if j and not void[j]:
                table(Event.PREFIX, at(j, tokens), tokens[j - 1], tokens[j])
                note(Event.MATCH, f"positions/{at(j, tokens)}", tokens[j - 1] == tokens[j])
        note(Event.LENGTH, pattern, kept)
    return expected


def across(target: Target, depth: int, batch: Batch, emission: Emission, cells: list[Cell]) -> Expected:
    """What requests have in common, of one window: place i is paired with i + lag where i // lag is even."""
    expected, classes = counted(), len(target.patterns)
    maps = {cell.id: cell.maps for cell in cells if cell.event is Event.PAIR}
    start = f"{target.name}/depth-{depth}"
    tokens, kept = emission.tokens[:, 0].tolist(), (emission.num_sampled - 1).tolist()
    for i, request in enumerate(batch.requests.tolist()):
        for lag in (lag for lag in LAGS if i // lag % 2 == 0 and i + lag < len(batch)):
            where = f"requests-{lag}/class-{request % classes}"
            expected[f"{start}/match/{where}"][int(tokens[i] == tokens[i + lag])] += 1
            if lag == 1:
                one, other = maps[f"{start}/pair/{where}"]
                code = int(one[tokens[i]]) * BUCKETS + int(other[tokens[i + 1]])
                expected[f"{start}/pair/{where}"][code] += 1
                expected[f"{start}/length-pair/{where}"][kept[i] * (depth + 1) + kept[i + 1]] += 1
    for cell in (cell for cell in cells if cell.event is Event.REPEAT):
        length = int(cell.pattern.removeprefix("stretches-of-"))
        stretches = [tokens[i : i + length] for i in range(len(tokens) - length + 1)]
        for i in range(0, len(stretches), length):
            expected[cell.id][int(stretches.count(stretches[i]) > 1)] += 1
    return expected


@pytest.mark.parametrize("name", NAMES)
def test_counts_follow_the_law(name: str) -> None:
    """Expected events a cell: rate times requests, within six sigma of a binomial count, plus one for rare cells.

    Of pairs and stretches all classes together: how many begin in each follows from the request numbers.
    """
    target, depth, n = build(name), 5, 20_000
    tally = tally_of(target, depth, requests(target, depth, 0, n))
    pairs: dict[str, float] = defaultdict(float)
    for cell, counts in zip(tally.cells, tally.histograms(), strict=True):
        expected = n * float(cell.rate)
        if between(cell):
            pairs[cell.id.partition("/class-")[0]] += sum(counts) - expected
        else:
            assert abs(sum(counts) - expected) <= 6 * expected**0.5 + 1, cell.id
    assert len(pairs) >= len(LAGS) + 1
    assert all(abs(off) <= 2 * max(LAGS) for off in pairs.values())  # what is left over at the end of a window


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up(name: str) -> None:
    target, depth = build(name), 5
    whole = tally_of(target, depth, requests(target, depth))
    edges = [0, 1, 18, 500, REQUESTS]
    spans = list(itertools.pairwise(edges))
    together = tally_of(target, depth, *(requests(target, depth, first, last) for first, last in spans))
    assert together.histograms() == whole.histograms()
    apart = [tally_of(target, depth, requests(target, depth, first, last)) for first, last in spans]
    single = np.repeat([not between(cell) for cell in whole.cells], whole.width)
    whole.flush()
    for tally in apart:
        tally.flush()
    assert (np.sum([tally.counts for tally in apart], axis=0) == whole.counts)[single].all()


def test_pairs_are_made_within_a_part_alone() -> None:
    """A flush begins a window: that of a campaign's first half ends with it."""
    target, depth, edges = build("sparse-tail"), 4, [0, 1, 18, 500, REQUESTS]
    tally = Tally(target, depth, cells_of(target, depth))
    for first, last in itertools.pairwise(edges):
        tally.add(*requests(target, depth, first, last))
        tally.flush()
    parts = [last - first for first, last in itertools.pairwise(edges)]
    for cell, counts in zip(tally.cells, tally.histograms(), strict=True):
        name = cell.pattern.partition("/")[0]
        if cell.event is Event.REPEAT:
            length = int(name.removeprefix("stretches-of-"))
            assert sum(counts) == sum(stretches_in(part, length) for part in parts) < stretches_in(REQUESTS, length)
        elif between(cell):
            lag = int(name.removeprefix("requests-"))
            assert sum(counts) == sum(pairs_in(part, lag) for part in parts)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_torch_agree(name: str) -> None:
    target, depth = build(name), 4
    batch, emission = requests(target, depth)
    bad = damaged(emission, "tokens", (7, 0), target.vocab)
    for given in (emission, bad):
        one, other = tally_of(target, depth, (batch, given)), tally_of(target, depth, (batch, on_torch(given)))
        assert one.histograms() == other.histograms()
        assert one.breaches == other.breaches
        assert one.strays() == other.strays()


def test_empty_batch() -> None:
    target = build("context")
    tally = tally_of(target, 4, requests(target, 4, 5, 5))
    assert (int(tally.counts.sum()), tally.breaches) == (0, NONE)


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
