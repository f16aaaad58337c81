"""How large a fault is in each check, from exact laws: effect sizes, total variation and the requests that it needs.

A multinomial test of df degrees of freedom sees N events of effect size w^2 = sum (q - p)^2 / p once N w^2 is its
noncentrality (harness/power.py); p is the null's law of a cell and q the fault's, after the null's own pooling.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from pp3.harness.cells import Cell, Event
from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import Fault, Shows
from pp3.harness.faults.round_law import Mass, RoundLaw
from pp3.harness.oracle import Law
from pp3.harness.pooling import pool
from pp3.harness.power import noncentrality
from pp3.harness.samplers.contract import Kind
from pp3.harness.trial.problems import Problem, choose

ALPHA, POWER, POOL = 1e-5 / 200, 0.999, 100
MARGIN = 1.1  # of requests, for directions whose variance is larger than the null's
SURE = -math.log(1 - POWER)  # mean of a Poisson count that is 0 with probability 1 - POWER
NOTHING = 1e-15  # an effect size that is the rounding of a table
LEAST, MOST = 200, 1 << 40  # requests that are looked at
TRIED = 4
SINGLE = 2_000  # outcomes that are looked at alone, each from two sides
ACCEPT, KEPT, FORBIDDEN, RARE = "accept", "kept", "forbidden", "rare-cell"
# Events whose law under a fault RoundLaw has; those of kept and accept are made of its places.
KNOWN = (Event.PROPOSAL, Event.TOKEN, Event.RESIDUAL, Event.FULL_TARGET, Event.BONUS, Event.LENGTH, Event.JOINT)
WHOLE = (Event.LENGTH.value, Event.JOINT.value, Event.BONUS.value)  # one check a target, whatever the position


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """One cell of the null, and what a fault makes of it."""

    check: str  # event, and position where there is one
    cell: Cell
    masses: Mass  # the fault's, per request

    @property
    def event(self) -> str:
        """The event of the check."""
        return self.check.partition("@")[0]

    @property
    def rate(self) -> Fraction:
        """How often the fault meets the cell with an outcome that the null allows, per request."""
        return sum((self.masses.get(x, Fraction(0)) for x in self.cell.atoms.tolist()), Fraction(0))

    @property
    def forbidden(self) -> Fraction:
        """Mass of outcomes that the null forbids, per request."""
        return sum(self.masses.values(), Fraction(0)) - self.rate

    @property
    def shifts(self) -> list[tuple[Fraction, Fraction]]:
        """(p, q) of each atom."""
        total, rate = sum(self.cell.shares), self.rate or Fraction(1)
        return [
            (Fraction(share, total), self.masses.get(x, Fraction(0)) / rate)
            for x, share in zip(self.cell.atoms.tolist(), self.cell.shares, strict=True)
        ]

    @property
    def tv(self) -> Fraction:
        """Total variation, given that the cell is met."""
        whole = sum(self.masses.values(), Fraction(0))
        share = self.forbidden / whole if whole else Fraction(0)
        inside = sum((abs(q * (1 - share) - p) for p, q in self.shifts), Fraction(0))
        return (inside + share) / 2

    @property
    def effect(self) -> float:
        """w^2, given that the cell is met with an outcome that the null allows."""
        return math.fsum(float((q - p) ** 2 / p) for p, q in self.shifts) if self.rate else 0.0


def problem_of(sampler: Correct, name: str) -> Problem:
    """A problem as this sampler declares itself; what an engine keeps to itself is known here all the same.

    ValueError where the problem does not apply.
    """
    kind = Kind(sampler.kind) if sampler.kind in list(Kind) else Kind.PIPELINE
    who = sampler.describe() if kind == sampler.kind else type(sampler)(kind).describe()
    found, left_out = choose(who, [name])
    if not found:
        raise ValueError(f"{name} is no problem of {who.name}: {left_out}")
    if kind != sampler.kind:
        return replace(found[0], events=set(found[0].events) - {Event.PROPOSAL})
    return found[0]


def differences(sampler: Correct, problem: Problem) -> list[Difference]:
    """Every cell of the null against the sampler's law, of the events that are a matter of one round's places."""
    law = RoundLaw(sampler, problem)
    found = [
        Difference(check=_check(cell.event.value, cell.position), cell=cell, masses=law.of(cell))
        for cell in problem.cells
        if cell.event in KNOWN
    ]
    if Event.KEPT in problem.events and not problem.target.block:
        found += _kept(law) + _accepted(law)
    return found


def _check(event: str, position: int) -> str:
    return event if event in WHOLE or position < 0 else f"{event}@{position}"


def _live(law: RoundLaw, null: Law) -> Iterator[tuple[int, int, Fraction, Fraction]]:
    """Places where a draft is judged: position, context, how often the null comes there, and the sampler."""
    patterns = law.target.patterns
    share = Fraction(1, len(patterns))
    for j, c in sorted({place for pattern in patterns for place in null.reached(law.depth, pattern)}):
        met = [p for p in patterns if j < law.depth and not law.void(p)[j]]
        before = sum((null.reached(law.depth, p).get((j, c), Fraction(0)) for p in met), Fraction(0))
        if before:
            after = sum((law.reach(p).get((j, c), Fraction(0)) for p in met), Fraction(0))
            yield j, c, before * share, after * share


def _kept(law: RoundLaw) -> list[Difference]:
    """The law of kept drafts, by place."""
    null = Law(law.target)
    found = []
    for j, c, before, after in _live(law, null):
        row = null.kept[null.row(j, c)]
        if not row.any():
            continue
        masses = {x: mass * after for x, mass in law.place(j, c).kept.items()}
        rate = before * Fraction(int(row.sum()), law.target.total)
        found.append(Difference(check=f"{KEPT}@{j}", cell=_cell(law, j, c, "", row, rate), masses=masses))
    return found


def _accepted(law: RoundLaw) -> list[Difference]:
    """Whether a drafted token is kept, by place and token: outcome 1 is kept."""
    null = Law(law.target)
    found = []
    for j, c, before, after in _live(law, null):
        drafted, kept = null.tickets[null.row(j, c)], null.kept[null.row(j, c)]
        place, chance = law.place(j, c), law.acceptance(j, c)
        for x in np.flatnonzero(drafted).tolist():
            shares = np.array([drafted[x] - kept[x], kept[x]])
            mass = place.proposal.get(x, Fraction(0)) * after
            cell = _cell(law, j, c, str(x), shares, before * Fraction(int(drafted[x]), law.target.total))
            masses = {outcome: part for outcome, part in ((0, mass * (1 - chance[x])), (1, mass * chance[x])) if part}
            found.append(Difference(check=f"{ACCEPT}@{j}", cell=cell, masses=masses))
    return found


def _cell(law: RoundLaw, j: int, c: int, pattern: str, row: Any, rate: Fraction) -> Cell:
    atoms = np.flatnonzero(row)
    return Cell(
        event=Event.TOKEN,
        target=law.target.name,
        depth=law.depth,
        position=j,
        context=c,
        pattern=pattern,
        atoms=atoms,
        shares=tuple(row[atoms].tolist()),
        rate=rate,
    )


def strength(found: list[Difference], requests: int, share: int) -> tuple[int, float]:
    """Degrees of freedom and noncentrality of the cells of one check, pooled at so many requests of each law."""
    df, size = 0, 0.0
    for one in found:
        pooled = pool(one.cell, requests * share, POOL)
        if pooled is None:
            continue
        q = np.bincount(pooled.groups, weights=[float(q) for _, q in one.shifts], minlength=pooled.df + 1)
        df += pooled.df
        size += (
            requests * share * float(one.rate) * float(((q - pooled.probabilities) ** 2 / pooled.probabilities).sum())
        )
    return df, size


def needed(found: list[Difference], share: int) -> int | None:
    """Requests of each law at which one check sees this, MARGIN included; None beyond MOST."""
    effect = math.fsum(float(one.rate) * one.effect for one in found)
    if effect < NOTHING:
        return None
    requests = max(LEAST, int(noncentrality(ALPHA, 1, POWER) / (effect * share)))  # more is needed when pooled
    while requests < MOST:
        df, size = strength(found, requests, share)
        if df and size >= noncentrality(ALPHA, df, POWER):
            return math.ceil(requests * MARGIN)
        requests = requests * 21 // 20
    return None


def rare(found: list[Difference], share: int) -> int | None:
    """Requests of each law at which one outcome alone, unpooled, is seen by an exact binomial test, of either side.

    The level is that of one of SINGLE outcomes; counts of rare outcomes are Poisson to within their probability.
    """
    shifts = [
        (float(p), float(q), float(one.rate) * share)
        for one in found
        for p, q in one.shifts
        if float(one.rate) * float(q - p) ** 2 >= NOTHING * float(p)
    ]
    # Near to normal, requests go with p / (rate (q - p)^2); the few that promise most are computed.
    shifts.sort(key=lambda shift: max(shift[:2]) / (shift[2] * (shift[0] - shift[1]) ** 2))
    needs = [_alone(*shift) for shift in shifts[:TRIED]]
    return min((math.ceil(need * MARGIN) for need in needs if need is not None), default=None)


def _alone(p: float, q: float, rate: float) -> float | None:
    """Requests at which one outcome's count shows q for p, both per event of this rate; None beyond MOST."""
    requests = 3 / (rate * max(p, q))  # a mean of 3
    while requests < MOST:
        expected, seen = requests * rate * p, requests * rate * q
        if q > p:
            power = stats.poisson.sf(stats.poisson.isf(ALPHA / SINGLE, expected), seen)
        else:
            power = stats.poisson.cdf(stats.poisson.ppf(ALPHA / SINGLE, expected) - 1, seen)
        if power >= POWER:
            return requests
        requests *= 1.05
    return None


