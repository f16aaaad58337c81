"""Fetching an image: what is kept of a wheel, and that a failed fetch leaves nothing."""

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small_wheels import CHANGED, FILES, PATCHES, VERSION, empty_home, make_wheel, sha256

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.image import cache, fetch, pins


@pytest.fixture(autouse=True)
def image_home(tmp_path: Path, monkeypatch: PATCHES) -> Path:
    """A pin table of two made-up versions, an empty cache, and no installed vllm."""
    return empty_home(tmp_path, monkeypatch)


def test_a_kept_record_reads_back() -> None:
    """Rows of the wheel format."""
    rows = [*csv.reader(io.StringIO(cache.format_record(FILES).decode()))]
    assert [row[0] for row in rows] == list(FILES)
    assert [int(row[2]) for row in rows] == [len(content) for content in FILES.values()]
    assert all("=" not in row[1].removeprefix("sha256=") for row in rows)
    assert cache.parse_record(cache.format_record(FILES)) == {name: sha256(content) for name, content in FILES.items()}


def test_kept_files_are_read_only_and_never_written_again(tmp_path: Path) -> None:
    """The same bytes are left alone; others are an error."""
    folder = tmp_path / "kept"
    assert cache.write(folder, VERSION, FILES)
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o444}
    assert not cache.write(folder, VERSION, FILES)
    with pytest.raises(CampaignError, match=f"remove {folder} and run again"):
        cache.write(folder, VERSION, {**FILES, pins.GUMBEL: CHANGED})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def fake_pip(wheel: Path | None, code: int, calls: list[list[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A pip that brings a wheel, or none."""

    def run(command: list[str], **named: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        if wheel is not None:
            folder = Path(command[command.index("-d") + 1])
            folder.mkdir()
            (folder / "vllm.whl").write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, code)

    return run


def test_fetching_keeps_the_files_and_deletes_the_wheel(
    image_home: Path, tmp_path: Path, monkeypatch: PATCHES, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once; the second time nothing is downloaded."""
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", fake_pip(make_wheel(tmp_path / "vllm.whl"), 0, calls))
    assert fetch.main([VERSION]) == Exit.OK
    assert fetch.main([VERSION]) == Exit.OK
    size = sum(map(len, FILES.values()))
    assert capsys.readouterr().out.splitlines() == [
        f"vllm 9.9.9: fetched, 2 files, {size} bytes in {image_home / VERSION}",
        f"vllm 9.9.9: already there and as pinned, 2 files, {size} bytes in {image_home / VERSION}",
    ]
    assert len(calls) == 1
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(calls[0])
    assert [path.name for path in image_home.iterdir()] == [VERSION]
    assert sorted(path.name for path in image_home.rglob("*") if path.is_file()) == [
        "RECORD",
        "gumbel.py",
        "rejection_sampler_utils.py",
    ]


def changed_cache(home: Path) -> None:
    """A kept file that was written over."""
    cache.write(home / VERSION, VERSION, FILES)
    (home / VERSION / pins.GUMBEL).chmod(0o644)
    (home / VERSION / pins.GUMBEL).write_bytes(CHANGED)


FETCHES: dict[str, tuple[str, bytes | None, int, Exit, str]] = {
    "an unknown version": ("0.31.0", None, 0, Exit.USAGE, "vllm 0.31.0 is not pinned"),
    "pip fails": (VERSION, None, 1, Exit.UNAVAILABLE, "pip did not bring the wheel of vllm 9.9.9 with sha256 0000"),
    "a wheel with another file": (VERSION, CHANGED, 0, Exit.USAGE, sha256(CHANGED)),
}


@pytest.mark.parametrize(("version", "content", "code", "exit_code", "reason"), FETCHES.values(), ids=FETCHES)
def test_a_failed_fetch_leaves_nothing(
    version: str,
    content: bytes | None,
    code: int,
    exit_code: Exit,
    reason: str,
    image_home: Path,
    tmp_path: Path,
    monkeypatch: PATCHES,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, the exit code, an empty cache."""
    wheel = make_wheel(tmp_path / "vllm.whl", {**FILES, pins.GUMBEL: content}) if content else None
    monkeypatch.setattr(subprocess, "run", fake_pip(wheel, code, []))
    assert fetch.main([version]) == exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert reason in printed.err
    assert not image_home.exists() or not [*image_home.iterdir()]


def test_a_changed_cache_is_refused_not_repaired(image_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both hashes, exit 2."""
    changed_cache(image_home)
    assert fetch.main([VERSION]) == Exit.USAGE
    said = capsys.readouterr().err
    assert sha256(CHANGED) in said
    assert sha256(FILES[pins.GUMBEL]) in said
    assert (image_home / VERSION / pins.GUMBEL).read_bytes() == CHANGED


def test_without_a_folder_nothing_is_fetched(monkeypatch: PATCHES) -> None:
    """An installed pp3, and no variable."""
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setattr(cache, "find_checkout", lambda: None)
    with pytest.raises(CampaignError, match=f"set {cache.VARIABLE} to one"):
        fetch.fetch(VERSION)
