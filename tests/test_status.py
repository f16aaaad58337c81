"""What `pp3 status` says, from the files alone: progress by cell, requests a second, time left, and a stale file."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import store
from pp3.harness.evidence.moment import utc
from pp3.harness.operations.status import State, Status, lives, process, read_status, write_status
from pp3.harness.operations.status_command import STALE, latest, progress, standing

CELLS = {"sparse-tail/depth-4/batch-1": 1000, "sparse-tail/depth-5/batch-1": 500, "kernels": 0}


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a campaign that was begun."""
    manifest = dict.fromkeys(("planSha256", "sourcesSha256"), "0" * 64) | {"kind": "qualify", "counter": 1}
    (tmp_path / "campaign.json").write_bytes(canonical.encode(manifest | {"backend": "reference"}))
    return tmp_path


@pytest.fixture
def begun(folder: Path) -> tuple[Status, Clock]:
    """A start that has done half of one cell in ten seconds, a fifth of which was there before."""
    clock = Clock()
    status = Status(folder=folder, attempt=2, shard="1/1", cells=CELLS, pieces=7, clock=clock)
    status.done, status.done_pieces, status.before = {"sparse-tail/depth-4/batch-1": 100}, 1, 100
    clock.now += 10
    status.add("sparse-tail/depth-4/batch-1", 400)
    return status, clock


