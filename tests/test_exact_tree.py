"""The decision tree: its leaves and their words, the walk against the reference, and the kernels on a slice."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from whole_trees import SLICES, STRIDES, TREES, run

from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Reference
from pp3.harness.exact import tree, walk
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.tree import DEPTHS, KEPT, MISSED, SPLIT, VOCAB, W32, W64, Leaf, Tree
from pp3.kernels.addressing import philox4x32
from pp3.kernels.reference import ONE


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


def owner(weights: list[int], w64: int) -> int:
    """The token of w64 by adding weights one at a time."""
    wanted = w64 * sum(weights) >> 64
    return next(token for token, running in enumerate(itertools.accumulate(weights)) if running > wanted)


def length(whole: Tree, leaf: Leaf, sampled: bool) -> int:
    """Tokens of a round by how the tree was built, whatever the words of other positions are."""
    for j, (void, kind) in enumerate(zip(leaf.void, whole.kinds(leaf), strict=False)):
        if void:
            return j + 1
        if not sampled:
            kept = bool(whole.weights[kind, j].argmax() == whole.drafts[j])
        elif j == leaf.chosen:
            kept = leaf.w0 < whole.edges[j]
        else:
            kept = kind == KEPT
        if not kept:
            return j + 1
    return whole.depth + 1


@pytest.fixture(scope="module")
def right() -> dict[int, tuple[list[list[int]], list[int]]]:
    """What the walk emits on both trees."""
    walks = {depth: whole.walk() for depth, whole in TREES.items()}
    return {depth: (tokens.tolist(), (tokens >= 0).sum(axis=1).tolist()) for depth, tokens in walks.items()}


WEIGHTS = [5, 0, 3, 0, 6, 2]  # of 16, over 2^24
TICKETS = {0: 6, 2: 1, 4: 9, 5: 0}
HALF = 1 << 63


@pytest.mark.parametrize(
    ("drafts", "words", "sampled", "tokens"),
    [
        pytest.param([0], [((5 << 32) // 6, 0), (0, 0)], True, [0, 0], id="the-last-accepted"),
        pytest.param([0], [((5 << 32) // 6 + 1, 0), (0, 0)], True, [2], id="the-first-rejected"),
        pytest.param([0], [(W32 - 1, HALF - 1), (0, 0)], True, [2], id="residual-of-2-and-2-below-its-middle"),
        pytest.param([0], [(W32 - 1, HALF), (0, 0)], True, [5], id="residual-of-2-and-2-from-its-middle"),
        pytest.param([0], [(W32 - 1, W64 - 1), (0, 0)], True, [5], id="the-last-of-a-residual"),
        pytest.param([-1], [(0, (5 << 60) - 1), (0, 0)], True, [0], id="the-last-of-a-first-token"),
        pytest.param([-1], [(0, 5 << 60), (0, 0)], True, [2], id="the-first-of-the-next-with-mass"),
        pytest.param([-1], [(W32 - 1, W64 - 1), (0, 0)], True, [5], id="a-full-target-reads-no-w0"),
        pytest.param([2], [(W32 - 1, 0), (7, 8 << 60)], True, [2, 4], id="always-kept-then-the-bonus"),
        pytest.param([2], [(W32 - 1, 0), (7, (8 << 60) - 1)], True, [2, 2], id="the-bonus-a-word-before"),
        pytest.param([5], [(0, 0), (0, 0)], True, [], id="never-drawable"),
        pytest.param([3], [(0, 0), (0, 0)], True, [], id="outside-the-support"),
        pytest.param([4], [(0, 0), (0, W64 - 1)], False, [4, 4], id="the-argmax-kept-and-emitted"),
        pytest.param([0], [(0, 0), (0, 0)], False, [4], id="not-the-argmax"),
        pytest.param([-1], [(0, 0), (0, 0)], False, [4], id="invalidated-at-temperature-0"),
    ],
)
def test_a_walk(drafts: list[int], words: list[tuple[int, int]], sampled: bool, tokens: list[int]) -> None:
    """One draft and a bonus, worked out on paper."""
    rows = [walk.row(WEIGHTS, TICKETS), walk.row(WEIGHTS, {})]
    assert walk.walk(rows, drafts, words, sampled) == tokens


def test_the_walk_of_an_earlier_rejection() -> None:
    """It hides a draft that was never drawable; an earlier acceptance does not."""
    rows = [walk.row(WEIGHTS, TICKETS)] * 2 + [walk.row(WEIGHTS, {})]
    rest = [(0, 0), (0, 0)]
    assert walk.walk(rows, [0, 5], [(W32 - 1, 0), *rest], True) == [2]
    assert walk.walk(rows, [0, 5], [(0, 0), *rest], True) == []


def test_a_row_without_residual_is_drawn_whole() -> None:
    row = walk.row(WEIGHTS, {token: weight + 1 for token, weight in enumerate(WEIGHTS)})
    assert row.residual == row.full == [weight << 24 for weight in itertools.accumulate(WEIGHTS)]


def test_the_argmax_of_ties_is_the_lower_id() -> None:
    assert [walk.row(weights, {}).argmax for weights in ([1, 3, 3], [3, 1, 3], [2, 2, 2])] == [1, 0, 0]


@pytest.mark.parametrize(("depth", "count"), [(4, 3840), (5, 9216)])
def test_leaves_are_all_combinations(depth: int, count: int) -> None:
    """Void patterns, chosen position or bonus, six w0, four w64, both continuations."""
    whole = TREES[depth]
    assert len(whole.leaves) == len(set(whole.leaves)) == count == 2**depth * (depth + 1) * 6 * 4 * 2
    met = Counter((leaf.void, leaf.chosen, leaf.follows) for leaf in whole.leaves)
    assert (len(met), set(met.values())) == (2**depth * (depth + 1) * 2, {6 * 4})


@pytest.mark.parametrize("depth", DEPTHS)
def test_words_stand_at_the_edge_of_their_own_position(depth: int) -> None:
    whole = TREES[depth]
    for leaf in whole.leaves:
        edge = whole.edges[min(leaf.chosen, depth - 1)]
        assert leaf.w0 in (0, 1, edge - 1, edge, edge + 1, W32 - 1)
    assert all(edge - 1 > 1 and edge + 1 < W32 - 1 for edge in whole.edges)
    for j, edge in enumerate(whole.edges):
        mass, kept = (int(whole.weights[kind, j, whole.drafts[j]]) for kind in (KEPT, SPLIT))
        assert (edge - 1) * mass < kept << 32 <= edge * mass


@pytest.mark.parametrize("depth", DEPTHS)
def test_words_stand_on_both_sides_of_a_boundary_of_their_own_law(depth: int) -> None:
    """That of the residual, of an invalidated draft's target row, or of the bonus row: near its middle."""
    whole = TREES[depth]
    words: dict[tuple[int, bool], set[int]] = {}
    for leaf in whole.leaves:
        whole_row = leaf.chosen == depth or leaf.void[leaf.chosen]
        words.setdefault((leaf.chosen, whole_row), set()).add(leaf.w64)
    assert set(words) == {(j, void) for j in range(depth) for void in (False, True)} | {(depth, True)}
    for (j, whole_row), met in words.items():
        law = whole.weights[SPLIT, j].tolist()
        if not whole_row:
            law = np.maximum(whole.weights[SPLIT, j] - whole.weights[KEPT, j], 0).tolist()
        first, below, border, last = sorted(met)
        assert (first, below, last) == (0, border - 1, W64 - 1)
        lower, upper = owner(law, below), owner(law, border)
        assert lower < upper
        assert not any(law[lower + 1 : upper])
        share = sum(law[: lower + 1]) / sum(law)
        assert 0.25 < share < 0.75


