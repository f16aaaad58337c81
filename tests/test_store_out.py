"""Where a run writes: a checkout's folder, the one that is given, and what is refused there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import empty_checkout

from pp3.harness import campaign as campaigns
from pp3.harness import cli, qualify
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.evidence import store
from pp3.harness.evidence.store import Store
from pp3.harness.run import Measured, Progress
from pp3.harness.seeds import Seed

SMALL = 'targets = ["disjoint"]\nrequests = 500\npaired = 20\ndepths = [4]\nbatch_sizes = [1]\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout that the store takes for the one it runs from."""
    return empty_checkout(tmp_path / "checkout", monkeypatch)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, measure: Callable[[Campaign, Seed], Measured]) -> None:
    """`pp3 qualify` without its sample in the interpreter, which takes most of its time."""

    def run(campaign: Campaign, seed: Seed, device: Backend, progress: Progress) -> Measured:
        return measure(campaign, seed)

    monkeypatch.setattr(qualify, "run", run)


def test_without_out_a_checkout_keeps_its_runs(checkout: Path) -> None:
    """Receipts and pages apart."""
    assert store.open_store(None) == Store(
        receipts=checkout / "receipts" / "runs",
        reports=checkout / "reports" / "runs",
        home=checkout / "receipts" / "runs",
    )


def test_without_a_checkout_runs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """./pp3-runs."""
    monkeypatch.setattr(store, "find_checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "pp3-runs"
    assert store.open_store(None) == Store(receipts=here, reports=here, home=here)


@pytest.mark.parametrize("made", [True, False], ids=["an empty folder", "a folder to be made"])
def test_out_takes_receipt_and_page_and_leaves_the_counters_at_home(made: bool, checkout: Path, tmp_path: Path) -> None:
    """So that a run elsewhere spends a counter too."""
    out = tmp_path / "deep" / "out"
    if made:
        out.mkdir(parents=True)
    assert store.open_store(out) == Store(receipts=out, reports=out, home=checkout / "receipts" / "runs")
    assert list(out.iterdir()) == []


def used(folder: Path) -> Path:
    """A folder with a file."""
    (folder / "used").mkdir()
    (folder / "used" / "old.json").touch()
    return folder / "used"


def below_a_file(folder: Path) -> Path:
    """A path that can never be made, for root either."""
    (folder / "file").touch()
    return folder / "file" / "out"


def a_file(folder: Path) -> Path:
    """A file in a folder's place."""
    (folder / "file").touch()
    return folder / "file"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder already used": (used, "already holds 1 files; give a new or empty folder"),
    "a path below a file": (below_a_file, "Not a directory; give a folder that can be written"),
    "a file": (a_file, "File exists; give a folder that can be written"),
}


@pytest.mark.parametrize(("place", "reason"), REFUSED.values(), ids=REFUSED)
def test_out_is_refused(
    place: Callable[[Path], Path],
    reason: str,
    quick: None,
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 2 with the path and the way out, in one line, before anything runs or is spent."""
    out = place(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert cli.run(["qualify", "--device", "cpu", "--out", str(out)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"pp3: error: --out {out}{printed.err.partition(str(out))[2].rstrip()}"]
    assert reason in printed.err
    assert sorted(tmp_path.rglob("*")) == before


def mount(folder: Path) -> bool:
    """Mount a file system of 64 kB; whether this process may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_full_disk_is_an_input_output_error(
    quick: None, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 74 and one line; no partial file, and whatever is whole stays."""
    disk, file = tmp_path / "disk", tmp_path / "small.toml"
    file.write_text(SMALL)
    if not mount(disk):
        pytest.skip("mounting a file system needs root")
    try:
        filler, out = disk / "filler", disk / "out"
        filler.write_bytes(bytes(60 * 1024))
        command = ["qualify", "--campaign", str(file), "--device", "cpu", "--out", str(out)]
        assert cli.run(command) == Exit.IO
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
        assert "No space left on device; free some space and run again" in printed.err
        assert list(out.iterdir()) == []
        filler.unlink()  # room for the receipt; the page may still be too large
        code = cli.run(command)
        whole = [path for path in out.iterdir() if path.suffix == ".json"]
        assert len(whole) == 1
        assert cli.run(["verify", str(whole[0])]) == Exit.OK
        pages = [path for path in out.iterdir() if path not in whole]
        assert [path.suffix for path in pages] in ([], [".html"])
        assert pages == [] or code != Exit.IO
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_small_campaign_does_not_fit(tmp_path: Path, receipt_of: Callable[[Campaign, Path], Path]) -> None:
    """Or the test above would not fill the disk."""
    (tmp_path / "small.toml").write_text(SMALL)
    assert receipt_of(campaigns.load(tmp_path / "small.toml"), tmp_path).stat().st_size > 4 * 1024
