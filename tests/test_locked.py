"""pp3_locked.sh with the real flock: one run at a time, exit codes kept, bad settings and missing tools named."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from locked_place import SOON, Place, copied, gone, placed, stand_in

from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose command is the stand-in."""
    return stand_in(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def place(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    with placed(tree, tmp_path_factory.mktemp("l")) as place:
        yield place


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


def test_a_python_that_cannot_start_is_no_success(place: Place) -> None:
    """127 is the job's own, unless a signal has broken off a wait before."""
    python = place.folder / "python"
    python.write_text("#!/nowhere/python3\n")
    python.chmod(0o755)
    code, _, err = place.run("--oracle", "0", PP3_PYTHON=str(python))
    assert (code in (126, 127), "/nowhere/python3" in err or "No such file" in err) == (True, True)


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
