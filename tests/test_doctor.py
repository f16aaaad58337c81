"""`pp3 doctor` under real conditions: no torch, no tmux, a folder that cannot be written, a lock that is held."""

import fcntl
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.doctor import kernels, machine, packages, tree
from pp3.harness.doctor.line import State
from pp3.harness.errors import Exit

BLOCK = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocked())
"""
UNPRIVILEGED = """
import os, sys
from pathlib import Path
from pp3.harness.doctor import machine

if os.geteuid() == 0:
    os.seteuid(65534)
line = machine.cache(sys.argv[1] == "gpu", {"TRITON_CACHE_DIR": sys.argv[2]})
print(line.state.value, line.said, line.fix, sep="|")
"""


def doctor(*arguments: str, timeout: float = 240, **environment: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """Exit code of pp3 doctor --json, its lines by name, and all it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pp3.harness.cli", "doctor", "--json", *arguments],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["ok"] == (done.returncode == 0)
    return done.returncode, {line["name"]: line for line in said["lines"]}, done.stdout


@pytest.fixture(scope="module")
def no_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which torch and jinja2 cannot be imported, whatever is installed."""
    folder = tmp_path_factory.mktemp("blocked")
    (folder / "sitecustomize.py").write_text(BLOCK.format(names=("torch", "jinja2")), "utf-8")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))


def test_a_machine_that_can_run_a_campaign(tmp_path: Path) -> None:
    """This one, but for tmux, which no campaign needs: exit 0, the interpreter ran, and nothing names anybody."""
    for name in ("flock", "git", "ssh-keygen"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/missing")
    code, lines, text = doctor(PATH=str(tmp_path), TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert code == 0
    assert [name for name, line in lines.items() if line["state"] == State.PROBLEM] == []
    assert lines["small kernel"]["said"].startswith("run in Triton's interpreter in ")
    assert lines["tmux"] == {
        "name": "tmux",
        "state": "note",
        "said": "missing, and pp3_locked.sh --detach needs it",
        "fix": "apt-get install tmux",
    }
    assert {lines[name]["state"] for name in ("flock", "git", "triton cache", "torch", "numpy")} <= {"ok", "note"}
    assert lines["gpu"]["said"] == "hidden by CUDA_VISIBLE_DEVICES"
    private = {socket.gethostname(), str(Path.home()), str(tmp_path), str(Path(sys.prefix)), f"/{getpass.getuser()}/"}
    assert [one for one in private if one in text and len(one) > 1] == []


def test_without_torch_nothing_of_the_kernels_runs(no_torch: str) -> None:
    """Both lines say so, and how it is mended; pages need jinja2, and a campaign does not."""
    code, lines, _ = doctor(PYTHONPATH=no_torch)
    assert code == Exit.UNAVAILABLE
    assert lines["torch"]["state"] == lines["small kernel"]["state"] == "problem"
    assert lines["torch"]["fix"] == lines["small kernel"]["fix"] == "pip install 'pp3[kernels]'"
    assert lines["small kernel"]["said"] == "ModuleNotFoundError: No module named 'torch'"
    assert lines["jinja2"]["state"] == "note"
    assert lines["jinja2"]["fix"] == "pip install 'pp3[report]'"


def test_a_gpu_that_is_required_and_missing_is_69(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One problem more than without the option, and a line that says what hides it."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(kernels, "look", lambda: {"cuda": "", "gpu": "", "right": True, "seconds": 0.1})
    assert cli.run(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "a campaign on a CPU can run here: 0 problems" in said
    assert cli.run(["doctor", "--require-gpu"]) == Exit.UNAVAILABLE
    said = capsys.readouterr().out
    assert "a campaign on a GPU cannot run here: 1 problems" in said
    assert "problem  gpu" in said
    assert "mend with  unset CUDA_VISIBLE_DEVICES" in said


@pytest.mark.parametrize(("where", "state"), [("gpu", "problem"), ("cpu", "note")])
def test_a_cache_that_cannot_be_written(where: str, state: str, tmp_path: Path) -> None:
    """By the kernel's word, to a process without privileges; only a compiler needs it."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-P", "-c", UNPRIVILEGED, where, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "|".join(
        (
            state,
            "$TRITON_CACHE_DIR cannot be written (Permission denied): every kernel is compiled anew, or not at all",
            "export TRITON_CACHE_DIR=$(mktemp -d)",
        )
    )


