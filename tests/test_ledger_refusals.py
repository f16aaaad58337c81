"""What is not recorded in the ledger, and that one process adds at a time."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from booked import add, digest, receipts_in, shelved

from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import ledger
from pp3.harness.evidence.ledger import Record, Superseding


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


REFUSED: dict[str, Callable[[list[Path], Path], list[Path | str]]] = {
    "a receipt recorded already": lambda shelf, tmp: [shelf[0]],
    "a receipt that lies elsewhere": lambda shelf, tmp: [Path(shutil.copy(shelf[1], tmp))],
    "a reason for nothing": lambda shelf, tmp: [shelf[1], "--reason", "x"],
    "a superseding without a reason": lambda shelf, tmp: [shelf[1], "--supersedes", digest(shelf[0])],
    "no reason but spaces": lambda shelf, tmp: [shelf[1], "--supersedes", digest(shelf[0]), "--reason", "  "],
    "two in place of one": lambda shelf, tmp: [*shelf[1:], "--supersedes", digest(shelf[0]), "--reason", "x"],
    "in place of what is not recorded": lambda shelf, tmp: [shelf[1], "--supersedes", "ffff", "--reason", "x"],
    "in place of itself": lambda shelf, tmp: [shelf[0], "--supersedes", digest(shelf[0]), "--reason", "x"],
    "what is not there": lambda shelf, tmp: [tmp / "nowhere.json"],
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_add_refuses(
    given: Callable[[list[Path], Path], list[Path | str]], shelf: list[Path], book: Path, tmp_path: Path
) -> None:
    """Exit 2, and the ledger is as it was."""
    assert add(book, shelf[0]) == Exit.OK
    before = book.read_bytes()
    assert add(book, *given(shelf, tmp_path)) == Exit.USAGE
    assert book.read_bytes() == before


def test_what_does_not_verify_is_not_recorded(shelf: list[Path], book: Path) -> None:
    """Renamed, so that its digest is not the one in its name."""
    moved = shelf[0].rename(shelf[0].with_name(shelf[0].name.replace(digest(shelf[0]), "0" * 64)))
    assert add(book, moved) == Exit.USAGE
    assert not book.exists()


def test_a_ledger_with_problems_is_not_added_to(shelf: list[Path], book: Path) -> None:
    """Nothing is repaired."""
    assert add(book, shelf[0]) == Exit.OK
    book.write_bytes(book.read_bytes()[:-1])
    before = book.read_bytes()
    assert add(book, shelf[1]) == Exit.USAGE
    assert book.read_bytes() == before


def test_one_process_adds_at_a_time(shelf: list[Path], book: Path) -> None:
    """Exit 75 while another holds it."""
    assert add(book, shelf[0]) == Exit.OK
    with book.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = book.read_bytes()
        assert add(book, shelf[1]) == Exit.LOCKED
        assert book.read_bytes() == before
    assert add(book, shelf[1]) == Exit.OK


def test_a_full_disk_leaves_the_ledger_as_it_was(
    shelf: list[Path], book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of half a line is taken back: exit 74."""
    assert add(book, shelf[0]) == Exit.OK
    before, write = book.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[: len(content) // 2]))
    assert add(book, shelf[1]) == Exit.IO
    monkeypatch.undo()
    assert book.read_bytes() == before
    assert add(book, shelf[1]) == Exit.OK


def test_of_one_kind_only(tmp_path: Path) -> None:
    """A receipt of another kind stands in no one's place."""
    names = [
        f"evidence/{kind}/20260101T000000Z-{digit * 64}.json" for kind, digit in (("qualify", "a"), ("oracle", "b"))
    ]
    records = [Record(sha256=digit * 64, name=name, verdict="PASS") for digit, name in zip("ab", names, strict=True)]
    with pytest.raises(CampaignError, match="of another kind"):
        ledger.append(tmp_path / "LEDGER", records, [Superseding(sha256="a" * 64, by="b" * 64, reason="x")])
