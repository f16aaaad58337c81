"""Philox4x32-10 as a Triton device function: the same words as addressing.philox4x32.

Contract: scalars or blocks; keys, rounds and positions are the int64 bit patterns of the u64 values.
"""

import triton
import triton.language as tl

M0 = tl.constexpr(0xD2511F53)
M1 = tl.constexpr(0xCD9E8D57)
W0 = tl.constexpr(0x9E3779B9)
W1 = tl.constexpr(0xBB67AE85)
ROUNDS = tl.constexpr(10)


@triton.jit
def words(key: tl.tensor, round_number: tl.tensor, position: tl.tensor) -> tl.tensor:
    """The four uint32 words of one counter block."""
    k0, k1 = key.to(tl.uint32), (key >> 32).to(tl.uint32)
    c0, c1 = round_number.to(tl.uint32), (round_number >> 32).to(tl.uint32)
    c2, c3 = position.to(tl.uint32), (position >> 32).to(tl.uint32)
    m0, m1 = tl.full(c0.shape, M0, tl.uint32), tl.full(c0.shape, M1, tl.uint32)
    w0, w1 = tl.full(c0.shape, W0, tl.uint32), tl.full(c0.shape, W1, tl.uint32)
    for _ in tl.static_range(ROUNDS):
        high0, low0 = tl.umulhi(m0, c0), m0 * c0
        high1, low1 = tl.umulhi(m1, c2), m1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + w0, k1 + w1
    return c0, c1, c2, c3
