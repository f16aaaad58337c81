"""Random words of 64 bits for keys, rounds and positions."""

from typing import Any

import numpy as np
import numpy.typing as npt


def u64(rng: np.random.Generator, n: int) -> npt.NDArray[Any]:
    """Random words, one in four near a carry."""
    words = rng.integers(0, 1 << 64, n, np.uint64)
    edges = np.array([0, 2**32 - 1, 2**32 - 3, 2**64 - 1, 2**64 - 3], np.uint64)
    return np.where(rng.random(n) < 0.25, rng.choice(edges, n), words)
