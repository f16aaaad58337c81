"""What the page of a trial shows beside its receipt: the laws that failed first, then those looked at hardest."""

from typing import Any

import numpy as np

from pp3.harness.battery import expected_of, grouped, judge
from pp3.harness.design import Check, Method
from pp3.harness.evidence.trial import trial_of
from pp3.harness.report import charts
from pp3.harness.report.pictures.svg import Picture
from pp3.harness.trial.findings import BREACHES, outcome_name
from pp3.harness.trial.plan import Trial
from pp3.harness.trial.problems import Problem

MOST_PICTURES = 6
MOST_STRAYS = 50
MOST_GROUPS = 100  # of one picture


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template."""
    tests = predicate["tests"]
    judged = [test for test in tests if float(test["alpha"])]
    values, levels = [float(test["p"]) for test in judged], [float(test["alpha"]) for test in judged]
    trial = trial_of(predicate)
    counts = {row["id"]: row["counts"] for row in predicate["cells"]}
    deciding = [check for check in trial.checks if check.df and check.method is not Method.FIT]
    ranked = sorted(deciding, key=lambda check: judge(check, counts, trial.spec.power).p / check.alpha)
    return {
        "judged": judged,
        "strays": _strays(trial, predicate["strays"]),
        "targets": [_target(trial, problem, predicate) for problem in trial.problems],
        "check_pictures": [ladder(judged, values, levels)] if judged else [],
        "open_tests": [test for test in tests if test["outcome"] in ("fail", "unresolved")],
        "pictures": [_picture(f"p{at}", check, counts) for at, check in enumerate(ranked[:MOST_PICTURES])],
    }


def _strays(trial: Trial, strays: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """The impossible outcomes that came most often: cell, outcome, count."""
    cells = {cell.id: (cell.event, problem) for problem in trial.problems for cell in problem.cells}
    found = []
    for stray in sorted(strays, key=lambda stray: -stray["count"])[:MOST_STRAYS]:
        event, problem = cells[stray["cell"]]
        outcome = outcome_name(event, [stray["outcome"]], problem.vocab, problem.depth)
        found.append((stray["cell"], outcome, stray["count"]))
    return found


def _target(trial: Trial, problem: Problem, predicate: dict[str, Any]) -> tuple[str, str, int, list[str]]:
    """Name, reason, requests and broken rules of a target."""
    broken = [predicate["broken"][problem.name]] if problem.name in predicate["broken"] else []
    broken += [
        f"{count:,} {BREACHES[key.partition('/')[2]]}"
        for key, count in predicate["breaches"].items()
        if key.partition("/")[0] == problem.name
    ]
    cases = problem.target.labels
    why = f"cases {', '.join(cases)}" if cases else problem.target.pair.why
    return problem.name, why, trial.requests_of(problem), broken


def ladder_finding(judged: list[dict[str, Any]]) -> str:
    """The caption of the p-values."""
    if not judged:
        return "No check could decide anything at this number of requests."
    worst = min(judged, key=lambda test: float(test["p"]) / float(test["alpha"]))
    return (
        f"Smallest p-value against its level: {worst['id']}, p = {worst['p']} held to {worst['alpha']} "
        f"({len(judged)} checks)."
    )


def ladder(judged: list[dict[str, Any]], values: list[float], levels: list[float]) -> Picture:
    """Sorted p-values against their levels."""
    finding = ladder_finding(judged)
    return Picture(
        title="Sorted p-values",
        svg=charts.ladder_chart("ladder", finding, values, levels),
        finding=finding,
        head=("check", "p", "level"),
        rows=[(test["id"], test["p"], test["alpha"]) for test in judged],
    )


def _picture(name: str, check: Check, counts: dict[str, list[int]]) -> Picture:
    """Observed against expected over the groups of a check's cells, one after another."""
    seen, expected = [], []
    for pooled in check.cells:
        seen.append(grouped(pooled, counts[pooled.cell.id]))
        expected.append(expected_of(pooled, seen[-1]))
    one, other = np.concatenate(seen), np.concatenate(expected)
    if len(one) > MOST_GROUPS:  # those that deviate most
        furthest = np.argsort(-np.abs(one - other) / np.sqrt(np.maximum(other, 1)), kind="stable")[:MOST_GROUPS]
        one, other = one[furthest], other[furthest]
    worst = float(np.abs((one - other) / charts.spread_of(other)).max())
    finding = (
        f"{check.id}: {int(one.sum()):,} events in {len(one)} groups; the largest residual is {worst:.1f} standard "
        "deviations."
    )
    return Picture(
        title="Observed against expected",
        svg=charts.law_chart(f"{name}-law", finding, one, other),
        finding=finding,
        head=("observed", "expected"),
        rows=[(int(a), f"{b:.1f}") for a, b in zip(one, other, strict=True)],
    )
