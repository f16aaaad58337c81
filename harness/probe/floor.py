"""The launch floor: launches that do nothing but wait for the one before, as many as a round of ours makes.

Each adds one to a counter that the launch before it wrote, so that the count shows that all ran, in order. With
programmatic dependent launch (compute capability 9.0) the next is set up while this one runs, and waits for its end.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pp3.harness.errors import Exit, PP3Error

WARPS = 4
LEAST_CAPABILITY = (9, 0)  # that has programmatic dependent launch
TOO_OLD = "programmatic dependent launch needs compute capability 9.0"


@triton.jit
def _count(counter_ptr: tl.tensor) -> None:  # [1] int64
    tl.store(counter_ptr, tl.load(counter_ptr) + 1)


@triton.jit
def _count_dependent(counter_ptr: tl.tensor) -> None:  # [1] int64
    gdc_launch_dependents()
    gdc_wait()
    tl.store(counter_ptr, tl.load(counter_ptr) + 1)


def need_dependent(device: str) -> None:
    """PP3Error (69) where the device has no programmatic dependent launch."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
        raise PP3Error(TOO_OLD, Exit.UNAVAILABLE)


class Floor:
    """Empty launches on one counter."""

    def __init__(self, launches: int, device: str) -> None:
        self.launches = launches
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)

    def plain(self, _set: int) -> None:
        """One round of launches in stream order."""
        for _ in range(self.launches):
            _count[(1,)](self.counter, num_warps=WARPS)

    def dependent(self, _set: int) -> None:
        """One round of launches by programmatic dependent launch."""
        for _ in range(self.launches):
            _count_dependent[(1,)](self.counter, num_warps=WARPS, launch_pdl=True)

    def checked(self) -> Callable[[int], str]:
        """From now on, whether so many rounds counted what they must: "" or what is wrong."""
        before = int(self.counter.item())

        def check(rounds: int) -> str:
            counted = int(self.counter.item()) - before
            right = rounds * self.launches
            return "" if counted == right else f"{counted:,} of {right:,} launches counted: they did not wait"

        return check
