"""`pp3 conform`: hold a backend, or the wire, against files of known answers, and say where it first differs."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from pp3.harness import backends
from pp3.harness import conform as answers
from pp3.harness.errors import Exit


def run_command(files: Sequence[Path], backend: str, as_json: bool) -> int:
    """Everything the command does; 1 where an answer differs, 4 where there is none."""
    from pp3.harness.transport import conform_wire

    where = backends.Backend(backend)
    of_wire = {path for path in files if conform_wire.is_wire(path)}
    for path in files:  # a file that cannot be read is an error before anything runs
        if path in of_wire:
            conform_wire.load(path)
        else:
            answers.load(path)
    arithmetic = backends.start(where)
    results = [conform_wire.run(path) if path in of_wire else answers.run(path, arithmetic) for path in files]
    passed, total = sum(r.passed for r in results), sum(r.total for r in results)
    if as_json:
        click.echo(
            msgspec.json.encode(
                {"passed": passed, "total": total, "files": results, "identity": backends.identity(where)}
            ).decode()
        )
    else:
        for path, result in zip(files, results, strict=True):
            on = "NumPy" if path in of_wire else where.value
            click.echo(f"{result.file}: {result.passed} of {result.total} passed on {on}")
            first = result.first_difference
            if first:
                click.echo(
                    f"  first difference: case {first.case}, {first.field}: expected {first.expected}, got {first.got}"
                )
    if total == 0:
        return Exit.NOTHING_RAN
    return Exit.OK if passed == total else Exit.NEGATIVE
