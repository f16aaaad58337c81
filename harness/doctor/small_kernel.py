"""One small kernel, on a GPU or in Triton's interpreter: that it compiles, runs and is right."""

import torch
import triton
import triton.language as tl

N = 300  # one past a block of 256, and more
BLOCK = 256


@triton.jit
def _affine(values_ptr: tl.tensor, out_ptr: tl.tensor, n: int, BLOCK: tl.constexpr) -> None:  # [n] int64 each
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, values * 3 + 1, mask=at < n)


def right(device: str) -> bool:
    """Whether its integers are those they must be; -1 stands wherever nothing was written."""
    values = torch.arange(N, dtype=torch.int64, device=device)
    out = torch.full_like(values, -1)
    _affine[(triton.cdiv(N, BLOCK),)](values, out, N, BLOCK=BLOCK)
    return bool(torch.equal(out.cpu(), torch.arange(N, dtype=torch.int64) * 3 + 1))
