"""The pinned inference image: find vLLM's sampler files, check them against pins, load them without vLLM."""
