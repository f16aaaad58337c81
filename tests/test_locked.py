"""pp3_locked.sh with the real flock and tmux: one run at a time, nothing left of a run that is killed, exit codes kept.

The command that it runs is a stand-in, in a plain copy of this tree: each argument is something to do.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.errors import Exit
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import Status

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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose command is the stand-in."""
    tree = copied(tmp_path_factory.mktemp("copy") / "pp3", symlinks=True)
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


@pytest.fixture
def place(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    place = Place(tree, tmp_path_factory.mktemp("l"))
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


def test_shellcheck_finds_nothing() -> None:
    """All of its checks, the optional style ones aside."""
    done = subprocess.run(["shellcheck", str(ROOT / "pp3_locked.sh")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_never_touches_what_is_not_its_own() -> None:
    """No command that kills by name, sets clocks, power or services, installs, commits or pushes."""
    text = (ROOT / "pp3_locked.sh").read_text("utf-8")
    for word in (
        "pkill",
        "killall",
        "nvidia-smi",
        "systemctl",
        "apt",
        "pip ",
        "git ",
        "sudo",
        "rm -rf /",
        "-pl ",
        "-lgc",
    ):
        assert word not in text
    for name in ("gpu.py", "supervise.py"):
        source = (ROOT / "harness" / "operations" / name).read_text("utf-8")
        assert not re.search(r'"(-pl|-lgc|-rgc|-pm|-c|--reset\S*|--gpu-reset)"', source)


def test_modes(place: Place) -> None:
    """No mode is the probe; what is unknown is refused; what follows the mode goes through."""
    assert place.run()[0] == 0
    assert place.status()["mode"] == "probe"
    assert place.run("--probe", "5")[0] == 5
    code, _, err = place.run("--fast")
    assert (code, "unknown argument --fast" in err) == (Exit.USAGE, True)
    assert place.run("--help")[0] == 0
    assert place.run("--qualify", "7")[0] == 7
    assert place.run("--oracle", "3")[0] == 3
    assert place.status()["mode"] == "oracle"
    assert "dir" not in place.run("--oracle", "0")[1]


def test_environment(place: Place) -> None:
    """Nice, threads, CPUs; scratch and bytecode in the run's own folder, which is gone afterwards; caches stay."""
    cpu = str(min(os.sched_getaffinity(0)))
    code, out, _ = place.run("--oracle", "env", "lock", "0", PP3_NICE="3", PP3_THREADS="5", PP3_CPUS=cpu)
    assert code == 0
    [nice, env, lock] = out.splitlines()
    assert nice == f"nice {os.nice(0) + 3} cpus 1"
    run = re.escape(str(place.scratch)) + r"/run-\d+"
    assert re.fullmatch(
        rf"env TMPDIR={run}/tmp PYTHONPYCACHEPREFIX={run}/bytecode TRITON_CACHE_DIR={place.scratch}/cache/triton "
        "OMP_NUM_THREADS=5 MKL_NUM_THREADS=5",
        env,
    )
    assert lock == "lock False"  # its descriptor is closed (-o): no child can keep it
    assert place.left() == []


def test_two_at_once(place: Place) -> None:
    """The second is refused (75), and neither ends nor changes the first."""
    first = place.start("--qualify", "ready", "wait")
    child = place.child()
    before = place.status()
    code, _, err = place.run("--qualify", "0")
    assert (code, "is held: another run is under way" in err) == (Exit.LOCKED, True)
    assert place.status() == before
    assert not gone(child)
    first.send_signal(signal.SIGTERM)
    assert first.wait(SOON) == 128 + signal.SIGINT
    assert place.run("--oracle", "0")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(place: Place, number: signal.Signals) -> None:
    """The command is interrupted, the status says so, and nothing of the run is left, not even what left its group."""
    wrapper = place.start("--qualify", "grandchild", "ready", "wait")
    child = place.child()
    assert wrapper.stdout is not None
    wrapper.stdout.readline()
    grandchild = int(wrapper.stdout.readline().split()[1])
    wrapper.send_signal(number)
    assert wrapper.wait(SOON) == 128 + signal.SIGINT
    assert gone(child)
    assert gone(grandchild)
    assert (place.status()["state"], place.status()["exit"]) == ("interrupted", 128 + signal.SIGINT)
    assert place.free()
    assert place.left() == []


def test_a_hung_child_is_killed(place: Place) -> None:
    """It is deaf to every signal that can be ignored; after the grace it is gone."""
    wrapper = place.start("--qualify", "deaf", "grandchild", "ready", "wait")
    child = place.child()
    assert wrapper.stdout is not None
    wrapper.stdout.readline()
    grandchild = int(wrapper.stdout.readline().split()[1])
    wrapper.send_signal(signal.SIGTERM)
    assert wrapper.wait(SOON) == 128 + signal.SIGKILL
    assert gone(child)
    assert gone(grandchild)
    assert place.free()


def test_kill_9_of_the_wrapper(place: Place) -> None:
    """The run is ended before the lock is free."""
    wrapper = place.start("--qualify", "deaf", "grandchild", "ready", "wait")
    child = place.child()
    wrapper.kill()
    wrapper.wait(SOON)
    soon(place.free)
    assert gone(child)
    assert place.status()["state"] == "its wrapper was killed"
    assert place.left() == []
    assert place.run("--oracle", "0")[0] == 0


def test_kill_9_of_the_child(place: Place) -> None:
    """Its signal is the exit code, and the status says which."""
    assert place.run("--qualify", "die")[0] == 128 + signal.SIGKILL
    assert place.status()["state"] == "killed by SIGKILL"
    assert place.free()


def test_kill_9_of_the_supervisor(place: Place) -> None:
    """The command is gone with it; the status file is stale, and the next run does not mind."""
    wrapper = place.start("--qualify", "deaf", "ready", "wait")
    child = place.child()
    os.kill(int(place.status()["process"]["pid"]), signal.SIGKILL)
    assert wrapper.wait(SOON) == 128 + signal.SIGKILL
    soon(lambda: gone(child))
    assert place.status()["state"] == "running"
    assert place.run("--oracle", "0")[0] == 0
    assert place.status()["state"] == "ended"


def test_kill_9_of_flock(place: Place) -> None:
    """The lock is free at once, so the run ends without grace, deaf or not."""
    wrapper = place.start("--qualify", "deaf", "ready", "wait", PP3_GRACE_S="600")
    child = place.child()
    supervisor = Path(f"/proc/{place.status()['process']['pid']}/stat").read_bytes().rpartition(b") ")[2].split()
    os.kill(int(supervisor[1]), signal.SIGKILL)
    assert wrapper.wait(SOON) == 128 + signal.SIGKILL
    soon(lambda: gone(child))
    soon(lambda: place.status()["state"] == "its wrapper was killed")
    assert place.run("--oracle", "0")[0] == 0


def test_a_python_that_cannot_start_is_no_success(place: Place) -> None:
    """127 is the job's own, unless a signal has broken off a wait before."""
    python = place.folder / "python"
    python.write_text("#!/nowhere/python3\n")
    python.chmod(0o755)
    code, _, err = place.run("--oracle", "0", PP3_PYTHON=str(python))
    assert (code in (126, 127), "/nowhere/python3" in err or "No such file" in err) == (True, True)


def test_a_signal_before_the_supervisor_hears_is_kept(place: Place) -> None:
    """The wrapper leaves word in the folder of the run, and nothing is started."""
    smi(place)
    (place.folder / "smi" / "nvidia-smi").write_text(
        f'#!/bin/sh\n: > "{place.note}"\nwhile ! ls "{place.scratch}"/run-*/stop 2>/dev/null; do :; done >/dev/null\n'
    )
    wrapper = place.start("--oracle", "0", PATH=f"{place.folder / 'smi'}:{place.env['PATH']}")
    soon(place.note.exists)
    wrapper.send_signal(signal.SIGTERM)
    assert wrapper.wait(SOON) == Exit.INTERRUPTED
    assert place.status()["state"] == "interrupted"
    assert place.left() == []


def test_resume_goes_on_with_the_last_folder(place: Place) -> None:
    """A new one each time; --resume takes the last if a campaign was begun in it; --dir is the user's."""
    _, out, _ = place.run("--qualify", "0")
    folder = Path(out.split()[1])
    assert folder.parent == place.scratch / "campaigns"
    code, _, err = place.run("--qualify", "--resume", "0")
    assert (code, "has left no campaign" in err) == (Exit.USAGE, True)
    folder.mkdir(parents=True)
    (folder / "campaign.json").write_text("{}")
    _, out, _ = place.run("--qualify", "--dir", str(folder), "0")
    assert place.run("--oracle", "0")[0] == 0  # which has no campaign, and makes none forgotten
    process = place.start("--qualify", "--resume")
    out, _ = process.communicate(timeout=SOON)
    assert out.split()[:2] == ["dir", str(folder)]


def test_detached(place: Place) -> None:
    """In a tmux session of its own, once; its exit code, output and status outlive the session."""
    code, out, err = place.run("--detach", "--qualify", "ready", "wait")
    assert (code, err) == (0, "")
    assert "started in the tmux session PP3" in out
    child = place.child()
    assert place.tmux("list-sessions", "-F", "#S").stdout.split() == ["PP3"]
    code, _, err = place.run("--detach", "--qualify", "0")
    assert (code, "the session PP3 runs already" in err) == (Exit.LOCKED, True)
    assert place.run("--qualify", "0")[0] == Exit.LOCKED
    assert not gone(child)
    os.kill(child, signal.SIGKILL)
    soon((place.scratch / "detached.exit").exists)
    assert (place.scratch / "detached.exit").read_text() == f"{128 + signal.SIGKILL}\n"
    assert (place.status()["exit"], place.status()["state"]) == (128 + signal.SIGKILL, "killed by SIGKILL")
    soon(lambda: place.tmux("has-session", "-t", "=PP3").returncode)
    assert "dir " in (place.scratch / "detached.log").read_text()


def test_detach_while_another_runs(place: Place) -> None:
    """The lock is asked before a session is made."""
    first = place.start("--qualify", "ready", "wait")
    place.child()
    code, _, err = place.run("--detach", "--qualify", "0")
    assert (code, "is held" in err) == (Exit.LOCKED, True)
    assert place.tmux("has-session", "-t", "=PP3").returncode
    first.send_signal(signal.SIGINT)
    first.wait(SOON)


def test_two_detached_at_once(place: Place) -> None:
    """The second comes between the first one's look for a session and its making one: it waits, and is refused."""
    begun, go, folder = place.folder / "begun", place.folder / "go", place.folder / "slow"
    folder.mkdir()
    (folder / "tmux").write_text(
        '#!/bin/bash\ncase " $* " in *" new-session "*)\n'
        f'  : >"{begun}"\n  while [ ! -e "{go}" ]; do read -rt 0.01 <> <(:) || :; done ;;\nesac\n'
        f'exec {shutil.which("tmux")} "$@"\n'
    )
    (folder / "tmux").chmod(0o755)
    path = f"{folder}:{place.env['PATH']}"
    first = place.start("--detach", "--qualify", "ready", "wait", PATH=path)
    soon(begun.exists)
    second = place.start("--detach", "--qualify", "0", PATH=path)
    soon(lambda: "flock" in names_below(second.pid))
    go.touch()
    assert second.wait(SOON) == Exit.LOCKED
    assert "the session PP3 runs already" in second.communicate()[1]
    assert first.wait(SOON) == 0
    assert not gone(place.child())


def names_below(pid: int) -> list[str]:
    """Commands of the children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            found += [name] if int(rest.split()[1]) == pid else []
    return found


def test_two_detached_at_once_from_two_scratch_folders(place: Place) -> None:
    """As two users do: no session of one is the other's, the lock is. One is at work, one is told (75)."""
    other = str(place.folder / "other")
    both = [place.start("--detach", "--qualify", "ready", "wait", **more) for more in ({}, {"PP3_SCRATCH": other})]
    try:
        codes = [process.wait(SOON) for process in both]
        assert sorted(codes) == [0, Exit.LOCKED]
        assert "is held: another run is under way" in both[codes.index(Exit.LOCKED)].communicate()[1]
        assert not gone(place.child())
    finally:
        env = place.env | {"TMUX_TMPDIR": f"{other}/tmux"}
        subprocess.run(["tmux", "-L", "pp3", "kill-server"], env=env, capture_output=True, check=False)
        place.tmux("kill-server")
        soon(place.free)


def test_progress_is_said_in_the_session(tree: Path, place: Place) -> None:
    """A line now and then, of what the campaign's status says; here much more often than in life."""
    copy = copied(place.folder / "often", symlinks=True)
    shutil.copy(tree / "harness" / "cli.py", copy / "harness" / "cli.py")
    module = copy / "harness" / "operations" / "supervise.py"
    text = module.read_text("utf-8")
    assert "SAY_S = 60.0" in text
    module.write_text(text.replace("SAY_S = 60.0", "SAY_S = 0.02"))
    place.tree = copy
    campaign = place.folder / "campaign"
    manifest = {"backend": "", "counter": 1, "kind": "", "planSha256": "", "sourcesSha256": ""}
    Folder(campaign).begin(manifest)
    assert place.run("--detach", "--qualify", "--dir", str(campaign), "ready", "wait")[0] == 0
    Status(folder=campaign, attempt=1, shard="1/1", cells={"a": 70}, pieces=9, done_pieces=2).write()
    log = place.scratch / "detached.log"
    soon(lambda: "shard 1/1: running, 2 of 9 pieces, 0 of 70 requests, 0 a second\n" in log.read_text("utf-8"))
    assert "pp3_locked: --qualify, begun 2" in log.read_text("utf-8")
    soon(lambda: "2 of 9 pieces" in place.tmux("capture-pane", "-p", "-t", "=PP3:").stdout)
    os.kill(place.child(), signal.SIGKILL)
    soon((place.scratch / "detached.exit").exists)


def test_what_is_refused_in_the_session_is_told(place: Place) -> None:
    """By --detach itself, with its exit code: a GPU is in use."""
    code, out, err = place.run("--detach", "--oracle", "0", **smi(place, apps="GPU-bbbb, 4242, python3 train.py, --x"))
    assert (code, out) == (Exit.UNAVAILABLE, "")
    assert "process 4242 (python3 train.py, --x) on GPU-bbbb" in err
    assert f"all it said is in {place.scratch}/detached.log" in err


def test_a_lock_that_another_user_keeps_is_named(place: Place) -> None:
    """Whose it is, and what would share it; one that can be read is enough, whoever's it is."""
    lock = Path(place.env["PP3_LOCK"])
    lock.touch(0o000)
    lock.chmod(0o000)
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []
    command = [*powerless, str(place.tree / "pp3_locked.sh"), "--oracle", "0"]
    done = subprocess.run(command, env=place.env, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.IO
    assert f"PP3_LOCK={lock} cannot be read: it belongs to {lock.owner()}, whose  chmod a+r" in done.stderr
    lock.chmod(0o444)
    done = subprocess.run(command, env=place.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_kill_9_of_tmux(place: Place) -> None:
    """The run is ended as by a hang-up, and the lock is free."""
    assert place.run("--detach", "--qualify", "grandchild", "ready", "wait")[0] == 0
    child = place.child()
    os.kill(int(place.tmux("display-message", "-p", "#{pid}").stdout), signal.SIGKILL)
    soon(place.free)
    assert gone(child)
    assert place.status()["state"] == "interrupted"
    soon((place.scratch / "detached.exit").exists)
    soon(lambda: not place.left())


@pytest.mark.parametrize(("tool", "mode"), [("flock", []), ("tmux", ["--detach"]), ("taskset", [])])
def test_a_missing_tool_is_named(place: Place, tool: str, mode: list[str]) -> None:
    """69, before anything is made."""
    bin_ = place.folder / "bin"
    bin_.mkdir()
    for name in ("bash", "env", "dirname", "id", "mkdir", "rm", "nice", "flock", "tmux", "taskset", "cat", "tee"):
        found = shutil.which(name)
        if name != tool and found:
            (bin_ / name).symlink_to(found)
    code, _, err = place.run(*mode, "--qualify", "0", PATH=str(bin_), PP3_CPUS="0")
    assert (code, f"{tool} is missing" in err) == (Exit.UNAVAILABLE, True)
    assert not place.scratch.exists()


BAD: dict[str, tuple[dict[str, str], int, str]] = {
    "threads": ({"PP3_THREADS": "many"}, 2, "PP3_THREADS=many"),
    "nice": ({"PP3_NICE": "20"}, 2, "PP3_NICE=20"),
    "grace": ({"PP3_GRACE_S": "-1"}, 2, "PP3_GRACE_S=-1"),
    "power": ({"PP3_POWER_W": "much"}, 2, "PP3_POWER_W=much"),
    "python": ({"PP3_PYTHON": "/nowhere/python"}, 69, "/nowhere/python is no Python"),
    "a scratch that is relative": ({"PP3_SCRATCH": "here"}, 2, "give an absolute path"),
    "a scratch under a file": ({"PP3_SCRATCH": "/proc/version/x"}, 74, "cannot be made"),
    "a scratch that cannot be written": ({"PP3_SCRATCH": "/proc"}, 74, "PP3_SCRATCH=/proc"),
    "a lock nowhere": ({"PP3_LOCK": "/proc/nowhere/lock"}, 74, "PP3_LOCK=/proc/nowhere/lock"),
}


@pytest.mark.parametrize(("more", "code", "said"), BAD.values(), ids=BAD)
def test_bad_settings(place: Place, more: dict[str, str], code: int, said: str) -> None:
    """Named, with the value."""
    got, _, err = place.run("--qualify", "0", **more)
    assert (got, said in err) == (code, True), err


def fill(path: Path) -> None:
    """Write until there is no room."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):
        while True:
            os.write(handle, bytes(4096))
    os.close(handle)
    assert os.statvfs(path).f_bavail == 0


def test_a_full_disk(place: Place) -> None:
    """A real one, as small as there is: the wrapper says so (74) and leaves nothing; the lock is free."""
    small = place.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(small)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.strip()}")
    try:
        scratch = small / "scratch"
        assert place.run("--oracle", "0", PP3_SCRATCH=str(scratch))[0] == 0
        fill(small / "filler")
        code, _, err = place.run("--oracle", "0", PP3_SCRATCH=str(scratch))
        assert code == Exit.IO
        assert "free some space" in err
        assert list(scratch.glob("run-*")) == []
        assert place.free()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_what_dead_runs_left_is_removed_and_nothing_else(place: Place) -> None:
    """A folder of a run whose process is gone; what is somebody's stays."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f"run-{dead.pid}", "run-mine", f"run-{os.getpid()}", "campaigns/old"):
        (place.scratch / name).mkdir(parents=True)
    assert place.run("--oracle", "0")[0] == 0
    assert sorted(place.left()) == sorted(["run-mine", f"run-{os.getpid()}"])
    assert (place.scratch / "campaigns" / "old").is_dir()


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


def test_a_gpu_in_use_is_refused(place: Place) -> None:
    """69, with the process that uses it, which is left alone; another GPU may be chosen."""
    path = smi(place, apps="GPU-bbbb, 4242, python3 train.py, --x")
    code, _, err = place.run("--oracle", "0", **path)
    assert (code, "process 4242 (python3 train.py, --x) on GPU-bbbb" in err) == (Exit.UNAVAILABLE, True)
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="0", **path)[0] == 0
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="GPU-b", **path)[0] == Exit.UNAVAILABLE
    code, _, err = place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="MIG-1", **path)
    assert (code, "CUDA_VISIBLE_DEVICES=MIG-1: nvidia-smi lists no such GPU" in err) == (Exit.UNAVAILABLE, True)
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="-1", **path)[0] == 0


def test_the_power_limit_is_read_recorded_and_never_set(place: Place) -> None:
    """Another one than asked for is refused; without being asked it is recorded."""
    assert place.run("--oracle", "0", **smi(place))[0] == 0
    assert place.status()["gpus"] == [{"name": "NVIDIA H200", "powerLimitW": "700.00"}] * 2
    assert place.run("--oracle", "0", PP3_POWER_W="700", **smi(place))[0] == 0
    code, _, err = place.run("--oracle", "0", PP3_POWER_W="500", **smi(place))
    assert (code, "has a power limit of 700.00 W, PP3_POWER_W asks for 500" in err) == (Exit.UNAVAILABLE, True)
    code, _, err = place.run("--oracle", "0", PP3_POWER_W="500", **smi(place, power="[N/A]"))
    assert (code, "a power limit of [N/A] W" in err) == (Exit.UNAVAILABLE, True)


def test_an_nvidia_smi_that_fails_is_named(place: Place) -> None:
    """As after a driver was replaced."""
    code, _, err = place.run("--oracle", "0", **smi(place, code=18))
    assert (code, "nvidia-smi --query-gpu=index,uuid,name,power.limit ended with 18" in err) == (69, True)


@pytest.mark.gpu
def test_the_real_nvidia_smi_is_read() -> None:
    """On a machine that has one."""
    from pp3.harness.operations.gpu import check

    [gpu, *_] = check("")
    assert gpu.uuid.startswith("GPU-")
    assert float(gpu.power_w) > 0


PRINT = "import json; from pp3.harness.evidence import provenance; print(json.dumps(provenance.sources('qualify')))"


@pytest.mark.parametrize("symlinks", [True, False], ids=["links kept", "links dereferenced"])
def test_a_plain_copy_has_the_same_sources(tmp_path: Path, symlinks: bool) -> None:
    """Without .git: the wrapper runs the copy's pp3, whose source hashes are ours."""
    copy = copied(tmp_path / "copy", symlinks)
    assert not (copy / ".git").exists()
    sources = [
        subprocess.run(
            [sys.executable, "-P", "-c", PRINT],
            env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for tree in (ROOT, copy)
    ]
    assert sources[0] == sources[1]
    place = Place(copy, tmp_path)
    code, out, err = place.run("--qualify", "--help")
    assert (code, "--resume" in out, err) == (0, True, "")
