"""The way a proposal takes from producer to verifier."""
