"""The ledger: one line a record, appended to and never changed; what is superseded is said there, and verify obeys."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from booked import add, check, digest, receipts_in, shelved

from pp3.harness import cli
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.evidence import ledger, ledger_command, store, table

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def made(receipt_of: Callable[[Campaign, Path], Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small real receipts, each of a plan of its own."""
    return receipts_in(tmp_path_factory.mktemp("made"), receipt_of)


@pytest.fixture
def shelf(made: list[Path], tmp_path: Path) -> list[Path]:
    """The receipts in the evidence folder of an empty checkout."""
    return shelved(made, tmp_path)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The ledger of that checkout."""
    return tmp_path / "receipts" / "LEDGER"


def test_a_record_is_one_line(shelf: list[Path], book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sequence, digest, name, verdict, and the counter of its run."""
    assert add(book, *shelf[:2]) == Exit.OK
    assert add(book, shelf[2]) == Exit.OK
    lines = book.read_text("utf-8").splitlines()
    assert [line.split()[:3] for line in lines] == [
        [f"{number:06d}", digest(path), f"evidence/qualify/{path.name}"] for number, path in enumerate(shelf, 1)
    ]
    assert {line.split(" ", 3)[3] for line in lines} == {"INCONCLUSIVE counter=7"}
    assert check(book) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1] == f"WHOLE {book}: 3 receipts, 0 superseded, 0 problems"


def test_its_counter_is_spent(shelf: list[Path], book: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next run takes one past it, with the receipts gone too."""
    assert add(book, *shelf) == Exit.OK
    shutil.rmtree(shelf[0].parent)
    monkeypatch.setattr(store, "find_checkout", lambda: tmp_path)
    assert store.highest(store.open_store(None)) == 7


def test_superseding_is_said_with_its_reason(shelf: list[Path], book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify` of the old one exits 3 and names the one that stands in the end; of that one, 0."""
    first, second, third = shelf
    assert add(book, first, second) == Exit.OK
    assert add(book, second, "--supersedes", digest(first)[:12], "--reason", "it was too small") == Exit.OK
    assert add(book, third, "--supersedes", second, "--reason", "and again") == Exit.OK
    last = [line.split(" ", 1)[1] for line in book.read_text("utf-8").splitlines()[2:]]
    assert last[0] == f"{digest(first)} superseded-by {digest(second)} it was too small"
    assert last[2] == f"{digest(second)} superseded-by {digest(third)} and again"
    assert check(book) == Exit.OK
    capsys.readouterr()
    for path, code in ((first, 3), (second, 3), (third, 0)):
        assert cli.run(["verify", str(path)]) == code
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1].startswith("VERIFIED verdict=INCONCLUSIVE ")
        said = f"authentic, superseded by {digest(third)}: diagnostic only"
        assert (said in lines[-1]) == (code == 3)
        assert sum("ledger: " in line and said in line for line in lines) == (code == 3)
    assert cli.run(["verify", str(first), "--json"]) == Exit.INCONCLUSIVE
    found = json.loads(capsys.readouterr().out)
    assert (found["verified"], found["supersededBy"]) == (True, digest(third))


def test_a_copy_elsewhere_is_superseded_too(shelf: list[Path], book: Path, made: list[Path]) -> None:
    """By its digest, with the reviewer's ledger."""
    assert add(book, shelf[0], shelf[1]) == Exit.OK
    assert add(book, shelf[1], "--supersedes", digest(shelf[0]), "--reason", "x") == Exit.OK
    assert cli.run(["verify", str(made[0])]) == Exit.OK
    assert cli.run(["verify", str(made[0]), "--ledger", str(book)]) == Exit.INCONCLUSIVE


