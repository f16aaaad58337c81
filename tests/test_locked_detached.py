"""pp3_locked.sh in a tmux of its own: detached runs, one at a time, and what is said in their session."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from locked_place import SOON, Place, copied, gone, names_below, placed, smi, soon, stand_in

from pp3.harness.errors import Exit
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import Status


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose command is the stand-in."""
    return stand_in(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def place(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    with placed(tree, tmp_path_factory.mktemp("l")) as place:
        yield place


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
