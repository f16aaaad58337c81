"""The decision tree of each depth, slices of them, and what a backend makes of one."""

from typing import Any

from pp3.harness.exact.tree import DEPTHS, Tree

TREES = {depth: Tree(depth) for depth in DEPTHS}
STRIDES = {4: 23, 5: 37}  # coprime with every period of the leaves
SLICES = (*((depth, slice(None, None, stride)) for depth, stride in STRIDES.items()), (4, slice(192, 240)))


def run(backend: Any, depth: int) -> tuple[list[list[int]], list[int]]:
    """Tokens and lengths of the whole tree of a depth."""
    tokens, lengths = TREES[depth].run(backend)
    return tokens.tolist(), lengths.tolist()