def test_no_two_laws_share_a_boundary() -> None:
    """Of one depth: a word that belongs to another position or kind of emission stands elsewhere."""
    for depth, whole in TREES.items():
        borders = {leaf.w64 for leaf in whole.leaves} - {0, W64 - 1}
        assert len(borders) == 2 * (2 * depth + 1)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_chosen_position_has_the_words_of_its_leaf(depth: int) -> None:
    whole = TREES[depth]
    words = whole.words()
    assert [words[number][leaf.chosen] for number, leaf in enumerate(whole.leaves)] == [
        (leaf.w0, leaf.w64) for leaf in whole.leaves
    ]


@pytest.mark.parametrize("depth", DEPTHS)
def test_other_positions_have_the_words_of_their_own_block(depth: int) -> None:
    """Counters one after another, modulo 2^64."""
    whole = TREES[depth]
    words, (rounds, positions) = whole.words(), (part.tolist() for part in whole.addresses())
    halves = np.array([tree.KEY, 0], np.uint64).view(np.uint32)[:2]
    for number in range(0, len(words), 29):
        for j, (w0, w64) in enumerate(words[number]):
            counter = np.array([rounds[number], (positions[number] + j) % W64], np.uint64).view(np.uint32)
            first, low, high, _ = philox4x32(counter, halves).tolist()
            assert (w0, w64) == (first, low | high << 32)


@pytest.mark.parametrize("depth", DEPTHS)
def test_both_sides_of_each_boundary_are_emitted(depth: int, right: Any) -> None:
    """The lower token up to it, the higher from it on; at the ends the first and the last of the law."""
    whole, (tokens, lengths) = TREES[depth], right[depth]
    emitted: dict[tuple[int, bool], dict[int, set[int]]] = {}
    for leaf, on, found, number in zip(whole.leaves, whole.sampled, tokens, lengths, strict=True):
        j = leaf.chosen
        whole_row = j == depth or leaf.void[j]
        if on and not any(leaf.void[:j]) and (whole_row or leaf.w0 == W32 - 1):
            assert number == j + 1
            emitted.setdefault((j, whole_row), {}).setdefault(leaf.w64, set()).add(found[j])
    assert len(emitted) == 2 * depth + 1
    for (j, whole_row), by_word in emitted.items():
        law = whole.weights[SPLIT, j] - (0 if whole_row else whole.weights[KEPT, j])
        given = np.flatnonzero(law > 0).tolist()
        first, lower, upper, last = (by_word[word] for word in sorted(by_word))
        assert (first, last) == ({given[0]}, {given[-1]})
        ((one,), (other,)) = lower, upper
        assert given.index(other) == given.index(one) + 1


