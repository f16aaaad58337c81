"""Judge counts: G for the verdict, Pearson recorded beside it, and a forbidden outcome as a hard failure.

G = 2 sum n ln(n / (n_total p)) over the pooled groups of a cell, given the events of each stratum; statistics of cells
and strata with different contexts are independent given those numbers, so they and their degrees of freedom add.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness import tails
from pp3.harness.canonical import number as number  # where callers look for it
from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import RARE
from pp3.harness.design import CERTAIN, Check, Method
from pp3.harness.pooling import Pooled, pool
from pp3.harness.power import Effect, detectable, excluded
from pp3.harness.special import special

SEED_FAMILY_ALPHA = 2e-6  # the customer's: 1e-5 over five targets
CONFIDENCE = 0.999  # of the largest effect that is not excluded
Counts = dict[str, list[int]]
Floats = npt.NDArray[np.float64]
Many = Mapping[str, npt.NDArray[np.int64]]  # of several campaigns: [campaigns, atoms + 1] of each cell


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One check, judged. Numbers are doubles; a receipt stores them to six digits."""

    id: str
    event: Event
    method: Method
    df: int
    events: int
    g: float
    p: float
    pearson: float
    pearson_p: float
    alpha: float
    detectable: Effect  # at the planned size
    excluded: Effect  # the largest that these counts leave possible
    forbidden: int
    worst: str  # of outcomes one by one: the cell and outcome of the smallest tail
    reason: str
    required: bool

    @property
    def decides(self) -> bool:
        """Whether more than a forbidden outcome can fail it."""
        return self.alpha > 0

    @property
    def significant(self) -> bool:
        """Whether its statistic lies beyond its level."""
        return self.decides and self.p <= self.alpha

    @property
    def outcome(self) -> str:
        """pass, fail, certain (only a forbidden outcome could fail it) or unresolved."""
        if self.forbidden or self.significant:
            return "fail"
        if self.decides:
            return "pass"
        return "certain" if self.reason == CERTAIN else "unresolved"

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "alpha": number(self.alpha),
            "detectable": number(self.detectable.size),
            "df": self.df,
            "event": self.event.value,
            "events": self.events,
            "excluded": number(self.excluded.size),
            "forbidden": self.forbidden,
            "g": number(self.g),
            "id": self.id,
            "method": self.method.value,
            "outcome": self.outcome,
            "p": number(self.p),
            "pearson": number(self.pearson),
            "pearsonP": number(self.pearson_p),
            "reason": self.reason,
            "required": self.required,
            "unit": self.detectable.unit.value,
            "worst": self.worst,
        }


