"""What the page of a survey shows beside its receipt: the verdicts counted, and those against a sampler first."""

from typing import Any

from pp3.harness.evidence.survey_table import CONTROL
from pp3.harness.report.template import tone

ORDER = ("FAIL", "INVALID", "INCONCLUSIVE", "TOLERATED", "PASS")
ABOUT = {
    "FAIL": "do not emit the law they claim",
    "INVALID": "broke the contract",
    "INCONCLUSIVE": "not decided",
    "TOLERATED": "deviate within the tolerance declared",
    "PASS": "no evidence against them",
}


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template."""
    rows = predicate["samplers"]
    count = len(predicate["notRun"])
    place = {verdict: at for at, verdict in enumerate(ORDER)}
    ordered = sorted(rows, key=lambda row: (place.get(row["verdict"], 2), meant(row)))
    counted = {verdict: [row for row in rows if row["verdict"] == verdict] for verdict in ORDER}
    figures = [(f"{len(found):,} {verdict}", _about(verdict, found)) for verdict, found in counted.items() if found]
    return {
        "against": [row for row in ordered if tone(row["verdict"]) != "pass"],
        "figures": [*figures, (f"{count:,}", "not run")],
        "left_out": _by_reason(predicate["notRun"]),
        "meant": meant,
        "limits": [f"Nothing is shown of {count:,} samplers that were not run."] if count else [],
        "ordered": ordered,
    }


def meant(row: dict[str, Any]) -> bool:
    """Whether a sampler is a negative control, which must fail."""
    return CONTROL in row["about"]


def _about(verdict: str, rows: list[dict[str, Any]]) -> str:
    controls = sum(meant(row) for row in rows)
    return ABOUT[verdict] + (f"; {controls:,} are controls meant to fail" if controls else "")


def _by_reason(left_out: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Samplers that were not run, by why, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for name in sorted(left_out):
        found.setdefault(left_out[name], []).append(name)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
