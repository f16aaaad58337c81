"""The page of planted faults: every fault against every kind of check, those that escaped first.

Its input is what `pp3 faults --json` prints. Nothing of the moment enters the page: the seconds are left out.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from pp3.harness.errors import CampaignError, ReceiptError
from pp3.harness.evidence.receipt import write_once
from pp3.harness.report.template import fill

ESCAPED = ("ESCAPED", "CONTROL-FAIL")
CONTROLS = ("CONTROL-PASS", "CONTROL-FAIL")
PLAIN = {True: "sees it", False: "misses", None: "none"}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `pp3 faults --json`."""

    id: str
    verdict: str
    caught_by: list[str]
    witness: str
    sole: bool
    marginal: bool | None
    ships: dict[str, bool] | None
    requests: int
    seeds: int
    caught: int
    cause: str
    about: str
    report: str
    effect: str
    seconds: float
    cpu_seconds: float = 0.0  # of one seed; older files have none
    fast: bool = True

    @property
    def escaped(self) -> bool:
        """Whether it came out as it must not."""
        return self.verdict in ESCAPED

    @property
    def control(self) -> bool:
        """Whether nothing is planted."""
        return self.verdict in CONTROLS


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command prints."""

    faults: list[Fault]


def is_faults(content: bytes) -> bool:
    """Whether a file is the command's, and no receipt."""
    return content.lstrip()[:20].replace(b" ", b"").startswith(b'{"faults":')


def read(path: Path, content: bytes) -> list[Fault]:
    """Its rows. ReceiptError for a file that is malformed, or of no fault at all."""
    try:
        rows = msgspec.json.decode(content, type=Faults).faults
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReceiptError(f"{path}: not what pp3 faults --json prints: {error}") from None
    if not rows:
        raise ReceiptError(f"{path}: no fault in it; give what pp3 faults --json prints")
    return rows


def write_page(content: bytes, rows: list[Fault], path: Path) -> Path:
    """Write the page to a file that must not exist yet."""
    try:
        return write_once(path, page(content, rows).encode())
    except FileExistsError:
        raise CampaignError(f"{path} exists already; give another file with --out") from None


def page(content: bytes, rows: list[Fault]) -> str:
    """The HTML of the matrix."""
    ordered = sorted(rows, key=lambda row: (not row.escaped, row.control))
    kinds: dict[str, int] = {}
    for row in rows:
        for kind in dict.fromkeys([*row.caught_by, *([row.witness] if row.witness else [])]):
            kinds[kind] = kinds.get(kind, 0) + 1
    columns = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    planted = [row for row in rows if not row.control]
    tested = [row for row in planted if row.marginal is not None]
    escaped = [row for row in ordered if row.escaped]
    return fill(
        "faults.html",
        {
            "columns": columns,
            "escaped": escaped,
            "figures": [
                (
                    f"{sum(not row.escaped for row in planted):,} of {len(planted):,}",
                    "planted faults came out as named",
                ),
                (f"{len(escaped):,}", "escaped, or controls that failed"),
                (f"{sum(row.marginal is False for row in tested):,} of {len(tested):,}", "missed by a plain test"),
            ],
            "finding": _finding(planted, escaped, len(rows) - len(planted)),
            "matrix": [{"fault": row, "cells": [_cell(row, kind) for kind in columns]} for row in ordered],
            "peers": _peers(planted),
            "plain": PLAIN,
            "sha256": hashlib.sha256(content).hexdigest(),
            "verdict": "ESCAPED" if escaped else "CAUGHT",
        },
    )


def _finding(planted: list[Fault], escaped: list[Fault], controls: int) -> str:
    if escaped:
        named = ", ".join(row.id for row in escaped[:5]) + (" and others" if len(escaped) > 5 else "")
        return f"{len(escaped):,} of {len(planted):,} faults, or controls, did not come out as they must: {named}."
    return (
        f"all {len(planted):,} planted faults were caught by the check that is named for each; of {controls:,} "
        "controls none failed."
    )


def _cell(row: Fault, kind: str) -> tuple[str, str, str]:
    """Sign, class and words of one fault under one kind of check."""
    if kind == row.witness:
        return ("✗", "fail", "named, missed") if row.escaped else ("◆", "pass", "named, caught")
    if kind in row.caught_by:
        return ("●", "fail", "rejected") if row.control else ("●", "", "also caught")
    return "", "", ""


def _peers(planted: list[Fault]) -> list[tuple[str, Any, Any]]:
    """Of each rule of acceptance, how many faults it would have let pass of those with counts."""
    counted = [row.ships for row in planted if row.ships is not None and row.verdict != "EXACT-ONLY"]
    rules = dict.fromkeys(rule for ships in counted for rule in ships)
    return [(rule, sum(ships.get(rule, False) for ships in counted), len(counted)) for rule in rules]
