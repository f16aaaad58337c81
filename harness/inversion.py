"""Philox4x32-10 inverted: the (round, position) whose block holds any wanted words.

For a fixed key Philox is a bijection of the counter (semantics section 1), so every draw of a shipped sampler can be
chosen by the address alone, with no hook. One round is undone by the multipliers' inverses modulo 2^32 (both are odd).
"""

import numpy as np
import numpy.typing as npt

from pp3.kernels.addressing import LOW, MULTIPLIERS, ROUNDS, SHIFT, WEYL

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

INVERSES = tuple(pow(multiplier, -1, 1 << 32) for multiplier in MULTIPLIERS)


def invert(words: U32, key: U64 | int) -> tuple[U64, U64]:
    """The rounds [n] and positions [n] at which `key` (one, or [n]) yields the blocks words [n, 4].

    Raises ValueError for words that are no uint32 blocks.
    """
    if words.dtype != np.uint32 or words.ndim != 2 or words.shape[1] != 4:
        raise ValueError(f"words are {words.dtype} {words.shape}; want uint32 [n, 4]")
    c0, c1, c2, c3 = (words[:, i].astype(np.uint64) for i in range(4))
    keys = np.broadcast_to(np.asarray(key, np.uint64), c0.shape)
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    inverse0, inverse1 = (np.uint64(m) for m in INVERSES)
    for done in reversed(range(ROUNDS)):
        k0 = (keys & LOW) + np.uint64(done * WEYL[0]) & LOW
        k1 = (keys >> SHIFT) + np.uint64(done * WEYL[1]) & LOW
        before0, before2 = c3 * inverse0 & LOW, c1 * inverse1 & LOW
        c1, c3 = c0 ^ (m1 * before2 >> SHIFT) ^ k0, c2 ^ (m0 * before0 >> SHIFT) ^ k1
        c0, c2 = before0, before2
    return c0 | c1 << SHIFT, c2 | c3 << SHIFT
