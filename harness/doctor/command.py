"""`pp3 doctor`: every line of the diagnosis, and whether what was asked for can run."""

from collections.abc import Iterator

import click
import msgspec

from pp3 import __version__
from pp3.harness import terminal
from pp3.harness.doctor import kernels, machine, packages, tree
from pp3.harness.doctor.line import Line, State
from pp3.harness.errors import Exit

ROOM = 19  # columns of a name


def look(require_gpu: bool) -> Iterator[Line]:
    """Every line, as it is found."""
    yield from packages.lines()
    said = kernels.look()
    yield from kernels.lines(said, require_gpu)
    yield from machine.lines(bool(said.get("gpu")) or require_gpu)
    yield from tree.lines()


def run_command(require_gpu: bool, as_json: bool) -> int:
    """Print the lines; 69 if something that is needed is missing."""
    found: list[Line] = []
    for line in look(require_gpu):
        found.append(line)
        if not as_json:
            for text in shown(line):
                click.echo(text)
    problems = sum(line.state is State.PROBLEM for line in found)
    if as_json:
        said = {"pp3": __version__, "ok": not problems, "lines": [line.plain() for line in found]}
        click.echo(msgspec.json.encode(said).decode())
    else:
        what = "a campaign on a GPU" if require_gpu else "a campaign on a CPU"
        notes = sum(line.state is State.NOTE for line in found)
        click.echo(f"{what} {'cannot' if problems else 'can'} run here: {problems} problems, {notes} notes")
    return Exit.UNAVAILABLE if problems else Exit.OK


def shown(line: Line) -> list[str]:
    """A line of the terminal, and below it the command that mends it."""
    texts = terminal.labelled(f"{line.state.value:8} {line.name}", line.said, line.state.value, room=ROOM + 9)
    return [*texts, terminal.kept("", f"mend with  {line.fix}", ROOM + 9)] if line.fix else texts
