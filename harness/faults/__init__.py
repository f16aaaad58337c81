"""Planted faults: what a battery must reject, and what it must not."""
