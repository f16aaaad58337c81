"""What requests have in common: against plain loops, in NumPy and torch, whatever the size of a launch."""

import itertools
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from neighbour_loops import DEPTH, LENGTH, VOCAB, added, cell, cells_of, counted, one_by_one, one_by_one_repeats

from pp3.harness import neighbours
from pp3.harness.cells import Event
from pp3.harness.dependence import LAGS, ROUNDS, WINDOW
from pp3.harness.neighbours import NONE, Neighbours, pairs_in, stretches_in

SIZES = (0, 1, 2, 255, 256, 65_535, 65_536, 65_537, 200_000)
SMALL = 256  # a window of which there are several in a test
Array = npt.NDArray[np.int64]
Counts = dict[tuple[str, int], int]  # by cell and code


def drawn(rng: np.random.Generator, n: int, vocab: int = VOCAB) -> tuple[Array, Array]:
    """Tokens and lengths, one in fifty of which does not count."""
    tokens, kept = rng.integers(0, vocab, n), rng.integers(0, DEPTH + 1, n)
    tokens[rng.random(n) < 0.02] = NONE
    kept[rng.random(n) < 0.02] = NONE
    return tokens, kept


@pytest.mark.parametrize("n", [0, 1, 2, 3, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL + 100])
@pytest.mark.parametrize("classes", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("vocab", [2, VOCAB])
def test_counts_are_those_of_a_plain_loop(
    n: int, classes: int, vocab: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In NumPy and torch, in one launch, with tokens so few that stretches repeat and so many that they do not."""
    monkeypatch.setattr(neighbours, "WINDOW", SMALL)
    tokens, kept = drawn(rng, n, vocab)
    first = int(rng.integers(0, 10**6))
    expected = one_by_one(tokens, kept, classes, first, SMALL)
    for as_torch in (False, True):
        assert added(tokens, kept, classes, first, [0, n], as_torch) == expected


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("as_torch", [False, True], ids=["numpy", "torch"])
def test_launches_of_any_size_count_the_same(
    classes: int, as_torch: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, none at all, as many as a window, one more, and several windows in one."""
    monkeypatch.setattr(neighbours, "WINDOW", SMALL)
    n = 4 * SMALL + 37
    tokens, kept = drawn(rng, n, 3)
    whole = added(tokens, kept, classes, 5, [0, n], as_torch)
    splits = [
        [*range(60), 60, n],
        [0, 0, SMALL, SMALL, 2 * SMALL, n, n],
        [0, SMALL + 1, 2 * SMALL + 2, n],
        [0, SMALL - 1, 3 * SMALL + 1, n],
        [0, *sorted(rng.integers(0, n, 20).tolist()), n],
    ]
    for edges in splits:
        assert added(tokens, kept, classes, 5, edges, as_torch) == whole


def test_after_a_flush_a_window_begins(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two halves, with a flush between them, count as two runs."""
    monkeypatch.setattr(neighbours, "WINDOW", SMALL)
    n, middle, cells = 2 * SMALL + 50, SMALL + 13, cells_of(3)
    tokens, kept = drawn(rng, n, 3)
    taker = Neighbours(cells, 3, DEPTH)
    parts = taker.add(np, 0, tokens[:middle], kept[:middle]) + taker.rest(np)
    parts += taker.add(np, middle, tokens[middle:], kept[middle:]) + taker.rest(np)
    expected = one_by_one(tokens[:middle], kept[:middle], 3, 0, SMALL)
    for key, count in one_by_one(tokens[middle:], kept[middle:], 3, middle, SMALL).items():
        expected[key] += count
    assert counted(cells, parts) == expected
    assert taker.rest(np) == []


@pytest.mark.parametrize("n", SIZES)
def test_pairs_in_is_what_is_counted(n: int) -> None:
    """At the window's own size, by masks over places."""
    tokens, kept = np.zeros(n, np.int64), np.zeros(n, np.int64)
    found = added(tokens, kept, 1, 0, [0, n], False)
    place = np.arange(n) % WINDOW
    size = np.where(np.arange(n) // WINDOW == n // WINDOW, n % WINDOW, WINDOW)
    for lag in LAGS:
        expected = int(((place // lag % 2 == 0) & (place + lag < size)).sum())
        assert pairs_in(n, lag) == expected == found.get((f"t/depth-4/match/requests-{lag}/class-0", 1), 0)
        assert found.get((f"t/depth-4/match/requests-{lag}/class-0", 0), 0) == 0
    pairs = sum(count for (name, _), count in found.items() if "/pair/" in name)
    lengths = sum(count for (name, _), count in found.items() if "/length-pair/" in name)
    assert pairs == lengths == pairs_in(n, 1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("length", [1, LENGTH, 21, 512])
def test_stretches_in_is_what_is_counted(n: int, length: int, rng: np.random.Generator) -> None:
    taker = Neighbours([cell(Event.REPEAT, f"stretches-of-{length}")], 1, DEPTH)
    tokens = rng.integers(0, 1 << 40, n)  # so many that none repeats
    parts = taker.add(np, 0, tokens, tokens) + taker.rest(np)
    assert sum(int(mask.sum()) for mask, _, _ in parts) == stretches_in(n, length)
    assert not any(code.any() for _, _, code in parts)


def test_pairs_are_disjoint_and_as_far_apart_as_they_say() -> None:
    """Each place is in at most one pair of a lag."""
    for size, lag in itertools.product((1, 2, 7, 128, 255, 256, 300), LAGS):
        places = np.arange(size)
        one, other = (neighbours._pairs(np, places, lag, which) for which in (0, 1))
        assert (other - one == lag).all()
        assert len(set(one.tolist()) | set(other.tolist())) == 2 * len(one)


@pytest.mark.parametrize("as_torch", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize(
    ("source", "place", "repeats"),
    [
        pytest.param(0, 20 * LENGTH, 2, id="aligned-both"),
        pytest.param(3 * LENGTH, 30 * LENGTH + 3, 1, id="copied-to-an-unaligned-place"),
        pytest.param(3 * LENGTH + 2, 30 * LENGTH, 1, id="copied-from-an-unaligned-place"),
        pytest.param(2 * LENGTH, 3 * LENGTH, 2, id="side-by-side"),
        pytest.param(WINDOW - 2 * LENGTH - WINDOW % LENGTH, 0, 2, id="at-the-ends-of-a-window"),
        pytest.param(0, WINDOW + LENGTH, 0, id="in-another-window"),
    ],
)
def test_a_planted_stretch_is_found(
    source: int, place: int, repeats: int, as_torch: bool, rng: np.random.Generator
) -> None:
    """Stretches are looked at side by side, at any distance from their like, within a window."""
    tokens = rng.integers(0, 1 << 40, 2 * WINDOW)
    kept = np.zeros(len(tokens), np.int64)
    clean = added_repeats(tokens, kept, as_torch)
    assert clean == 0
    tokens[place : place + LENGTH] = tokens[source : source + LENGTH]
    assert added_repeats(tokens, kept, as_torch) == repeats


def test_any_copy_of_nearly_two_stretches_holds_one(rng: np.random.Generator) -> None:
    """From and to any place: 2 L - 1 tokens always hold a whole one of the stretches side by side."""
    kept = np.zeros(600, np.int64)
    for source, place in itertools.product(range(LENGTH), range(300, 300 + LENGTH)):
        tokens = rng.integers(0, 1 << 40, 600)
        tokens[place : place + 2 * LENGTH - 1] = tokens[source : source + 2 * LENGTH - 1]
        assert added_repeats(tokens, kept, False) >= 1


def added_repeats(tokens: Array, kept: Array, as_torch: bool) -> int:
    """Repeats of these tokens."""
    cells = [cell(Event.REPEAT, f"stretches-of-{LENGTH}")]
    taker, xp = Neighbours(cells, 1, DEPTH), torch if as_torch else np
    given = (torch.tensor(tokens), torch.tensor(kept)) if as_torch else (tokens, kept)
    parts = taker.add(xp, 0, *given) + taker.rest(xp)
    return counted(cells, parts).get((cells[0].id, 1), 0)


@pytest.mark.parametrize("as_torch", [False, True], ids=["numpy", "torch"])
def test_stretches_of_equal_sums_are_told_apart(as_torch: bool) -> None:
    """All orders of the same tokens, and stretches that differ by a power of two in one place."""
    orders = [token for order in itertools.islice(itertools.permutations(range(LENGTH)), 5040) for token in order]
    tokens = np.array(orders, np.int64)
    aligned = len(tokens) // LENGTH
    assert added_repeats(tokens + 0, np.zeros(len(tokens), np.int64), as_torch) == one_by_one_repeats(tokens)
    powers = np.zeros((62, LENGTH), np.int64)
    powers[:, 0], powers[:, -1] = 1 << np.arange(62), -(1 << np.arange(62)) + (1 << 62)
    powers[:, 1:-1] = np.arange(62 * (LENGTH - 2)).reshape(62, -1) + (1 << 50)
    assert added_repeats(powers.ravel(), np.zeros(powers.size, np.int64), as_torch) == 0
    assert aligned == 5040


def launch(slots: Array, spare: int, identities: Array | None, as_torch: bool) -> Any:
    """A batch of which only slots and identities are looked at."""
    put = torch.tensor if as_torch else np.asarray
    kind = type("Tensors", (), {"identities": None} if identities is not None else {})
    tensors = kind()
    tensors.slots, tensors.num_slots = put(slots), len(slots) + spare
    if identities is not None:
        tensors.identities = put(identities)
    return SimpleNamespace(target=SimpleNamespace(tables=None), tensors=tensors)


@pytest.mark.parametrize("as_torch", [False, True], ids=["numpy", "torch"])
def test_rows_slots_and_identities(as_torch: bool, rng: np.random.Generator) -> None:
    """Rows and slots of every other launch with the one before it, if both are of one size; identities in each."""
    cells, n, spare = cells_of(1), 60, 9
    taker, xp = Neighbours(cells, 1, DEPTH), torch if as_torch else np
    put = torch.tensor if as_torch else np.asarray
    expected: Counts = defaultdict(int)
    parts = []
    before: tuple[list[int], dict[int, int], dict[int, int]] | None = None
    for size in (n, n, n, n, 30, n, n):
        slots = rng.permutation(size + spare)[:size]
        identities = rng.permutation(10 * size)[:size]
        tokens = rng.integers(0, 3, size)
        tokens[rng.random(size) < 0.1] = NONE
        second = rng.integers(NONE, 3, size)
        parts += taker.rounds_of(xp, launch(slots, spare, identities, as_torch), put(tokens), put(second))
        by_slot = dict(zip(slots.tolist(), tokens.tolist(), strict=True))
        if before is None or len(before[0]) != size:
            before = (tokens.tolist(), by_slot, dict(zip(slots.tolist(), second.tolist(), strict=True)))
        else:
            note(expected, "rows", list(zip(before[0], tokens.tolist(), strict=True)))
            note(expected, "slots", [(before[1][slot], by_slot[slot]) for slot in before[1].keys() & by_slot.keys()])
            note(expected, "carried", [(before[2][slot], by_slot[slot]) for slot in before[2].keys() & by_slot.keys()])
            before = None
        ordered = [token for _, token in sorted(zip(identities.tolist(), tokens.tolist(), strict=True))]
        note(expected, "identities", list(zip(ordered[::2], ordered[1::2], strict=False)))
    found = counted(cells, parts)
    assert found == expected
    assert {name.rpartition("/class")[0].rpartition("/")[2] for name, _ in found} == set(ROUNDS)


def note(expected: Counts, name: str, pairs: list[tuple[int, int]]) -> None:
    """Pairs of tokens that both count."""
    for one, other in pairs:
        if NONE not in (one, other):
            expected[f"t/depth-4/round-match/{name}/class-0", int(one == other)] += 1


def test_a_batch_without_slots_has_no_rounds(rng: np.random.Generator) -> None:
    """Our own campaigns have neither slots nor cells for them; and no cells, nothing is kept."""
    tokens = rng.integers(0, 9, 50)
    bare: Any = SimpleNamespace(target=SimpleNamespace())
    assert Neighbours(cells_of(1), 1, DEPTH).rounds_of(np, bare, tokens, tokens) == []
    idle = Neighbours([], 1, DEPTH)
    assert not idle.wanted
    assert idle.add(np, 0, tokens, tokens) == idle.rest(np) == []
