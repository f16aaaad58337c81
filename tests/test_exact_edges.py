"""Edges of verification: formulas against brute force, the reference and the kernels at each, and planted faults."""

import inspect
import types
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3 import targets
from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Reference
from pp3.harness.exact import edges
from pp3.harness.exact.edges import KINDS, W32, W64, Pair
from pp3.harness.exact.enumeration import differences
from pp3.kernels import reference
from pp3.kernels.reference import ONE, SUPPORT

SMALL = ("disjoint", "invalidated")
ALL = tuple(edges.pairs())
FEW = tuple(pair for pair in ALL if len(pair.weights) < 128)


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


@pytest.fixture
def two_pairs(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """Enumerate one pair that shares no token, and one that accepts, rejects and has a residual."""
    some = [pair for pair in FEW if pair.id in ("disjoint/row-0", "invalidated/row-2")]
    monkeypatch.setattr(edges, "pairs", lambda names=(): iter(some))
    return some


@pytest.fixture
def one_pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Enumerate a single pair that accepts, rejects and has a residual."""
    (pair,) = (pair for pair in FEW if pair.id == "invalidated/row-2")
    monkeypatch.setattr(edges, "pairs", lambda names=(): iter([pair]))
    return pair


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


def owner(weights: list[int], w64: int) -> int:
    """The token of w64 by a walk over Python integers."""
    wanted, running = w64 * sum(weights) >> 64, 0
    for token, weight in enumerate(weights):
        running += weight
        if running > wanted:
            return token
    raise AssertionError(w64)


def hold_neighbours(backend: Arithmetic, pair: Pair) -> int:
    """Each draft's edge and the w0 below it, each interval's two ends: how many were met."""
    places, counts = pair.drawable, np.array(edges.accepting(pair))
    drafts = pair.ids[places]
    asked = [(drafts[counts > 0], counts[counts > 0] - 1, 2), (drafts[counts < W32], counts[counts < W32], 1)]
    met = 0
    for which, w0, length in asked:
        if len(which):
            assert (edges._rounds(backend, pair, which, w0, [0] * len(which)) == length).all(), pair.id
            met += len(which)
    for kind in KINDS:
        tokens, words = edges.ends(pair, kind)
        assert edges._emit(backend, pair, kind, words).tolist() == tokens.tolist(), (pair.id, kind)
        met += len(words)
    return met


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


class Spoilt(Reference):
    """The reference with one ticket moved in what the verifier is handed."""

    def verify(self, target_probs: Any, draft_ids: Any, support: Any, tickets: Any, *rest: Any) -> Any:
        tickets = tickets.copy()
        tickets[..., 0] += 1
        tickets[..., 1] -= 1
        return reference.verify(target_probs, draft_ids, support, tickets, *rest)


class Failing(Reference):
    """The reference that fails the rounds it accepts, or those it rejects; their tokens and lengths stay if `kept`."""

    def __init__(self, length: int, kept: bool) -> None:
        self.length, self.kept = length, kept

    def verify(self, *given: Any) -> Any:
        found = reference.verify(*given)
        failed = found.num_sampled == self.length
        if not self.kept:
            found = found._replace(num_sampled=np.where(failed, 0, found.num_sampled))
        return found._replace(status=np.where(failed, reference.FAILED, found.status))


class Lengthened(Reference):
    """The reference that counts one token too many where it emits one."""

    def verify(self, *given: Any) -> Any:
        found = reference.verify(*given)
        return found._replace(num_sampled=np.where(found.num_sampled == 1, 2, found.num_sampled))


FAULTS: dict[str, tuple[Any, str]] = {
    "one ticket moved": (Spoilt, "accepting"),
    "accepted rounds fail": (lambda: Failing(2, kept=False), "accepting"),
    "accepted rounds fail with their tokens": (lambda: Failing(2, kept=True), "bonus"),
    "rejected rounds fail": (lambda: Failing(1, kept=False), "accepting"),
    "rejected rounds fail with their tokens": (lambda: Failing(1, kept=True), "residual"),
    "a length too many beside a full target": (Lengthened, "full-target"),
    "less or equal for less": (lambda: mutant("* mass < quanta << 8", "* mass <= quanta << 8"), "accepting"),
    "acceptance shifted by one": (
        lambda: mutant("w0.astype(np.int64) * mass <", "(w0.astype(np.int64) + 1) * mass <"),
        "accepting",
    ),
    "acceptance by the low bits of a ticket": (
        lambda: mutant("* mass < quanta << 8", "* (mass & ~1 | 1) < quanta << 8"),
        "accepting",
    ),
    "the residual shifted by one": (lambda: mutant("beyond = running > wanted", "beyond = running >= wanted"), "bonus"),
    "the residual's floor raised": (
        lambda: mutant(
            "    low, high = np.zeros(len(row)", "    wanted = wanted + 1\n    low, high = np.zeros(len(row)"
        ),
        "residual",
    ),
    "an invalidated draft treated as rejected": (
        lambda: mutant("emit_at[invalidated] = j", "emit_at[invalidated], rejected = j, rejected | invalidated"),
        "full-target",
    ),
    "a rejected draft treated as invalidated": (
        lambda: mutant("rejected |= alive & ~keep", "rejected |= False"),
        "residual",
    ),
    "a word shared by acceptance and residual": (
        lambda: mutant("block[:, 1].astype(np.uint64)", "block[:, 0].astype(np.uint64)"),
        "residual",
    ),
    "the halves of w64 exchanged": (
        lambda: mutant("block[:, 1].astype(np.uint64) | block[:, 2]", "block[:, 2].astype(np.uint64) | block[:, 1]"),
        "full-target",
    ),
    "a word shared by the last draft and the bonus": (
        lambda: mutant(
            "positions[who] + emit_at[who].astype(np.uint64))",
            "positions[who] + np.minimum(emit_at[who], depth - 1).astype(np.uint64))",
        ),
        "bonus",
    ),
    "a bonus of the wrong row": (
        lambda: mutant("_emit(rows, row[who, emit_at[who]],", "_emit(rows, row[who, 0],"),
        "bonus",
    ),
    "a residual of P where Q is larger": (
        lambda: mutant("np.minimum(rows.quanta[row[:, None], np.maximum(support, 0)], ", "np.multiply(1, "),
        "residual",
    ),
}


@pytest.mark.usefixtures("two_pairs")
@pytest.mark.parametrize(("plant", "what"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen(plant: Any, what: str) -> None:
    """In the integers that it is about."""
    wrong = differences(edges.observe(plant()).values, edges.expect())
    assert [line for line in wrong if f"/{what}" in line]


@pytest.mark.parametrize(("plant", "what"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen_by_the_short_form(plant: Any, what: str, two_pairs: list[Pair]) -> None:
    """What runs on every pair catches it, too."""
    backend = plant()
    with pytest.raises((AssertionError, IndexError)):
        assert sum(hold_neighbours(backend, pair) for pair in two_pairs)


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
