"""A whole engine as the sampler under test: checkpoints whose law is known, adapters, and the battery at that level."""
