"""The page of a folder: every receipt under it, by kind, with the address of the page that lies beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pp3.harness.report.entries import Entry, page_beside
from pp3.harness.report.template import fill, tone

DIGITS = 12  # of a digest that are shown
KINDS = ("qualify", "wire", "trial", "engine", "survey", "oracle", "exhaustive", "probe", "calibration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A receipt, and where it and its page lie."""

    entry: Entry
    name: str  # of the receipt, as seen from the folder
    page: str  # a relative address, or ""

    @property
    def short(self) -> str:
        """The name with as much of its digest as tells it apart."""
        return self.name.replace(self.entry.sha256, f"{self.entry.sha256[:DIGITS]}…")


def page(rows: Sequence[Entry], folder: Path, left: Mapping[str, str], written_in: Path) -> str:
    """The HTML of an index that is written in some folder; `left` are files that are no receipts, with the reasons."""
    lines = [
        Line(entry=row, name=row.path.relative_to(folder).as_posix(), page=page_beside(row.path, written_in))
        for row in rows
    ]
    lines.sort(key=lambda line: (KINDS.index(line.entry.kind), line.entry.measured, line.name))
    standing = [line.entry for line in lines if not line.entry.superseded and not line.entry.altered]
    against = [entry for entry in standing if tone(entry.verdict) == "fail"]
    pages = sum(bool(line.page) for line in lines)
    return fill(
        "index.html",
        {
            "chapters": [(kind, [line for line in lines if line.entry.kind == kind]) for kind in KINDS],
            "figures": [
                (f"{len(lines):,}", "receipts"),
                (f"{len(against):,}", "against a sampler, and standing"),
                (f"{len(lines) - len(standing):,}", "superseded or altered"),
                (f"{pages:,}", "with a page beside them"),
            ],
            "left": left,
            "sentence": _sentence(lines, standing),
        },
    )


def _sentence(lines: Sequence[Line], standing: Sequence[Entry]) -> str:
    verdicts = [entry.verdict for entry in standing]
    counted = ", ".join(f"{verdicts.count(word):,} {word}" for word in sorted(set(verdicts)))
    return f"{len(lines):,} receipts, {len(standing):,} of which stand: {counted or 'none'}."