def test_progress_by_cell_rate_and_time_left(folder: Path, begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of what this start has done: 400 requests in 10 s; 1,000 are left."""
    assert cli.run(["status", str(folder)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shard 1/1, start 2: running"
    assert lines[1].split() == ["pieces", "2", "of", "7"]
    assert lines[2] == "  requests  500 of 1,500, 40 a second, 0 min 25 s left"
    assert lines[4].split() == ["sparse-tail/depth-4/batch-1", "500", "of", "1,000"]
    assert lines[5].split() == ["sparse-tail/depth-5/batch-1", "0", "of", "500"]


def test_json_holds_the_same(folder: Path, begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One object for each shard."""
    assert cli.run(["status", str(folder), "--json"]) == Exit.OK
    [found] = json.loads(capsys.readouterr().out)
    assert (found["requestsPerSecond"], found["secondsLeft"], found["standing"]) == (40, 25, "running")
    assert found["cells"]["sparse-tail/depth-4/batch-1"] == {"done": 500, "total": 1000}


def test_the_file_is_not_written_at_every_piece(begun: tuple[Status, Clock], folder: Path) -> None:
    """A campaign of many pieces has better things to do; the end is always written."""
    status, clock = begun
    path = folder / "status" / "0002.json"
    before = path.read_bytes()
    status.add("sparse-tail/depth-5/batch-1", 1)
    assert path.read_bytes() == before
    clock.now += 1
    status.add("sparse-tail/depth-5/batch-1", 1)
    assert read_status(path)["requests"]["done"] == 502
    status.end(State.DONE)
    assert read_status(path)["state"] == "done"


@pytest.mark.parametrize(("state", "code"), [(State.DONE, 0), (State.FAILED, 3), (State.INTERRUPTED, 3)])
def test_how_it_ended(
    folder: Path, begun: tuple[Status, Clock], state: State, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what was said of it."""
    begun[0].end(state, "because")
    assert cli.run(["status", str(folder)]) == code
    assert f"start 2: {state} (because)" in capsys.readouterr().out


def test_a_stale_file_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written by a process that was killed: its number may be another's by now, its start is not."""
    script = (
        "import sys; from pathlib import Path; from pp3.harness.operations.status import Status; "
        "Status(folder=Path(sys.argv[1]), attempt=1, shard='1/1', cells={}, pieces=1).write(); "
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = str(Path(__file__).resolve().parents[1])
    env = os.environ | {"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-P", "-c", script, str(folder)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert cli.run(["status", str(folder)]) == Exit.INCONCLUSIVE
    out = capsys.readouterr().out
    assert "start 1: stale" in out
    assert "go on with --resume" in out
    mine = read_status(folder / "status" / "0001.json")
    mine["process"] |= {"pid": os.getpid()}
    assert lives(mine["process"]) is False
    assert lives(process(os.getpid())) is True


def test_another_machine_is_believed_for_a_while() -> None:
    """Its processes cannot be seen from here."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    one = {"state": "running", "process": {"boot": "elsewhere", "pid": 1, "ticks": 1}}
    assert lives(one["process"]) is None  # type: ignore[arg-type]  # a map of strings and numbers
    for seconds, said in ((STALE - 1, "running"), (STALE + 1, "stale")):
        assert standing(one | {"updatedUtc": utc(now - timedelta(seconds=seconds))}, now) == said


def test_the_last_start_of_each_shard_is_shown(folder: Path) -> None:
    """A shard that was run again is not counted twice."""
    for attempt, shard in ((1, "1/2"), (2, "2/2"), (3, "1/2")):
        Status(folder=folder, attempt=attempt, shard=shard, cells=CELLS, pieces=1).write()
    assert [(one["shard"], one["attempt"]) for one in latest(folder)] == [("1/2", 3), ("2/2", 2)]


def test_events_are_whole_lines(folder: Path, begun: tuple[Status, Clock]) -> None:
    """Each is JSON, with the moment, the start and the shard."""
    begun[0].tell("piece", {"piece": "x", "nanoseconds": 5})
    begun[0].end(State.DONE)
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["piece", "done"]
    assert lines[0].items() >= {"piece": "x", "nanoseconds": 5, "attempt": 2, "shard": "1/1"}.items()


BAD: dict[str, tuple[bytes | None, str]] = {
    "no campaign": (None, "No such file or directory; give the folder of a campaign"),
    "no status yet": (b"", "no start has left a status yet"),
    "half a status": (b'{"state":"run', "it is no status file, remove it"),
    "another file": (b"{}", "it is no status file, remove it"),
}


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_bad_input(content: bytes | None, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named, with the way out."""
    if content is None:
        (folder / "campaign.json").unlink()
    elif content:
        (folder / "status").mkdir()
        (folder / "status" / "0001.json").write_bytes(content)
    assert cli.run(["status", str(folder)]) == Exit.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("exit_code", "code"), [(0, 0), (137, 3), (None, 3)])
def test_the_scratch_folder_of_the_wrapper_names_its_campaign(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, exit_code: int | None, code: int, begun: Any, capsys: Any
) -> None:
    """Its own line first; a status whose writer is gone is stale."""
    scratch = tmp_path_factory.mktemp("scratch")
    dead = process(os.getpid()) | {"ticks": 1}
    said = {
        "campaign": str(folder),
        "mode": "qualify",
        "process": dead,
        "state": "running" if exit_code is None else "ended",
        "updatedUtc": utc(datetime.now(UTC)),
    }
    write_status(scratch / "wrapper.json", said | ({} if exit_code is None else {"exit": exit_code}))
    assert cli.run(["status", str(scratch)]) == Exit.OK
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"pp3_locked --qualify: {'stale' if exit_code is None else f'ended, exit code {exit_code}'}"
    )
    assert second == "shard 1/1, start 2: running"
    shutil.rmtree(folder / "status")
    (folder / "campaign.json").unlink()
    assert cli.run(["status", str(scratch)]) == code


def test_a_run_that_goes_on_is_not_stale(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, begun: tuple[Status, Clock], capsys: Any
) -> None:
    """While the wrapper's run has begun no piece, the start before it is shown as that; before any, it says so."""
    begun[0].end(State.INTERRUPTED)
    scratch = tmp_path_factory.mktemp("scratch")
    later = utc(datetime.now(UTC) + timedelta(seconds=5))
    said = {"mode": "qualify", "process": process(os.getpid()), "state": "running", "campaign": str(folder)}
    write_status(scratch / "wrapper.json", said | {"startedUtc": later, "updatedUtc": later})
    assert cli.run(["status", str(scratch)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"pp3_locked --qualify: running, since {later}, in {folder}"
    assert lines[1:3] == ["  no piece has been begun yet; the start before it:", "shard 1/1, start 2: ended"]
    shutil.rmtree(folder / "status")
    assert cli.run(["status", str(scratch)]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[1:] == ["  no piece has been begun yet"]
    assert cli.run(["status", str(scratch), "--json"]) == Exit.OK
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize(("code", "meaning"), [(0, " (passed)"), (3, " (inconclusive)"), (137, "")])
def test_an_exit_code_is_explained(tmp_path: Path, code: int, meaning: str, capsys: Any) -> None:
    """Of a run that has ended; one of a signal has none of ours."""
    moment = utc(datetime.now(UTC))
    said = {"mode": "oracle", "process": process(os.getpid()), "state": "ended", "exit": code, "updatedUtc": moment}
    write_status(tmp_path / "wrapper.json", said | {"startedUtc": moment})
    assert cli.run(["status", str(tmp_path)]) == (Exit.OK if code == 0 else Exit.INCONCLUSIVE)
    assert capsys.readouterr().out == f"pp3_locked --oracle: ended, exit code {code}{meaning}, at {moment}\n"


def test_what_is_to_come_without_requests_is_said(folder: Path, begun: tuple[Status, Clock], capsys: Any) -> None:
    """When all requests are done, their rate says nothing any more."""
    status, clock = begun
    status.add("sparse-tail/depth-4/batch-1", 500)
    clock.now += 1
    status.add("sparse-tail/depth-5/batch-1", 500)
    assert cli.run(["status", str(folder)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["pieces", "4", "of", "7"]
    assert lines[2] == "  requests  1,500 of 1,500"
    assert re.fullmatch(r"  said at   \S+Z, 0 min \d\d s ago", lines[3])
    assert lines[4] == "  to come   3 pieces without requests: kernels, pairs"
    [one] = latest(folder)
    assert progress(one) == "shard 1/1: running, 4 of 7 pieces, 1,500 of 1,500 requests"


def test_of_an_engine_tokens_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a piece that has not ended too; what is to come shrinks with what came."""
    clock, cells = Clock(), {"stream": 1000, "end": 500}
    status = Status(folder=folder, attempt=1, shard="1/1", cells=cells, pieces=3, clock=clock, unit="tokens")
    clock.now += 10
    status.reach("stream", 400)
    assert cli.run(["status", str(folder)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["pieces", "0", "of", "3"]
    assert lines[2] == "  tokens    400 of 1,500, 40 a second, 0 min 27 s left"
    clock.now += 10
    status.reach("stream", 600)
    clock.now += 1
    cells["end"] = 200  # they ended early
    status.add("end", 200)
    [one] = latest(folder)
    assert progress(one) == "shard 1/1: running, 1 of 3 pieces, 1,200 of 1,200 tokens"
    assert one["cells"]["end"] == {"done": 200, "total": 200}


def test_a_real_campaign_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_pieces: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every request and piece of it, and the end."""
    quick_pieces.install(monkeypatch.setattr)
    monkeypatch.setattr(store, "find_checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text('targets = ["sparse-tail"]\nrequests = 33\npaired = 3\n')
    given = ["--campaign", "c.toml", "--dir", "d", "--counter", "1", "--out", "o"]
    assert cli.run(["qualify", *given]) == Exit.INCONCLUSIVE
    capsys.readouterr()
    assert cli.run(["status", "d", "--json"]) == Exit.OK
    [found] = json.loads(capsys.readouterr().out)
    assert found["requests"] == {"done": 33, "total": 33}
    [receipt] = (tmp_path / "o").glob("*.json")
    assert cli.run(["status", "d"]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-2:] == ["verdict INCONCLUSIVE", f"  receipt   {receipt.resolve()}"]
    assert found["pieces"]["done"] == found["pieces"]["total"] == len(list((tmp_path / "d" / "parts").iterdir()))
    events = [json.loads(line) for line in (tmp_path / "d" / "events.jsonl").read_text("utf-8").splitlines()]
    assert sorted(event["piece"] for event in events if event["event"] == "piece") == sorted(
        path.stem for path in (tmp_path / "d" / "parts").iterdir()
    )
