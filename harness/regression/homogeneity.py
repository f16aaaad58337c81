"""Whether two histograms come from one law, whatever that law is: the two-sample G test, and Holm over many of them.

G = 2 sum n ln(n / m) over both samples, m the count that the groups' shares of both together give each; under one law
chi-square with (nonempty groups - 1) degrees of freedom (Wilks 1935). Outcomes are merged, rarest first by the sum of
both samples, until each group expects LEAST in the smaller sample: the margins are ancillary, so that merging by them
looks at nothing that the test judges. A sample's size is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp3.harness import tails
from pp3.harness.special import special

LEAST = 20  # expected in a group of the smaller sample: the least that a campaign may pool to (campaign._check)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSample:
    """One test. df is 0, and p 1, where fewer than two groups stand."""

    g: float
    df: int
    p: float
    old: int  # events
    new: int


def two_sample(old: Sequence[int], new: Sequence[int]) -> TwoSample:
    """Test two histograms [outcomes] of the same outcomes. ValueError for histograms of different lengths."""
    if len(old) != len(new):
        raise ValueError(f"{len(old)} outcomes there, {len(new)} here: not the same histogram")
    counts = np.array([old, new], np.int64).reshape(2, -1)  # [2, outcomes]
    totals = counts.sum(axis=1)
    groups = _merged(counts, int(totals.min()))
    g, df, p = 0.0, max(0, groups.shape[1] - 1), 1.0
    if df:
        expected = groups.sum(axis=0) * (totals / totals.sum())[:, None]
        g = max(0.0, 2 * float(special.xlogy(groups, groups / expected).sum()))
        p = float(tails.chi2_sf(g, df))
    return TwoSample(g=g, df=df, p=p, old=int(totals[0]), new=int(totals[1]))


def _merged(counts: npt.NDArray[np.int64], smaller: int) -> npt.NDArray[np.int64]:
    """Counts of each group, [2, groups]: outcomes merged, rarest first, what is left joins the last group."""
    both = counts.sum(axis=0)
    total = int(both.sum())
    order = np.argsort(both, kind="stable")
    order = order[both[order] > 0]
    groups: list[npt.NDArray[np.int64]] = []
    open_group = np.zeros(2, np.int64)
    for outcome in order:
        open_group = open_group + counts[:, outcome]
        if int(open_group.sum()) * smaller >= LEAST * total:
            groups.append(open_group)
            open_group = np.zeros(2, np.int64)
    if open_group.any() and groups:
        groups[-1] = groups[-1] + open_group
    return np.stack(groups, axis=1) if groups else np.zeros((2, 0), np.int64)


def holm(values: Sequence[float]) -> list[float]:
    """Adjusted p-values: at most alpha of families without effect have one at or below alpha (Holm 1979).

    Holds whatever depends on what among the tests.
    """
    order = sorted(range(len(values)), key=lambda at: values[at])
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = largest
    return adjusted
