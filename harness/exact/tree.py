"""The decision tree of a round, walked whole: every choice point at its edges, every pattern of invalidated drafts.

Only one position of a round can be given chosen words, so the others are pinned: a draft whose target row is its own
proposal row is kept by any w0, one whose target row misses it is rejected by any. At the chosen position w0 takes 0, 1,
edge - 1, edge, edge + 1 and 2^32 - 1, and w64 both ends and both sides of a residual's cut. Temperature-0 rows are
mixed in. Lengths are those of the walk written here; tokens those of the reference.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.backends import Arithmetic, Reference
from pp3.harness.exact.draws import hashed
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.harness.inversion import invert
from pp3.kernels.reference import SUPPORT, allocate

KEY = 0x13198A2E03707344
VOCAB = 64
DEPTHS = (4, 5)
W32 = 1 << 32
GREEDY_EVERY = 7
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


def leaves(depth: int, edge: int, cut: int) -> Iterator[Leaf]:
    """Every leaf of one depth: `edge` values of w0 accept its first draft; at `cut`, w64 turns to another token."""
    words = (0, 1, edge - 1, edge, edge + 1, W32 - 1)
    for void in itertools.product((False, True), repeat=depth):
        for chosen, w0, w64, follows in itertools.product(
            range(depth + 1), words, (0, cut - 1, cut, (1 << 64) - 1), (True, False)
        ):
            yield Leaf(chosen=chosen, w0=w0, w64=w64, follows=follows, void=void)


def expect() -> Values:
    """Lengths by the walk, tokens by the reference."""
    values: Values = {}
    for depth in DEPTHS:
        tree = Tree(depth)
        values[f"depth-{depth}/lengths"] = digest(tree.lengths())
        values[f"depth-{depth}/tokens"] = digest(tree.run(Reference())[0])
    return values


def observe(backend: Arithmetic) -> Enumeration:
    """Lengths and tokens of a device."""
    values: Values = {}
    compared = 0
    for depth in DEPTHS:
        tree = Tree(depth)
        tokens, lengths = tree.run(backend)
        values[f"depth-{depth}/lengths"] = digest(lengths)
        values[f"depth-{depth}/tokens"] = digest(tokens)
        compared += len(lengths)
    return Enumeration(id="tree", claim=CLAIM, compared=compared, values=values)


def size() -> int:
    """Rounds of the whole tree."""
    return sum(len(list(leaves(depth, W32 // 2, 1 << 63))) for depth in DEPTHS)


class Tree:
    """All rounds of one depth, as inputs of a verifier."""

    def __init__(self, depth: int, only: slice = slice(None)) -> None:
        self.depth = depth
        supports = allocate(np.stack([hashed(f"tree-{j}", VOCAB, 1.0) for j in range(depth)]))
        self.ids, self.tickets = supports.ids.astype(np.int64), supports.tickets.astype(np.int64)
        self.drafts = self.ids[np.arange(depth), self.tickets.argmax(axis=1)]  # the likeliest of each support
        self.kept = np.zeros((depth + 1, VOCAB), np.int64)
        np.put_along_axis(self.kept[:depth], self.ids, self.tickets, axis=1)
        self.kept[depth] = self.kept[0]  # the bonus row
        half = self.kept[np.arange(depth), self.drafts] // 2
        self.split = self._moved(half)  # half of the draft's mass on two other tokens, so that w64 decides a residual
        self.missed = self._moved(self.kept[np.arange(depth), self.drafts])
        self.edges = [
            -(-(int(self.split[j, self.drafts[j]]) << 32) // int(self.kept[j, self.drafts[j]])) for j in range(depth)
        ]
        self.cuts = [-(-(int(mass) // 3 << 64) // int(mass)) for mass in half]
        self.leaves = list(leaves(depth, self.edges[0], self.cuts[0]))[only]
        self.sampled = np.arange(len(self.leaves)) % GREEDY_EVERY != 2

    def _moved(self, mass: Array) -> Array:
        """The kept rows with `mass` [depth] of each draft moved to the two tokens after it."""
        rows, position = self.kept.copy(), np.arange(self.depth)
        rows[position, self.drafts] -= mass
        after = np.sort(np.stack([(self.drafts + 1) % VOCAB, (self.drafts + 2) % VOCAB]), axis=0)
        rows[position, after[0]] += mass // 3
        rows[position, after[1]] += mass - mass // 3
        return rows

    def lengths(self) -> Array:
        """Tokens emitted by each round, walked by hand."""
        return np.array([self._length(leaf, bool(s)) for leaf, s in zip(self.leaves, self.sampled, strict=True)])

    def _length(self, leaf: Leaf, sampled: bool) -> int:
        rows = self._rows(leaf)
        for j in range(self.depth):
            if leaf.void[j]:
                return j + 1
            if not sampled:
                kept = int(rows[j].argmax()) == self.drafts[j]
            elif j == leaf.chosen:
                kept = self._w0(leaf) < self.edges[j]
            else:
                kept = j < leaf.chosen or leaf.follows
            if not kept:
                return j + 1
        return self.depth + 1

    def _w0(self, leaf: Leaf) -> int:
        """The leaf's w0, moved with the edge of its own position."""
        shift = self.edges[min(leaf.chosen, self.depth - 1)] - self.edges[0]
        return leaf.w0 + shift if 1 < leaf.w0 < W32 - 1 else leaf.w0

    def _w64(self, leaf: Leaf) -> int:
        """The leaf's w64, moved with the cut of its own position."""
        shift = self.cuts[min(leaf.chosen, self.depth - 1)] - self.cuts[0]
        return leaf.w64 + shift if 0 < leaf.w64 < (1 << 64) - 1 else leaf.w64

    def _rows(self, leaf: Leaf) -> Array:
        rows = self.kept.copy()
        if leaf.chosen < self.depth:
            rows[leaf.chosen] = self.split[leaf.chosen]
        if not leaf.follows:
            rows[leaf.chosen + 1 : self.depth] = self.missed[leaf.chosen + 1 : self.depth]
        return rows

    def run(self, backend: Arithmetic) -> tuple[Array, Array]:
        """Tokens [n, depth + 1] and lengths [n] of every round on a backend."""
        n = len(self.leaves)
        words = np.zeros((n, 4), np.uint32)
        words[:, 0] = [self._w0(leaf) for leaf in self.leaves]
        words[:, 1] = [self._w64(leaf) & 0xFFFFFFFF for leaf in self.leaves]
        words[:, 2] = [self._w64(leaf) >> 32 for leaf in self.leaves]
        rounds, positions = invert(words, KEY)
        chosen = np.array([leaf.chosen for leaf in self.leaves], np.uint64)
        void = np.array([leaf.void for leaf in self.leaves])
        verified = backend.verify(
            (np.stack([self._rows(leaf) for leaf in self.leaves]) / 2.0**24).astype(np.float32),
            np.where(void, -1, self.drafts).astype(np.int32),
            np.broadcast_to(self.ids, (n, self.depth, SUPPORT)).astype(np.int32),
            np.broadcast_to(self.tickets, (n, self.depth, SUPPORT)).astype(np.int32),
            self.sampled,
            np.full(n, KEY, np.uint64),
            rounds,
            positions - chosen,
        )
        return verified.tokens.astype(np.int64), verified.num_sampled.astype(np.int64)
