"""`pp3 faults`: plant every fault; print which check catches it, what a plain test misses, what peers would ship."""

import difflib
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from pp3.harness.cells import Event
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.faults import matrix
from pp3.harness.faults.matrix import Outcome, Row
from pp3.harness.faults.peers import RULES
from pp3.harness.progress import Bar

MOST_SEEDS = 100_000
CHECKS = (*(event.value for event in Event), matrix.FORBIDDEN, matrix.BREACH, matrix.INVALID)
INTRODUCTION = """# Planted faults

Written by `pp3 faults --markdown`; do not edit. Every row is a sampler that is right but for one step
(`harness/faults/`), run through the contract, the tally and the battery at the number of requests that was planned for
it. The first table says who caught it: the named check must, others may. The second says what the rules of acceptance
of other projects' own tests would have done with the same counts: they are restated here from their sources, on
first tokens and at our numbers of requests, not run; their own sizes and laws differ.

"""


def run_command(only: Sequence[str], seeds: int, jobs: int, device: str, as_json: bool, markdown: bool) -> int:
    """Everything the command does; its exit code: 1 if a fault escaped or a control failed."""
    known = matrix.every()
    for name in only:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {len(known)}: pp3 faults --json lists them"
            raise CampaignError(f"--only {name}: no such fault; {hint}")
    for option, value, most in (("--seeds", seeds, MOST_SEEDS), ("--jobs", jobs, 64)):
        if not 1 <= value <= most:
            raise CampaignError(f"{option} {value}; it must be from 1 to {most:,}")
    wanted = list(dict.fromkeys(only)) or list(known)
    found: list[Row] = []
    with Bar() as bar:
        for row in matrix.rows(wanted, seeds, jobs, device):
            found.append(row)
            bar.update("faults", len(found), len(wanted))
    if as_json:
        click.echo(msgspec.json.encode({"faults": [row.plain() for row in found]}).decode())
    elif markdown:
        click.echo(page(found), nl=False)
    else:
        for line in lines(found):
            click.echo(line)
    return Exit.OK if all(row.good for row in found) else Exit.NEGATIVE


def lines(found: Sequence[Row]) -> list[str]:
    """A table for a terminal: those that did not come out as they must come first."""
    ordered = sorted(found, key=lambda row: row.good)
    width = max(len(row.id) for row in ordered)
    said = [f"{'fault':{width}}  {'verdict':12}  {'plain test':10}  caught by"]
    for row in ordered:
        plain = "sees it" if row.marginal else "misses"
        named = f"{row.witness}*" if row.witness else ""
        others = [name for name in row.caught_by if name != row.witness]
        marks = ", ".join([*([named] if row.good and named else []), *others]) or "nothing"
        missed = "" if row.good or not row.witness else f" (named: {row.witness})"
        seeds = f", {row.caught} of {row.seeds} seeds" if row.seeds > 1 else ""
        said.append(f"{row.id:{width}}  {row.verdict.value:12}  {plain:10}  {marks}{missed}{seeds}")
    return [*said, summary(found), "* the check that must catch it; the plain test is a chi-square of first tokens."]


def summary(found: Sequence[Row]) -> str:
    """What became of all of them, in one line."""
    counts = {outcome: sum(row.verdict is outcome for row in found) for outcome in Outcome}
    said = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    planted = [row for row in found if row.witness]
    missed = sum(not row.marginal for row in planted)
    seconds = sum(row.seconds for row in found)
    return f"{said}; a plain test of tokens misses {missed} of {len(planted)}; {seconds:.0f} s of one core or more"


def page(found: Sequence[Row]) -> str:
    """docs/faults.md."""
    caught, peers = _caught(found), _peers(found)
    return f"{INTRODUCTION}{summary(found)}.\n\n## Who catches what\n\n{caught}\n## What peers would ship\n\n{peers}"


def _caught(found: Sequence[Row]) -> str:
    head = ("fault", "what is wrong", "seen in", "requests", "verdict", "named check", "others", "plain test")
    rows = []
    for row in found:
        others = ", ".join(name for name in row.caught_by if name != row.witness)
        plain = "sees it" if row.marginal else "misses"
        cells: tuple[Any, ...] = (row.id, row.about, row.report, f"{row.requests:,}", row.verdict.value)
        rows.append((*cells, row.witness, others, plain))
    return _table(head, rows)


def _peers(found: Sequence[Row]) -> str:
    planted = [row for row in found if row.witness and row.verdict is not Outcome.EXACT_ONLY]
    totals = [
        "shipped in all",
        *(f"{sum(row.ships[rule.name] for row in planted)} of {len(planted)}" for rule in RULES),
    ]
    rows = [[row.id, *("ships" if row.ships[rule.name] else "stops" for rule in RULES)] for row in found]
    rules = "\n".join(f"- **{rule.name}**: {rule.about} ({rule.source})." for rule in RULES)
    return f"{rules}\n\n{_table(['fault', *(rule.name for rule in RULES)], [totals, *rows])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
