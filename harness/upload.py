"""Copy arrays to a device without waiting for what is running there."""

from typing import Any

import numpy as np


def upload(values: Any, device: Any) -> Any:
    """A tensor of these values on a torch.device; to a GPU from page-locked memory, in the order of its stream.

    NumPy copies, in this thread: torch would wake one thread a core for it, and wait for them all.
    """
    import torch

    if device.type != "cuda":
        return torch.tensor(np.ascontiguousarray(values), device=device)
    values = np.asarray(values)
    dtype = torch.from_numpy(np.empty(0, values.dtype)).dtype
    locked = torch.empty(values.shape, dtype=dtype, pin_memory=True)
    np.copyto(locked.numpy(), values)
    return locked.to(device, non_blocking=True)
