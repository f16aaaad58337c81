"""The `pp3` command. Data on stdout, progress on stderr, exit codes of docs/exit-codes.md."""

import difflib
import errno
import sys
import traceback
from pathlib import Path

import click

from pp3 import __version__
from pp3.harness import proof_commands, sampler_commands
from pp3.harness.engine import options as engines
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence import commands as receipt_commands
from pp3.harness.probe import commands as speed_commands
from pp3.harness.qualify_options import qualify
from pp3.harness.regression.commands import COMMANDS

CLOSE = 0.75  # likeness of a command that is named in place of one that there is not
PATH = click.Path(path_type=Path)
START = "Start with: pp3 doctor, pp3 init DIR, pp3 qualify --campaign DIR/campaign.toml, then pp3 verify RECEIPT."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=START)
@click.version_option(__version__, prog_name="pp3")
def commands() -> None:
    """Statistical qualification of the samplers inside LLM inference engines."""


for command in (
    qualify,
    engines.checkpoint,
    *sampler_commands.ALL,
    *proof_commands.ALL,
    *receipt_commands.ALL,
    *speed_commands.ALL,
    *COMMANDS,
):
    commands.add_command(command)


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


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every way a command can end, mapped to its exit code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return int(commands.main(arguments, prog_name="pp3", standalone_mode=False) or Exit.OK)
    except click.ClickException as error:
        click.echo(f"pp3: error: {_usage(error)}", err=True)
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


def _usage(error: click.ClickException) -> str:
    """What click says of a command line, and the way out."""
    said, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return said
    if isinstance(context.command, click.Group) and said.startswith("No such command"):
        name = said.split("'")[1]
        close = difflib.get_close_matches(name, context.command.commands, 1, CLOSE)
        hint = f"did you mean {close[0]}?" if close else f"{context.command_path} --help lists them"
        return f"{name!r} is no command; {hint}"
    if context.command is qualify and isinstance(error, click.NoSuchOption):
        from pp3.harness.campaign import CampaignSpec

        key = error.option_name.lstrip("-").replace("-", "_")
        if key in CampaignSpec.__struct_fields__:
            return f"{error.option_name} is no option: {key} is a key of a campaign file (--campaign FILE)"
    if context.command is qualify and "unexpected extra argument" in said:
        said += "; a campaign file is given as --campaign FILE, a sampler as --sampler NAME"
    return f"{said}; see {context.command_path} --help"


if __name__ == "__main__":
    main()
