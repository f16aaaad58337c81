"""`pp3 compare`: open two receipts, compare them, say what there is to say."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError
from pp3.harness.regression.checks import Change, CheckRow
from pp3.harness.regression.compare import CellRow, Comparison, Mark, compare
from pp3.harness.regression.differences import Topic
from pp3.harness.regression.opened import Opened, open_receipt
from pp3.harness.terminal import Column, Fit, labelled, sentence, table

MOST = 10  # rows of one kind that a terminal shows
LABEL = 13  # columns of the words before each line
DIGEST = 12  # hexadecimal digits shown of a SHA-256
GRAVEST = (Change.WORSE, Change.VANISHED, Change.WEAKER, Change.BETTER, Change.ADDED)
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
    """What is said on a terminal: the conclusion, both receipts, what differs, what may be compared, what was found."""
    said = [*sentence(found.sentence), "", *_both(old, new), ""]
    for topic in Topic:
        rows = [row for row in found.differences if row.topic is topic]
        same = "the same name, version and claims" if topic is Topic.SAMPLER else "the same"
        count = f"{len(rows)} differ{'s' * (len(rows) == 1)}" if rows else same
        said += _line(topic.value, count)
        if topic is Topic.SOURCES:
            names = [_short(row.name) for row in rows]
            said += _some([", ".join(names[:MOST]), *names[MOST:]] if names else [], 1)
        else:
            said += _some([f"{row.name}: {_short(row.old)} -> {_short(row.new)}" for row in rows])
    for label, refused in (("correctness", found.not_correctness), ("timing", found.not_timing)):
        said += _line(label, f"incomparable: {refused}" if refused else "comparable")
    said += _some(
        [f"{row.mark:6} {row.ratio:.3f} [{row.low:.3f}, {row.high:.3f}] {row.id}" for row in found.timings],
        len(found.timings),
    )
    if found.same_seed:
        said += _line("plan, seed", _equal(found))
    if found.checks:
        count_of = {change: sum(row.change is change for row in found.checks) for change in Change}
        said += _line("checks", ", ".join(f"{times} {change.value}" for change, times in count_of.items() if times))
        said += _checks([row for row in found.checks if row.change not in (Change.SAME, Change.OTHER_LAW)])
    if found.cells:
        marks = {mark: sum(row.mark is mark for row in found.cells) for mark in Mark}
        said += _line("cells", ", ".join(f"{times} {mark.value}" for mark, times in marks.items() if times))
        said += _line("", "= equal, ~ no evidence, ! differs, - vanished, + added, ? another law")
        said += _cells(_telling(found.cells))
    return said


def _both(old: Opened, new: Opened) -> list[str]:
    """The two receipts, side by side."""
    columns = [Column(head=""), Column(head="old", fit=Fit.FOLD), Column(head="new", fit=Fit.FOLD)]
    return table(
        columns,
        [
            ["verdict", *(str(opened.predicate["verdict"]) for opened in (old, new))],
            ["judged", *(opened.judged for opened in (old, new))],
            ["measured", *(str(opened.predicate["run"]["startedUtc"]) for opened in (old, new))],
            ["sha256", *(_short(opened.verified.sha256) for opened in (old, new))],
        ],
    )


def _checks(rows: list[CheckRow]) -> list[str]:
    """Checks that changed, the worst first: their outcomes, and what each sees."""
    if not rows:
        return []
    columns = [
        Column(head="check", fit=Fit.FOLD),
        Column(head="change"),
        Column(head="old"),
        Column(head="new"),
        Column(head="saw", right=True),
        Column(head="sees", right=True),
    ]
    ordered = sorted(rows, key=lambda row: GRAVEST.index(row.change))
    cells = [[row.id, row.change.value, row.old, row.new, row.sees_old, row.sees_new] for row in ordered[:MOST]]
    return ["", *table(columns, cells), *_rest(len(rows)), ""]


def _cells(rows: list[CellRow]) -> list[str]:
    """Cells with their two-sample tests."""
    columns = [
        Column(head=""),
        Column(head="cell", fit=Fit.FOLD),
        Column(head="batch", right=True),
        Column(head="G", right=True),
        Column(head="df", right=True),
        Column(head="p", right=True),
        Column(head="Holm", right=True),
        Column(head="its check", fit=Fit.FOLD),
    ]
    cells = []
    for row in rows[:MOST]:
        test = [f"{row.g:.3g}", str(row.df), f"{row.p:.2g}", f"{row.holm:.2g}"] if row.df else [""] * 4
        cells.append([row.mark.value, row.id, str(row.batch or ""), *test, row.outcome])
    return ["", *table(columns, cells), *_rest(len(rows))] if cells else []


def _rest(count: int) -> list[str]:
    return [f"... and {count - MOST:,} more: --json has all"] if count > MOST else []


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


def _some(texts: list[str], most: int = MOST) -> list[str]:
    """The first of many, and how many more there are."""
    rest = [f"... and {len(texts) - most:,} more: --json has all"] if len(texts) > most else []
    return [line for text in [*texts[:most], *rest] for line in _line("", text)]


def _short(value: str) -> str:
    """A text with each digest by its first digits."""
    return DIGESTED.sub(lambda digest: f"{digest[0][:DIGEST]}...", value)


def _line(label: str, text: str) -> list[str]:
    """Label and text."""
    return labelled(label, text, room=LABEL)
