"""Pool the outcomes of a cell, by its law alone, until each group expects enough events for the tail of G."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp3.harness.cells import Cell


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pooled:
    """One cell with its atoms merged, within each stratum, until each group expects enough events."""

    cell: Cell
    groups: npt.NDArray[np.int64]  # [atoms] group of each atom; -1 in a stratum that decides nothing
    probabilities: npt.NDArray[np.float64]  # [groups], given the stratum
    strata: npt.NDArray[np.int64]  # [groups] from 0 on
    events: float  # expected in the strata that decide, at the planned size

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return len(self.probabilities) - (int(self.strata[-1]) + 1)


def pool(cell: Cell, requests: int, least: int) -> Pooled | None:
    """Merge a cell's atoms, rarest first, until each group expects `least` events; None if fewer than two groups stand.

    In a cell with strata each is pooled by itself, as the law given it. Looks at the null only, never at counts.
    """
    events = float(requests * cell.rate)
    probabilities = cell.probabilities().tolist()
    groups = np.full(len(probabilities), -1, np.int64)
    merged: list[float] = []
    owners: list[int] = []
    used = 0.0
    for inside in _strata(cell):
        mass = math.fsum(probabilities[atom] for atom in inside)
        chosen, shares = _merge([probabilities[atom] / mass for atom in inside], events * mass, least)
        if len(shares) < 2:
            continue
        groups[inside] = np.array(chosen) + len(merged)
        owners += [owners[-1] + 1 if owners else 0] * len(shares)
        merged += shares
        used += mass
    if not merged:
        return None
    return Pooled(
        cell=cell,
        groups=groups,
        probabilities=np.array(merged),
        strata=np.array(owners, np.int64),
        events=events * used if cell.strata is not None else events,
    )


def _strata(cell: Cell) -> list[list[int]]:
    """Places of the atoms of each stratum, in its order; of all of them in a cell without."""
    if cell.strata is None:
        return [list(range(len(cell.atoms)))]
    found: dict[int, list[int]] = {}
    for atom, stratum in enumerate(cell.strata.tolist()):
        found.setdefault(stratum, []).append(atom)
    return [found[stratum] for stratum in sorted(found)]


def _merge(probabilities: list[float], events: float, least: int) -> tuple[list[int], list[float]]:
    """The group of each atom, and the probability of each group."""
    groups = [0] * len(probabilities)
    merged: list[float] = []
    open_group = 0.0
    for atom in sorted(range(len(probabilities)), key=probabilities.__getitem__):
        groups[atom] = len(merged)
        open_group += probabilities[atom]
        if open_group * events >= least:
            merged.append(open_group)
            open_group = 0.0
    if open_group and merged:  # what is left joins the last group
        groups = [min(group, len(merged) - 1) for group in groups]
        merged[-1] += open_group
    return groups, merged
