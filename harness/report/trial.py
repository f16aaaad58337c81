"""What the page of a trial shows beside its receipt: the targets nearest to their levels, and every check."""

from typing import Any

from pp3.harness.cells import Event
from pp3.harness.report.campaign import (
    check_pictures,
    emitted,
    failed_tile,
    failure_pictures,
    limits,
    ordered,
    undecided,
)
from pp3.harness.report.failures import failures
from pp3.harness.report.judged import Judged, of_trial
from pp3.harness.report.pictures.law import law_picture
from pp3.harness.report.pictures.lengths import lengths, lengths_picture
from pp3.harness.report.pictures.svg import Picture
from pp3.harness.trial.findings import BREACHES, outcome_name
from pp3.harness.trial.plan import Trial
from pp3.harness.trial.problems import Problem

MOST_TARGETS = 6  # with pictures
MOST_STRAYS = 50


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template. PP3Error, KeyError or ValueError for a plan or counts that do not fit each other."""
    judged, trial = of_trial(predicate)
    drawn = nearest(judged)[:MOST_TARGETS]
    out = predicate["plan"]["notApplicable"]
    left = [f"Targets left out, for the reasons given below: {len(out):,}."] if out else []
    named = {problem.name: problem for problem in trial.problems}
    return {
        "drawn": [
            {"alone": len(pictures) == 1, "name": name, "pictures": pictures}
            for at, name in enumerate(drawn)
            for pictures in [_pictures(at, named[name], judged)]
        ],
        "failure_pictures": failure_pictures(judged),
        "failures": failures(judged),
        "figures": [
            (f"{trial.requests:,}", "requests, drawn from a seed fixed by the plan"),
            failed_tile(judged),
            (
                f"{float(predicate['resolution']):.3g}",
                f"off in a first token's law (total variation) is seen, power {judged.power:g}",
            ),
            (f"{len(trial.problems):,}", "targets whose laws are known exactly"),
        ],
        "limits": limits(judged, predicate["resolution"]) + left,
        "ordered": ordered(judged.tests),
        "pictures": check_pictures(judged),
        "strays": _strays(trial, predicate["strays"]),
        "undecided": undecided(judged),
        "targets": [_target(trial, problem, predicate) for problem in trial.problems],
    }


def nearest(judged: Judged) -> list[str]:
    """Targets by how near any check of theirs comes to its level, or lies below it, the nearest first."""
    ratios: dict[str, float] = {}
    for check, test in judged.deciding:
        if check.target:
            ratio = float(test["p"]) / float(test["alpha"])
            ratios[check.target] = min(ratio, ratios.get(check.target, ratio))
    return sorted(ratios, key=lambda target: (ratios[target], target))


def _pictures(at: int, problem: Problem, judged: Judged) -> list[Picture]:
    """Emitted tokens of a target at every position or of every case, and its lengths where it has any."""
    checks = [check for check in judged.checks if check.target == problem.name]
    title = f"{problem.name}: tokens by case" if problem.depth == 0 else "Tokens emitted at each position"
    law = law_picture(f"t{at}law", title, emitted(checks), judged)
    cells = [cell for cell in problem.cells if cell.event is Event.LENGTH]
    found = lengths(problem.depth, cells, judged.counts) if cells else None
    return [*([law] if law else []), *([lengths_picture(f"t{at}lengths", [found])] if found else [])]


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
