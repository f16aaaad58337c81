"""The commands of `pp3` about speed: probe, estimate. Their work is imported when they run."""

from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)


@click.command()
@click.option("--quick", is_flag=True, help="Six cases and 20 samples of each, in place of all and 100.")
@click.option(
    "--out", type=PATH, help="New or empty folder for receipt and page. Default: the checkout's runs folders."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", type=PATH, metavar="RECEIPT", help="Print the tables of a receipt; time nothing.")
def probe(quick: bool, out: Path | None, as_json: bool, markdown: Path | None) -> int:
    """Time the kernels beside the launch floor and other samplers, on a GPU, in one run; their bits come first."""
    from pp3.harness.probe.command import run_command

    return run_command(quick, out, as_json, markdown)


@click.command()
@click.option("--receipt", "receipts", type=PATH, multiple=True, help="Receipt of pp3 probe; may be repeated.")
@click.option("--round-ms", multiple=True, help="Assumed: milliseconds of a round without it; may be repeated.")
@click.option("--target", "targets", multiple=True, help="Toy target whose exact law is used. Default: all five.")
@click.option("--acceptance", "acceptances", multiple=True, help="Assumed in a law's place: chance of keeping a draft.")
@click.option("--vocab", type=int, default=163_840, show_default=True, help="Vocabulary that was timed.")
@click.option("--depth", type=int, default=5, show_default=True, help="Drafts of a round.")
@click.option("--batch", type=int, default=1, show_default=True, help="Requests of a round, 1 to 4.")
@click.option("--cache", type=click.Choice(["hot", "cold"]), default="hot", show_default=True, help="Logits timed.")
@click.option("--link-gbit", help="Assumed: gigabits a second of the wire. Default: its time is left out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def estimate(**options: Any) -> int:
    """What the sampled path would cost and gain a round, from verified times and exact laws; measures nothing."""
    from pp3.harness.estimate.command import run_command

    return run_command(**options)


ALL = (probe, estimate)
