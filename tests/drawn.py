"""What draws must give: boundaries, tokens and supports, one at a time in Python integers."""

import bisect
import itertools

import numpy as np
import numpy.typing as npt

from pp3.harness.exact import draws
from pp3.kernels.reference import ONE, SUPPORT, Supports

ROWS = dict(draws.rows())
INTERPRETED = (
    "flat",
    "one-finite",
    "nine-finite",
    "31-tickets",
    "ties-at-the-border",
    "ties-everywhere",
    "exactly-32",
    "steep",
    "invalidated/row-0",
    "sparse-tail/row-0",  # four tiles
)
Ints = npt.NDArray[np.int64]


def boundaries(supports: Supports) -> Ints:
    """Draws on both sides of every ticket boundary, the first and the last."""
    edges = np.cumsum(supports.tickets[0], dtype=np.int64)
    both = np.concatenate([[0], edges - 1, edges, [ONE - 1]])
    return np.unique(both[(both >= 0) & (both < ONE)])


def tokens_of(supports: Supports, chosen: Ints) -> list[int]:
    """The token that owns each draw, one at a time in Python integers."""
    running = list(itertools.accumulate(supports.tickets[0].tolist()))
    return [int(supports.ids[0, bisect.bisect_right(running, draw)]) for draw in chosen.tolist()]


def best(logits: draws.Row) -> list[int]:
    """The support of a row by sorting in Python: larger values first, then lower ids; ascending."""
    values = logits.tolist()
    return sorted(sorted(range(len(values)), key=lambda token: (-values[token], token))[:SUPPORT])
