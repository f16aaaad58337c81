"""The verifier's first launch: the mass of every tile of every target row on the 2^-48 grid, and the tile's argmax.

Contract: semantics section 3, rules 1 and 7. Sums are int64, exact in any order; a tile with an illegal entry is -1,
one above any legal mass is clamped (NOTES.md). Ties of the argmax: lower id.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pp3.kernels.reference import MAX_PROB, QUANTUM_BITS

QUANTA = tl.constexpr(2.0**QUANTUM_BITS)
CLAMP = tl.constexpr(1 << 50)  # a tile above it is illegal anyway, and 256 of them fit int64
LARGEST = tl.constexpr(MAX_PROB)
ID_BITS = tl.constexpr(18)
ID_MASK = tl.constexpr((1 << 18) - 1)


@triton.jit
def quanta(prob: tl.tensor) -> tl.tensor:
    """floor(prob * 2^48) as int64."""
    return (prob.to(tl.float64) * QUANTA).to(tl.int64)


@triton.jit(do_not_specialize=["batch", "columns", "tiles"])
def tile_masses(
    probs_ptr: tl.tensor,  # [batch, depth + 1, vocab] fp32
    request_stride: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    batch: tl.tensor,
    vocab: tl.tensor,
    columns: tl.tensor,
    tiles: tl.tensor,
    mass_ptr: tl.tensor,  # [batch, depth + 1, tiles] int64
    best_ptr: tl.tensor,  # [batch, depth + 1, tiles] int64
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DEPENDENT: tl.constexpr,
) -> None:
    program = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    line, tile = program // tiles, program % tiles
    request, row = line // columns, line % columns
    token = tile[:, None] * TILE + tl.arange(0, TILE)[None, :]
    inside = (token < vocab) & (request < batch)[:, None]
    at = (request * request_stride + row * row_stride)[:, None] + token * column_stride
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()
    prob = tl.load(probs_ptr + at, mask=inside, other=0.0)
    fits = (prob >= 0) & (prob <= LARGEST)
    prob = tl.where(fits, prob, 0.0)
    mass = tl.minimum(tl.sum(quanta(prob), 1), CLAMP)
    illegal = tl.max(tl.where(fits, 0, 1), 1)
    magnitude = prob.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    most = tl.max(magnitude, 1)
    first = tl.min(tl.where(inside & (magnitude == most[:, None]), token, ID_MASK), 1)
    tl.store(mass_ptr + program, tl.where(illegal != 0, -1, mass), mask=request < batch)
    tl.store(best_ptr + program, (most.to(tl.int64) << ID_BITS) | (first ^ ID_MASK), mask=request < batch)