def test_another_verdict_in_the_ledger_fails(shelf: list[Path], book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At its own step."""
    assert add(book, shelf[0]) == Exit.OK
    book.write_text(book.read_text("utf-8").replace("INCONCLUSIVE", "PASS"), "utf-8")
    assert cli.run(["verify", str(shelf[0])]) == Exit.NEGATIVE
    assert "NOT VERIFIED at ledger: records the verdict PASS" in capsys.readouterr().out
    assert check(book) == Exit.NEGATIVE


def edited(change: Callable[[list[str]], list[str]]) -> Callable[[list[Path], Path], None]:
    """Change the lines of the ledger."""

    def apply(shelf: list[Path], book: Path) -> None:
        book.write_text("".join(f"{line}\n" for line in change(book.read_text("utf-8").splitlines())), "utf-8")

    return apply


def overwrite(shelf: list[Path], book: Path) -> None:
    """Other bytes under a receipt's name."""
    os.chmod(shelf[0], 0o644)
    shelf[0].write_bytes(shelf[1].read_bytes())


FOUND: dict[str, tuple[Callable[[list[Path], Path], object], str]] = {
    "a receipt without a line": (edited(lambda lines: lines[:2]), "has no line"),
    "a line without a receipt": (lambda shelf, book: shelf[1].unlink(), "has a line and does not exist"),
    "other bytes than recorded": (overwrite, "hashes to"),
    "a digest that differs": (
        edited(lambda lines: [lines[0].replace(lines[0].split()[1], "0" * 64, 1), *lines[1:]]),
        "its name says another",
    ),
    "a gap in the sequence": (edited(lambda lines: [*lines[:1], *lines[2:]]), "must have 000002"),
    "two lines exchanged": (edited(lambda lines: [lines[1], lines[0], lines[2]]), "must have 000001"),
    "a line twice": (edited(lambda lines: [*lines, "000004" + lines[0][6:]]), "is recorded twice"),
    "another verdict": (edited(lambda lines: [lines[0].replace("INCONCLUSIVE", "PASS"), *lines[1:]]), "verdict"),
    "another counter": (edited(lambda lines: [lines[0].replace("=7", "=8"), *lines[1:]]), "counter 7, its line says 8"),
    "no record": (edited(lambda lines: [*lines, "a note"]), "line 4 is no record"),
    "an empty line": (edited(lambda lines: [*lines, ""]), "line 4 is no record"),
    "a last line that is not whole": (
        lambda shelf, book: book.write_bytes(book.read_bytes()[:-1]),
        "its last line is not whole",
    ),
    "superseded by what is not recorded": (
        edited(lambda lines: [*lines, f"000004 {lines[0].split()[1]} superseded-by {'0' * 64} why"]),
        "has no line above",
    ),
    "a receipt superseded by itself": (
        edited(lambda lines: [*lines, f"000004 {lines[0].split()[1]} superseded-by {lines[0].split()[1]} why"]),
        "over a cycle",
    ),
    "two that supersede each other": (
        edited(
            lambda lines: [
                *lines,
                f"000004 {lines[0].split()[1]} superseded-by {lines[1].split()[1]} why",
                f"000005 {lines[1].split()[1]} superseded-by {lines[0].split()[1]} why",
            ]
        ),
        "over a cycle",
    ),
    "superseded twice": (
        edited(
            lambda lines: [
                *lines,
                f"000004 {lines[0].split()[1]} superseded-by {lines[1].split()[1]} why",
                f"000005 {lines[0].split()[1]} superseded-by {lines[2].split()[1]} why",
            ]
        ),
        "is superseded twice",
    ),
    "no reason": (
        edited(lambda lines: [*lines, f"000004 {lines[0].split()[1]} superseded-by {lines[1].split()[1]} "]),
        "line 4 is no record",
    ),
    "what a broken-off write left": (
        lambda shelf, book: (shelf[0].parent / ".writing-0123").touch(),
        ".writing-0123 was left",
    ),
    "the ledger gone": (lambda shelf, book: book.unlink(), "has no line"),
}


@pytest.mark.parametrize(("change", "said"), FOUND.values(), ids=FOUND)
def test_check_finds(
    change: Callable[[list[Path], Path], object],
    said: str,
    shelf: list[Path],
    book: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 1, and what it is."""
    assert add(book, *shelf) == Exit.OK
    change(shelf, book)
    capsys.readouterr()
    assert check(book) == Exit.NEGATIVE
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("FAIL ") and said in line for line in lines[:-1]), lines
    assert lines[-1].startswith("NOT WHOLE ")
    assert cli.run(["ledger", "check", "--ledger", str(book), "--json"]) == Exit.NEGATIVE
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_broken_ledger_fails_verification(shelf: list[Path], book: Path) -> None:
    """Rather than leave out what it says; a cycle ends too."""
    assert add(book, *shelf) == Exit.OK
    FOUND["two that supersede each other"][0](shelf, book)
    assert cli.run(["verify", str(shelf[0])]) == Exit.NEGATIVE
    with pytest.raises(ReceiptError, match="cycle"):
        ledger.read(book).head(digest(shelf[0]))


def test_nothing_to_record_is_exit_4(tmp_path: Path) -> None:
    """No line and no receipt."""
    (tmp_path / "receipts").mkdir()
    assert check(tmp_path / "receipts" / "LEDGER") == Exit.NOTHING_RAN
    assert check(tmp_path / "nowhere" / "LEDGER") == Exit.USAGE


# the committed one


def test_the_committed_ledger_is_whole() -> None:
    """Every committed receipt has its line, and the table agrees with it."""
    assert ledger_command.problems_of(ROOT / "receipts" / "LEDGER") == []
    known = ledger.read(ROOT / "receipts" / "LEDGER")
    for row in table.rows():
        sha256 = digest(Path(row.receipt))
        head = known.head(sha256)
        assert (row.state == f"superseded by {head[:8]}") == (head != sha256)
        assert row.state.startswith("superseded") == (sha256 in known.superseded)


def test_verify_of_each_superseded_receipt_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it recomputes with these sources or not; it is verified only if it does."""
    rows = [row for row in table.rows() if row.state.startswith("superseded")]
    assert rows
    for row in rows:
        assert cli.run(["verify", str(ROOT / row.receipt)]) == Exit.INCONCLUSIVE
        lines = capsys.readouterr().out.splitlines()
        assert ": authentic, superseded by " in lines[-1]
        skipped = [line for line in lines if " skip " in line and "made by other sources" in line]
        assert lines[-1].startswith("NOT RECOMPUTED" if skipped else "VERIFIED")
