"""pp3_locked.sh with the real flock: nothing is left of a run that hangs or is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from locked_place import SOON, Place, gone, placed, smi, soon, stand_in

from pp3.harness.errors import Exit


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose command is the stand-in."""
    return stand_in(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def place(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    with placed(tree, tmp_path_factory.mktemp("l")) as place:
        yield place


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
