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
    place = {verdict: at for at, verdict in enumerate(ORDER)}
    ordered = sorted(rows, key=lambda row: place.get(row["verdict"], 2))
    counted = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ORDER}
    figures = [(f"{count:,} {verdict}", ABOUT[verdict]) for verdict, count in counted.items() if count]
    return {
        "against": [row for row in ordered if tone(row["verdict"]) != "pass"],
        "figures": [*figures, (f"{len(predicate['notRun']):,}", "not run")],
        "ordered": ordered,
    }
