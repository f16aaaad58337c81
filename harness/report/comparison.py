"""The page of two receipts: what became worse, what differs beside the counts, what the counts say of each other."""

from dataclasses import dataclass

from pp3.harness.cells import Cell, Event
from pp3.harness.regression.checks import Change
from pp3.harness.regression.compare import ALPHA, CellRow, Comparison, Mark
from pp3.harness.regression.differences import Difference, Topic
from pp3.harness.regression.integers import of_predicate
from pp3.harness.regression.opened import Opened, cells_of
from pp3.harness.report.pictures.pairs import Pair, holm_picture, pair_picture
from pp3.harness.report.pictures.svg import Picture
from pp3.harness.report.template import fill
from pp3.harness.trial.findings import outcome_name

MOST_PICTURES = 6
MOST_ROWS = 500  # of one table
MOST_REASONS = 12  # that are not folded
GRAVEST = (Change.WORSE, Change.VANISHED, Change.WEAKER, Change.BETTER, Change.ADDED, Change.OTHER_LAW)
WORDS = ("REGRESSION", "INCOMPARABLE", "WEAKER", "NO REGRESSION")
MARKS = {
    Mark.EQUAL: "equal counts",
    Mark.SAME: "no evidence of a difference, which is not the same as none",
    Mark.DIFFERS: "the counts come from two laws",
    Mark.VANISHED: "not in NEW",
    Mark.ADDED: "only in NEW",
    Mark.OTHER_LAW: "the target has another law there",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """What differs of one topic."""

    topic: Topic
    rows: list[Difference]


def page(old: Opened, new: Opened, found: Comparison) -> str:
    """The HTML of a comparison: the same bytes for the same receipts under the same pp3."""
    word = next(word for word in WORDS if found.sentence.startswith(word))
    changed = sorted(
        (row for row in found.checks if row.change is not Change.SAME), key=lambda row: GRAVEST.index(row.change)
    )
    cells = sorted(found.cells, key=_telling)
    return fill(
        "comparison.html",
        {
            "alpha": f"{ALPHA:g}",
            "cells": cells[:MOST_ROWS],
            "cells_in_all": len(cells),
            "changed": changed[:MOST_ROWS],
            "changed_in_all": len(changed),
            "chapters": [Chapter(topic=t, rows=[r for r in found.differences if r.topic is t]) for t in Topic],
            "counted": [(mark.value, _count(found.cells, mark), MARKS[mark]) for mark in Mark],
            "figures": _figures(found),
            "found": found,
            "most_reasons": MOST_REASONS,
            "most_rows": MOST_ROWS,
            "new": new,
            "old": old,
            "pictures": pictures(old, new, found),
            "word": word,
        },
    )


def pictures(old: Opened, new: Opened, found: Comparison) -> list[Picture]:
    """All p-values of the two-sample tests, then the cells that say most, count beside count."""
    tested = [row for row in found.cells if row.df]
    if not tested:
        return []
    one, other = (of_predicate(opened.predicate).counts for opened in (old, new))
    cells = cells_of(old.predicate) | cells_of(new.predicate)
    drawn = [holm_picture("holm", [(_name(row), row.p, row.holm) for row in tested], ALPHA)]
    for at, row in enumerate(sorted(tested, key=_telling)[:MOST_PICTURES]):
        key = (row.id, row.batch)
        pair = Pair(
            name=_name(row),
            outcomes=_outcomes(cells[row.id]),
            old=one[key],
            new=other[key],
            p=row.p,
            holm=row.holm,
            differs=row.mark is Mark.DIFFERS,
        )
        drawn.append(pair_picture(f"c{at}", pair))
    return drawn


def _outcomes(cell: Cell) -> list[str]:
    """Names of a cell's outcomes, in the order of its counts; whole rounds by their numbers."""
    if cell.event is Event.JOINT:
        return [f"round no. {atom}" for atom in cell.atoms.tolist()]
    return [outcome_name(cell.event, [atom], 0, cell.depth) for atom in cell.atoms.tolist()]


def _telling(row: CellRow) -> tuple[int, float, str, int]:
    """What differs first, then what is not on both sides, then by p-value."""
    place = {Mark.DIFFERS: 0, Mark.VANISHED: 1, Mark.OTHER_LAW: 2, Mark.ADDED: 3}.get(row.mark, 4)
    return place, row.p, row.id, row.batch


def _name(row: CellRow) -> str:
    return f"{row.id} at batch {row.batch}" if row.batch else row.id


def _count(cells: list[CellRow], mark: Mark) -> int:
    return sum(row.mark is mark for row in cells)


def _figures(found: Comparison) -> list[tuple[str, str]]:
    """Key figures: what became worse, what sees less, which cells differ, how many sources do."""

    def checks(*changes: Change) -> str:
        return f"{sum(row.change in changes for row in found.checks):,} of {len(found.checks):,}"

    sources = sum(row.topic is Topic.SOURCES for row in found.differences)
    figures: list[tuple[str, str]] = [(f"{sources:,}", "source files differ")]
    if found.checks:
        figures = [
            (checks(Change.WORSE), "checks became worse"),
            (checks(Change.WEAKER, Change.VANISHED), "see less, or are gone"),
            *figures,
        ]
    if found.cells:
        differ = _count(found.cells, Mark.DIFFERS)
        figures.insert(2, (f"{differ:,} of {len(found.cells):,}", "cells whose counts come from two laws"))
    return figures
