"""The README's table of committed evidence: every receipt with its verdict, current or stale against this tree.

Superseded is what the ledger says; else current means that every source the receipt binds has the same digest here.
"""

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence import ledger, provenance, survey_table
from pp3.harness.evidence.receipt import read
from pp3.harness.paths import find_checkout

BEGIN, END = "<!-- evidence: written by make evidence -->", "<!-- end of evidence -->"
HEAD = "| evidence | measured | judged | verdict | against this tree |\n|---|---|---|---|---|"


class StaleEvidence(UserWarning):
    """A committed receipt no longer matches the sources it binds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One committed receipt."""

    kind: str
    receipt: str  # path in the checkout
    page: str  # path in the checkout, or ""
    started: str
    judged: str
    verdict: str
    state: str  # current; stale, and how many files differ; superseded, and by which digest, as the ledger says

    @property
    def superseded(self) -> bool:
        """Whether the ledger names one that stands in its place."""
        return self.state.startswith("superseded")

    @property
    def stale(self) -> bool:
        """Whether it no longer speaks of this tree, and nothing else does in its place."""
        return self.state.startswith("stale")


def rows() -> list[Row]:
    """Every receipt under receipts/evidence, a survey as one, oldest first by kind. PP3Error outside a checkout."""
    root = find_checkout()
    if root is None:
        raise PP3Error("no checkout holds this pp3, and the evidence is a checkout's: run it from one", Exit.USAGE)
    found, known = [], ledger.read(root / "receipts" / ledger.FILE)
    for path in sorted((root / "receipts" / "evidence").glob("*/*.json")):
        _, statement = read(path)
        if statement["predicate"]["kind"] == "trial" and path.parent.name == "survey":
            continue  # one line for the whole survey
        page = root / "reports" / "evidence" / path.parent.name / f"{path.stem}.html"
        sha256, stale = path.stem.rpartition("-")[2], _stale(path, statement, root)
        head = known.head(sha256)
        found.append(
            Row(
                kind=path.parent.name,
                receipt=path.relative_to(root).as_posix(),
                page=page.relative_to(root).as_posix() if page.is_file() else "",
                started=statement["predicate"]["run"]["startedUtc"],
                judged=_judged(statement["predicate"]),
                verdict=_verdict(statement["predicate"]),
                state=f"superseded by {head[:8]}" if head != sha256 else _state(stale),
            )
        )
    return found


def _state(stale: int) -> str:
    return f"stale: {stale} sources differ" if stale else "current"


def _stale(path: Path, statement: dict[str, Any], root: Path) -> int:
    """Bound sources that differ in this tree; of a survey, those of its first trial that lies beside it."""
    kind, subjects = provenance.kind_of(statement["predicate"]), statement["subject"]
    if kind != "survey":
        return len(provenance.stale(kind, subjects, root))
    trials = [path.parent / subject["name"] for subject in subjects]
    return next((_stale(trial, read(trial)[1], root) for trial in trials if trial.is_file()), 0)


def _judged(predicate: dict[str, Any]) -> str:
    """Who was judged, and where."""
    if predicate["kind"] == "survey":
        return f"{len(predicate['samplers'])} samplers"
    sampler = predicate["sampler"]
    if predicate["kind"] == "engine":
        drafts = ", with a draft model" if "draft" in predicate["plan"]["checkpoints"] else ""
        return f"{sampler['name']} {sampler['version']}{drafts}, {predicate['tokens']:,} tokens"
    identity = sampler["device"] if predicate["kind"] == "trial" else predicate["kernels"]["identity"]
    return f"{sampler['name']} {sampler['version']}, {identity.get('gpu', 'no GPU')}"


def _verdict(predicate: dict[str, Any]) -> str:
    """The verdict; of a survey, how many of each."""
    if predicate["kind"] != "survey":
        return str(predicate["verdict"])
    verdicts = [row["verdict"] for row in predicate["samplers"]]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts)))


def render(table: list[Row]) -> str:
    """The table in Markdown: what speaks of something today; how many others the ledger says were superseded."""
    lines, old = [HEAD], [row.kind for row in table if row.superseded]
    for row in table:
        if row.superseded:
            continue
        page = f", [page]({row.page})" if row.page else ""
        cells = (f"{row.kind}: [receipt]({row.receipt}){page}", row.started[:10], row.judged, row.verdict, row.state)
        lines.append(f"| {' | '.join(cells)} |")
    if old:
        each = ", ".join(f"{old.count(kind)} {kind}" for kind in sorted(set(old)))
        lines += ["", f"Superseded, each by one that [receipts/LEDGER](receipts/LEDGER) names: {each}."]
    return "\n".join(lines)


def replace_in(path: Path, table: list[Row]) -> str:
    """Rewrite the table between its marks in a file, whole or not at all; says what was done.

    CampaignError for a file that cannot be read or has no marks, PP3Error (74) for one that cannot be written.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give the README") from None
    except UnicodeDecodeError as error:
        raise CampaignError(f"{path}: not UTF-8 at byte {error.start}; give the README") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise CampaignError(f"{path}: needs the marks {BEGIN} and {END} once each, in this order; give the README")
    text = _between(text, BEGIN, END, render(table))
    if text.count(survey_table.BEGIN) == text.count(survey_table.END) == 1:
        text = _between(text, survey_table.BEGIN, survey_table.END, survey_table.render())
    try:
        _replace(path.resolve(), text)
    except OSError as error:
        raise PP3Error(f"{path}: {error.strerror}; it is as it was", Exit.IO) from None
    return f"{path}: {len(table)} receipts"


def _between(text: str, begin: str, end: str, new: str) -> str:
    """A text with what stands between two marks replaced."""
    head, rest = text.split(begin)
    return f"{head}{begin}\n{new}\n{end}{rest.split(end)[1]}"


def _replace(path: Path, text: str) -> None:
    """The new text in a file's place; OSError leaves the old."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
