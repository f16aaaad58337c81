"""The sampler PP3 qualifies first: its reference (NumPy) and its kernels (Triton), bit for bit the same."""