def planned(sampler: Correct, name: str) -> dict[str, int]:
    """Requests of each law at which each check sees a sampler on a problem; those that never do are left out."""
    problem = problem_of(sampler, name)
    by_check: dict[str, list[Difference]] = {}
    for one in differences(sampler, problem):
        by_check.setdefault(one.check, []).append(one)
    found = {check: needed(group, problem.share) for check, group in by_check.items()}
    singles = [one for group in by_check.values() for one in group if one.event not in (ACCEPT, KEPT)]
    found[RARE] = rare([one for one in singles if one.cell.rate], problem.share)
    forbidden = max((one.forbidden for group in by_check.values() for one in group), default=Fraction(0))
    if forbidden:
        found[FORBIDDEN] = math.ceil(SURE / float(forbidden) / problem.share * MARGIN)
    return {check: requests for check, requests in found.items() if requests is not None}


def matching(law: Any, rho: float) -> int:
    """Requests at which copying the request before with probability rho shows in the equal ones of disjoint pairs.

    Pairs are equal with s = sum p^2, and with s + rho (1 - s) of a copy: w^2 = rho^2 (1 - s) / s, one pair a request
    and its neighbour (study of statistics, section 3). law is [vocab], of any sum.
    """
    equal = float(((law / law.sum()) ** 2).sum())
    pairs = noncentrality(ALPHA, 1, POWER) * equal / (rho**2 * (1 - equal))
    return math.ceil(2 * pairs * MARGIN)


def by_witness(fault: Fault) -> dict[str, int]:
    """Requests of each law at which each event sees a fault, on that of its targets and positions that needs fewest."""
    found: dict[str, int] = {}
    sampler = fault.sampler()
    if not isinstance(sampler, Correct):
        raise ValueError(f"{fault.id} is no sampler of correct.py; its law is not known")
    for name in fault.targets:
        for check, requests in planned(sampler, name).items():
            event = check.partition("@")[0]
            found[event] = min(requests, found.get(event, requests))
    return found


def equivalent(fault: Fault) -> bool:
    """Whether a fault of the law is none: equal to the null in every cell of each of its targets."""
    return fault.shows is Shows.LAW and not by_witness(fault)
