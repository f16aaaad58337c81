"""What null campaigns came to, in integers that add up: rejections of families, bins of p-values, digests of counts."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.battery import Floats, Many, cells_read, p_values
from pp3.harness.calibrate import pit
from pp3.harness.calibrate.plan import ALPHAS, BINS, FAMILY_BINS, RATES, at
from pp3.harness.campaign import Campaign
from pp3.harness.design import Check, Method, design

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Battery:
    """The checks of a campaign that decide, and the level of each at every alpha of its family, as designed."""

    checks: list[Check]
    levels: Floats  # [alphas, checks]

    @property
    def kinds(self) -> dict[str, list[int]]:
        """Checks of each kind, by their numbers."""
        found: dict[str, list[int]] = {}
        for number, check in enumerate(self.checks):
            found.setdefault(kind_of(check), []).append(number)
        return found


def battery_of(campaign: Campaign) -> Battery:
    """The battery as it judges this campaign."""
    by_alpha = [[check for check in design(at(campaign, alpha)) if check.decides] for alpha in ALPHAS]
    levels = np.array([[check.alpha for check in checks] for checks in by_alpha])
    return Battery(checks=by_alpha[0], levels=levels)


def kind_of(check: Check) -> str:
    """What is counted, and how it is decided."""
    return f"{check.event.value}/{check.method.value}"


@dataclass(slots=True, kw_only=True)
class Kind:
    """P-values of one kind of check."""

    tried: int = 0
    below: Integers = field(default_factory=lambda: np.zeros(len(RATES), np.int64))
    pit: Integers = field(default_factory=lambda: np.zeros(BINS, np.int64))  # of one check a campaign, in turn


@dataclass(slots=True, kw_only=True)
class Found:
    """Of some campaigns; `add` makes it of more."""

    campaigns: int = 0
    digests: set[bytes] = field(default_factory=set)
    rejected: Integers = field(default_factory=lambda: np.zeros(len(ALPHAS), np.int64))
    family: Integers = field(default_factory=lambda: np.zeros(FAMILY_BINS, np.int64))
    kinds: dict[str, Kind] = field(default_factory=dict)

    def add(self, other: "Found") -> None:
        """Take in other campaigns."""
        self.campaigns += other.campaigns
        self.digests |= other.digests
        self.rejected += other.rejected
        self.family += other.family
        for name, kind in other.kinds.items():
            mine = self.kinds.setdefault(name, Kind())
            mine.tried += kind.tried
            mine.below += kind.below
            mine.pit += kind.pit

    def plain(self) -> dict[str, Any]:
        """Receipt form, less the level."""
        return {
            "campaigns": self.campaigns,
            "distinct": len(self.digests),
            "family": self.family.tolist(),
            "kinds": [
                {"below": kind.below.tolist(), "id": name, "pit": kind.pit.tolist(), "tried": kind.tried}
                for name, kind in sorted(self.kinds.items())
            ],
            "rejected": self.rejected.tolist(),
        }


def observe(battery: Battery, counts: Many, first: int, spin: np.random.Generator) -> Found:
    """Judge several campaigns, the first of which has this number, from the counts of each cell."""
    read = sorted({name for check in battery.checks for name in cells_read(check)})
    rows = np.concatenate([counts[name] for name in read], axis=1)
    number = first + np.arange(len(rows))
    found = Found(
        campaigns=len(rows), digests={hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows}
    )
    p = np.stack([p_values(check, counts) for check in battery.checks])  # [checks, campaigns]
    for place, levels in enumerate(battery.levels):
        found.rejected[place] = int((p <= levels[:, None]).any(axis=0).sum())
    alpha, levels = ALPHAS[0], battery.levels[0]
    found.family = bins((p * (alpha / levels)[:, None]).min(axis=0), FAMILY_BINS)
    for name, members in battery.kinds.items():
        kind = found.kinds.setdefault(name, Kind(tried=p[members].size))
        kind.below = np.array([int((p[members] <= rate).sum()) for rate in RATES])
        if battery.checks[members[0]].method is not Method.REPEAT:
            kind.pit = bins(_pit(battery, members, counts, p, number, spin), BINS)
    return found


def _pit(
    battery: Battery, members: list[int], counts: Many, p: Floats, number: Integers, spin: np.random.Generator
) -> Floats:
    """Transforms of one check, or outcome, of a kind a campaign, in turn: so they are independent. [campaigns]"""
    u = spin.random((pit.STREAMS, len(number)))
    values = np.empty(len(number))
    chosen = [battery.checks[member] for member in members]
    singles = [(cell, atom) for check in chosen for cell in check.single for atom in range(len(cell.atoms))]
    places = len(singles) or len(members)
    for place in np.unique(number % places):
        mine = number % places == place
        if singles:
            cell, atom = singles[place]
            values[mine] = pit.outcome(cell, atom, {cell.id: counts[cell.id][mine]}, u[0, mine])
        else:
            check = chosen[place]
            some = {name: counts[name][mine] for name in cells_read(check)}
            values[mine] = pit.spread(check, some, p[members[place]][mine], u[:, mine])
    return values


def bins(values: Floats, many: int) -> Integers:
    """How many lie in each of `many` equal parts of (0, 1], each with its upper end; what is above 1 is in the last."""
    place = np.clip(np.ceil(values * many).astype(np.int64) - 1, 0, many - 1)
    return np.bincount(place, minlength=many).astype(np.int64)
