"""The rows that a step's verifier reads: each distinct law once, on the 2^-48 grid, in one table."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import TargetRows, quantise

CAPACITY_BYTES, MOST_ROWS = 1 << 28, 4096


class RowTable:
    """Laws by key, at most so many; when it is full, every law is forgotten and found anew."""

    def __init__(self, vocab: int, most_at_once: int, capacity: int = CAPACITY_BYTES) -> None:
        rows = max(2 * most_at_once, min(MOST_ROWS, capacity // (16 * vocab)))
        self._index: dict[Hashable, int] = {}
        self._most_at_once = most_at_once
        self.rows = TargetRows(
            valid=np.zeros(rows, np.bool_),
            quanta=np.zeros((rows, vocab), np.int64),
            running=np.zeros((rows, vocab), np.int64),
            argmax=np.zeros(rows, np.int32),
        )

    def make_room(self) -> None:
        """Before a step: indices that are handed out stay true until the next call."""
        if len(self._index) + self._most_at_once > len(self.rows.valid):
            self._index.clear()

    def find(self, key: Hashable) -> int | None:
        """The row of a law that is in the table."""
        return self._index.get(key)

    def add(self, key: Hashable, probs: npt.NDArray[np.float32]) -> int:
        """Put a law [vocab] into the table."""
        index = len(self._index)
        one = quantise(probs[None])
        self.rows.valid[index], self.rows.argmax[index] = one.valid[0], one.argmax[0]
        self.rows.quanta[index], self.rows.running[index] = one.quanta[0], one.running[0]
        self._index[key] = index
        return index
