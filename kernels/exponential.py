"""The correctly rounded FP32 exponential of the proposal, as a Triton device function, and a sweep over it.

Contract: y FP32 <= 0; FP64 exp with error up to 1 ulp, rounded once: correct rounding on [-33, -0.0]
(semantics section 2, step 5).
"""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def rounded_exp(y: tl.tensor) -> tl.tensor:
    """RN32(exp(y))."""
    return tl.exp(y.to(tl.float64)).to(tl.float32)


@triton.jit
def sweep(first: tl.tensor, count: tl.tensor, out_ptr: tl.tensor, BLOCK: tl.constexpr) -> None:
    """rounded_exp of the FP32 patterns first, first + 1, ... into out [count] fp32."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y = (first + i).to(tl.uint32).to(tl.float32, bitcast=True)
    tl.store(out_ptr + i, rounded_exp(y), mask=i < count)
