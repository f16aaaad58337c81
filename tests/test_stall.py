"""How long a campaign in pieces waits for any piece: told, kept in its folder, and never the same twice in vain."""

from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.operations import campaign, stall
from pp3.harness.operations.campaign import Task, run_tasks
from pp3.harness.operations.drive import SilentError
from pp3.harness.operations.engines import serial
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.stall import AGAIN, LEAST, LONGEST, TIMES, Stall, of_folder

MANIFEST = {"kind": "qualify", "counter": 1, "backend": "reference", "planSha256": "0" * 64, "sourcesSha256": "0" * 64}
HOURS = 3600


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Of a campaign that was begun."""
    folder = Folder(tmp_path / "d")
    folder.begin(MANIFEST)
    return folder


def part(name: str, seconds: int) -> dict[str, Any]:
    """What came of a piece that took so long."""
    said = {key: MANIFEST[key] for key in ("planSha256", "counter", "backend", "sourcesSha256")}
    return said | {"name": name, "device": "x", "nanoseconds": seconds * 10**9, "result": {}}


def start(folder: Folder, given: int = 0) -> int:
    """A start that was told a limit, or none."""
    return folder.attempt({stall.TOLD: given})


def test_it_is_an_hour_unless_pieces_take_long(folder: Folder) -> None:
    """Of those of earlier starts, and of this one as they end."""
    assert of_folder(folder, None).seconds == LEAST
    folder.put(part("short", 7))
    assert of_folder(folder, None).seconds == LEAST
    folder.put(part("long", HOURS))
    limit = of_folder(folder, None)
    assert limit.seconds == TIMES * HOURS
    limit.took(1.0)
    assert limit.seconds == TIMES * HOURS
    limit.took(2.0 * HOURS)
    assert limit.seconds == TIMES * 2 * HOURS
    limit.took(1e12)
    assert limit.seconds == LONGEST


def test_what_is_given_holds_until_another_is_given(folder: Folder) -> None:
    """Also for the starts after it; what pieces have taken does not shorten or lengthen what this start was told."""
    assert of_folder(folder, 5).seconds == 5
    start(folder, 7200)
    start(folder)
    assert of_folder(folder, None).seconds == 7200
    start(folder, 60)
    assert of_folder(folder, None).seconds == 60
    folder.put(part("long", HOURS))
    assert of_folder(folder, 5).seconds == 5
    assert of_folder(folder, None).seconds == TIMES * HOURS


@pytest.mark.parametrize("waited", [[LEAST], [60, LEAST], [3 * LEAST, 60]], ids=str)
def test_after_a_stall_it_is_longer(folder: Folder, waited: list[int]) -> None:
    """Than any wait that was in vain."""
    for seconds in waited:
        folder.stalled(start(folder, 1), seconds)
    assert of_folder(folder, None).seconds == AGAIN * max(waited)


def test_no_piece_is_given_up_for_ever(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of thirty hours ends, whatever the first limit was: each start waits twice as long."""
    seconds, limits = 30 * HOURS, []

    def driven(orders: Any, engine: Any, take: Any, tell: Any, silence: Any) -> None:
        limits.append(silence())
        if silence() < seconds:
            raise SilentError("it hangs")
        for name in orders:
            take(part(name, seconds))

    monkeypatch.setattr(campaign, "drive", driven)
    tasks = [Task(order={"name": "x"}, cell="c", requests=1)]
    while not folder.names():
        assert len(limits) < 10
        given = 1800 if not limits else None
        try:
            run_tasks(folder, tasks, serial(apart=False), None, given)
        except SilentError:
            status = canonical.decode((folder.path / "status" / f"{len(limits):04d}.json").read_bytes())
            assert (status["state"], status["said"]) == ("failed", "it hangs")
    assert limits == [1800 * 2**number for number in range(7)]
    assert [canonical.decode(path.read_bytes())["seconds"] for path in sorted((folder.path / "stalled").iterdir())] == (
        limits[:-1]
    )
    assert folder.starts()[0][stall.TOLD] == 1800
    assert of_folder(folder, None).seconds == TIMES * seconds


@pytest.mark.parametrize("given", ["0", "-1", str(LONGEST + 1)])
def test_a_limit_that_is_none_is_refused(given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the value and the limits."""
    assert cli.run(["qualify", "--dir", str(tmp_path / "d"), "--stall-timeout", given]) == Exit.USAGE
    assert f"--stall-timeout {given}: give seconds, from 1 to 1,000,000,000" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_what_was_told_is_never_stretched() -> None:
    """By pieces that take longer."""
    limit = Stall(given=5)
    limit.took(1e6)
    assert limit.seconds == 5
