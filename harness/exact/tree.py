"""The decision tree of a round, walked whole: every choice point at its edges, every pattern of invalidated drafts.

Only one position of a round can be given chosen words, so the others are pinned: a draft whose target row is its own
proposal row is kept by any w0, one whose target row misses it is rejected by any. At the chosen position w0 takes 0, 1,
edge - 1, edge, edge + 1 and 2^32 - 1, and w64 both ends and both sides of a boundary of the law drawn from there: the
residual's, the full target's of an invalidated draft, or the bonus row's. A token emitted elsewhere is drawn by the
words of its own block. Temperature-0 rows are mixed in. Lengths and tokens are those of harness/exact/walk.py.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.backends import Arithmetic
from pp3.harness.exact.draws import hashed
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.harness.exact.walk import cut, row, walk
from pp3.harness.inversion import invert
from pp3.kernels import addressing
from pp3.kernels.reference import OK, SUPPORT, allocate

KEY = 0x13198A2E03707344
VOCAB = 64
DEPTHS = (4, 5)
W32, W64 = 1 << 32, 1 << 64
W0_CHOICES, W64_CHOICES = 6, 4
GREEDY_EVERY = 7
KEPT, SPLIT, MISSED = range(3)  # target rows that keep a draft, judge it by w0, reject it
CLAIM = "every branch of depth-4 and depth-5 rounds at its edges, with every pattern of invalidated drafts"
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One round: where words are chosen, which, what follows, which drafts are void."""

    chosen: int  # position, or depth for the bonus
    w0: int
    w64: int
    follows: bool  # whether the drafts after the chosen one are kept
    void: tuple[bool, ...]


def expect() -> Values:
    """Lengths and tokens by the walk."""
    values: Values = {}
    for depth in DEPTHS:
        tokens = Tree(depth).walk()
        values[f"depth-{depth}/lengths"] = digest((tokens >= 0).sum(axis=1))
        values[f"depth-{depth}/tokens"] = digest(tokens)
    return values


def observe(backend: Arithmetic) -> Enumeration:
    """Lengths and tokens of a device."""
    values: Values = {}
    compared = 0
    for depth in DEPTHS:
        tokens, lengths = Tree(depth).run(backend)
        values[f"depth-{depth}/lengths"] = digest(lengths)
        values[f"depth-{depth}/tokens"] = digest(tokens)
        compared += len(lengths)
    return Enumeration(id="tree", claim=CLAIM, compared=compared, values=values)


def size() -> int:
    """Rounds of the whole tree: void patterns, chosen positions, w0, w64, and whether later drafts are kept."""
    return sum((1 << depth) * (depth + 1) * W0_CHOICES * W64_CHOICES * 2 for depth in DEPTHS)


