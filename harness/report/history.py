"""The page of many receipts in their order of time: verdicts, what each would have seen, how near to failing."""

from collections.abc import Mapping, Sequence

from pp3.harness.report.entries import Entry
from pp3.harness.report.pictures.sequence import sequence_pictures
from pp3.harness.report.template import fill


def page(rows: Sequence[Entry], left: Mapping[str, str]) -> str:
    """The HTML of a history, oldest first; `left` are files that are no receipts, with the reasons."""
    groups = sorted({row.group for row in rows})
    standing = [row for row in rows if not row.superseded and not row.altered]
    last = standing[-1] if standing and len(groups) == 1 else None
    return fill(
        "history.html",
        {
            "changes": [
                len(groups) == 1 and at > 0 and rows[at - 1].environment != row.environment
                for at, row in enumerate(rows)
            ],
            "figures": [
                (f"{len(rows):,}", "receipts"),
                (f"{len(groups):,}", "kinds and samplers"),
                (f"{len(rows) - len(standing):,}", "superseded or altered"),
                (f"{len({row.environment for row in rows}):,}", "environments that they ran in"),
            ],
            "left": left,
            "pictures": sequence_pictures("seq", rows),
            "rows": rows,
            "sentence": _sentence(rows, groups, last),
            "word": last.verdict if last else "HISTORY",
        },
    )


def _sentence(rows: Sequence[Entry], groups: Sequence[tuple[str, str]], last: Entry | None) -> str:
    """What is shown, and what stands now."""
    verdicts = [row.verdict for row in rows]
    counted = ", ".join(f"{verdicts.count(word):,} {word}" for word in sorted(set(verdicts)))
    days = " to ".join(dict.fromkeys((rows[0].measured[:10], rows[-1].measured[:10])))
    whose = f"{groups[0][1]} ({groups[0][0]})" if len(groups) == 1 else f"{len(groups):,} kinds and samplers"
    now = f"; the last that stands, of {last.measured}, says {last.verdict}" if last else ""
    return f"{len(rows):,} receipts of {whose}, {days}: {counted}{now}."
