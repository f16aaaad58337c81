"""What the page of a probe shows beside its receipt: times by vocabulary, and every figure in a table."""

from fractions import Fraction
from typing import Any

from pp3.harness.probe.figures import microseconds
from pp3.harness.probe.plan import OURS, Kind, Part, contenders
from pp3.harness.probe.tables import Times
from pp3.harness.report.pictures.probe import rows_picture, selector_pictures, verifier_pictures

HEAD = ("case", "contestant", "median, us", "p05", "p95", "x floor", "x ours", "launches", "rounds", "by")


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template."""
    times = Times(predicate)
    return {
        "absent": sorted(predicate["absent"].items()),
        "contenders": [(str(one.part), one.name, one.about, str(one.job)) for part in Part for one in contenders(part)],
        "figures": _tiles(predicate, times),
        "head": HEAD,
        "limits": predicate["exclusions"],
        "pictures": [
            *selector_pictures("selector", times),
            *rows_picture("rows", times),
            *verifier_pictures("verifier", times),
        ],
        "rows": [row for part in Part for case in times.cases(part) for row in _rows(predicate, times, case.id)],
    }


def _tiles(predicate: dict[str, Any], times: Times) -> list[tuple[str, str]]:
    rows = sum(row["rows"] for row in predicate["kernels"]["bits"])
    found = [(f"{rows:,}", "rows equal to the reference's, before and after")]
    for part in Part:
        shown = times.cases(part)
        if shown:
            first = max(
                shown, key=lambda case: (case.vocab, case.depth, case.kind is Kind.RANDOM, case.cache, -case.batch)
            )
            size = f"depth {first.depth}, vocabulary {first.vocab:,}, batch {first.batch}, {first.cache}"
            found.append((f"{times.shown(first, OURS)} us", f"a round of the {part}: {size}"))
    return found


def _rows(predicate: dict[str, Any], times: Times, case: str) -> list[tuple[str, ...]]:
    """A line for each contestant of a case."""
    timings = {timing["id"]: timing for row in predicate["cases"] if row["id"] == case for timing in row["timings"]}
    rows = []
    for name, line in times.lines[case].items():
        timing = timings[name]
        spread = (microseconds(Fraction(line[key], timing["rounds"])) for key in ("median", "p05", "p95"))
        ratios = (f"{float(Fraction(line[key])):.2f}" for key in ("overFloor", "overOurs"))
        rows.append(
            (case, name, *spread, *ratios, str(timing["launches"] or "-"), str(timing["rounds"]), timing["method"])
        )
    return rows
