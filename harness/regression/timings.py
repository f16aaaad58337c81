"""Timings of two receipts as ratios: medians with a confidence interval that supposes nothing of their distribution.

A receipt may hold `timings`: rows of id, unit "ns" and samples in the order measured. The interval of a median lies
between two order statistics (the number of samples below it is binomial with chance 1/2); both intervals hold together
with CONFIDENCE by the union bound, and so does the ratio of their ends. Timings change no verdict and no exit code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pp3.harness import tails
from pp3.harness.regression.opened import Opened, identity, machine

CONFIDENCE = 0.95
FASTER, SAME, SLOWER = "faster", "~", "slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """NEW over OLD of one timing: its medians' ratio, within low and high."""

    id: str
    ratio: float
    low: float
    high: float
    old: int  # samples
    new: int

    @property
    def mark(self) -> str:
        """faster, ~ (no evidence) or slower."""
        return FASTER if self.high < 1 else SLOWER if self.low > 1 else SAME


def not_timing(old: Opened, new: Opened) -> str:
    """Why the timings of two receipts cannot be compared; "" if they can."""
    held = [bool(opened.predicate.get("timings")) for opened in (old, new)]
    if not any(held):
        return "neither receipt holds timings"
    if not all(held):
        return f"{'NEW' if held[0] else 'OLD'} holds no timings"
    there, here = (machine(identity(opened.predicate)) for opened in (old, new))
    if there != here:
        return f"timings of {there} there, of {here} here: no ratio says which is faster"
    named = [[row["id"] for row in opened.predicate["timings"]] for opened in (old, new)]
    if not set(named[0]) & set(named[1]):  # as of launches, and of the pieces of a campaign
        return f"nothing was timed in both: {named[0][0]} there, {named[1][0]} here"
    return ""


def ratios(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[Ratio]:
    """The ratio of every timing that both hold, in the order of `old`; those with too few samples are left out."""
    after = {row["id"]: row["samples"] for row in new}
    found = []
    for row in old:
        one, other = row["samples"], after.get(row["id"], [])
        mine, theirs = interval(one), interval(other)
        if mine is None or theirs is None:
            continue
        found.append(
            Ratio(
                id=row["id"],
                ratio=_median(other) / _median(one),
                low=theirs[0] / mine[1],
                high=theirs[1] / mine[0],
                old=len(one),
                new=len(other),
            )
        )
    return found


def interval(samples: Sequence[int]) -> tuple[int, int] | None:
    """Two samples between which the median lies, with 1 - (1 - CONFIDENCE) / 2; None if there are too few.

    The k-th smallest of n lies above the median with P(Binomial(n, 1/2) < k), and likewise from above.
    """
    tail = (1 - CONFIDENCE) / 4  # of one end, of one of two medians
    below = int(tails.binom_ppf(tail, len(samples), 0.5)) if samples else 0
    while below > 0 and tails.binom_cdf(below - 1, len(samples), 0.5) > tail:
        below -= 1
    if below < 1:
        return None
    ordered = sorted(samples)
    return ordered[below - 1], ordered[-below]


def _median(samples: Sequence[int]) -> float:
    ordered, half = sorted(samples), len(samples) // 2
    return float(ordered[half]) if len(samples) % 2 else (ordered[half - 1] + ordered[half]) / 2
