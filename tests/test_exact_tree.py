"""The decision tree: its leaves, a second implementation of a round, the kernels on a slice, and planted faults."""

import inspect
import itertools
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest

from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Reference
from pp3.harness.exact import tree
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.tree import DEPTHS, KEY, VOCAB, W32, Tree
from pp3.harness.inversion import invert
from pp3.kernels import reference
from pp3.kernels.addressing import words

TREES = {depth: Tree(depth) for depth in DEPTHS}
STRIDES = {4: 23, 5: 37}  # coprime with every period of the leaves
W64 = 1 << 64


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


def by_hand(whole: Tree) -> list[list[int]]:
    """Every round of a tree in Python integers, one at a time, from the rule of semantics section 3."""
    chosen = np.array([leaf.chosen for leaf in whole.leaves], np.uint64)
    block = np.zeros((len(chosen), 4), np.uint32)
    block[:, 0] = [whole._w0(leaf) for leaf in whole.leaves]
    block[:, 1] = [whole._w64(leaf) & 0xFFFFFFFF for leaf in whole.leaves]
    block[:, 2] = [whole._w64(leaf) >> 32 for leaf in whole.leaves]
    rounds, positions = invert(block, KEY)
    keys = np.full(len(chosen), KEY, np.uint64)
    blocks = [words(keys, rounds, positions - chosen + np.uint64(j)).tolist() for j in range(whole.depth + 1)]
    found = []
    for number, leaf in enumerate(whole.leaves):
        rows = whole._rows(leaf).tolist()
        out: list[int] = []
        for j in range(whole.depth + 1):
            weights, (w0, low, high, _) = rows[j], blocks[j][number]
            void = j == whole.depth or leaf.void[j]
            if not whole.sampled[number]:
                token = weights.index(max(weights))
                out.append(token)
                if void or token != whole.drafts[j]:
                    break
                continue
            if not void:
                draft = int(whole.drafts[j])
                shares = dict(zip(whole.ids[j].tolist(), whole.tickets[j].tolist(), strict=True))
                if w0 * shares[draft] < weights[draft] << 32:
                    out.append(draft)
                    continue
                left = [max(weight - shares.get(token, 0), 0) for token, weight in enumerate(weights)]
                weights = left if any(left) else weights
            wanted = (low | high << 32) * sum(weights) >> 64
            out.append(next(t for t, running in enumerate(itertools.accumulate(weights)) if running > wanted))
            break
        found.append(out)
    return found


def run(backend: Any, depth: int) -> tuple[list[list[int]], list[int]]:
    """Tokens and lengths of the whole tree of a depth."""
    tokens, lengths = TREES[depth].run(backend)
    return tokens.tolist(), lengths.tolist()


@pytest.fixture(scope="module")
def right() -> dict[int, tuple[list[list[int]], list[int]]]:
    """What the reference emits on both trees."""
    return {depth: run(Reference(), depth) for depth in DEPTHS}


@pytest.mark.parametrize(("depth", "count"), [(4, 3840), (5, 9216)])
def test_leaves_are_all_combinations(depth: int, count: int) -> None:
    """Void patterns, chosen position or bonus, six w0, four w64, both continuations."""
    whole = TREES[depth]
    assert len(whole.leaves) == len(set(whole.leaves)) == count == 2**depth * (depth + 1) * 6 * 4 * 2
    assert {leaf.w64 for leaf in whole.leaves} == {0, whole.cuts[0] - 1, whole.cuts[0], W64 - 1}
    assert len({leaf.void for leaf in whole.leaves}) == 2**depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_words_stand_at_the_edge_of_their_own_position(depth: int) -> None:
    whole = TREES[depth]
    for leaf in whole.leaves:
        edge = whole.edges[min(leaf.chosen, depth - 1)]
        assert whole._w0(leaf) in (0, 1, edge - 1, edge, edge + 1, W32 - 1)
    assert all(edge - 1 > 1 and edge + 1 < W32 - 1 for edge in whole.edges)
    for j, edge in enumerate(whole.edges):
        mass, kept = int(whole.kept[j, whole.drafts[j]]), int(whole.split[j, whole.drafts[j]])
        assert (edge - 1) * mass < kept << 32 <= edge * mass


