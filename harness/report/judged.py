"""What the pages of a campaign and of a trial draw from: the plan's checks, the counts, and the stored results."""

from dataclasses import dataclass
from typing import Any, cast

from pp3.harness.battery import TestResult, judge
from pp3.harness.cells import Event
from pp3.harness.design import Check, design
from pp3.harness.evidence.trial import as_run
from pp3.harness.transport.wire_plan import of_any_plan as of_plan
from pp3.harness.trial.findings import place_of
from pp3.harness.trial.plan import Trial
from pp3.harness.verdict import merge

Row = dict[str, Any]  # of a receipt's tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A plan's checks beside the counts they judge. Checks are built from the plan again, never read."""

    checks: list[Check]
    counts: dict[str, list[int]]  # of each cell, over all batch sizes
    tests: list[Row]  # as the receipt has them, one a check
    vocabs: dict[str, int]  # by target
    strays: dict[str, dict[int, int]]  # by cell, outcomes that its law forbids and how often they came
    deviations: dict[str, Row]  # by check
    alpha: float
    power: float

    @property
    def deciding(self) -> list[tuple[Check, Row]]:
        """Checks that more than a forbidden outcome can fail, with their results."""
        return [(check, test) for check, test in zip(self.checks, self.tests, strict=True) if float(test["alpha"])]

    @property
    def failing(self) -> list[Check]:
        """Checks that failed, the strongest first: the largest shares of impossible outcomes, then what lies furthest
        below its level; those that sum up many laws come last."""
        rows = {test["id"]: test for test in self.tests}

        def strength(check: Check) -> tuple[bool, float, float]:
            row = rows[check.id]
            level, met = float(row["alpha"]), sum(sum(self.counts[cell]) for cell in check.counted)
            ratio = float(row["p"]) / level if level else 1.0
            return check.event in (Event.RARE, Event.FIT), -row["forbidden"] / max(met, 1), ratio

        return sorted((check for check in self.checks if rows[check.id]["outcome"] == "fail"), key=strength)

    def place(self, check: Check) -> str:
        """Where a check looks, in words: of a target without drafts the case."""
        if check.depth == 0 and check.event is Event.TOKEN:
            return f"case {check.id.rpartition('/')[2]}"
        return place_of(cast(TestResult, check))  # its id and event alone are read

    def again(self, check: Check) -> TestResult:
        """The result of a check, from its counts."""
        return judge(check, self.counts, self.power)


def of_campaign(predicate: dict[str, Any]) -> Judged:
    """Of a receipt of our campaign. PP3Error or ValueError for a plan that this pp3 does not build."""
    campaign = of_plan(predicate["plan"])
    return Judged(
        checks=design(campaign),
        counts=merge({(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]}),
        vocabs={target.name: target.vocab for target in campaign.targets},
        alpha=campaign.spec.alpha,
        power=campaign.spec.power,
        **_stored(predicate),
    )


def of_trial(predicate: dict[str, Any]) -> tuple[Judged, Trial]:
    """Of a receipt of a trial, and the trial. PP3Error or ValueError for a plan that this pp3 does not build."""
    trial = as_run(predicate)
    judged = Judged(
        checks=trial.checks,
        counts={cell["id"]: cell["counts"] for cell in predicate["cells"]},
        vocabs={problem.name: problem.vocab for problem in trial.problems},
        alpha=trial.spec.alpha,
        power=trial.spec.power,
        **_stored(predicate),
    )
    return judged, trial


def _stored(predicate: dict[str, Any]) -> dict[str, Any]:
    strays: dict[str, dict[int, int]] = {}
    for stray in predicate["strays"]:
        of_cell = strays.setdefault(stray["cell"], {})
        of_cell[stray["outcome"]] = of_cell.get(stray["outcome"], 0) + stray["count"]
    return {
        "tests": predicate["tests"],
        "strays": strays,
        "deviations": {row["id"]: row for row in predicate.get("deviations", [])},
    }
