"""Edges of verification: formulas against brute force, the reference and the kernels at each."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from edge_neighbours import ALL, FEW, hold_neighbours

from pp3 import targets
from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Reference
from pp3.harness.exact import edges
from pp3.harness.exact.edges import KINDS, W32, W64, Pair
from pp3.harness.exact.enumeration import differences
from pp3.kernels.reference import ONE, SUPPORT

SMALL = ("disjoint", "invalidated")


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


@pytest.fixture
def one_pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Enumerate a single pair that accepts, rejects and has a residual."""
    (pair,) = (pair for pair in FEW if pair.id == "invalidated/row-2")
    monkeypatch.setattr(edges, "pairs", lambda names=(): iter([pair]))
    return pair


def owner(weights: list[int], w64: int) -> int:
    """The token of w64 by a walk over Python integers."""
    wanted, running = w64 * sum(weights) >> 64, 0
    for token, weight in enumerate(weights):
        running += weight
        if running > wanted:
            return token
    raise AssertionError(w64)


def test_pairs_are_every_row_of_every_target() -> None:
    assert [pair.id for pair in ALL] == [
        f"{name}/row-{row}" for name in targets.NAMES for row in range(len(targets.build(name).weights))
    ]
    for pair in ALL:
        assert pair.weights.sum() == pair.tickets.sum() == ONE
        assert (pair.tickets[pair.drawable] > 0).all()


@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.id)
def test_accepting_words_by_fractions(pair: Pair) -> None:
    """w0 / 2^32 < P / t has ceil(2^32 P / t) solutions, or all 2^32."""
    for place, count in zip(pair.drawable, edges.accepting(pair), strict=True):
        ratio = Fraction(int(pair.weights[pair.ids[place]]), int(pair.tickets[place]))
        assert count == 0 or Fraction(count - 1, W32) < ratio
        assert count == W32 or Fraction(count, W32) >= ratio


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", FEW, ids=lambda pair: pair.id)
def test_ends_by_a_walk(pair: Pair, kind: str) -> None:
    """Each end gives its token, and the word before each start another: so nothing lies between."""
    tokens, words = edges.ends(pair, kind)
    weights = pair.weights.tolist()
    if kind == "residual":
        held = dict(zip(pair.ids.tolist(), pair.tickets.tolist(), strict=True))
        weights = [max(weight - held.get(token, 0), 0) for token, weight in enumerate(weights)]
    assert [owner(weights, word) for word in words] == tokens.tolist()
    assert tokens[::2].tolist() == [token for token, weight in enumerate(weights) if weight]
    assert words[0] == 0
    assert words[-1] == W64 - 1
    assert [after - before for before, after in zip(words[1::2], words[2::2], strict=False)] == [1] * (
        len(words) // 2 - 1
    )


def test_a_pair_that_accepts_everything_has_no_residual() -> None:
    pair = next(pair for pair in ALL if pair.id == "equal-q/row-0")
    tokens, words = edges.ends(pair, "residual")
    assert (len(tokens), words) == (0, [])
    assert set(edges.accepting(pair)) == {W32}
    assert edges._emit(Reference(), pair, "residual", words).tolist() == []


def test_the_size_is_of_what_is_met() -> None:
    """Counted without the ends themselves, once for each choice of targets."""
    ends = sum(len(edges.ends(pair, kind)[1]) for pair in ALL for kind in KINDS)
    assert edges.size() == 33 * sum(len(pair.drawable) for pair in ALL) + ends
    assert edges.size() > edges.size(SMALL) == sum(edges.size((name,)) for name in SMALL)
    before = edges.size.cache_info().misses
    assert edges.size() == edges.size()
    assert edges.size.cache_info().misses == before


def test_ties_cells_and_misses_are_among_the_edges() -> None:
    """None, some and all of w0 accept, and some edge is no quotient of whole numbers."""
    counts = {count for pair in ALL for count in edges.accepting(pair)}
    assert {0, W32} < counts
    assert any(count % (1 << 8) for count in counts - {0, W32})


@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.id)
def test_the_reference_at_every_edge(pair: Pair) -> None:
    assert hold_neighbours(Reference(), pair) >= 2 * len(pair.drawable)


@pytest.mark.parametrize("pair", FEW[::3], ids=lambda pair: pair.id)
def test_the_kernels_at_every_edge(pair: Pair, kernels: Arithmetic) -> None:
    assert hold_neighbours(kernels, pair) >= 2 * len(pair.drawable)


def test_the_enumeration_on_the_reference() -> None:
    found = edges.observe(Reference(), SMALL)
    assert differences(found.values, edges.expect(SMALL)) == []
    assert (found.id, found.claim) == ("edges", edges.CLAIM)
    rows = sum(len(pair.drawable) for pair in FEW)
    assert found.compared == 33 * rows + sum(len(edges.ends(pair, kind)[1]) for pair in FEW for kind in KINDS)
    assert found.compared == edges.size(SMALL)
    assert set(found.values) == {f"{pair.id}/{what}" for pair in FEW for what in ("accepting", *KINDS)}


def test_the_enumeration_on_the_kernels(one_pair: Pair, kernels: Arithmetic) -> None:
    """Bisection of all 32 drafts at once."""
    found = edges.observe(kernels)
    assert differences(found.values, edges.expect()) == []
    assert found.values[f"{one_pair.id}/accepting"] == edges.accepting(one_pair)


@pytest.mark.parametrize("edge", [0, 1, 2, 1 << 31, W32 - 1, W32], ids=lambda edge: f"edge-{edge}")
def test_bisection_finds_any_edge(edge: int, one_pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that accepts below a chosen number, and is never asked for w0 beyond 2^32 - 1."""
    asked: list[int] = []

    def rounds(backend: Arithmetic, pair: Pair, drafts: Any, w0: Any, w64: list[int]) -> Any:
        asked.extend(w0.tolist())
        return np.where(w0 < edge, 2, 1)

    monkeypatch.setattr(edges, "_rounds", rounds)
    assert edges._bisect(Reference(), one_pair) == [edge] * SUPPORT
    assert 0 <= min(asked) <= max(asked) < W32
    assert {max(edge - 1, 0), min(edge, W32 - 1)} <= set(asked)


@pytest.mark.soak
@pytest.mark.parametrize("pair", ALL, ids=lambda pair: pair.id)
def test_the_kernels_at_every_edge_of_every_target(pair: Pair, kernels: Arithmetic) -> None:
    """Without the bisection between them."""
    hold_neighbours(kernels, pair)


@pytest.mark.soak
def test_every_edge_of_every_target_on_the_reference() -> None:
    assert differences(edges.observe(Reference()).values, edges.expect()) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL)
def test_every_edge_of_the_small_targets_on_the_kernels(name: str, kernels: Arithmetic) -> None:
    assert differences(edges.observe(kernels, (name,)).values, edges.expect((name,))) == []


@pytest.mark.gpu
def test_every_edge_of_every_target_on_a_gpu() -> None:
    assert differences(edges.observe(backends.start(Backend.CUDA)).values, edges.expect()) == []


def test_the_small_targets_are_those_named() -> None:
    assert {pair.id.partition("/")[0] for pair in FEW} == set(SMALL)
