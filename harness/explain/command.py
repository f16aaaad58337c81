"""`pp3 explain`: a check in ten lines, or all of them in one each."""

from itertools import groupby
from pathlib import Path

import click
import msgspec

from pp3.harness import terminal
from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.explain import table
from pp3.harness.explain.entry import Entry, Part
from pp3.harness.terminal import Column, Fit

ORDER = list(Part)


def run_command(check: str | None, receipt: Path | None, as_json: bool) -> int:
    """See `pp3 explain --help`. CampaignError (2) names the nearest of what there is."""
    if check is None:
        if receipt is not None:
            raise CampaignError("--receipt needs CHECK, the check whose figures are wanted")
        _print_all(as_json)
        return Exit.OK
    entry = table.find(check)
    if entry is None:
        raise CampaignError(f"{echo(check)}: no such check; {_hint(check)}")
    figures: list[tuple[str, str]] = []
    if receipt is not None:
        from pp3.harness.explain.figures import of_receipt

        entry, figures = of_receipt(receipt, check, entry)
    if as_json:
        click.echo(msgspec.json.encode(plain(entry) | ({"receipt": figures} if receipt else {})).decode())
        return Exit.OK
    for line in lines(entry, figures):
        click.echo(line)
    return Exit.OK


def _hint(check: str) -> str:
    """The way out: a check of nearly this name, or where the law of a target of this name is told."""
    from pp3.targets import chains, filtered, pairs, policies, toy  # NumPy, which an answer does not need

    known = (toy.NAMES, pairs.NAMES, chains.NAMES, policies.POLICIES, filtered.NAMES)
    if any(check in names for names in known):
        return "it is a target, and docs/reference/targets.md tells its law"
    close = table.near(check)
    return f"did you mean {' or '.join(close)}?" if close else "pp3 explain lists all"


def lines(entry: Entry, figures: list[tuple[str, str]]) -> list[str]:
    """Ten lines on a wide terminal, and the figures below."""
    others = table.also(entry)
    where = f"{entry.part.value}; more in {entry.page}" + (f"; {', '.join(others)} is another" if others else "")
    first = f"{terminal.bold(entry.name)}: {where}"
    said = [first, *(line for label, text in table.said(entry) for line in terminal.labelled(label, text))]
    room = max((len(label) + 2 for label, _ in figures), default=terminal.LABEL)
    room = max(terminal.LABEL, min(room, terminal.width() // 2))
    below = [line for label, text in figures for line in _figure(label, text, room)]
    return [*said, "", *below] if below else said


def _figure(label: str, text: str, room: int) -> list[str]:
    """A label, on a line of its own if it is long, and its text."""
    if len(label) < room:
        return terminal.labelled(label, text, room=room)
    return [terminal.clean(label), *terminal.labelled("", text)]


def plain(entry: Entry) -> dict[str, object]:
    """JSON form."""
    texts = {label.replace(" ", "-"): text for label, text in table.said(entry)}
    return {"name": entry.name, "part": entry.part.value, "page": entry.page, "required": entry.required, **texts}


def _print_all(as_json: bool) -> None:
    """Every kind, part by part."""
    if as_json:
        click.echo(msgspec.json.encode([plain(entry) for entry in table.ENTRIES]).decode())
        return
    for part, entries in groupby(sorted(table.ENTRIES, key=lambda one: ORDER.index(one.part)), _part):
        columns = [Column(head=part), Column(head="tests", fit=Fit.FOLD)]
        for line in terminal.table(columns, [[entry.name, entry.tests] for entry in entries]):
            click.echo(line)
        click.echo()
    click.echo("pp3 explain CHECK says what one is for, its share of alpha, and what it sees")


def _part(entry: Entry) -> str:
    return entry.part.value
