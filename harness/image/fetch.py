"""What `make image VERSION=0.33.0` runs: fetch a pinned wheel through pip, keep the named files, delete the wheel.

Of a version that overlays are written for, the runner's file is kept too, in a folder of its own.
"""

import sys
import tempfile
from pathlib import Path

import click

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.image import cache
from pp3.harness.image.find import Image, find
from pp3.harness.image.pins import DEFAULT, pin_of, public
from pp3.harness.image.wheel import bring
from pp3.harness.overlay import sources
from pp3.harness.overlay.pins import OVERLAYS

GLIBC = "2_28"  # that vLLM's wheels are built for


def fetch(version: str, folder: Path | None = None) -> tuple[Image, bool]:
    """The image of a version in the cache, and whether it had to be fetched.

    CampaignError (2) for an unknown version or a changed cache; PP3Error (69) if pip cannot bring the wheel.
    """
    pin, version = pin_of(version), public(version)
    home = cache.need_folder(folder)
    kept = home / version
    runner = sources.beside(kept)
    if kept.exists() and (runner.exists() or version not in OVERLAYS):
        there = find(kept, version)
        there.refuse_changed()
        return there, False
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=home) as scratch:
        brought = bring("vllm", version, pin.wheel, GLIBC, Path(scratch), ", or give the wheel itself with --image")
        wheel = find(brought, version)
        wheel.refuse_changed()
        cache.write(kept, wheel.version, wheel.contents)
        if more := sources.runner_in(wheel.place, version):
            cache.write(runner, wheel.version, more)
    return find(kept, version), True


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("version", default=DEFAULT)
@click.option("--cache", "folder", type=click.Path(path_type=Path), help="Folder to keep it in. Default: .image.")
def command(version: str, folder: Path | None) -> int:
    """Fetch the sampler files of a pinned vLLM."""
    image, fetched = fetch(version, folder)
    size = sum(len(member.content) for member in image.members.values())
    said = "fetched" if fetched else "already there and as pinned"
    click.echo(f"vllm {image.version}: {said}, {len(image.members)} files, {size} bytes in {image.place}")
    return Exit.OK


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        return int(command.main(arguments, prog_name="make image", standalone_mode=False) or Exit.OK)
    except click.ClickException as error:
        click.echo(f"pp3: error: {error.format_message()}", err=True)
        return error.exit_code
    except PP3Error as error:
        click.echo(f"pp3: error: {error}", err=True)
        return int(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("pp3: interrupted; nothing half-written was left", err=True)
        return Exit.INTERRUPTED
    except OSError as error:
        click.echo(f"pp3: error: {error.filename or 'output'}: {error.strerror}", err=True)
        return Exit.IO


if __name__ == "__main__":
    sys.exit(main())
