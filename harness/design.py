"""What a campaign can see, decided before it runs: pooled cells, error budget, smallest detectable effect.

Pooling and power follow from the null alone. Formulas: a multinomial goodness-of-fit statistic with df degrees of
freedom and noncentrality N w^2, w^2 = sum (q_i - p_i)^2 / p_i; total variation is at most w / 2 (Cauchy-Schwarz), so
an effect of that size is seen whatever its direction.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from pp3.harness.campaign import Campaign
from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.oracle import Law

CERTAIN = "the law has one outcome: any other is a hard failure"
TOO_FEW = "too few events for two groups of cells"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pooled:
    """One cell with its atoms merged until each group expects enough events."""

    cell: Cell
    groups: npt.NDArray[np.int64]  # [atoms] group of each atom
    probabilities: npt.NDArray[np.float64]  # [groups]
    events: float  # expected, at the planned size

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return len(self.probabilities) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Check:
    """One statistical check, fixed before the run: cells whose statistics add up."""

    id: str
    event: Event
    target: str
    depth: int
    cells: tuple[Pooled, ...]  # those that can decide something
    counted: tuple[str, ...]  # ids of all its cells: a forbidden outcome fails in any
    alpha: float
    reason: str  # why it cannot decide anything, or ""
    required: bool

    @property
    def df(self) -> int:
        """Degrees of freedom of the sum."""
        return sum(pooled.df for pooled in self.cells)

    @property
    def events(self) -> float:
        """Events expected at the planned size."""
        return math.fsum(pooled.events for pooled in self.cells)


def pool(cell: Cell, requests: int, least: int) -> Pooled | None:
    """Merge a cell's atoms, rarest first, until each group expects `least` events; None if fewer than two groups stand.

    Looks at the null only, never at counts.
    """
    events = float(requests * cell.rate)
    probabilities = cell.probabilities()
    groups = np.zeros(len(probabilities), np.int64)
    merged: list[float] = []
    open_group = 0.0
    for atom in np.argsort(probabilities, kind="stable"):
        groups[atom] = len(merged)
        open_group += probabilities[atom]
        if open_group * events >= least:
            merged.append(open_group)
            open_group = 0.0
    if open_group and merged:  # what is left joins the last group
        groups[groups == len(merged)] = len(merged) - 1
        merged[-1] += open_group
    if len(merged) < 2:
        return None
    return Pooled(cell=cell, groups=groups, probabilities=np.array(merged), events=events)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Cells that the same requests fall into."""

    cells: list[Cell]
    depth: int
    requests: int


def groups(campaign: Campaign) -> list[Group]:
    """Every target and depth of a campaign."""
    return [
        Group(
            cells=enumerate_cells(Law(target), depth),
            depth=depth,
            requests=sum(campaign.requests_of(depth, size) for size in campaign.spec.batch_sizes),
        )
        for target in campaign.targets
        for depth in campaign.spec.depths
    ]


def design(campaign: Campaign) -> list[Check]:
    """Every check of a campaign."""
    return checks(groups(campaign), campaign.spec.alpha, campaign.spec.pool)


def checks(found: list[Group], alpha: float, least: int) -> list[Check]:
    """Every check of some groups, with its share of the family alpha: equal parts over the checks that can decide."""
    drafts = []
    for group in found:
        by_check: dict[str, list[Cell]] = {}
        for cell in group.cells:
            by_check.setdefault(_check_id(cell), []).append(cell)
        for name, cells in by_check.items():
            drafts.append((name, cells, [pool(cell, group.requests, least) for cell in cells], group.depth))
    able = sum(any(pools) for _, _, pools, _ in drafts)
    designed = []
    for name, cells, pools, depth in drafts:
        kept = tuple(pooled for pooled in pools if pooled)
        certain = all(len(cell.atoms) == 1 for cell in cells)
        first = cells[0]
        designed.append(
            Check(
                id=name,
                event=first.event,
                target=first.target,
                depth=depth,
                cells=kept,
                counted=tuple(cell.id for cell in cells),
                alpha=alpha / max(able, 1) if kept else 0.0,
                reason="" if kept else CERTAIN if certain else TOO_FEW,
                required=not certain and (first.position <= 0 or first.event is Event.BONUS),
            )
        )
    return designed


def _check_id(cell: Cell) -> str:
    if cell.depth == 0:
        return cell.id
    where = "" if cell.event in (Event.LENGTH, Event.JOINT, Event.BONUS) else f"/position-{cell.position}"
    return f"{cell.target}/depth-{cell.depth}/{cell.event.value}{where}"


@cache
def noncentrality(alpha: float, df: int, power: float) -> float:
    """Noncentrality at which a chi-square test of level alpha rejects with this power."""
    critical = stats.chi2.isf(alpha, df)
    return float(optimize.brentq(lambda nc: stats.ncx2.sf(critical, df, nc) - power, 1e-9, 1e5))


def detectable_tv(alpha: float, df: int, events: float, power: float) -> float:
    """Smallest total variation that is seen whatever its direction, at `events` events."""
    return min(1.0, math.sqrt(noncentrality(alpha, df, power) / events) / 2)


def required_events(alpha: float, df: int, tv: float, power: float) -> int:
    """Events at which a deviation of this total variation is seen whatever its direction."""
    return math.ceil(noncentrality(alpha, df, power) / (2 * tv) ** 2)