class Tree:
    """All rounds of one depth, as inputs of a verifier."""

    def __init__(self, depth: int, only: slice = slice(None)) -> None:
        self.depth = depth
        supports = allocate(np.stack([hashed(f"tree-{j}", VOCAB, 1.0) for j in range(depth + 1)]))
        weights = np.zeros((depth + 1, VOCAB), np.int64)
        np.put_along_axis(weights, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
        self.ids, self.tickets = supports.ids[:depth], supports.tickets[:depth]
        self.drafts = weights[:depth].argmax(axis=1)  # the likeliest of each support
        mass = weights[np.arange(depth), self.drafts]
        self.weights = np.stack([weights, _moved(weights, self.drafts, mass // 2), _moved(weights, self.drafts, mass)])
        tickets = [dict(zip(*pair, strict=True)) for pair in zip(self.ids.tolist(), self.tickets.tolist(), strict=True)]
        self.rows = [
            [row(judge, proposal) for judge, proposal in zip(kind, [*tickets, {}], strict=True)]
            for kind in self.weights.tolist()
        ]
        split = self.weights[SPLIT, np.arange(depth), self.drafts].tolist()
        self.edges = [-(-(kept << 32) // held) for kept, held in zip(split, mass.tolist(), strict=True)]
        self.leaves = list(self._leaves())[only]
        self.sampled = np.arange(len(self.leaves)) % GREEDY_EVERY != 2

    def _leaves(self) -> Iterator[Leaf]:
        for void in itertools.product((False, True), repeat=self.depth):
            for chosen in range(self.depth + 1):
                edge = self.edges[min(chosen, self.depth - 1)]  # no w0 counts at the bonus
                judge = self.rows[SPLIT][chosen]
                from_target = chosen == self.depth or void[chosen]
                border = cut(judge.full if from_target else judge.residual)
                for w0, w64, follows in itertools.product(
                    (0, 1, edge - 1, edge, edge + 1, W32 - 1), (0, border - 1, border, W64 - 1), (True, False)
                ):
                    yield Leaf(chosen=chosen, w0=w0, w64=w64, follows=follows, void=void)

    def kinds(self, leaf: Leaf) -> list[int]:
        """KEPT, SPLIT or MISSED for each target row of a round; the three are one for the bonus."""
        after = KEPT if leaf.follows else MISSED
        return [KEPT if j < leaf.chosen else SPLIT if j == leaf.chosen else after for j in range(self.depth + 1)]

    def addresses(self) -> tuple[Array, Array]:
        """Rounds [n] and positions [n] of the first draft, so that the chosen position has the leaf's words."""
        words = np.zeros((len(self.leaves), 4), np.uint32)
        words[:, 0] = [leaf.w0 for leaf in self.leaves]
        words[:, 1] = [leaf.w64 & 0xFFFFFFFF for leaf in self.leaves]
        words[:, 2] = [leaf.w64 >> 32 for leaf in self.leaves]
        rounds, positions = invert(words, KEY)
        return rounds, positions - np.array([leaf.chosen for leaf in self.leaves], np.uint64)

    def words(self) -> list[list[tuple[int, int]]]:
        """(w0, w64) of every position of every round: the chosen ones, and those of the blocks beside them."""
        rounds, positions = self.addresses()
        keys = np.full(len(rounds), KEY, np.uint64)
        columns = [addressing.words(keys, rounds, positions + np.uint64(j)).tolist() for j in range(self.depth + 1)]
        return [[(w0, low | high << 32) for w0, low, high, _ in blocks] for blocks in zip(*columns, strict=True)]

    def walk(self) -> Array:
        """Tokens [n, depth + 1] of every round by the walk, padded with -1."""
        tokens = np.full((len(self.leaves), self.depth + 1), -1)
        drafts = self.drafts.tolist()
        for found, leaf, words, sampled in zip(tokens, self.leaves, self.words(), self.sampled, strict=True):
            judges = [self.rows[kind][j] for j, kind in enumerate(self.kinds(leaf))]
            given = [-1 if void else draft for void, draft in zip(leaf.void, drafts, strict=True)]
            emitted = walk(judges, given, words, bool(sampled))
            found[: len(emitted)] = emitted
        return tokens

    def run(self, backend: Arithmetic) -> tuple[Array, Array]:
        """Tokens [n, depth + 1] and lengths [n] of every round on a backend; a failed round has length -1."""
        n = len(self.leaves)
        kinds = np.array([self.kinds(leaf) for leaf in self.leaves])
        void = np.array([leaf.void for leaf in self.leaves])
        verified = backend.verify(
            (self.weights[kinds, np.arange(self.depth + 1)] / 2.0**24).astype(np.float32),
            np.where(void, -1, self.drafts).astype(np.int32),
            np.broadcast_to(self.ids, (n, self.depth, SUPPORT)),
            np.broadcast_to(self.tickets, (n, self.depth, SUPPORT)),
            self.sampled,
            np.full(n, KEY, np.uint64),
            *self.addresses(),
        )
        lengths = np.where(verified.status == OK, verified.num_sampled, -1)
        return verified.tokens.astype(np.int64), lengths.astype(np.int64)


def _moved(weights: Array, drafts: Array, mass: Array) -> Array:
    """Rows [depth + 1, VOCAB] with `mass` [depth] of each draft moved to the two tokens after it, a third to one."""
    rows, position = weights.copy(), np.arange(len(drafts))
    rows[position, drafts] -= mass
    after = np.sort(np.stack([(drafts + 1) % VOCAB, (drafts + 2) % VOCAB]), axis=0)
    rows[position, after[0]] += mass // 3
    rows[position, after[1]] += mass - mass // 3
    return rows
