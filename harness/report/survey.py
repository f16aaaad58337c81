"""What the page of a survey shows beside its receipt: the verdicts counted, and those against a sampler first."""

from typing import Any

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
    ordered = sorted(rows, key=lambda row: place.get(row["verdict"], 2))
    counted = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ORDER}
    figures = [(f"{count:,} {verdict}", ABOUT[verdict]) for verdict, count in counted.items() if count]
    return {
        "against": [row for row in ordered if tone(row["verdict"]) != "pass"],
        "figures": [*figures, (f"{count:,}", "not run")],
        "left_out": _by_reason(predicate["notRun"]),
        "limits": [f"Nothing is shown of {count:,} samplers that were not run."] if count else [],
        "ordered": ordered,
    }


def _by_reason(left_out: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Samplers that were not run, by why, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for name in sorted(left_out):
        found.setdefault(left_out[name], []).append(name)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
