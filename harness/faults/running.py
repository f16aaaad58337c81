"""Draws by running sums of integers: a word of 64 bits picks a place, and the place a token."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def high(word: Words, factor: Integers) -> Integers:
    """floor(word * factor / 2^64), both [n], factor below 2^62: the high half of a product, by halves of 32 bits."""
    other = factor.astype(np.uint64)
    a, b, c, d = word >> HALF, word & LOW, other >> HALF, other & LOW
    middle = (b * d >> HALF) + (a * d & LOW) + (b * c & LOW)
    found: Integers = (a * c + (a * d >> HALF) + (b * c >> HALF) + (middle >> HALF)).astype(np.int64)
    return found


class Running:
    """Rows of integer weights [rows, vocab], none negative, to draw tokens from by their running sums."""

    def __init__(self, weights: Integers) -> None:
        self.weights = weights
        self.totals = weights.sum(axis=1)
        self.lift = np.arange(len(weights)) * int(self.totals.max())
        self.sums = (np.cumsum(weights, axis=1) + self.lift[:, None]).ravel()

    def at(self, rows: Integers, places: Integers) -> Integers:
        """The token of each place [n], 0 <= place < total of its row [n]."""
        beyond = np.searchsorted(self.sums, places + self.lift[rows], side="right")
        found: Integers = beyond - rows * self.weights.shape[1]
        return found

    def draw(self, rows: Integers, word: Words) -> Integers:
        """A token of each row [n] by its word [n]."""
        return self.at(rows, high(word, self.totals[rows]))

    def counts(self, row: int) -> Integers:
        """How often each token of a row is drawn, in proportion, [vocab]."""
        found: Integers = self.weights[row]
        return found
