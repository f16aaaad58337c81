"""Our bits against the NumPy reference: what the launchers wrote, row by row, before a case is timed and after it."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.kernels import reference

Array = npt.NDArray[Any]
POISON = -7  # of an int32 output that nobody wrote


def row_of(name: str, expected: Sequence[Array], found: Sequence[Array], failed: Array) -> dict[str, Any]:
    """Receipt form of one comparison: outputs of equal first axis, and which of their rows must fail."""
    equal = np.ones(len(failed), np.bool_)
    for mine, its in zip(expected, found, strict=True):
        if mine.shape != its.shape or mine.dtype != its.dtype:
            raise ValueError(f"{name}: {its.shape} {its.dtype} is compared with {mine.shape} {mine.dtype}")
        equal &= (mine.reshape(len(mine), -1) == its.reshape(len(its), -1)).all(axis=1)
    wrong = np.flatnonzero(~equal)
    first = f"row {wrong[0]}" if len(wrong) else ""
    return {
        "failedRows": int(np.count_nonzero(failed)),
        "first": first,
        "id": name,
        "mismatches": len(wrong),
        "rows": len(failed),
    }


def in_threads(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Results in order, some at once: NumPy sorts without holding Python back."""
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda given: function(*given), arguments))


def drafts(logits: Array, keys: Array, rounds: Array, positions: Array, tau: float) -> reference.Proposal:
    """The reference's drafts of FP32 logits [depth, batch, vocab], as [depth, batch, ...]; positions of column 0."""
    depth, batch, _ = logits.shape
    sampled = np.ones(1, np.bool_)
    rows = [
        (logits[d, b : b + 1], sampled, keys[b : b + 1], rounds[b : b + 1], positions[b : b + 1] + np.uint64(d), tau)
        for d in range(depth)
        for b in range(batch)
    ]
    found = in_threads(reference.propose, rows)
    stacked = (np.concatenate([getattr(one, name) for one in found]) for name in reference.Proposal._fields)
    return reference.Proposal(*(part.reshape(depth, batch, *part.shape[1:]) for part in stacked))
