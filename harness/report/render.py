"""Render a receipt as one self-contained HTML page: from the receipt alone, on any machine, no scripts, no requests."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pp3.harness.battery import number
from pp3.harness.campaign import of_plan
from pp3.harness.cells import Cell, Event
from pp3.harness.design import pool
from pp3.harness.errors import CampaignError
from pp3.harness.evidence.receipt import write_once
from pp3.harness.exact.pairs import excluded_rate
from pp3.harness.report import charts, trial
from pp3.harness.report.pictures.svg import Picture
from pp3.harness.report.template import fill
from pp3.harness.verdict import all_cells, merge

MOST_REASONS = 12  # that are not folded
PAGES = {"qualify": "campaign.html"}
PICTURED = (Event.TOKEN, Event.FULL_TARGET)


def write_page(content: bytes, statement: dict[str, Any], path: Path) -> Path:
    """Write the page of a receipt to a file that must not exist yet."""
    try:
        return write_once(path, page(content, statement).encode())
    except FileExistsError:
        raise CampaignError(f"{path} exists already; give another file with --out") from None


def page(content: bytes, statement: dict[str, Any]) -> str:
    """The HTML of a receipt: the same bytes for the same receipt."""
    predicate = statement["predicate"]
    kind = predicate["kind"]
    more = {"qualify": _campaign, "trial": trial.context}.get(kind, lambda _: {})(predicate)
    return fill(
        PAGES.get(kind, f"{kind}.html"),
        {
            "alarm": None,
            "excluded_rate": excluded_rate,
            "most_reasons": MOST_REASONS,
            "p": predicate,
            "sha256": hashlib.sha256(content).hexdigest(),
            "statement": statement,
            **more,
        },
    )


def _campaign(predicate: dict[str, Any]) -> dict[str, Any]:
    """What the page of a campaign shows beside its receipt: pictures, summaries and sums."""
    tests = predicate["tests"]
    judged = [test for test in tests if float(test["alpha"])]
    values, levels = [float(test["p"]) for test in judged], [float(test["alpha"]) for test in judged]
    return {
        "tests": tests,
        "open_tests": [test for test in tests if test["outcome"] in ("fail", "unresolved")],
        "summary": [_summary(event.value, predicate["plan"]["targets"], tests) for event in Event],
        "targets": list(_targets(predicate)),
        "pictures": [trial.ladder(judged, values, levels)],
        "bits_rows": sum(row["rows"] for row in predicate["kernels"]["bits"]),
        "bits_mismatches": sum(row["mismatches"] for row in predicate["kernels"]["bits"]),
        "pairs": sum(row["pairs"] for row in predicate["paired"]),
        "pair_mismatches": sum(row["mismatches"] for row in predicate["paired"]),
    }


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


def _targets(predicate: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Pictures and their data for each target: the first token's law over all depths, and the accepted length."""
    campaign = of_plan(predicate["plan"])
    counts = merge({(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]})
    cells = all_cells(campaign)
    for number_of, target in enumerate(campaign.targets):
        mine = [cell for cell in cells if cell.target == target.name]
        first = [cell for cell in mine if cell.position == 0 and cell.event in PICTURED]
        pictures = [_law_picture(f"t{number_of}", first, counts, campaign.spec.requests, campaign.spec.pool)]
        depth = max(campaign.spec.depths)
        lengths = [cell for cell in mine if cell.event is Event.LENGTH and cell.depth == depth]
        pictures.append(_length_picture(f"t{number_of}", lengths, counts, depth))
        yield {"name": target.name, "why": target.why, "vocab": target.vocab, "pictures": pictures}


def _law_picture(name: str, cells: list[Cell], counts: dict[str, list[int]], requests: int, least: int) -> Picture:
    merged = np.sum([counts[cell.id] for cell in cells], axis=0)
    seen = merged[:-1].astype(np.float64)
    expected = seen.sum() * cells[0].probabilities()
    pooled = pool(cells[0], max(1, round(requests / float(cells[0].rate))), least)
    if pooled is not None:
        groups = pooled.groups
        seen = np.bincount(groups, weights=seen)
        expected = np.bincount(groups, weights=expected)
    worst = float(np.abs((seen - expected) / charts.spread_of(expected)).max())
    finding = (
        f"First emitted token, {int(merged.sum()):,} events in {len(seen)} pooled outcomes: the largest residual is "
        f"{worst:.1f} standard deviations; {int(merged[-1])} outcomes of zero probability."
    )
    rows = [(int(a), f"{b:.1f}") for a, b in zip(seen, expected, strict=True)]
    return Picture(
        title="Observed against expected",
        svg=charts.law_chart(f"{name}-law", finding, seen, expected),
        finding=finding,
        head=("observed", "expected"),
        rows=rows,
    )


def _length_picture(name: str, cells: list[Cell], counts: dict[str, list[int]], depth: int) -> Picture:
    observed, expected = np.zeros(depth + 1), np.zeros(depth + 1)
    for cell in cells:
        seen = np.array(counts[cell.id][:-1], np.float64)
        observed[cell.atoms] += seen
        expected[cell.atoms] += seen.sum() * cell.probabilities()
    mean_seen, mean_law = (float((v * np.arange(depth + 1)).sum() / max(v.sum(), 1)) for v in (observed, expected))
    finding = f"Accepted drafts at depth {depth}: mean {mean_seen:.4f} observed, {mean_law:.4f} by the exact law."
    return Picture(
        title="Accepted drafts",
        svg=charts.length_chart(f"{name}-length", finding, list(range(depth + 1)), observed, expected),
        finding=finding,
        head=("accepted", "observed", "expected"),
        rows=[(j, int(observed[j]), number(expected[j])) for j in range(depth + 1)],
    )