def judge(check: Check, counts: Counts, power: float, slack: "Slack | None" = None) -> TestResult:
    """Judge one check from the counts of each cell, merged over batch sizes."""
    g, pearson, events = totals(check, counts)
    forbidden = sum(counts[cell][-1] for cell in check.counted)
    one = {name: np.array([counts[name]], np.int64) for name in cells_read(check)}
    p = float(p_values(check, one)[0])
    worst = _worst(check.single, one) if check.method is Method.RARE else ""
    if slack is not None and slack.explains(forbidden, _met(check, counts) * _drafts(check)):
        forbidden = 0
    chi_square = check.df > 0 and check.method in (Method.G, Method.BINOMIAL, Method.FIT)
    return TestResult(
        id=check.id,
        event=check.event,
        method=check.method,
        df=check.df,
        events=events if check.cells else _met(check, counts),
        g=g,
        p=p,
        pearson=pearson,
        pearson_p=float(tails.chi2_sf(pearson, check.df)) if chi_square else 1.0,
        alpha=check.alpha,
        detectable=detectable(check, power),
        excluded=excluded(check, g, events, CONFIDENCE, observed(check, counts)),
        forbidden=forbidden,
        worst=worst,
        reason=check.reason,
        required=check.required,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """How often, at most, rounding of a law's carrier rejects a draft that the law always keeps."""

    chance: float  # a draft
    level: float  # at which more than that is no rounding

    def explains(self, seen: int, drafts: int) -> bool:
        """Whether so many impossible outcomes among so many drafts may be rounding."""
        return float(tails.binom_sf(seen - 1, drafts, self.chance)) > self.level


def _drafts(check: Check) -> int:
    """Drafts that an event of a check is made of."""
    return {Event.LENGTH: check.depth, Event.LENGTH_PAIR: 2 * check.depth}.get(check.event, 1)


def _met(check: Check, counts: Counts) -> int:
    """Events of a check that pools nothing."""
    return sum(sum(counts[name]) for name in check.counted or [cell.id for cell in check.single])


def totals(check: Check, counts: Counts) -> tuple[float, float, int]:
    """G, Pearson's X^2 and the events of all pooled cells of a check."""
    g = pearson = 0.0
    events = 0
    for pooled in check.cells:
        one_g, one_pearson = statistics(pooled, counts[pooled.cell.id])
        g, pearson = g + one_g, pearson + one_pearson
        events += int(grouped(pooled, counts[pooled.cell.id]).sum())
    return g, pearson, events


def observed(check: Check, counts: Counts) -> int:
    """Of one coin, how often its second outcome came up; 0 of any other check."""
    if check.method is not Method.BINOMIAL:
        return 0
    pooled = check.cells[0]
    return int(grouped(pooled, counts[pooled.cell.id])[pooled.groups[1]])


def cells_read(check: Check) -> list[str]:
    """Ids of the cells whose counts its p-value follows from."""
    return [pooled.cell.id for pooled in check.cells] + [cell.id for cell in check.single]


def p_values(check: Check, counts: Many) -> Floats:
    """The p-value that decides a check, in each of several campaigns, [campaigns]."""
    match check.method:
        case Method.RARE:
            least, _ = _least(check.single, counts)
            return np.minimum(1.0, 2 * sum(len(cell.atoms) for cell in check.single) * least)
        case Method.REPEAT:
            stretches, repeats = counts[check.single[0].id][:, :2].T
            p = (stretches + repeats) / RARE / np.maximum(repeats, 1)
            return np.where(repeats > 0, np.minimum(1.0, p), 1.0)
        case Method.BINOMIAL:
            found = grouped(check.cells[0], counts[check.cells[0].cell.id])
            events = found.sum(axis=1)
            p = tails.two_sided(found[:, check.cells[0].groups[1]], events, check.chance)
            return np.where(events > 0, p, 1.0)
    g, met = np.zeros(1), np.zeros(1, np.bool_)
    for pooled in check.cells:
        g = g + _statistics(pooled, counts[pooled.cell.id])[0]
        met = met | (grouped(pooled, counts[pooled.cell.id]).sum(axis=1) > 0)
    p = tails.chi2_sf(g, check.df) if check.df else np.ones(len(g))
    if check.method is Method.FIT:
        p = np.minimum(1.0, 2 * np.minimum(p, tails.chi2_cdf(g, check.df)))
    return np.where(met, p, 1.0)


def _least(cells: tuple[Cell, ...], counts: Many) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Smallest exact tail of any outcome of these cells, and its place in the row of all of them, [campaigns] each."""
    found = []
    for cell in cells:
        mine = counts[cell.id][:, :-1]
        total, chances = mine.sum(axis=1, keepdims=True), np.broadcast_to(cell.probabilities(), mine.shape)
        hits, events, p, back = mine.ravel(), np.broadcast_to(total, mine.shape).ravel(), chances.ravel(), None
        if len(mine) > 1 and (total == total[0]).all():  # each count of an outcome once
            keys = mine * mine.shape[1] + np.arange(mine.shape[1])
            _, first, back = np.unique(keys, return_index=True, return_inverse=True)
            hits, events, p = hits[first], events[first], p[first]
        least = np.minimum(tails.binom_sf(hits - 1, events, p), tails.binom_cdf(hits, events, p))
        least = (least if back is None else least[back]).reshape(mine.shape)
        found.append(np.where(total > 0, least, 1.0))
    row = np.concatenate(found, axis=1)
    at = row.argmin(axis=1)
    return np.take_along_axis(row, at[:, None], axis=1)[:, 0], at


def _worst(cells: tuple[Cell, ...], counts: Many) -> str:
    """The outcome of the smallest tail in one campaign, "" where none is below 1."""
    (least,), (at,) = _least(cells, counts)
    if least >= 1:
        return ""
    for cell in cells:
        if at < len(cell.atoms):
            return f"{cell.id}: outcome {int(cell.atoms[at])}"
        at -= len(cell.atoms)
    return ""


def grouped(pooled: Pooled, counts: Any) -> Floats:
    """Counts of each group, [..., groups], of counts [..., atoms + 1]; forbidden outcomes and strata that decide
    nothing are left out."""
    order = np.argsort(pooled.groups, kind="stable")
    starts = np.searchsorted(pooled.groups[order], np.arange(len(pooled.probabilities)))
    found: Floats = np.add.reduceat(np.asarray(counts)[..., :-1][..., order], starts, axis=-1).astype(np.float64)
    return found


def expected_of(pooled: Pooled, found: Floats) -> Floats:
    """Counts that the law gives each group, given the events of its stratum, [..., groups]."""
    starts = np.searchsorted(pooled.strata, np.arange(pooled.strata[-1] + 1))
    expected: Floats = np.add.reduceat(found, starts, axis=-1)[..., pooled.strata] * pooled.probabilities
    return expected


def statistics(pooled: Pooled, counts: list[int]) -> tuple[float, float]:
    """G and Pearson's X^2 of one cell's counts, forbidden outcomes left out (they fail on their own)."""
    g, pearson = _statistics(pooled, counts)
    return float(g), float(pearson)


def _statistics(pooled: Pooled, counts: Any) -> tuple[Any, Any]:
    """The same of counts [..., atoms + 1], each [...]."""
    found = grouped(pooled, counts)
    expected = expected_of(pooled, found)
    met = expected > 0
    ratio = np.divide(found, expected, out=np.ones_like(found), where=met)
    squares = np.divide((found - expected) ** 2, expected, out=np.zeros_like(found), where=met)
    return np.maximum(0.0, 2 * special.xlogy(found, ratio).sum(axis=-1)), squares.sum(axis=-1)


def seed_family(cells: list[Cell], counts: Counts, requests: int, least: int) -> list[dict[str, Any]]:
    """The customer's own reading, which decides nothing: Pearson's p of each target's first token against 2e-6.

    Merged over depths and batch sizes, so that it has all of a target's requests, as the customer's figures had.
    """
    rows = []
    for target in dict.fromkeys(cell.target for cell in cells):
        first = [
            cell
            for cell in cells
            if cell.target == target and cell.position == 0 and cell.event in (Event.TOKEN, Event.FULL_TARGET)
        ]
        merged = np.sum([counts[cell.id] for cell in first], axis=0).tolist()
        pooled = pool(dataclasses.replace(first[0], rate=Fraction(1)), requests, least)
        if pooled is None:
            continue
        pearson = statistics(pooled, merged)[1]
        p = float(tails.chi2_sf(pearson, pooled.df))
        rows.append(
            {
                "alpha": number(SEED_FAMILY_ALPHA),
                "below": p <= SEED_FAMILY_ALPHA,
                "df": pooled.df,
                "events": sum(merged),
                "pearson": number(pearson),
                "pearsonP": number(p),
                "target": target,
            }
        )
    return rows