def test_a_cache_is_measured(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "kernel").write_bytes(bytes(3 << 20))
    assert machine.cache(True, {"TRITON_CACHE_DIR": str(tmp_path)}).said == "$TRITON_CACHE_DIR, 3 MiB in 1 files"
    home = machine.cache(True, {"HOME": str(tmp_path)})
    assert (home.state, home.said) == (State.OK, "~/.triton/cache, not made yet")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A lock that somebody holds."""
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


def test_a_lock_that_is_held_is_named(held: Path, tmp_path: Path) -> None:
    """And is not taken: it is free again once its holder has gone."""
    assert machine.lock({"PP3_LOCK": str(held)}).said == "$PP3_LOCK: held, a run is under way"
    assert machine.lock({"PP3_LOCK": str(tmp_path / "none")}).said == "$PP3_LOCK: free, never taken on this machine"


def test_a_broken_ledger_is_a_problem(tmp_path: Path) -> None:
    """Its own words, without the folder it lies in."""
    (tmp_path / "receipts" / "evidence").mkdir(parents=True)
    assert tree.records(tmp_path).state is State.OK
    (tmp_path / "receipts" / "LEDGER").write_bytes(b"nonsense")
    line = tree.records(tmp_path)
    assert line.state is State.PROBLEM
    assert str(tmp_path) not in line.said
    assert line.fix == "git checkout -- receipts/LEDGER"


def test_a_changed_checkout_is_noted(tmp_path: Path) -> None:
    """Git's own word; no lock of its index is taken."""
    assert tree.state(tmp_path).said == "the checkout is a copy without history"
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "-q"], ["add", "file"], [*who, "commit", "-qm", "One"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    assert tree.state(tmp_path).said.endswith("nothing changed")
    (tmp_path / "file").write_text("two")
    line = tree.state(tmp_path)
    assert line.state is State.NOTE
    assert "1 files changed or new" in line.said


def test_a_package_that_is_too_old_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "required", lambda: {"numpy": "9999.1"})
    lines = {line.name: line for line in packages.lines()}
    assert lines["numpy"].state is State.PROBLEM
    assert lines["numpy"].fix == "pip install 'numpy>=9999.1'"
    assert lines["scipy"].state is State.OK


def test_the_lowest_versions_are_those_of_the_metadata() -> None:
    """Of the installed PP3: every package that is needed has one."""
    lowest = packages.required()
    assert not lowest or set(packages.CORE + packages.KERNELS) <= set(lowest)


@pytest.mark.parametrize(
    ("said", "state", "start"),
    [
        ({"error": "no answer in 180 s"}, "problem", "no answer"),
        ({"error": "CompilationError: /root/x/y.py:3: no"}, "problem", "CompilationError: y.py:3: no"),
        ({"gpu": "", "cuda": "", "right": False, "seconds": 1.0}, "problem", "run in Triton's interpreter, and its"),
        (
            {"gpu": "NVIDIA H200", "capability": "9.0", "cuda": "12.8", "right": True, "seconds": 1.5},
            "ok",
            "compiled and run in 1.50 s",
        ),
    ],
)
def test_what_the_kernel_came_to(said: dict[str, Any], state: str, start: str) -> None:
    """A compiler that fails is a problem whatever is asked for; no path of it is repeated."""
    line = list(kernels.lines(said, require_gpu=False))[1]
    assert (line.state.value, line.said[: len(start)]) == (state, start)
