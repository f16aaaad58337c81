"""A backend held at both sides of every edge."""

import numpy as np

from pp3.harness.backends import Arithmetic
from pp3.harness.exact import edges
from pp3.harness.exact.edges import KINDS, W32, Pair

ALL = tuple(edges.pairs())
FEW = tuple(pair for pair in ALL if len(pair.weights) < 128)


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