@pytest.mark.parametrize("depth", DEPTHS)
def test_words_stand_on_both_sides_of_the_cut_of_their_own_position(depth: int) -> None:
    """Where the residual of a split row turns from its first token, a third of its mass, to its second."""
    whole = TREES[depth]
    for leaf in whole.leaves:
        cut = whole.cuts[min(leaf.chosen, depth - 1)]
        assert whole._w64(leaf) == {whole.cuts[0] - 1: cut - 1, whole.cuts[0]: cut}.get(leaf.w64, leaf.w64)
    assert all(1 < cut < W64 - 1 for cut in whole.cuts)
    for j, cut in enumerate(whole.cuts):
        left = np.maximum(whole.split[j] - whole.kept[j], 0).tolist()
        first, second = (weight for weight in left if weight)
        assert first == sum(left) // 3 < second
        assert (cut - 1) * sum(left) >> 64 < first <= cut * sum(left) >> 64


@pytest.mark.parametrize("depth", DEPTHS)
def test_both_tokens_of_each_residual_are_emitted(depth: int, right: Any) -> None:
    """The lower up to its cut, the higher from it on."""
    whole, (tokens, lengths) = TREES[depth], right[depth]
    emitted: dict[tuple[int, bool], set[int]] = {}
    for leaf, on, row, length in zip(whole.leaves, whole.sampled, tokens, lengths, strict=True):
        j = leaf.chosen
        if on and j < depth and leaf.w0 == W32 - 1 and not any(leaf.void[: j + 1]):
            assert length == j + 1
            emitted.setdefault((j, leaf.w64 >= whole.cuts[0]), set()).add(row[j])
    after = [sorted(((draft + 1) % VOCAB, (draft + 2) % VOCAB)) for draft in whole.drafts.tolist()]
    assert emitted == {(j, beyond): {after[j][beyond]} for j in range(depth) for beyond in (False, True)}


@pytest.mark.parametrize("depth", DEPTHS)
def test_rows_are_laws(depth: int) -> None:
    whole = TREES[depth]
    for rows in (whole.kept, whole.split, whole.missed):
        assert rows.shape == (depth + 1, VOCAB)
        assert (rows.sum(axis=1) == 1 << 24).all()
    for j in range(depth):
        assert whole.missed[j, whole.drafts[j]] == 0 < whole.split[j, whole.drafts[j]] < whole.kept[j, whole.drafts[j]]


@pytest.mark.parametrize("depth", DEPTHS)
def test_every_branch_is_met(depth: int) -> None:
    """Sampled and not: each length."""
    whole = TREES[depth]
    met = Counter(zip(whole.lengths().tolist(), whole.sampled.tolist(), strict=True))
    assert set(met) == {(length, on) for length in range(1, depth + 2) for on in (True, False)}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("on", [True, False], ids=["sampled", "temperature-0"])
def test_every_choice_is_met(on: bool, depth: int) -> None:
    """Each chosen place with each w0, each w64 and each continuation, and each pattern of invalidated drafts."""
    whole = TREES[depth]
    met = [leaf for leaf, sampled in zip(whole.leaves, whole.sampled, strict=True) if sampled == on]
    every = {(leaf.chosen, leaf.w0, leaf.w64, leaf.follows) for leaf in whole.leaves}
    assert len(every) == (depth + 1) * 6 * 4 * 2
    assert {(leaf.chosen, leaf.w0, leaf.w64, leaf.follows) for leaf in met} == every
    assert len({leaf.void for leaf in met}) == 2**depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_reference_against_a_second_implementation(depth: int, right: Any) -> None:
    """Every token of every round."""
    whole, (tokens, lengths) = by_hand(TREES[depth]), right[depth]
    assert [row[:length] for row, length in zip(tokens, lengths, strict=True)] == whole
    assert all(set(row[length:]) <= {-1} for row, length in zip(tokens, lengths, strict=True))


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_walk_against_the_second_implementation(depth: int) -> None:
    assert TREES[depth].lengths().tolist() == [len(tokens) for tokens in by_hand(TREES[depth])]


def test_the_enumeration_on_the_reference() -> None:
    found = tree.observe(Reference())
    assert differences(found.values, tree.expect()) == []
    assert (found.id, found.claim, found.compared) == ("tree", tree.CLAIM, 3840 + 9216)
    assert found.compared == tree.size()
    assert set(found.values) == {f"depth-{depth}/{what}" for depth in DEPTHS for what in ("lengths", "tokens")}


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_kernels_on_a_slice(depth: int, kernels: Arithmetic) -> None:
    some = Tree(depth, only=slice(None, None, STRIDES[depth]))
    assert len({leaf.void for leaf in some.leaves}) == 2**depth
    assert len({(leaf.chosen, leaf.w0) for leaf in some.leaves}) == 6 * (depth + 1)
    tokens, lengths = some.run(kernels)
    assert (lengths == some.lengths()).all()
    assert (tokens == some.run(Reference())[0]).all()


