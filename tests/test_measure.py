"""docs/examples/measure.sh: its steps are commands that pp3 takes, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import click

from pp3.harness import cli

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "docs" / "examples" / "measure.sh"


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PP3": f"{sys.executable} -P -m pp3.harness.cli"}
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False, env=env)


def test_each_step_is_a_command_that_is_taken() -> None:
    """Options and their values, as the command line reads them."""
    lines = measure("--list").stdout.splitlines()
    assert len(lines) == len(set(lines)) == 13
    for line in lines:
        _, command = line.split(": pp3 ")
        name, *rest = command.split()
        with click.Context(cli.commands) as parent:
            context = cli.commands.commands[name].make_context(name, rest, parent=parent)
        assert context.params


def test_a_step_that_is_unknown_is_named_before_anything_is_begun(tmp_path: Path) -> None:
    done = measure(str(tmp_path / "out"), "oracle", "orcale")
    assert done.returncode == 2
    assert "orcale is no step; there are: qualify oracle" in done.stderr
    assert not (tmp_path / "out").exists()
    assert measure().returncode == 2


def test_a_step_that_does_not_end_well_is_told_and_the_next_is_taken(tmp_path: Path) -> None:
    """Without a GPU: 69, with the reason in the log. A folder of an earlier run is left as it is."""
    out = tmp_path / "out"
    done = measure(str(out), "probe", "oracle")
    assert done.returncode == 1
    assert [line.split(" s")[0].rsplit(" ", 1)[0] for line in done.stdout.splitlines()] == [
        "probe exit 69",
        "oracle exit 69",
    ]
    assert "GPU" in (out / "probe.log").read_text()
    (out / "probe").mkdir()
    again = measure(str(out), "probe")
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
