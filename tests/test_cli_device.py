"""The device of a run: the one that is chosen, and exit code 69 where there is no GPU."""

import re
import subprocess
from pathlib import Path

import pytest
from checkouts import command, environment, make_checkout
from click import Choice

from pp3.harness import backends, cli, qualify
from pp3.harness.backends import Backend
from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
NO_GPU = {
    "a GPU is asked for": ["qualify", "--device", "cuda"],
    "a GPU is asked for the bridge": ["oracle", "--device", "cuda"],
    "a GPU is required": ["qualify", "--require-gpu"],
    "the known answers are to be compiled": ["conform", "--backend", "cuda", str(VECTORS / "verify.json")],
}


@pytest.mark.parametrize("arguments", NO_GPU.values(), ids=NO_GPU)
def test_without_a_gpu_it_is_exit_69(arguments: list[str], tmp_path: Path) -> None:
    """One line, and no counter is spent."""
    tree = make_checkout(tmp_path)
    done = subprocess.run(
        command(*arguments),
        cwd=tree,
        env=environment(tree, interpret=False),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (Exit.UNAVAILABLE, "")
    assert done.stderr.splitlines() == [f"pp3: error: {backends.NO_GPU}"]
    assert not (tree / "receipts").exists()


def test_without_a_gpu_a_command_is_told_an_option_that_it_has() -> None:
    """--device cpu wherever a GPU can be asked for, but for conform."""
    choices = {
        (name, option): one.type.choices
        for name, command in cli.commands.commands.items()
        for one in command.params
        if isinstance(one.type, Choice)
        for option in one.opts
    }
    asking = {name for (name, _), values in choices.items() if "cuda" in values}
    assert {"qualify", "oracle", "exhaustive", "conform"} <= asking
    advice = re.fullmatch(r"no CUDA GPU is visible: use (\S+) (\S+), or with pp3 conform (\S+) (\S+)", backends.NO_GPU)
    assert advice
    option, value, other_option, other_value = advice.groups()
    assert [name for name in asking - {"conform"} if value not in choices.get((name, option), ())] == []
    assert other_value in choices["conform", other_option]


@pytest.mark.parametrize(
    ("device", "require_gpu", "visible", "chosen"),
    [
        ("auto", False, False, Backend.REFERENCE),
        ("auto", False, True, Backend.CUDA),
        ("cpu", False, True, Backend.REFERENCE),
        ("auto", True, True, Backend.CUDA),
        ("cuda", False, True, Backend.CUDA),
    ],
    ids=["auto without a GPU", "auto with one", "cpu beside one", "a required one", "an asked one"],
)
def test_the_device_that_is_chosen(
    device: str, require_gpu: bool, visible: bool, chosen: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """auto takes a GPU if there is one."""
    monkeypatch.setattr(backends, "cuda_available", lambda: visible)
    monkeypatch.setattr(backends, "start", lambda backend: None)
    assert qualify.choose_device(device, require_gpu) is chosen
