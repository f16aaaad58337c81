"""Integer rows made of integer rows: what a faulty step takes for a law."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.dependence import buckets

Integers = npt.NDArray[np.int64]


def heated(rows: Integers, power: float | npt.NDArray[np.float64]) -> Integers:
    """Rows [rows, vocab] in proportion to their entries to a power (a temperature of 1 / power), of the same sums."""
    with np.errstate(divide="ignore"):
        return apportioned(np.where(rows > 0, (rows / rows.sum(axis=1, keepdims=True)) ** power, 0), rows.sum(axis=1))


def apportioned(shares: npt.NDArray[np.float64], totals: Any) -> Integers:
    """Integers in proportion to shares [rows, vocab] that sum to totals [rows]; the largest takes what is left."""
    wide = shares / shares.sum(axis=1, keepdims=True) * np.asarray(totals)[:, None]
    found: Integers = np.floor(wide).astype(np.int64)
    found[np.arange(len(found)), found.argmax(axis=1)] += np.asarray(totals) - found.sum(axis=1)
    return found


def best(rows: Integers) -> Integers:
    """All mass on the largest of each row, the lower id of ties."""
    found = np.zeros_like(rows)
    np.put_along_axis(found, rows.argmax(axis=1)[:, None], rows.sum(axis=1)[:, None], axis=1)
    return found


def without_each(rows: Integers) -> Integers:
    """Each row without each of its tokens in turn, [rows * vocab, vocab]: row * vocab + token lacks the token."""
    count, vocab = rows.shape
    return np.where(np.eye(vocab, dtype=np.bool_), 0, rows[:, None, :]).reshape(count * vocab, vocab)


def swapped(rows: Integers, one: Integers, other: Integers) -> Integers:
    """Rows with the entries of two tokens of each, [rows] ids, exchanged."""
    found, at = rows.copy(), np.arange(len(rows))
    found[at, one], found[at, other] = rows[at, other], rows[at, one]
    return found


def unmasked(rows: Integers, part: int) -> Integers:
    """Rows with one of `part` parts of their mass moved evenly to the tokens that they lack, if any."""
    lacking = rows == 0
    count = lacking.sum(axis=1, keepdims=True)
    given = np.where(lacking & (count > 0), rows.sum(axis=1, keepdims=True) // part // np.maximum(count, 1), 0)
    found: Integers = np.where(count > 0, rows - rows // part, rows) + given
    found[np.arange(len(found)), found.argmax(axis=1)] += rows.sum(axis=1) - found.sum(axis=1)
    return found


def short(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values of any shape rounded to the eight bits of a bfloat16, half to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def bfloat16(rows: Integers) -> Integers:
    """Rows with every probability rounded to a bfloat16, and then of the same sums."""
    return apportioned(short(rows / rows.sum(axis=1, keepdims=True)), rows.sum(axis=1))


def aliased(rows: Integers, size: float) -> Integers:
    """Rows [rows, vocab] as alias tables give them whose slots hold two ids each and whose cuts are off.

    Neighbouring ids of one range of dependence.buckets share a slot, and so do, two by two, those that are left. Of a
    slot `size` * sqrt(p), p the smaller of its two probabilities, goes from the one to the other, up and down in turn:
    every count of N events is off by at most `size` * sqrt(N) standard errors, and hardly any range of ids is.
    """
    found = rows.copy()
    for row, law in enumerate(rows):
        total = int(law.sum())
        for number, (one, other) in enumerate(slots(law)):
            share = round(size * (float(min(law[one], law[other])) * total) ** 0.5) * (-1) ** number
            found[row, one] -= share
            found[row, other] += share
    return found


def slots(law: Integers) -> list[tuple[int, int]]:
    """Which ids of a row [vocab] share a slot; an odd one that is left has its own."""
    ids, ranges = np.flatnonzero(law).tolist(), buckets(law)
    found, left = [], list[int]()
    while ids:
        one = ids.pop(0)
        if ids and ranges[one] == ranges[ids[0]]:
            found.append((one, ids.pop(0)))
        else:
            left.append(one)
    return found + list(zip(left[::2], left[1::2], strict=False))
