"""`pp3 compare`, `pp3 history`, `pp3 replay` and `pp3 repro`: their options; what they do is imported when they run."""

from pathlib import Path

import click

PATH = click.Path(path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@click.option("--alpha", type=float, default=1e-5, show_default=True, help="Of all two-sample tests together (Holm).")
@JSON
def compare(old: Path, new: Path, alpha: float, as_json: bool) -> int:
    """Compare two receipts: what differs, whether they may be compared, and what became worse (exit 1)."""
    from pp3.harness.regression.compare_command import run_command

    return run_command(old, new, alpha, as_json)


@click.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--csv", "as_csv", is_flag=True, help="Print every column as CSV, for a spreadsheet or pandas.")
@JSON
def history(folder: Path, as_csv: bool, as_json: bool) -> int:
    """Table every receipt of a folder, one row each, oldest first; says of each whether its sources are these."""
    from pp3.harness.regression.history import run_command

    return run_command(folder, as_json, as_csv)


@click.command()
@click.argument("receipt", type=PATH)
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--slice", "part", metavar="TARGET[,DEPTH]", help="Only this part; writes no receipt.")
@click.option("--sampler", help="Of a trial: file.py:object or module:object. Default: the name in the receipt.")
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--out", type=PATH, help="New or empty folder for the new receipt. Default: the checkout's runs folder.")
@click.option("--no-write", is_flag=True, help="Write no receipt, and show nothing of the kernels beside the counts.")
@JSON
def replay(
    receipt: Path,
    device: str,
    part: str | None,
    sampler: str | None,
    image: Path | None,
    out: Path | None,
    no_write: bool,
    as_json: bool,
) -> int:
    """Run a receipt's plan and seed again on the present sources; every count must come out equal, on any device."""
    from pp3.harness.regression.replay_command import run_command

    return run_command(receipt, device, part, sampler, image, out, not no_write, as_json)


@click.command()
@click.argument("receipt", type=PATH)
@click.option("--check", default="", help="A check that failed, by its id in the receipt. Without it they are named.")
@click.option("--out", type=PATH, help="File to write. Default: repro-CHECK.py, here.")
def repro(receipt: Path, check: str, out: Path | None) -> int:
    """Write a script that shows one failed check without PP3: plain Python, exit 1 while it stands."""
    from pp3.harness.regression.repro import run_command

    return run_command(receipt, check, out)


COMMANDS = (compare, history, replay, repro)
