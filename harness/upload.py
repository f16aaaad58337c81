"""Copy arrays to a device without waiting for what is running there."""

from typing import Any

import numpy as np


def upload(values: Any, device: Any, dtype: Any = None) -> Any:
    """A tensor of these values on a torch.device; to a GPU from page-locked memory, in the order of its stream."""
    import torch

    tensor = torch.tensor(np.ascontiguousarray(values), dtype=dtype)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
