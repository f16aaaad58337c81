"""`pp3 report`: a page from what a receipt, or the matrix of planted faults, holds."""

from pathlib import Path

import click

from pp3.harness.errors import CampaignError, Exit, ReceiptError
from pp3.harness.evidence.receipt import read
from pp3.harness.report import faults
from pp3.harness.report.alarm import alarm_of
from pp3.harness.report.render import write_page


def run_command(source: Path, out: Path | None, strict: bool) -> int:
    """Write the page of one file; its exit code: 1 for a receipt that does not verify, with a page unless strict."""
    content = _content(source)
    path = out or source.with_suffix(".html")
    if path.parent.exists() and not path.parent.is_dir():
        raise CampaignError(f"{path}: {path.parent} is no folder; give another file with --out")
    try:
        if faults.is_faults(content):
            click.echo(str(faults.write_page(content, faults.read(source, content), path)))
            return Exit.OK
        return _receipt(source, path, strict)
    except OSError as error:
        error.filename = str(path)  # it is written under another name first
        raise


def _receipt(source: Path, path: Path, strict: bool) -> int:
    content, statement = read(source)
    alarm = alarm_of(source, content)
    if alarm is None or alarm.superseded:
        click.echo(str(write_page(content, statement, path, alarm)))
        return Exit.OK
    if strict:
        raise ReceiptError(f"{source}: {alarm.sentence} No page was written, as --strict asks.")
    click.echo(str(write_page(content, statement, path, alarm)))
    click.echo(f"pp3: {source}: {alarm.sentence} The page says so.", err=True)
    return Exit.NEGATIVE


def _content(source: Path) -> bytes:
    """The bytes of a file. ReceiptError (2) for what cannot be read."""
    try:
        return source.read_bytes()
    except OSError as error:
        raise ReceiptError(f"{source}: {error.strerror}; give the path of a receipt", Exit.USAGE) from None
