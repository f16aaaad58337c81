"""The commands of `pp3` around campaigns of samplers: in pieces, one after another, how far they are, where to start.

Their work is imported when they run.
"""

from pathlib import Path
from typing import Any

import click

from pp3.harness.count import COUNT
from pp3.harness.errors import Exit

PATH = click.Path(path_type=Path)
OUT = "New or empty folder for receipt and page. Default: the checkout's runs folders."


@click.command()
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--out", type=PATH, required=True, help="Folder to write, which must not exist.")
@click.option("--json", "as_json", is_flag=True, help="Print the attestation.")
def prepare(image: Path | None, out: Path, as_json: bool) -> int:
    """Write experimental overlays of a pinned vLLM, with an attestation, for review; nothing is deployed."""
    from pp3.harness.overlay.prepare import run_command

    return run_command(image, out, as_json)


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True, metavar="DIR [OTHER]...")
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def merge(folders: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Join the parts of a campaign, from as many folders as there are, into one receipt; DIR takes in the others."""
    from pp3.harness.operations.command import merge as merge_folders

    return merge_folders(folders, out, as_json)


@click.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, one object for each shard.")
def status(folder: Path, as_json: bool) -> int:
    """How far the campaign in a folder has come: by cell, requests a second, time left."""
    from pp3.harness.operations.status_command import run_command

    return run_command(folder, as_json)


@click.command()
@click.option("--sampler", "names", multiple=True, help="Only this one; may be repeated. Default: all.")
@click.option("--requests", type=COUNT, help="Of each law. Default: 2,000,000 or more on a GPU, 20,000 on a CPU.")
@click.option("--detect", type=float, help="Total variation that must be seen. Default: 0.005 on a GPU.")
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes at once, several of a slow sampler.")
@click.option("--within", type=float, help="Seconds after which no sampler is begun; the page names those left out.")
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def survey(**options: Any) -> int:
    """Try every sampler that can run here: a receipt each, and one page that says what became of them."""
    from pp3.harness.trial.survey import run_command

    return run_command(**options)


@click.command()
@click.argument("folder", type=PATH, default=Path())
def init(folder: Path) -> int:
    """Write a commented campaign and a sampler to start from; both run as they are."""
    from pp3.harness.trial.start import write_starter

    written = write_starter(folder)
    for path in written:
        click.echo(str(path))
    click.echo(f"try them with  pp3 qualify --campaign {written[0]}")
    return Exit.OK


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def samplers(as_json: bool) -> int:
    """List the samplers that can be tried here, and why the rest cannot."""
    from pp3.harness.trial.command import samplers_command

    return samplers_command(as_json)


ALL = (prepare, merge, status, survey, init, samplers)
