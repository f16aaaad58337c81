"""`pp3 report` of several receipts: a comparison of two, a history of more, an index of a folder; JUnit XML of any."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from pp3.harness.errors import CampaignError, Exit, ReceiptError
from pp3.harness.evidence.receipt import write_once
from pp3.harness.regression.compare import compare
from pp3.harness.regression.history import copies, copy_of
from pp3.harness.regression.opened import open_receipt
from pp3.harness.report import comparison, entries, history, index, junit

DIGITS = 12  # of a digest in a file's name


def compared(old: Path, new: Path, out: Path | None) -> int:
    """Write the page of two receipts; 3 where they cannot be compared.

    ReceiptError (3) for two of different kinds; VerificationError (1) for one that is untrue.
    """
    before, after = open_receipt(old), open_receipt(new)
    found = compare(before, after)
    name = f"comparison-{before.verified.sha256[:DIGITS]}-{after.verified.sha256[:DIGITS]}.html"
    written = write(out or new.parent / name, lambda _: comparison.page(before, after, found))
    click.echo(str(written))
    if found.not_correctness:
        click.echo(f"pp3: {found.not_correctness}; the page says so", err=True)
        return Exit.INCONCLUSIVE
    return Exit.OK


def followed(receipts: Sequence[Path], out: Path | None) -> int:
    """Write the page of many receipts in their order of time."""
    rows = entries.entries_of(receipts)
    name = f"history-{rows[0].sha256[:DIGITS]}-{rows[-1].sha256[:DIGITS]}.html"
    click.echo(str(write(out or receipts[-1].parent / name, lambda _: history.page(rows, {}))))
    return Exit.OK


def history_of(folder: Path, out: Path | None) -> int:
    """Write the page of every receipt under a folder in their order of time."""
    found, left = _named(folder)
    again = copies({path: hashlib.sha256(path.read_bytes()).hexdigest() for path in found})
    for path, first in again.items():
        left[path.relative_to(folder).as_posix()] = copy_of(first.relative_to(folder))
        click.echo(f"pp3: left out: {path}: {copy_of(first)}", err=True)
    rows = entries.entries_of(path for path in found if path not in again)
    click.echo(str(write(out or folder / "history.html", lambda _: history.page(rows, left))))
    return Exit.OK


def index_of(folder: Path, out: Path | None) -> int:
    """Write the index of a folder, with addresses of the pages that lie beside their receipts."""
    found, left = _named(folder)
    rows = [entries.entry_of(path) for path in found]
    click.echo(str(write(out or folder / "index.html", lambda where: index.page(rows, folder, left, where.parent))))
    return Exit.OK


def exported(sources: Sequence[Path], out: Path, strict: bool) -> int:
    """Write JUnit XML of receipts, or of those under a folder: a suite each; 1 if one does not verify.

    ReceiptError (1), and nothing is written, for one that does not verify if `strict`.
    """
    receipts = [path for source in sources for path in (_named(source)[0] if source.is_dir() else [source])]
    suites = [junit.suite_of(path) for path in receipts]
    untrue = [suite for suite in suites if suite.unverified]
    if untrue and strict:
        raise ReceiptError(f"{untrue[0].path}: {untrue[0].unverified}. Nothing was written, as --strict asks")
    click.echo(str(write(out, lambda _: junit.document(suites))))
    for suite in untrue:
        click.echo(f"pp3: {suite.path}: {suite.unverified}. The export says so.", err=True)
    return Exit.NEGATIVE if untrue else Exit.OK


def write(path: Path, made: Callable[[Path], str]) -> Path:
    """Write a text to a file that must not exist yet. CampaignError for one that does, or that no folder holds."""
    if path.parent.exists() and not path.parent.is_dir():
        raise CampaignError(f"{path}: {path.parent} is no folder; give another file")
    if path.exists():
        raise CampaignError(f"{path} exists already; give another file with --out")
    text = made(path)
    try:
        return write_once(path, text.encode())
    except FileExistsError:
        raise CampaignError(f"{path} exists already; give another file with --out") from None
    except OSError as error:
        error.filename = str(path)  # it is written under another name first
        raise


def _named(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Receipts under a folder, and what is left out, said on stderr too."""
    found, left = entries.under(folder)
    said = {path.relative_to(folder).as_posix(): why for path, why in left.items()}
    for name, why in said.items():
        click.echo(f"pp3: left out: {folder / name}: {why}", err=True)
    return found, said


def run_command(
    sources: Sequence[Path], out: Path | None, junit_file: Path | None, folder: Path | None, strict: bool
) -> int:
    """Whatever is not the page of one file. CampaignError for options that contradict each other."""
    named = [source for source in [*sources, folder] if source is not None]
    if not named:
        raise CampaignError("nothing to report on: give a receipt, two to compare, more for a history, or a folder")
    if folder is not None and sources:
        raise CampaignError(f"--history {folder} and {sources[0]}: give a folder or receipts, not both")
    if len(sources) > 1 and any(source.is_dir() for source in sources) and junit_file is None:
        raise CampaignError("a folder among several sources; give one folder, or receipts alone")
    if junit_file is not None:
        if out is not None:
            raise CampaignError("--out and --junit: two files of different kinds; run the command twice")
        return exported(named, junit_file, strict)
    if strict and len(sources) != 2:
        raise CampaignError("--strict: a history and an index recompute nothing; verify the receipts, or drop it")
    if folder is not None:
        return history_of(folder, out)
    if len(sources) == 1:
        return index_of(sources[0], out)
    if len(sources) == 2:
        return compared(sources[0], sources[1], out)
    return followed(sources, out)
