"""One small kernel, on a GPU or in Triton's interpreter: that it compiles, runs and is right."""

import torch
import triton
import triton.language as tl

N = 300  # one past a block of 256, and more
BLOCK = 256


@triton.jit
def _flip(values_ptr: tl.tensor, out_ptr: tl.tensor, n: int, times: int, BLOCK: tl.constexpr) -> None:  # [n] int64
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(values_ptr + at, mask=at < n, other=0).to(tl.uint32)
    for _ in range(tl.load(values_ptr + times)):  # triton 3.6 cannot interpret it under NumPy 2.4
        bits = ~bits
    tl.store(out_ptr + at, bits.to(tl.int64), mask=at < n)


def right(device: str) -> bool:
    """Whether its integers are those they must be; -1 stands wherever nothing was written."""
    values = torch.arange(N, dtype=torch.int64, device=device)
    out = torch.full_like(values, -1)
    _flip[(triton.cdiv(N, BLOCK),)](values, out, N, 3, BLOCK=BLOCK)
    return bool(torch.equal(out.cpu(), (1 << 32) - 1 - torch.arange(N, dtype=torch.int64)))
