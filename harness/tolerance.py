"""What a significant deviation is worth beside the total variation that a reviewer tolerates.

Both bounds hold at CONFIDENCE for all checks of a campaign together (Bonferroni over those that decide). The lower one
splits the sample: the first half chooses what deviates, the second measures it.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pp3.harness import bounds
from pp3.harness.battery import Counts, TestResult, grouped, number, totals
from pp3.harness.cells import Cell
from pp3.harness.design import Check, Method

CONFIDENCE = 0.999
Groups = npt.NDArray[np.float64]


class Worth(StrEnum):
    """What a significant deviation comes to."""

    FAIL = "fail"  # certainly larger than what is tolerated, or not to be tolerated at all
    TOLERATED = "tolerated"  # certainly not larger
    OPEN = "open"  # between the bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A deviation between its bounds, in total variation."""

    id: str
    worth: Worth
    low: float
    high: float

    def plain(self) -> dict[str, str]:
        """Receipt form."""
        return {"high": number(self.high), "id": self.id, "low": number(self.low), "worth": self.worth.value}


def weigh(check: Check, test: TestResult, counts: Counts, first: Counts, tolerance: float, deciding: int) -> Weighed:
    """A significant deviation beside a tolerance. An outcome of zero probability, a repeat and too good a fit are
    never tolerated: they are no small change of a law."""
    miss = (1 - CONFIDENCE) / max(deciding, 1)
    low, high = _bounds(check, test, counts, first, 1 - miss)
    if not tolerance or test.forbidden or low > tolerance or not _sized(check, test):
        worth = Worth.FAIL
    elif high <= tolerance:
        worth = Worth.TOLERATED
    else:
        worth = Worth.OPEN
    return Weighed(id=check.id, worth=worth, low=low, high=high)


def _sized(check: Check, test: TestResult) -> bool:
    """Whether a deviation has a size in total variation: a repeat and too good a fit have none."""
    too_good = check.method is Method.FIT and test.g < test.df
    return check.method is Method.RARE or (bool(check.cells) and not too_good)


def _bounds(check: Check, test: TestResult, counts: Counts, first: Counts, confidence: float) -> tuple[float, float]:
    """Lower and upper bound of the deviation in total variation; 0 and 1 where there is none."""
    if check.method is Method.RARE:
        return _outcome(check.single, test.worst, counts, confidence)
    if not _sized(check, test):
        return 0.0, 1.0
    g, _, events = totals(check, counts)
    halves: tuple[list[Groups], list[Groups]] = ([], [])
    laws = []
    for pooled in check.cells:
        whole, half = grouped(pooled, counts[pooled.cell.id]), grouped(pooled, first[pooled.cell.id])
        for stratum in range(int(pooled.strata[-1]) + 1):
            mine = pooled.strata == stratum
            halves[0].append(half[mine])
            halves[1].append((whole - half)[mine])
            laws.append(pooled.probabilities[mine])
    low, _ = bounds.lower(halves[0], halves[1], laws, confidence)
    return low, bounds.upper(g, check.df, events, confidence)


def _outcome(cells: tuple[Cell, ...], worst: str, counts: Counts, confidence: float) -> tuple[float, float]:
    """How far the probability of the worst single outcome lies from its null; `confidence` is for all of them."""
    name, _, outcome = worst.rpartition(": outcome ")
    cell = next(cell for cell in cells if cell.id == name)
    at = int(np.flatnonzero(cell.atoms == int(outcome))[0])
    found, chance = counts[name][:-1], float(cell.probabilities()[at])
    tried = sum(len(one.atoms) for one in cells)  # the worst was chosen among all
    low, high = bounds.binomial_interval(found[at], sum(found), 1 - (1 - confidence) / tried)
    if low <= chance <= high:
        return 0.0, max(chance - low, high - chance)
    return min(abs(low - chance), abs(high - chance)), max(abs(low - chance), abs(high - chance))
