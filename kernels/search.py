"""The 32 largest logits of whole rows, for batches of many rows: one program a row, no merge.

Contract: what the largest 32 of a row are is semantics section 2, step 2; keys are those of proposal.py. A row's 32nd
largest value is found bit by bit, by counting the values at or above a bound, until just 32 are; where more remain, all
equal to it, the bound on the id likewise. Ties: lower id; -0.0 equals +0.0. Keys are stored in the order of their ids.
Integers only.
"""

import torch
import triton
import triton.language as tl

from pp3.kernels.reference import SUPPORT

VALUE_BITS = {torch.bfloat16: 16, torch.float16: 19, torch.float32: 32}  # of a rank, that can differ between two values
ID_BITS = tl.constexpr(18)
ID_MASK = tl.constexpr((1 << 18) - 1)
WARPS = 16


@triton.jit
def _ordered(x: tl.tensor) -> tl.tensor:
    """FP32 to uint32: larger values rank higher, -0.0 as +0.0, NaN above +inf, nothing at 0."""
    bits = x.to(tl.uint32, bitcast=True)
    bits = tl.where(bits == 0x80000000, 0, bits)
    rank = tl.where(bits >= 0x80000000, ~bits, bits | 0x80000000)
    return tl.where(x != x, 0xFFFFFFFF, rank).to(tl.uint32)


@triton.jit(do_not_specialize=["batch", "vocab"])
def largest_of_rows(
    logits_ptr: tl.tensor,  # [batch, vocab] bf16, fp16 or fp32
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    batch: tl.tensor,
    vocab: tl.tensor,
    keys_ptr: tl.tensor,  # [batch, K] int64
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    TILE_BITS: tl.constexpr,  # TILE = 2^TILE_BITS
    VALUE_BITS: tl.constexpr,
    K: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, TILE)[None, :]
    inside = (token < vocab) & (row < batch)[:, None]
    x = tl.load(logits_ptr + row[:, None] * row_stride + token.to(tl.int64) * column_stride, mask=inside, other=0.0)
    rank = tl.where(inside, _ordered(x.to(tl.float32)), 0).to(tl.uint32)
    value = rank >> (32 - VALUE_BITS)
    bound = tl.zeros([ROWS], tl.uint32)
    step = tl.full([ROWS], 1 << (VALUE_BITS - 1), tl.uint32)
    while tl.max(step, 0) > 0:
        higher = bound | step
        count = tl.sum((value >= higher[:, None]).to(tl.int32), 1)
        bound = tl.where(count >= K, higher, bound)
        step = tl.where(count == K, 0, step >> 1).to(tl.uint32)  # just the wanted ones: any bound below them will do
    level = value == bound[:, None]
    above = value > bound[:, None]
    wanted = K - tl.sum(above.to(tl.int32), 1)
    last = tl.full([ROWS], TILE - 1, tl.int32)
    if tl.max(tl.sum(level.to(tl.int32), 1) - wanted, 0) > 0:  # of equal values the lowest ids
        last = tl.zeros([ROWS], tl.int32)
        reach = tl.full([ROWS], TILE // 2, tl.int32)
        for _ in range(TILE_BITS):
            beyond = last + reach
            count = tl.sum((level & (token < beyond[:, None])).to(tl.int32), 1)
            last = tl.where(count < wanted, beyond, last)
            reach = reach >> 1
    kept = inside & (above | (level & (token <= last[:, None])))
    place = tl.cumsum(kept.to(tl.int32), 1) - 1
    key = (rank.to(tl.int64) << ID_BITS) | (token ^ ID_MASK)
    tl.store(keys_ptr + row[:, None] * K + place, key, mask=kept)


def largest(logits: torch.Tensor, rows: int, keys: torch.Tensor, at_once: int) -> None:
    """Write the keys of the 32 largest of the first `rows` rows of logits [batch, vocab] to keys [rows * 32] int64.

    at_once: rows a program, a power of two. The launcher of the proposal checks its arguments.
    """
    vocab = logits.shape[1]
    tile = triton.next_power_of_2(vocab)
    largest_of_rows[(triton.cdiv(rows, at_once),)](
        logits,
        *logits.stride(),
        rows,
        vocab,
        keys,
        ROWS=at_once,
        TILE=tile,
        TILE_BITS=tile.bit_length() - 1,
        VALUE_BITS=VALUE_BITS[logits.dtype],
        K=SUPPORT,
        num_warps=WARPS,
    )
