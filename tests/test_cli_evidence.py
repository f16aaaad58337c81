"""`pp3 evidence`: its table stands between its marks, or the error that kept it out is named."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import table

TABLE = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
UNFIT: dict[str, tuple[bytes | None, str]] = {
    "none": (None, "No such file or directory; give the README"),
    "no UTF-8": (b"\xff", "not UTF-8 at byte 0; give the README"),
    "no marks": (b"text", "needs the marks"),
    "a mark twice": (TABLE.encode() * 2, "once each"),
    "marks the other way round": (f"{table.END}{table.BEGIN}".encode(), "in this order"),
}


@pytest.mark.parametrize(("content", "said"), UNFIT.values(), ids=UNFIT)
def test_a_file_that_holds_no_evidence_table_is_exit_2(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and stays as it was."""
    path = tmp_path / "README.md"
    if content is not None:
        path.write_bytes(content)
    assert cli.run(["evidence", "--write", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}: ")
    assert said in printed.err
    assert (path.read_bytes() if path.exists() else None) == content


def test_the_evidence_table_is_put_between_its_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By way of a link too, with the mode kept and no other file left."""
    path, link = tmp_path / "README.md", tmp_path / "link.md"
    path.write_text(TABLE)
    path.chmod(0o640)
    link.symlink_to(path)
    assert cli.run(["evidence", "--write", str(link)]) == Exit.OK
    assert path.read_text() == f"before\n{table.BEGIN}\n{table.render(table.rows())}\n{table.END}\nafter\n"
    assert (path.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert sorted(tmp_path.iterdir()) == [path, link]


def no_access(monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of another user, as root cannot have one."""
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    return "Permission denied"


def full(monkeypatch: pytest.MonkeyPatch) -> str:
    """A disk that is full at the end."""

    def replace(*paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", replace)
    return "No space left on device"


@pytest.mark.parametrize("forbid", [no_access, full])
def test_an_evidence_table_that_cannot_be_written_is_exit_74(
    forbid: Callable[[pytest.MonkeyPatch], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file asked for is named, and whole."""
    path = tmp_path / "README.md"
    path.write_text(TABLE)
    said = forbid(monkeypatch)
    assert cli.run(["evidence", "--write", str(path)]) == Exit.IO
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"pp3: error: {path}: {said}; it is as it was\n")
    assert path.read_text() == TABLE
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_checkout_there_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: an installed pp3 is no bug."""
    monkeypatch.setattr(table, "find_checkout", lambda: None)
    assert cli.run(["evidence"]) == Exit.USAGE
    assert "run it from one" in capsys.readouterr().err
