"""Every FP32 value of [-33, -0.0] through the kernel's exponential: 1,107,558,401 values, each correctly rounded.

NumPy's FP64 exponential is within 1 ulp, and semantics section 2 lists the only four patterns that come within 6 FP64
ulp of a rounding midpoint, so rounding it once is correct rounding; those four are checked against 60 decimal digits.
"""

import decimal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from pp3.harness.exact.enumeration import Enumeration, Values

FIRST, LAST = 0x80000000, 0xC2040000  # -0.0 and -33.0
CHUNK = 1 << 26
HARD = (0xB3000000, 0xBAE0E25C, 0xBBF0EDF1, 0xC16912CD)
CLAIM = "the kernel's exponential of every FP32 value of [-33, -0.0] is correctly rounded to FP32"
THREADS = 8
Bits = npt.NDArray[np.uint32]


def expect() -> Values:
    """No value may differ, and the four hard ones must be those of exact arithmetic."""
    return {"different": [0], "hard": [exact(bits) for bits in HARD], "values": [LAST - FIRST + 1]}


def size(gpu: bool) -> int:
    """Values compared."""
    return LAST - FIRST + 1 if gpu else len(HARD)


def exact(bits: int) -> int:
    """The pattern of RN32(exp(y)) of one FP32 pattern, by decimal arithmetic."""
    y = float(np.array([bits], np.uint32).view(np.float32)[0])
    with decimal.localcontext(prec=60):
        value = decimal.Decimal(y).exp()
        near = np.float32(float(value))
        around = [np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(2))]
        nearest = min(around, key=lambda candidate: abs(decimal.Decimal(float(candidate)) - value))
    return int(np.asarray(nearest, np.float32).view(np.uint32))


def rounded(bits: Bits) -> Bits:
    """Patterns of the reference's exponential of FP32 patterns."""
    return np.exp(bits.view(np.float32).astype(np.float64)).astype(np.float32).view(np.uint32)


def observe_cuda() -> Enumeration:
    """Sweep on the GPU in chunks; threads of the host compute what must be there."""
    starts = range(FIRST, LAST + 1, CHUNK)
    with ThreadPoolExecutor(THREADS) as pool:
        wanted = [pool.submit(_wanted, first) for first in starts]
        different = sum(
            int((_sweep(first, len(bits.result())) != bits.result()).sum())
            for first, bits in zip(starts, wanted, strict=True)
        )
    hard = [int(_sweep(bits, 1)[0]) for bits in HARD]
    values: Values = {"different": [different], "hard": hard, "values": [LAST - FIRST + 1]}
    return Enumeration(id="exponential", claim=CLAIM, compared=LAST - FIRST + 1, values=values)


def observe_reference() -> Enumeration:
    """The four hard patterns alone: the sweep would compare NumPy with itself."""
    hard = [int(rounded(np.array([bits], np.uint32))[0]) for bits in HARD]
    return Enumeration(id="exponential", claim=CLAIM, compared=len(HARD), values={"hard": hard})


def _wanted(first: int) -> Bits:
    return rounded(np.arange(first, min(first + CHUNK, LAST + 1), dtype=np.uint32))


def _sweep(first: int, count: int) -> Bits:
    """Run the kernel's own device function over `count` patterns from `first`."""
    import torch
    import triton

    from pp3.kernels import exponential

    out = torch.empty(count, dtype=torch.float32, device="cuda")
    exponential.sweep[(triton.cdiv(count, exponential.BLOCK),)](first, count, out, BLOCK=exponential.BLOCK)
    found: Bits = out.cpu().numpy().view(np.uint32)
    return found