def test_a_slice_is_a_slice() -> None:
    some = Tree(4, only=slice(10, 20))
    assert some.leaves == TREES[4].leaves[10:20]
    assert len(some.sampled) == len(some.lengths()) == 10


FAULTS: dict[str, tuple[str, str]] = {
    "less or equal for less": ("* mass < quanta << 8", "* mass <= quanta << 8"),
    "acceptance shifted by one": ("w0.astype(np.int64) * mass <", "(w0.astype(np.int64) + 1) * mass <"),
    "the residual shifted by one": (
        "    low, high = np.zeros(len(row)",
        "    wanted = wanted + 1\n    low, high = np.zeros(len(row)",
    ),
    "an invalidated draft treated as rejected": (
        "emit_at[invalidated] = j",
        "emit_at[invalidated], rejected = j, rejected | invalidated",
    ),
    "a rejected draft treated as invalidated": ("rejected |= alive & ~keep", "rejected |= False"),
    "an invalidated draft judged by its row": ("invalidated = alive & (draft == -1)", "invalidated = alive & False"),
    "a round that goes on after an invalidated draft": ("alive = alive & ~invalidated", "alive = alive & True"),
    "a round that goes on after a rejected draft": ("alive = alive & keep", "alive = alive & True"),
    "a word shared by acceptance and residual": ("block[:, 2].astype(np.uint64)", "block[:, 0].astype(np.uint64)"),
    "a word shared by acceptance and the low half of a residual": (
        "block[:, 1].astype(np.uint64)",
        "block[:, 0].astype(np.uint64)",
    ),
    "one counter for all acceptances": ("positions[judged] + np.uint64(j))", "positions[judged])"),
    "one counter for all emissions": ("positions[who] + emit_at[who].astype(np.uint64))", "positions[who])"),
    "a counter shared by the last draft and the bonus": (
        "positions[who] + emit_at[who].astype(np.uint64))",
        "positions[who] + np.minimum(emit_at[who], depth - 1).astype(np.uint64))",
    ),
    "a bonus of the wrong row": ("_emit(rows, row[who, emit_at[who]],", "_emit(rows, row[who, at],"),
    "temperature 0 that judges by words": ("np.flatnonzero(alive & sampled)", "np.flatnonzero(alive)"),
    "temperature 0 that emits by words": ("np.flatnonzero(sampled & ~failed)", "np.flatnonzero(~failed)"),
    "temperature 0 for all where one is": ("np.flatnonzero(alive & sampled)", "np.flatnonzero(alive & sampled.all())"),
    "a row that reads its neighbour's word": (
        "keep[judged] = w0.astype(np.int64)",
        "keep[judged] = np.roll(w0, 1).astype(np.int64)",
    ),
    "the residual of another position": (
        "at = np.minimum(emit_at[who], depth - 1)",
        "at = np.minimum(emit_at[who] + 1, depth - 1)",
    ),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen(old: str, new: str, depth: int, right: Any) -> None:
    """Alone, in the tokens or lengths of either depth."""
    try:
        found = run(mutant(old, new), depth)
    except IndexError:  # so wrong that it reads outside its tables
        return
    assert found != right[depth]


@pytest.mark.parametrize(("old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen_in_the_slice(old: str, new: str) -> None:
    """What the kernels run every time tells it too."""
    different = []
    for depth in DEPTHS:
        some = Tree(depth, only=slice(None, None, STRIDES[depth]))
        tokens, lengths = some.run(mutant(old, new))
        different.append((tokens != some.run(Reference())[0]).any() or (lengths != some.lengths()).any())
    assert any(different)


@pytest.mark.soak
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_kernels_on_the_whole_tree(depth: int, kernels: Arithmetic, right: Any) -> None:
    assert run(kernels, depth) == right[depth]


@pytest.mark.gpu
def test_the_whole_tree_on_a_gpu() -> None:
    assert differences(tree.observe(backends.start(Backend.CUDA)).values, tree.expect()) == []
