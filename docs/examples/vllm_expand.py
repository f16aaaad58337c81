"""vLLM on a CPU without triton-cpu: what stands in for the kernel that spreads a request's parameters over its drafts.

It should print the wanted values; 0.32.0 prints what the buffer held, for temperature (float32) and top-k (int32).
"""

import torch
import vllm
from vllm.platforms import current_platform
from vllm.utils.cpu_triton_utils import _expand_kernel_impl

current_platform.import_kernels()
ends = torch.tensor([2, 5], dtype=torch.int32)  # drafts of two requests, summed up
for dtype in (torch.float32, torch.int32, torch.int64):
    spread = torch.full((5,), -7, dtype=dtype)
    _expand_kernel_impl(spread, torch.tensor([2, 3], dtype=dtype), ends, 0, 1)
    print(vllm.__version__, dtype, spread.tolist(), "wanted", [2, 2, 3, 3, 3])
