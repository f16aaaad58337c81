"""The `pp3` command. Data on stdout, progress on stderr, exit codes of docs/exit-codes.md."""

import errno
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from pp3 import __version__
from pp3.harness.engine import options as engines
from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence import commands as receipt_commands
from pp3.harness.probe import commands as speed_commands
from pp3.harness.regression.commands import COMMANDS

PATH = click.Path(path_type=Path)
OURS = "pp3-top32"
OVERLAY = "overlay"
OUT = "New or empty folder for receipt and page. Default: the checkout's runs folders."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pp3")
def commands() -> None:
    """Statistical qualification of the samplers inside LLM inference engines."""


for command in (*receipt_commands.ALL, *speed_commands.ALL):
    commands.add_command(command)


@commands.command()
@click.option("--campaign", type=PATH, help="Campaign file (TOML). Default: the customer's five targets.")
@click.option("--sampler", help=f"Name, module:object or file.py:object. Default: the campaign's, or {OURS}.")
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--overlay", type=PATH, help="Of --sampler overlay: the folder that pp3 prepare wrote.")
@click.option("--target", "targets", multiple=True, help="Of another sampler: only this target; may be repeated.")
@click.option("--detect", type=float, help="Total variation of a first token's law that must be seen.")
@click.option("--tolerance", type=float, help="Total variation that is tolerated. Default: 0.")
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--requests", type=int, help="Requests per target, in place of the campaign's.")
@click.option("--counter", type=int, help="Run number that selects the seed. Default: one past the highest known.")
@click.option(
    "--jobs",
    type=int,
    default=1,
    show_default=True,
    help="Processes: of another sampler for its targets, of an engine.",
)
@click.option("--out", type=PATH, help=OUT)
@click.option("--require-gpu", is_flag=True, help="Fail (69) when no GPU is found.")
@click.option("--dir", "folder", type=PATH, help="Run in pieces, kept in this folder as they end.")
@click.option("--resume", is_flag=True, help="Go on with the campaign in --dir, whatever ended it.")
@click.option("--shard", metavar="I/N", help="Only this part of the pieces; `pp3 merge` joins them.")
@click.option("--gpus", metavar="all|N", help="Run in pieces, one process a GPU.")
@click.option("--dask", metavar="ADDRESS", help="Run in pieces on the workers of this Dask scheduler.")
@click.option("--stall-timeout", type=int, metavar="SECONDS", help="Run in pieces; give up when none ends for so long.")
@click.option("--path", type=click.Choice(["wire"]), help="Send every proposal over the wire, with faults on the way.")
@click.option("--proxy", type=click.Choice(["thread", "process"]), help="Of --path wire. Default: thread.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@engines.of_engines
def qualify(
    campaign: Path | None,
    sampler: str | None,
    image: Path | None,
    overlay: Path | None,
    targets: tuple[str, ...],
    detect: float | None,
    tolerance: float | None,
    device: str,
    requests: int | None,
    counter: int | None,
    jobs: int,
    out: Path | None,
    require_gpu: bool,
    folder: Path | None,
    resume: bool,
    shard: str | None,
    gpus: str | None,
    dask: str | None,
    stall_timeout: int | None,
    path: str | None,
    proxy: str | None,
    as_json: bool,
    **of_engine: Any,
) -> int:
    """Run a campaign: the real sampler on targets whose law is known; writes a receipt and a page."""
    if of_engine["engine"] is not None:
        samplers = {"--campaign": campaign, "--sampler": sampler, "--image": image, "--target": targets}
        sizes = {"--detect": detect, "--tolerance": tolerance, "--requests": requests}
        pieces = {"--shard": shard, "--gpus": gpus, "--dask": dask}
        shared = {"device": "cuda" if require_gpu else device, "counter": counter, "out": out, "folder": folder}
        shared |= {"resume": resume, "jobs": jobs, "as_json": as_json}
        return engines.run(of_engine, samplers | sizes | pieces, shared)
    engines.refuse(of_engine)
    from pp3.harness.operations.where import Where
    from pp3.harness.trial import campaign_file

    where = Where(folder=folder, resume=resume, shard=shard, gpus=gpus, dask=dask, stall_timeout=stall_timeout)
    where.check()
    if proxy and not path and sampler != OVERLAY:
        raise CampaignError("--proxy is of --path wire; give both, or leave it out")
    if path and sampler != OVERLAY:
        from pp3.harness.transport import command as over_wire

        mine = sampler in (None, "", OURS)
        jobs_given = jobs != 1
        over_wire.refuse_beside({"--sampler": not mine, "--image": image, "--target": targets, "--jobs": jobs_given})
        over_wire.refuse_beside({"--dir, --resume, --shard, --gpus or --dask": where.asked})
        return over_wire.run_command(
            proxy or "thread", campaign, device, requests, counter, out, require_gpu, as_json, detect, tolerance
        )
    if sampler is None and campaign is not None:
        sampler = campaign_file.sampler_of(campaign)
    if overlay is not None and sampler != OVERLAY:
        raise CampaignError(f"--overlay {overlay}: it is for --sampler {OVERLAY}")
    if sampler in (None, "", OURS):
        for option, value in (("--image", image), ("--target", targets), ("--jobs", jobs != 1)):
            if value:
                raise CampaignError(f"{option} is for other samplers; {OURS} has its campaign file")
        if where.asked:
            from pp3.harness.operations.command import run_any

            values = {"requests": requests, "detect": detect, "tolerance": tolerance}
            said = {key: value for key, value in values.items() if value is not None}
            return run_any(where, campaign, device, counter, out, require_gpu, as_json, said)
        from pp3.harness.qualify import run_command

        return run_command(campaign, device, requests, counter, out, require_gpu, as_json, detect, tolerance)
    from pp3.harness.qualify import refuse_contradiction
    from pp3.harness.trial.command import run_command as run_trial

    refuse_contradiction(device, require_gpu)
    spec, given = campaign_file.chosen(campaign, str(sampler), targets, requests, detect, tolerance)
    if sampler == OVERLAY:
        from pp3.harness.overlay.command import run_command as run_overlay

        if where.asked or jobs != 1:
            raise CampaignError(f"--sampler {OVERLAY} runs whole, in this process: leave --dir, --shard and --jobs out")
        on = "cuda" if require_gpu else device
        return run_overlay(image, overlay, spec, given, on, counter, out, as_json, proxy)
    if where.asked:
        from pp3.harness.operations.trial import run_command as run_pieces

        return run_pieces(where, spec, given, image, "cuda" if require_gpu else device, counter, out, as_json, jobs)
    return run_trial(spec, given, image, "cuda" if require_gpu else device, counter, out, as_json, jobs)


commands.add_command(engines.checkpoint)


@commands.command()
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--out", type=PATH, required=True, help="Folder to write, which must not exist.")
@click.option("--json", "as_json", is_flag=True, help="Print the attestation.")
def prepare(image: Path | None, out: Path, as_json: bool) -> int:
    """Write experimental overlays of a pinned vLLM, with an attestation, for review; nothing is deployed."""
    from pp3.harness.overlay.prepare import run_command

    return run_command(image, out, as_json)


@commands.command()
@click.argument("folders", type=PATH, nargs=-1, required=True, metavar="DIR [OTHER]...")
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def merge(folders: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Join the parts of a campaign, from as many folders as there are, into one receipt; DIR takes in the others."""
    from pp3.harness.operations.command import merge as merge_folders

    return merge_folders(folders, out, as_json)


@commands.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, one object for each shard.")
def status(folder: Path, as_json: bool) -> int:
    """How far the campaign in a folder has come: by cell, requests a second, time left."""
    from pp3.harness.operations.status_command import run_command

    return run_command(folder, as_json)


@commands.command()
@click.option("--sampler", "names", multiple=True, help="Only this one; may be repeated. Default: all.")
@click.option("--requests", type=int, help="Of each law. Default: 2,000,000 or more on a GPU, 20,000 on a CPU.")
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


@commands.command()
@click.argument("folder", type=PATH, default=Path())
def init(folder: Path) -> int:
    """Write a commented campaign and a sampler to start from; both run as they are."""
    from pp3.harness.trial.start import write_starter

    written = write_starter(folder)
    for path in written:
        click.echo(str(path))
    click.echo(f"try them with  pp3 qualify --campaign {written[0]}")
    return Exit.OK


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def samplers(as_json: bool) -> int:
    """List the samplers that can be tried here, and why the rest cannot."""
    from pp3.harness.trial.command import samplers_command

    return samplers_command(as_json)


@commands.command()
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


@commands.command()
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--out", type=PATH, help=OUT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def oracle(device: str, out: Path | None, as_json: bool) -> int:
    """Bridge the tickets that a device emits to the exact rational law of the target, with integers only."""
    from pp3.harness.exact.command import run_command

    return run_command("oracle", device, out, as_json)


@commands.command()
@click.option("--only", multiple=True, help="Only this fault or control; may be repeated.")
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="Seeds of each; of one that takes over 5 CPU s, at most 10."
)
@click.option("--jobs", type=int, default=1, show_default=True, help="Faults at once, each in its own process.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--requests", type=int, help="Of each law, of kernels on a GPU. Default: 1,000,000.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", is_flag=True, help="Print docs/faults.md: faults by checks, and what peers would ship.")
def faults(**options: Any) -> int:
    """Plant known faults in a correct sampler, and show which check catches which; exits 1 if one escapes."""
    from pp3.harness.faults.command import run_command

    return run_command(**options)


@commands.command()
@click.option("--campaigns", type=int, default=10_000, show_default=True, help="Null campaigns of drawn counts.")
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


@commands.command()
@click.argument("files", type=PATH, nargs=-1, required=True)
@click.option(
    "--backend", type=click.Choice(["reference", "interpreter", "cuda"]), default="reference", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def conform(files: tuple[Path, ...], backend: str, as_json: bool) -> int:
    """Hold a backend against files of known answers, in the format of tests/vectors."""
    from pp3.harness.conform_command import run_command

    return run_command(files, backend, as_json)


@commands.command()
@click.argument("sources", type=PATH, nargs=-1, metavar="[RECEIPT...|DIR]")
@click.option("--out", type=PATH, help="File to write. Default: beside the receipt, or in the folder.")
@click.option("--history", type=PATH, metavar="DIR", help="Every receipt under a folder, in their order of time.")
@click.option("--junit", type=PATH, metavar="FILE", help="Write JUnit XML for CI to this file instead of a page.")
@click.option("--strict", is_flag=True, help="Write nothing of a receipt that does not verify.")
def report(sources: tuple[Path, ...], out: Path | None, history: Path | None, junit: Path | None, strict: bool) -> int:
    """Render a receipt as one self-contained HTML page; two as a comparison, more as a history, a folder as an index.

    What `pp3 faults --json` printed is rendered too.
    """
    try:
        from pp3.harness.report import command, several
    except ModuleNotFoundError as error:
        raise PP3Error(
            f"{error.name} is not installed, and a page needs it: pip install pp3[report]", Exit.UNAVAILABLE
        ) from None
    if len(sources) == 1 and history is None and junit is None and not sources[0].is_dir():
        return command.run_command(sources[0], out, strict)
    return several.run_command(sources, out, junit, history, strict)


@commands.command()
@click.option("--write", type=PATH, help="Replace the table in this file (README.md).")
@click.option("--check", is_flag=True, help="Exit 3 if any committed receipt is stale.")
def evidence(write: Path | None, check: bool) -> int:
    """Table of the committed evidence, each receipt current or stale against this tree."""
    from pp3.harness.evidence import table

    rows = table.rows()
    click.echo(table.replace_in(write, rows) if write else table.render(rows))
    return Exit.INCONCLUSIVE if check and any(row.stale for row in rows) else Exit.OK


@commands.command()
@click.argument("check", required=False)
@click.option("--receipt", type=PATH, help="Add the check's own figures from this receipt, if it verifies.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; of all checks a list.")
def explain(check: str | None, receipt: Path | None, as_json: bool) -> int:
    """Say what a check tests, for which fault, and what it can see; without CHECK list them all.

    CHECK is a kind (token, exact:draws, engine:rank), or a check as a receipt or a verdict prints it
    (near/depth-4/token/position-0, stream/rank).
    """
    from pp3.harness.explain.command import run_command

    return run_command(check, receipt, as_json)


@commands.command()
@click.option("--require-gpu", is_flag=True, help="A GPU that is missing is a problem (69).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, without host, user or home.")
def doctor(require_gpu: bool, as_json: bool) -> int:
    """Look at what this machine has of what PP3 needs, and say what would mend the rest."""
    from pp3.harness.doctor.command import run_command

    return run_command(require_gpu, as_json)


for command in COMMANDS:
    commands.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every way a command can end, mapped to its exit code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return int(commands.main(arguments, prog_name="pp3", standalone_mode=False) or Exit.OK)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = f"; see {context.command_path} --help" if context else ""
        click.echo(f"pp3: error: {error.format_message()}{where}", err=True)
        return error.exit_code
    except PP3Error as error:
        click.echo(f"pp3: error: {error}", err=True)
        return int(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("pp3: interrupted; nothing half-written was left", err=True)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.IO
    except OSError as error:
        hint = "; free some space and run again" if error.errno == errno.ENOSPC else ""
        click.echo(f"pp3: error: {error.filename or 'output'}: {error.strerror}{hint}", err=True)
        return Exit.IO
    except Exception:  # the last line of defence: a traceback is a bug report
        traceback.print_exc()
        click.echo("pp3: internal error; please report the lines above", err=True)
        return Exit.INTERNAL


if __name__ == "__main__":
    main()
