"""The bandwidth of the device's memory, by a copy of tensors that are many times the size of L2."""

from typing import Any

import torch

from pp3.harness.probe.plan import COPY

COPIED = 1 << 29  # bytes of the tensor that is copied; each is read once and written once
SAMPLES, WARMUPS = 20, 3


def measure() -> dict[str, Any]:
    """Receipt form: how, bytes moved a sample, and nanoseconds of each."""
    source = torch.randint(256, (COPIED,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    events = []
    for at in range(WARMUPS + SAMPLES):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch leaves it untyped
        before.record()
        target.copy_(source)
        after.record()
        events += [(before, after)] if at >= WARMUPS else []
    torch.cuda.synchronize()
    samples = [max(1, round(before.elapsed_time(after) * 1e6)) for before, after in events]
    return {"bytes": 2 * COPIED, "how": COPY, "samples": samples}
