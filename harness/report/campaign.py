"""What the page of a campaign shows beside its receipt: failures, pictures, summaries and sums."""

from collections.abc import Iterator
from typing import Any

from pp3.harness.cells import Event
from pp3.harness.design import EMITTED, Check
from pp3.harness.report.failures import failures
from pp3.harness.report.judged import Judged, Row, of_campaign
from pp3.harness.report.pictures.ladder import ladder_picture
from pp3.harness.report.pictures.law import law_picture
from pp3.harness.report.pictures.lengths import lengths, lengths_picture
from pp3.harness.report.pictures.power import power_picture, resolution_picture
from pp3.harness.report.pictures.svg import Picture
from pp3.harness.report.pictures.timings import timings_picture
from pp3.harness.transport.wire_plan import of_any_plan as of_plan
from pp3.harness.verdict import all_cells

MOST_FAILURES = 6  # pictures of failed checks
MOST_TARGETS = 8  # with pictures of their own


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template. PP3Error, KeyError or ValueError for a plan or counts that do not fit each other."""
    judged = of_campaign(predicate)
    bits, paired = predicate["kernels"]["bits"], predicate["paired"]
    targets = list(_targets(predicate, judged))
    rows, pairs = sum(row["rows"] for row in bits), sum(row["pairs"] for row in paired)
    differ = sum(row["mismatches"] for row in bits), sum(row["mismatches"] for row in paired)
    summary = [_summary(event.value, predicate["plan"]["targets"], predicate["tests"]) for event in Event]
    spec = of_plan(predicate["plan"]).spec
    return {
        "bits_mismatches": differ[0],
        "bits_rows": rows,
        "failures": failures(judged),
        "figures": [
            (f"{spec.requests * len(predicate['plan']['targets']):,}", "requests, drawn from a seed fixed by the plan"),
            failed_tile(judged),
            (
                f"{float(predicate['sees'].get('token', '1')):.3g}",
                f"off in a first token's law (total variation) is seen, power {judged.power:g}",
            ),
            (f"{differ[0]:,} of {rows:,}", "rows of bits differ from the reference"),
            (f"{differ[1]:,} of {pairs:,}", "temperature-0 pairs differ"),
        ],
        "failure_pictures": failure_pictures(judged),
        "left_out": [target["name"] for target in targets if not target["pictures"]],
        "limits": limits(judged, predicate["sees"].get("token", "1")),
        "ordered": ordered(judged.tests),
        "pair_mismatches": differ[1],
        "pairs": pairs,
        "pictures": check_pictures(judged),
        "summary": [row for row in summary if any(cell["text"] for cell in row["cells"])],
        "undecided": undecided(judged),
        "targets": [target for target in targets if target["pictures"]],
        "timings": [
            picture for picture in [timings_picture("timings", predicate.get("timings") or [])] if picture is not None
        ],
    }


def failed_tile(judged: Judged) -> tuple[str, str]:
    """How many checks failed of those that decide."""
    total = sum(test["outcome"] == "fail" or bool(float(test["alpha"])) for test in judged.tests)
    return f"{len(judged.failing):,} of {total:,}", f"checks failed, family alpha {judged.alpha:g}"


def limits(judged: Judged, size: str) -> list[str]:
    """What could hide, and what was not decided, in words."""
    said = [
        f"An error below {size} in total variation of a first token's law could hide: only from there on is it seen "
        f"with power {judged.power:g}."
    ]
    if count := sum(test["outcome"] == "unresolved" for test in judged.tests):
        needed = sum(test["outcome"] == "unresolved" and test["required"] for test in judged.tests)
        said.append(
            f"{count:,} of {len(judged.tests):,} checks decide nothing at this number of requests; {needed:,} of them "
            "are required."
        )
    return said


def undecided(judged: Judged) -> list[tuple[str, str, int, int]]:
    """Checks that decide nothing, by kind and reason: how many, and how many of them are required."""
    found: dict[tuple[str, str], list[bool]] = {}
    for test in judged.tests:
        if test["outcome"] == "unresolved":
            found.setdefault((test["event"], test["reason"]), []).append(test["required"])
    return [(event, reason, len(required), sum(required)) for (event, reason), required in found.items()]


def ordered(tests: list[Row]) -> list[Row]:
    """Failed checks first, then those nearest to their levels, then those that decide nothing."""

    def place(test: Row) -> tuple[bool, bool, float]:
        level = float(test["alpha"])
        return test["outcome"] != "fail", not level, float(test["p"]) / level if level else 0.0

    return sorted(tests, key=place)


def check_pictures(judged: Judged) -> list[list[Picture]]:
    """Pictures of all checks together, in columns."""
    columns = (
        [ladder_picture("ladder", judged)],
        [power_picture("power", judged), resolution_picture("resolution", judged)],
    )
    return [[picture for picture in column if picture is not None] for column in columns]


def failure_pictures(judged: Judged) -> list[Picture]:
    """The laws of the failed checks that have one, the strongest first."""
    failing = [check for check in judged.failing if check.cells and check.event is not Event.FIT][:MOST_FAILURES]
    found = [law_picture(f"fail{at}", check.id, [check], judged) for at, check in enumerate(failing)]
    return [picture for picture in found if picture is not None]


def _summary(event: str, targets: list[dict[str, Any]], tests: list[dict[str, Any]]) -> dict[str, Any]:
    """The smallest p-value of one kind of check, of each target."""
    cells = []
    for target in targets:
        mine = [test for test in tests if test["id"].startswith(f"{target['name']}/") and test["event"] == event]
        worst = min(mine, key=lambda test: float(test["p"]), default=None)
        failed = any(test["outcome"] == "fail" for test in mine)
        text = "" if worst is None else worst["p"] if float(worst["alpha"]) else worst["outcome"]
        cells.append({"outcome": "fail" if failed else "pass" if worst else "", "text": text})
    return {"cells": cells, "event": event}


def _targets(predicate: dict[str, Any], judged: Judged) -> Iterator[dict[str, Any]]:
    """Each target with its pictures, if it is among those nearest to their levels; the others without."""
    campaign = of_plan(predicate["plan"])
    cells = all_cells(campaign)
    nearest: dict[str, float] = {}
    for check, test in judged.deciding:
        ratio = float(test["p"]) / float(test["alpha"])
        nearest[check.target] = min(ratio, nearest.get(check.target, ratio))
    ranked = sorted(campaign.targets, key=lambda target: nearest.get(target.name, 0.0))
    drawn = {target.name for target in ranked[:MOST_TARGETS]}
    for at, target in enumerate(campaign.targets):
        pictures: list[Picture] = []
        if target.name in drawn:
            checks = [check for check in judged.checks if check.target == target.name]
            law = law_picture(f"t{at}law", "Tokens emitted at each position", emitted(checks), judged)
            pictures += [law] if law else []
            whole = [
                lengths(
                    depth,
                    [
                        cell
                        for cell in cells
                        if (cell.target, cell.depth, cell.event) == (target.name, depth, Event.LENGTH)
                    ],
                    judged.counts,
                )
                for depth in campaign.spec.depths
            ]
            met = [one for one in whole if one is not None]
            pictures += [lengths_picture(f"t{at}lengths", met)] if met else []
        yield {"name": target.name, "why": target.why, "vocab": target.vocab, "pictures": pictures}


def emitted(checks: list[Check]) -> list[Check]:
    """The checks of emitted tokens that pool groups, the deepest rounds first, position by position."""
    mine = [check for check in checks if check.event in EMITTED and check.cells]
    return sorted(mine, key=lambda check: (-check.depth, check.event is Event.BONUS, check.cells[0].cell.position))
