"""The commands of `pp3` that enumerate, plant faults, calibrate or hold known answers. Their work is imported when they
run."""

from pathlib import Path
from typing import Any

import click

from pp3.harness.count import COUNT
from pp3.harness.errors import Exit

PATH = click.Path(path_type=Path)
OUT = "New or empty folder for receipt and page. Default: the checkout's runs folders."


@click.command()
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--planted", is_flag=True, help="Print docs/exact-faults.md: a planted fault for each check.")
def exhaustive(device: str, out: Path | None, as_json: bool, planted: bool) -> int:
    """Enumerate what is a finite integer function: draws, edges, the decision tree, the exponential, counters."""
    if planted:
        from pp3.harness.exact import planted as faults

        rows = faults.rows()
        click.echo(faults.page(rows), nl=False)
        return Exit.OK if all(row.message for row in rows) else Exit.NEGATIVE
    from pp3.harness.exact.command import run_command

    return run_command("exhaustive", device, out, as_json)


@click.command()
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def oracle(device: str, out: Path | None, as_json: bool) -> int:
    """Bridge the tickets that a device emits to the exact rational law of the target, with integers only."""
    from pp3.harness.exact.command import run_command

    return run_command("oracle", device, out, as_json)


@click.command()
@click.option("--only", multiple=True, help="Only this fault or control; may be repeated.")
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="Seeds of each; of one that takes over 5 CPU s, at most 10."
)
@click.option("--jobs", type=int, default=1, show_default=True, help="Faults at once, each in its own process.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--requests", type=COUNT, help="Of each law, of kernels on a GPU. Default: 1,000,000.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", is_flag=True, help="Print docs/faults.md: faults by checks, and what peers would ship.")
def faults(**options: Any) -> int:
    """Plant known faults in a correct sampler, and show which check catches which; exits 1 if one escapes."""
    from pp3.harness.faults.command import run_command

    return run_command(**options)


@click.command()
@click.option("--campaigns", type=COUNT, default=10_000, show_default=True, help="Null campaigns of drawn counts.")
@click.option(
    "--requests-campaigns", type=int, default=1_000, show_default=True, help="Null campaigns of real requests; 0: none."
)
@click.option("--counter", type=int, help="Run number that selects the seed. Default: one past the highest known.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes; the numbers do not depend on it.")
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate(**options: Any) -> int:
    """Does the battery keep the level that it claims? Null campaigns, and far tails by exact and weighted sums."""
    from pp3.harness.calibrate.command import run_command

    return run_command(**options)


@click.command()
@click.argument("files", type=PATH, nargs=-1, required=True)
@click.option(
    "--backend", type=click.Choice(["reference", "interpreter", "cuda"]), default="reference", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def conform(files: tuple[Path, ...], backend: str, as_json: bool) -> int:
    """Hold a backend against files of known answers, in the format of tests/vectors."""
    from pp3.harness.conform_command import run_command

    return run_command(files, backend, as_json)


ALL = (exhaustive, oracle, faults, calibrate, conform)
