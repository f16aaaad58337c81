"""A campaign in pieces at the command line: bad input is refused by name and spends no counter."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pieces_run import campaign_in, go_home, run

from pp3.harness.errors import Exit
from pp3.harness.operations.engines import Engine, serial


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick_pieces: ModuleType) -> None:
    """Without the interpreter, and with counters of its own."""
    go_home(monkeypatch, tmp_path / "home", quick_pieces)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A small campaign file."""
    return campaign_in(tmp_path)


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "resume without a folder": (["--resume"], 2, "--resume needs --dir"),
    "a shard without a folder": (["--shard", "1/2"], 2, "--shard needs --dir"),
    "nothing to resume": (["--dir", "new", "--resume"], 2, "holds no campaign"),
    "a shard of nothing": (["--dir", "new", "--shard", "0/2", "--counter", "1"], 2, "give i/n"),
    "a shard past the last": (["--dir", "new", "--shard", "3/2", "--counter", "1"], 2, "give i/n"),
    "a shard that is none": (["--dir", "new", "--shard", "half", "--counter", "1"], 2, "give i/n"),
    "more shards than pieces": (
        ["--dir", "new", "--shard", "1/999999", "--counter", "1"],
        2,
        "pieces; take n up to that",
    ),
    "a shard without a counter": (["--dir", "new", "--shard", "1/2"], 2, "--shard needs --counter"),
    "a campaign that is there": (["--dir", "there"], 2, "--resume goes on with it"),
    "a folder with other things": (["--dir", "full"], 2, "it is not empty"),
    "a file": (["--dir", "full/file"], 2, "it is no folder"),
    "another plan": (["--dir", "there", "--resume", "--requests", "7"], 2, "whose planSha256 is"),
    "another counter": (
        ["--dir", "there", "--resume", "--counter", "4"],
        2,
        "whose counter is 3, the options ask for 4",
    ),
    "a GPU for one begun without": (["--dir", "there", "--resume", "--device", "cuda"], 2, "begun without a GPU"),
    "GPUs and Dask": (["--dir", "new", "--gpus", "all", "--dask", "tcp://x"], 2, "exclude each other"),
    "GPUs and no GPU": (["--dir", "new", "--gpus", "all", "--device", "cpu"], 2, "contradict each other"),
    "no GPUs": (["--dir", "new", "--gpus", "all"], 69, "0 GPUs are visible here"),
    "Dask without a device": (["--dir", "new", "--dask", "tcp://x"], 2, "--dask needs --device"),
}


@pytest.mark.parametrize(("options", "code", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(
    options: list[str], code: int, said: str, campaign: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the value, the limit and the way out."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("full").mkdir()
    Path("full/file").touch()
    assert run("--campaign", campaign, "--dir", "there", "--counter", "3", "--shard", "1/2") == Exit.OK
    given = [] if "--resume" in options else ["--campaign", str(campaign)]
    capsys.readouterr()
    assert run(*options, *given) == code
    assert said in capsys.readouterr().err


NOT_BEGUN: dict[str, tuple[list[str], int, str]] = {
    "a shard past the last": (["--shard", "3/2"], 2, "give i/n"),
    "more shards than pieces": (["--shard", "1/999999"], 2, "pieces; take n up to that"),
    "an --out that holds files": (["--out", "full"], 2, "already holds 1 files"),
    "an --out that is a file": (["--out", "full/file"], 2, "--out full/file: "),
    "no scheduler": (["--dask", "nonsense://x"], 69, "no scheduler answers there"),
    "a scheduler, and an --out that holds files": (["--dask", "tcp://there:1", "--out", "full"], 2, "already holds 1"),
    "no GPUs": (["--gpus", "all"], 69, "0 GPUs are visible here"),
    "a --dir below a file": (["--dir", "full/file/d"], 2, "--dir full/file/d: Not a directory"),
}


@pytest.mark.parametrize(("options", "code", "said"), NOT_BEGUN.values(), ids=NOT_BEGUN)
def test_what_is_refused_spends_no_counter(
    options: list[str], code: int, said: str, campaign: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves neither a folder nor a campaign in one."""
    from pp3.harness.operations import dask_engine

    closed: list[str] = []

    def connect(address: str) -> Engine:
        if "there" not in address:
            return real(address)
        return replace(serial(apart=False), close=lambda: closed.append(address))

    real = dask_engine.connect
    monkeypatch.setattr(dask_engine, "connect", connect)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("full").mkdir()
    Path("full/file").touch()
    before = sorted(Path().rglob("*"))
    device = ["--device", "cpu"] if "--dask" in options else []
    folder = [] if "--dir" in options else ["--dir", "new"]
    assert run("--campaign", campaign, "--counter", "3", *folder, *device, *options) == code
    assert said in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
    assert closed == (["tcp://there:1"] if "tcp://there:1" in options else [])
