"""`pp3 compare`: open two receipts, compare them, say what there is to say."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError
from pp3.harness.regression.checks import Change
from pp3.harness.regression.compare import CellRow, Comparison, Mark, compare
from pp3.harness.regression.differences import Topic
from pp3.harness.regression.opened import Opened, open_receipt

MOST = 10  # rows of one kind that a terminal shows
LABEL = 13  # columns of the words before each line
WIDTH = 80
DIGEST = 12  # hexadecimal digits shown of a SHA-256
DIGESTED = re.compile("[0-9a-f]{64}")


def run_command(old: Path, new: Path, alpha: float, as_json: bool) -> int:
    """Everything the command does; its exit code."""
    if not 0 < alpha < 1:
        raise CampaignError(f"--alpha {alpha:g}: it must be between 0 and 1")
    before, after = open_receipt(old), open_receipt(new)
    found = compare(before, after, alpha)
    if as_json:
        click.echo(msgspec.json.encode(plain(before, after, found)).decode())
    else:
        for line in lines(before, after, found):
            click.echo(line)
    return found.exit


def plain(old: Opened, new: Opened, found: Comparison) -> dict[str, Any]:
    """One JSON object."""
    return {
        "conclusion": found.sentence.partition(":")[0].lower().replace(" ", "-"),
        "sentence": found.sentence,
        "regressions": found.regressions,
        "verdicts": {"old": found.verdicts[0], "new": found.verdicts[1]},
        "receipts": {"old": old.verified.sha256, "new": new.verified.sha256},
        "verified": {"old": old.verified.ok, "new": new.verified.ok},
        "comparable": {
            "correctness": not found.not_correctness,
            "correctnessReason": found.not_correctness,
            "timing": not found.not_timing,
            "timingReason": found.not_timing,
        },
        "samePlanAndSeed": found.same_seed,
        "equalCountsNotPromised": found.not_equal,
        "mismatch": found.mismatch,
        "differences": found.differences,
        "checks": found.checks,
        "cells": found.cells,
        "timings": [msgspec.to_builtins(row) | {"mark": row.mark} for row in found.timings],
    }


def lines(old: Opened, new: Opened, found: Comparison) -> list[str]:
    """What is said on a terminal."""
    said = [
        _line(name, f"{opened.predicate['verdict']} {opened.predicate['run']['startedUtc']} {opened.judged}")
        for name, opened in (("old", old), ("new", new))
    ]
    for topic in Topic:
        rows = [row for row in found.differences if row.topic is topic]
        if not rows:
            said.append(_line(topic.value, "the same"))
            continue
        said.append(_line(topic.value, f"{len(rows)} differ{'s' * (len(rows) == 1)}"))
        if topic is Topic.SOURCES:
            names = [row.name for row in rows]
            said += _some([", ".join(names[:MOST]), *names[MOST:]], 1)
        else:
            said += _some([f"{row.name}: {_short(row.old)} -> {_short(row.new)}" for row in rows])
    said.append(
        _line("correctness", f"incomparable: {found.not_correctness}" if found.not_correctness else "comparable")
    )
    said.append(_line("timing", f"incomparable: {found.not_timing}" if found.not_timing else "comparable"))
    said += [
        _line("", f"{row.mark:6} {row.ratio:.3f} [{row.low:.3f}, {row.high:.3f}] {row.id}") for row in found.timings
    ]
    if found.same_seed:
        said.append(_line("plan, seed", _equal(found)))
    if found.checks:
        count = {change: sum(row.change is change for row in found.checks) for change in Change}
        said.append(_line("checks", ", ".join(f"{times} {change.value}" for change, times in count.items() if times)))
        said += _some([row.sentence for row in found.checks if row.change not in (Change.SAME, Change.OTHER_LAW)])
    if found.cells:
        marks = {mark: sum(row.mark is mark for row in found.cells) for mark in Mark}
        said.append(_line("cells", ", ".join(f"{times} {mark.value}" for mark, times in marks.items() if times)))
        said += _some([_cell(row) for row in _telling(found.cells)])
        said.append(_line("", "= equal, ~ no evidence, ! differs, - vanished, + added, ? another law"))
    return [*said, found.sentence]


def _equal(found: Comparison) -> str:
    if found.not_equal:
        return f"the same; equal counts are not promised: {found.not_equal}"
    return (
        f"the same, and the counts are not: {found.mismatch.sentence}" if found.mismatch else "the same, as every count"
    )


def _telling(cells: list[CellRow]) -> list[CellRow]:
    """Cells that differ or are gone; or else the one that comes nearest to it."""
    odd = [row for row in cells if row.mark in (Mark.DIFFERS, Mark.VANISHED)]
    tested = [row for row in cells if row.mark is Mark.SAME and row.df]
    return odd or sorted(tested, key=lambda row: row.p)[:1]


def _cell(row: CellRow) -> str:
    where = f"{row.id} at batch {row.batch}" if row.batch else row.id
    if not row.df:
        return f"{row.mark.value} {where}"
    return f"{row.mark.value} {where}: G {row.g:.3g} on {row.df}, p {row.p:.2g}, Holm {row.holm:.2g}; {row.outcome}"


def _some(texts: list[str], most: int = MOST) -> list[str]:
    """The first of many, and how many more there are."""
    rest = [f"... and {len(texts) - most:,} more: --json has all"] if len(texts) > most else []
    return [_line("", text) for text in [*texts[:most], *rest]]


def _short(value: str) -> str:
    """A digest by its first digits."""
    return f"{value[:DIGEST]}..." if DIGESTED.fullmatch(value) else value


def _line(label: str, text: str) -> str:
    """Label and text, folded at spaces to WIDTH columns; a longer word is left whole."""
    folded, rows = "", []
    for word in text.split(" "):
        if folded and LABEL + len(folded) + 1 + len(word) > WIDTH:
            rows.append(folded)
            folded = f"  {word}"
        else:
            folded = f"{folded} {word}" if folded else word
    return "\n".join(f"{label if not at else '':{LABEL}}{row}" for at, row in enumerate([*rows, folded]))
