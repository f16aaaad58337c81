"""From the 32 largest logits of a row to tickets and a draw, as a Triton device function of both launchers.

Contract: semantics section 2, steps 4 to 8, bit for bit. y is FP32 with IEEE division, e' a multiple of 2^-47 whose sum
is taken in integers, the share one FP64 division: NOTES.md.
"""

import triton
import triton.language as tl

from pp3.kernels import exponential
from pp3.kernels.reference import ONE

GRID = tl.constexpr(2.0**47)
HALF = tl.constexpr(24)  # bits of e' * 2^47 that are summed apart, so that 32 of them fit 32 bits
LOWER = tl.constexpr((1 << 24) - 1)
TICKETS = tl.constexpr(ONE)
PLACE = tl.constexpr(25)  # a running sum of tickets has 25 bits; the count of ids before it lies above
ONCE = tl.constexpr(1 << 25)


@triton.jit
def tickets_and_token(
    value: tl.tensor,  # [ROWS, K] fp32, the logits of the support
    most: tl.tensor,  # [ROWS] fp32, the largest of them
    ids: tl.tensor,  # [ROWS, K] int32
    argmax: tl.tensor,  # [ROWS] int32
    drawn: tl.tensor,  # [ROWS] bool: sampled, and not failed
    draw: tl.tensor,  # [ROWS] int32 in [0, 2^24)
    tau: tl.tensor,
    ROWS: tl.constexpr,
    K: tl.constexpr,
) -> tl.tensor:
    """(share [ROWS, K] int32, place of each id in ascending order [ROWS, K] int32, token [ROWS] int32)."""
    y = tl.div_rn(value - most[:, None], tl.zeros([ROWS, K], tl.float32) + tau)
    y = tl.where(drawn[:, None], y, 0.0)
    weight = tl.floor(exponential.rounded_exp(y).to(tl.float64) * GRID)
    whole = weight.to(tl.int64)
    total = tl.sum((whole >> HALF).to(tl.int32), 1).to(tl.int64) << HALF
    total += tl.sum((whole & LOWER).to(tl.int32), 1)
    share = tl.floor(weight / total.to(tl.float64)[:, None] * TICKETS).to(tl.int32)
    share -= tl.where(ids == argmax[:, None], (tl.sum(share, 1) - TICKETS)[:, None], 0)
    packed = share | ONCE
    before = tl.sum(tl.where(ids[:, None, :] < ids[:, :, None], packed[:, None, :], 0), 2)
    below = before & (ONCE - 1)
    hit = (below <= draw[:, None]) & (draw[:, None] < below + share)
    token = tl.where(drawn, tl.sum(tl.where(hit, ids, 0), 1), argmax)
    return share, before >> PLACE, token
