"""A scratch folder for pp3_locked.sh, a copy of this tree whose command is a stand-in, and what was started there.

Each argument of the stand-in is something to do.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("harness", "kernels", "targets", "pp3", "pyproject.toml", "pp3_locked.sh")
SOON = 30.0  # seconds within which whatever is waited for must come; nothing is slept for
# The command: `--dir X` is taken; then each argument is a step. `ready` tells the test that it is there, with its pid.
STAND_IN = """
import os, signal, subprocess, sys, time
from pathlib import Path

DEAF = "import os, signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; os.setsid(); time.sleep(600)"


def main():
    steps = sys.argv[2:]
    note = Path(os.environ["NOTE"])
    if "--dir" in steps:
        at = steps.index("--dir")
        print("dir", steps[at + 1], flush=True)
        del steps[at : at + 2]
    for step in steps:
        if step == "env":
            names = ("TMPDIR", "PYTHONPYCACHEPREFIX", "TRITON_CACHE_DIR", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
            print("nice", os.nice(0), "cpus", len(os.sched_getaffinity(0)), flush=True)
            print("env", *(f"{name}={os.environ[name]}" for name in names), flush=True)
        elif step == "lock":
            held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
            print("lock", os.environ["PP3_LOCK"] in held, flush=True)
        elif step == "deaf":
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        elif step == "grandchild":
            print("grandchild", subprocess.Popen([sys.executable, "-I", "-c", DEAF]).pid, flush=True)
        elif step == "ready":
            note.with_suffix(".new").write_text(str(os.getpid()))
            note.with_suffix(".new").rename(note)
        elif step == "wait":
            time.sleep(600)
        elif step == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            sys.exit(int(step))


main()
"""


def copied(folder: Path, symlinks: bool) -> Path:
    """A plain copy of this tree, without .git."""
    folder.mkdir()
    for name in PARTS:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=symlinks, ignore=ignore)
        else:
            shutil.copy2(source, folder / name)
    return folder


def stand_in(folder: Path) -> Path:
    """A copy whose command is the stand-in."""
    tree = copied(folder / "pp3", symlinks=True)
    (tree / "harness" / "cli.py").write_text(STAND_IN)
    return tree


class Place:
    """A scratch folder, a lock and what was started with them."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree, self.folder = tree, folder
        self.scratch, self.note = folder / "scratch", folder / "note"
        self.started: list[subprocess.Popen[str]] = []
        self.env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | {
            "NOTE": str(self.note),
            "PP3_GRACE_S": "1",
            "PP3_LOCK": str(folder / "lock"),
            "PP3_NICE": "1",
            "PP3_PYTHON": sys.executable,
            "PP3_SCRATCH": str(self.scratch),
        }

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start the wrapper."""
        process = subprocess.Popen(
            [str(self.tree / "pp3_locked.sh"), *arguments],
            env=self.env | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, **more: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, output, errors."""
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=2 * SOON)
        return process.returncode, out, err

    def child(self) -> int:
        """Wait until the command is ready; its process id."""
        soon(self.note.exists)
        return int(self.note.read_text())

    def status(self) -> dict[str, Any]:
        """What the status file says."""
        return dict(json.loads((self.scratch / "wrapper.json").read_bytes()))

    def free(self) -> bool:
        """Whether the lock can be had."""
        done = subprocess.run(["flock", "-n", "-E", "75", self.env["PP3_LOCK"], "true"], check=False)
        return done.returncode == 0

    def left(self) -> list[str]:
        """Folders of runs in the scratch folder."""
        return [path.name for path in self.scratch.glob("run-*")]

    def tmux(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask the private tmux."""
        env = self.env | {"TMUX_TMPDIR": str(self.scratch / "tmux")}
        return subprocess.run(["tmux", "-L", "pp3", *arguments], env=env, capture_output=True, text=True, check=False)


@contextmanager
def placed(tree: Path, folder: Path) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    place = Place(tree, folder)
    yield place
    place.tmux("kill-server")
    for process in place.started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SOON)


def soon(what: Callable[[], object]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < deadline
        select.select([], [], [], 0.01)


def gone(pid: int) -> bool:
    """Whether a process is, or is only what is left of one."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[0] == b"Z"
    except OSError:
        return True


def names_below(pid: int) -> list[str]:
    """Commands of the children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            found += [name] if int(rest.split()[1]) == pid else []
    return found


SMI = """#!/bin/sh
case "$1" in
    --query-gpu=*) cat <<EOF
0, GPU-aaaa, NVIDIA H200, {power}
1, GPU-bbbb, NVIDIA H200, {power}
EOF
    ;;
    --query-compute-apps=*) printf '%s' "{apps}" ;;
    *) exit 9 ;;
esac
exit {code}
"""


def smi(place: Place, power: str = "700.00", apps: str = "", code: int = 0) -> dict[str, str]:
    """A stand-in for nvidia-smi, first on the path."""
    folder = place.folder / "smi"
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(SMI.format(power=power, apps=apps, code=code))
    (folder / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{folder}:{place.env['PATH']}"}
