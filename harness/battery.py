"""Judge counts: G for the verdict, Pearson recorded beside it, and a forbidden outcome as a hard failure.

G = 2 sum n ln(n / (n_total p)) over the pooled groups of a cell, given the cell's own number of events; statistics of
cells with different contexts are independent given those numbers, so they and their degrees of freedom add.
"""

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special, stats

from pp3.harness.cells import Cell, Event
from pp3.harness.design import TOO_FEW, Check, Pooled, detectable_tv, pool

DIGITS = 6
SEED_FAMILY_ALPHA = 2e-6  # the customer's: 1e-5 over five targets
Counts = dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One check, judged. Numbers are doubles; a receipt stores them to six digits."""

    id: str
    event: Event
    df: int
    events: int
    g: float
    p: float
    pearson: float
    pearson_p: float
    alpha: float
    detectable_tv: float
    forbidden: int
    reason: str
    required: bool

    @property
    def outcome(self) -> str:
        """pass, fail, certain (only a forbidden outcome could fail it) or unresolved."""
        if self.forbidden or (self.df and self.p <= self.alpha):
            return "fail"
        if self.df:
            return "pass"
        return "unresolved" if self.reason == TOO_FEW else "certain"

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "alpha": number(self.alpha),
            "detectableTv": number(self.detectable_tv),
            "df": self.df,
            "event": self.event.value,
            "events": self.events,
            "forbidden": self.forbidden,
            "g": number(self.g),
            "id": self.id,
            "outcome": self.outcome,
            "p": number(self.p),
            "pearson": number(self.pearson),
            "pearsonP": number(self.pearson_p),
            "reason": self.reason,
            "required": self.required,
        }


def number(value: float) -> str:
    """A double to six significant digits, as a receipt holds it."""
    return f"{value:.{DIGITS}g}"


def judge(check: Check, counts: Counts, power: float) -> TestResult:
    """Judge one check from the counts of each cell, merged over batch sizes."""
    g = pearson = 0.0
    events = 0
    for pooled in check.cells:
        one_g, one_pearson = statistics(pooled, counts[pooled.cell.id])
        g, pearson = g + one_g, pearson + one_pearson
        events += sum(counts[pooled.cell.id])
    decides = check.df > 0
    return TestResult(
        id=check.id,
        event=check.event,
        df=check.df,
        events=events if decides else sum(sum(counts[cell]) for cell in check.counted),
        g=g,
        p=float(stats.chi2.sf(g, check.df)) if decides else 1.0,
        pearson=pearson,
        pearson_p=float(stats.chi2.sf(pearson, check.df)) if decides else 1.0,
        alpha=check.alpha,
        detectable_tv=detectable_tv(check.alpha, check.df, check.events, power) if decides else 1.0,
        forbidden=sum(counts[cell][-1] for cell in check.counted),
        reason=check.reason,
        required=check.required,
    )


def statistics(pooled: Pooled, counts: list[int]) -> tuple[float, float]:
    """G and Pearson's X^2 of one cell's counts, forbidden outcomes left out (they fail on their own)."""
    observed = np.bincount(pooled.groups, weights=counts[:-1], minlength=pooled.df + 1)
    total = observed.sum()
    if total == 0:
        return 0.0, 0.0
    expected = total * pooled.probabilities
    g = 2 * special.xlogy(observed, observed / expected).sum()
    return max(0.0, float(g)), float(((observed - expected) ** 2 / expected).sum())


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
        p = float(stats.chi2.sf(pearson, pooled.df))
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
