"""`pp3 faults`: plant every fault; print which check catches it, what a plain test misses, what peers would ship."""

import difflib
from collections.abc import Mapping, Sequence

import click
import msgspec

from pp3.harness import terminal
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.faults import matrix, seed_table, texts
from pp3.harness.faults.matrix import One
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.peers import RULES
from pp3.harness.progress import Bar
from pp3.harness.terminal import Fit
from pp3.harness.trial.device import choose
from pp3.harness.trial.plan import LARGEST_REQUESTS

MOST_SEEDS = 100_000
MOST_JOBS = 64
LONGEST_NAME = 32  # columns of a fault's name on a terminal
HEADS = ("fault", "verdict", "plain", "caught by")
FITS = (Fit.WHOLE, Fit.WHOLE, Fit.WHOLE, Fit.FOLD)
PLAIN = {True: "sees it", False: "misses", None: "-"}
INTRODUCTION = """# Planted faults

Written by `pp3 faults --markdown`; do not edit. Every row is a sampler that is right but for one step
(`harness/faults/`), run through the contract, the tally and the battery at the number of requests that was planned for
it; or our own kernels with one text replaced, held on a CPU to a few rows of the reference, bit for bit, so that it has
no requests, plain test or peers (`-`). The first table says who caught it: the named check must, others may. The second
says what the rules of acceptance of other projects' own tests would have done with the same counts: they are restated
here from their sources, on first tokens and at our numbers of requests, not run; their own sizes and laws differ.

"""


def run_command(
    only: Sequence[str],
    seeds: int,
    jobs: int,
    device: str,
    requests: int | None,
    as_json: bool,
    markdown: bool,
    catalogue: Mapping[str, One] | None = None,
) -> int:
    """Everything the command does; its exit code: 1 if a fault escaped or a control failed.

    catalogue: what there is to plant, by id; by default all of it.
    """
    known = matrix.every() if catalogue is None else catalogue
    for name in only:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {len(known)}: pp3 faults --json lists them"
            raise CampaignError(f"--only {name}: no such fault; {hint}")
    for option, value, most in (
        ("--seeds", seeds, MOST_SEEDS),
        ("--jobs", jobs, MOST_JOBS),
        ("--requests", texts.REQUESTS if requests is None else requests, LARGEST_REQUESTS),
    ):
        if not 1 <= value <= most:
            raise CampaignError(f"{option} {value}; it must be from 1 to {most:,}")
    if requests is not None and device != "cuda":
        raise CampaignError(
            f"--requests {requests}: it is for kernels on a GPU, and this is --device {device}; there each fault has "
            "the requests that are planned for it"
        )
    order = matrix.Order(seeds=seeds, device=choose(device), requests=requests or texts.REQUESTS)
    wanted = list(dict.fromkeys(only)) or list(known)
    found: list[Row] = []
    with Bar() as bar:
        for row in matrix.rows([known[name] for name in wanted], order, jobs):
            found.append(row)
            bar.update("faults", len(found), len(wanted))
    if as_json:
        click.echo(msgspec.json.encode({"faults": [row.plain() for row in found]}).decode())
    elif markdown:
        click.echo(page(found) + seed_table.committed(), nl=False)
    else:
        for line in lines(found):
            click.echo(line)
    return Exit.OK if all(row.good for row in found) else Exit.NEGATIVE


def lines(found: Sequence[Row]) -> list[str]:
    """What became of all, and a table for a terminal: those that did not come out as they must come first."""
    ordered = sorted(found, key=lambda row: row.good)
    name = min(max(len(row.id) for row in ordered), LONGEST_NAME)
    start = name + len(f"{Outcome.CONTROL_PASS}") + len(HEADS[2]) + 3 * len(terminal.GAP)
    columns = [terminal.Column(head=head, fit=fit) for head, fit in zip(HEADS, FITS, strict=True)]
    rows = []
    for row in ordered:
        missed = "" if row.good or not row.witness else f" (not {row.witness})"
        seeds = f", {row.caught}/{row.seeds} seeds" if row.seeds > 1 else ""
        marks = _cut(_marks(row), terminal.width() - start)
        rows.append([terminal.shorten(row.id, name), row.verdict.value, PLAIN[row.marginal], marks + missed + seeds])
    bad = sum(not row.good for row in found)
    lead = (
        f"FAIL: {bad} of {len(found)} did not come out as it must"
        if bad
        else f"PASS: all {len(found)} came out as they must"
    )
    seconds = sum(row.seconds for row in found)
    note = (
        "* the check that must catch it; plain: whether a chi-square test of first tokens sees it. "
        f"{seconds:.0f} s, one after the other."
    )
    said = [*terminal.sentence(f"{lead}: {summary(found)}."), "", *terminal.table(columns, rows), ""]
    return said + terminal.fold(note, terminal.width())


def _marks(row: Row) -> list[str]:
    """Who caught it, the named check first and marked."""
    others = [name for name in row.caught_by if name != row.witness]
    return [*([f"{row.witness}*"] if row.good and row.witness else []), *others]


def _cut(names: Sequence[str], width: int) -> str:
    """As many names as fit, and how many more there are."""
    for count in range(len(names), 0, -1):
        left = f", +{len(names) - count}" if count < len(names) else ""
        if len(said := ", ".join(names[:count]) + left) <= width:
            return said
    return f"+{len(names)}" if names else "nothing"


def summary(found: Sequence[Row]) -> str:
    """What became of all of them, in one line."""
    counts = {outcome: sum(row.verdict is outcome for row in found) for outcome in Outcome}
    said = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    tested = [row for row in found if row.witness and row.marginal is not None]
    missed = sum(row.marginal is False for row in tested)
    return f"{said}; a plain test of tokens misses {missed} of {len(tested)}"


def page(found: Sequence[Row]) -> str:
    """docs/faults.md, less what many seeds came to (seed_table.py)."""
    caught, peers = _caught(found), _peers(found)
    return f"{INTRODUCTION}{summary(found)}.\n\n## Who catches what\n\n{caught}\n## What peers would ship\n\n{peers}"


def _caught(found: Sequence[Row]) -> str:
    head = ("fault", "what is wrong", "seen in", "requests", "verdict", "named check", "others", "plain test")
    rows = []
    for row in found:
        others = ", ".join(name for name in row.caught_by if name != row.witness)
        requests = f"{row.requests:,}" if row.requests else "-"
        cells = (row.id, row.about, row.report, requests, row.verdict.value, row.witness, others, PLAIN[row.marginal])
        rows.append(cells)
    return _table(head, rows)


def _peers(found: Sequence[Row]) -> str:
    counted = [(row, row.ships) for row in found if row.ships is not None]
    planted = [ships for row, ships in counted if row.witness and row.verdict is not Outcome.EXACT_ONLY]
    shipped = (f"{sum(ships[rule.name] for ships in planted)} of {len(planted)}" for rule in RULES)
    rows = [[row.id, *("ships" if ships[rule.name] else "stops" for rule in RULES)] for row, ships in counted]
    rules = "\n".join(f"- **{rule.name}**: {rule.about} ({rule.source})." for rule in RULES)
    head = ["fault", *(rule.name for rule in RULES)]
    return f"{rules}\n\n{_table(head, [['shipped in all', *shipped], *rows])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