@pytest.mark.parametrize("depth", DEPTHS)
def test_rows_are_laws(depth: int) -> None:
    whole = TREES[depth]
    assert whole.weights.shape == (3, depth + 1, VOCAB)
    assert (whole.weights >= 0).all()
    assert (whole.weights.sum(axis=2) == ONE).all()
    for j in range(depth):
        kept, split, missed = (int(whole.weights[kind, j, whole.drafts[j]]) for kind in (KEPT, SPLIT, MISSED))
        assert missed == 0 < split < kept


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_bonus_row_is_no_drafts(depth: int) -> None:
    """One for all kinds, and unlike every row that judges a draft."""
    whole = TREES[depth]
    bonus = whole.weights[KEPT, depth]
    assert (whole.weights[:, depth] == bonus).all()
    assert not (whole.weights[:, :depth] == bonus).all(axis=2).any()


@pytest.mark.parametrize("depth", DEPTHS)
def test_every_branch_is_met(depth: int, right: Any) -> None:
    """Sampled and not: each length."""
    met = Counter(zip(right[depth][1], TREES[depth].sampled.tolist(), strict=True))
    assert set(met) == {(length, on) for length in range(1, depth + 2) for on in (True, False)}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("on", [True, False], ids=["sampled", "temperature-0"])
def test_every_choice_is_met(on: bool, depth: int) -> None:
    """Each chosen place with each w0 and continuation (sampled, each w64), and each pattern of invalidated drafts."""

    def choice(leaf: Leaf) -> tuple[int, ...]:
        return leaf.chosen, leaf.w0, leaf.follows, leaf.w64 if on else 0

    whole = TREES[depth]
    met = [leaf for leaf, sampled in zip(whole.leaves, whole.sampled, strict=True) if sampled == on]
    every = {choice(leaf) for leaf in whole.leaves}
    # w64 takes two boundaries at a draft, one at the bonus
    assert len(every) == (depth * 6 * 6 * 2 + 6 * 4 * 2 if on else (depth + 1) * 6 * 2)
    assert {choice(leaf) for leaf in met} == every
    assert len({leaf.void for leaf in met}) == 2**depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_walk_against_the_reference(depth: int, right: Any) -> None:
    """Every token of every round; two implementations that share nothing."""
    assert run(Reference(), depth) == right[depth]


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_lengths_are_those_the_tree_was_built_for(depth: int, right: Any) -> None:
    whole = TREES[depth]
    assert right[depth][1] == [length(whole, *at) for at in zip(whole.leaves, whole.sampled, strict=True)]


def test_the_enumeration_on_the_reference() -> None:
    found = tree.observe(Reference())
    assert differences(found.values, tree.expect()) == []
    assert (found.id, found.claim, found.compared) == ("tree", tree.CLAIM, 3840 + 9216)
    assert found.compared == tree.size()
    assert set(found.values) == {f"depth-{depth}/{what}" for depth in DEPTHS for what in ("lengths", "tokens")}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_stride_meets_every_pattern_and_place(depth: int) -> None:
    some = Tree(depth, only=slice(None, None, STRIDES[depth]))
    assert len({leaf.void for leaf in some.leaves}) == 2**depth
    assert len({(leaf.chosen, leaf.w0) for leaf in some.leaves}) == 6 * (depth + 1)


def test_the_last_slice_is_every_choice_at_the_bonus() -> None:
    depth, only = SLICES[-1]
    assert {(leaf.chosen, any(leaf.void)) for leaf in Tree(depth, only).leaves} == {(depth, False)}


@pytest.mark.parametrize(("depth", "only"), SLICES, ids=["depth-4", "depth-5", "bonus"])
def test_the_kernels_on_a_slice(depth: int, only: slice, kernels: Arithmetic) -> None:
    some = Tree(depth, only)
    tokens, lengths = some.run(kernels)
    assert (tokens == some.walk()).all()
    assert (lengths == (tokens >= 0).sum(axis=1)).all()


def test_a_slice_is_a_slice() -> None:
    some = Tree(4, only=slice(10, 20))
    assert some.leaves == TREES[4].leaves[10:20]
    assert len(some.sampled) == len(some.walk()) == 10


@pytest.mark.soak
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_kernels_on_the_whole_tree(depth: int, kernels: Arithmetic, right: Any) -> None:
    assert run(kernels, depth) == right[depth]


@pytest.mark.gpu
def test_the_whole_tree_on_a_gpu() -> None:
    assert differences(tree.observe(backends.start(Backend.CUDA)).values, tree.expect()) == []
