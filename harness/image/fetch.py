"""What `make image VERSION=0.33.0` runs: fetch a pinned wheel through pip, keep the named files, delete the wheel.

Of a version that overlays are written for, the runner's file is kept too, in a folder of its own.

pip takes the wheel from wherever it is configured to, and refuses any other bytes than the pinned ones. Always the
x86_64 wheel, whatever this machine is: only Python files are kept.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.image import cache
from pp3.harness.image.find import Image, find
from pp3.harness.image.pins import DEFAULT, Pin, pin_of, public
from pp3.harness.overlay import sources
from pp3.harness.overlay.pins import OVERLAYS

PIP = ["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]
WHEEL = ["--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11"]
WHEEL += ["--implementation", "cp"]
STDERR = 2  # what pip says is progress, not data


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
        wheel = find(_download(version, pin, Path(scratch)), version)
        wheel.refuse_changed()
        cache.write(kept, wheel.version, wheel.contents)
        if more := sources.runner_in(wheel.place, version):
            cache.write(runner, wheel.version, more)
    return find(kept, version), True


def _download(version: str, pin: Pin, scratch: Path) -> Path:
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"vllm=={version} --hash=sha256:{pin.wheel}\n", "utf-8")
    command = [sys.executable, *PIP, *WHEEL, "-r", str(requirements), "-d", str(scratch / "wheel")]
    done = subprocess.run(command, stdout=STDERR, check=False)
    wheels = [*(scratch / "wheel").glob("*.whl")]
    if done.returncode or len(wheels) != 1:
        raise PP3Error(
            f"pip did not bring the wheel of vllm {version} with sha256 {pin.wheel} (exit {done.returncode}, its reason"
            f" is above): check its index and the network, or give the wheel itself with --image",
            Exit.UNAVAILABLE,
        )
    return wheels[0]


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
