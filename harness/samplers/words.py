"""64-bit words that the harness draws for a request, addressed by its number: the same in any batch and order."""

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import Seed, integers

BLOCK = 4  # words of one Philox4x64 block


def words(seed: Seed, label: str, requests: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.uint64]:
    """`count` words of each request, [n, count]: NumPy's Philox under seed and label, at request * blocks."""
    if not len(requests) or not count:
        return np.zeros((len(requests), count), np.uint64)
    blocks = -(-count // BLOCK)
    first, last = int(requests.min()), int(requests.max())
    key = integers(seed, f"words/{label}", 2)
    stream = np.random.Philox(key=key, counter=[first * blocks, 0, 0, 0])
    drawn = stream.random_raw((last + 1 - first) * blocks * BLOCK).reshape(-1, blocks * BLOCK)[:, :count]
    return drawn if last + 1 - first == len(requests) and (np.diff(requests) == 1).all() else drawn[requests - first]
