"""`pp3 conform`: hold a backend against files of known answers, and say where it first differs."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from pp3.harness import backends
from pp3.harness import conform as answers
from pp3.harness.errors import Exit


def run_command(files: Sequence[Path], backend: str, as_json: bool) -> int:
    """Everything the command does; 1 where an answer differs, 4 where there is none."""
    where = backends.Backend(backend)
    for path in files:
        answers.load(path)  # a file that cannot be read is an error before anything runs
    arithmetic = backends.start(where)
    results = [answers.run(path, arithmetic) for path in files]
    passed, total = sum(r.passed for r in results), sum(r.total for r in results)
    if as_json:
        click.echo(
            msgspec.json.encode(
                {"passed": passed, "total": total, "files": results, "identity": backends.identity(where)}
            ).decode()
        )
    else:
        for result in results:
            click.echo(f"{result.file}: {result.passed} of {result.total} passed on {where.value}")
            first = result.first_difference
            if first:
                click.echo(
                    f"  first difference: case {first.case}, {first.field}: expected {first.expected}, got {first.got}"
                )
    if total == 0:
        return Exit.NOTHING_RAN
    return Exit.OK if passed == total else Exit.NEGATIVE
