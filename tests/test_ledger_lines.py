"""Each problem of a ledger to the word, and where it is looked for, made and written."""

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pp3.harness.errors import CampaignError, ReceiptError
from pp3.harness.evidence import ledger
from pp3.harness.evidence.ledger import Record

A, B, C = ("0123456789abcdef0" + letter * 47 for letter in "abc")
WHEN = "20260101T000000Z"
WHY = "superseded-by"


def receipt(sha256: str, kind: str = "qualify") -> str:
    """A line's record, less its sequence number."""
    return f"{sha256} evidence/{kind}/{WHEN}-{sha256}.json PASS"


def numbered(*records: str) -> bytes:
    """A ledger of these records."""
    return "".join(f"{number:06d} {record}\n" for number, record in enumerate(records, 1)).encode()


SHORT = "0123456789abcdef"
LINES: dict[str, tuple[bytes, list[str]]] = {
    "none": (b"", []),
    "one": (numbered(receipt(A)), []),
    "a number that is too small": (
        f"000001 {receipt(A)}\n000001 {receipt(B)}\n".encode(),
        ["line 2 has the sequence number 000001, must have 000002"],
    ),
    "a number that is too large": (
        f"000002 {receipt(A)}\n".encode(),
        ["line 1 has the sequence number 000002, must have 000001"],
    ),
    "no record among records": (
        b"a note\n" + f"000002 {receipt(A)}\n000004 {receipt(A)}\n".encode(),
        [
            "line 1 is no record: 'a note'",
            "line 3 has the sequence number 000004, must have 000003",
            f"line 3: {SHORT} is recorded twice",
        ],
    ),
    "a name of another digest": (
        numbered(f"{A} evidence/qualify/{WHEN}-{B}.json PASS"),
        [f"line 1: the digest is {SHORT}, its name says another: evidence/qualify/{WHEN}-{B}.json"],
    ),
    "superseded by what has no line": (
        numbered(receipt(A), f"{A} {WHY} {B} why"),
        [f"line 2: {SHORT} has no line above"],
    ),
    "superseded by another kind": (
        numbered(receipt(A), receipt(B, "oracle"), f"{A} {WHY} {B} why"),
        [f"line 3: a receipt of another kind cannot stand in place of {SHORT}"],
    ),
    "superseded twice": (
        numbered(receipt(A), receipt(B), receipt(C), f"{A} {WHY} {B} why", f"{A} {WHY} {C} why"),
        [f"line 5: {SHORT} is superseded twice"],
    ),
    "superseded by itself": (
        numbered(receipt(A), f"{A} {WHY} {A} why"),
        [f"{SHORT} is superseded by itself, over a cycle"],
    ),
}


@pytest.mark.parametrize(("content", "problems"), LINES.values(), ids=LINES)
def test_what_is_wrong_is_said_line_by_line(content: bytes, problems: list[str]) -> None:
    """All of it, in order, digests by their first sixteen digits."""
    assert ledger.parse(Path("LEDGER"), content).problems == problems


def test_a_chain_that_runs_into_a_cycle_ends() -> None:
    """Its first two stand in no one's place: what is named is a receipt of the cycle, and all four are problems."""
    chain = [letter * 64 for letter in "abcd"]
    pairs = [*itertools.pairwise(chain), (chain[3], chain[2])]
    content = numbered(*(receipt(one) for one in chain), *(f"{one} {WHY} {by} why" for one, by in pairs))
    found = ledger.parse(Path("LEDGER"), content)
    assert found.problems == [f"{letter * 16} is superseded by itself, over a cycle" for letter in "abcd"]
    with pytest.raises(ReceiptError, match=r"^LEDGER: c{16} is superseded by itself, over a cycle$"):
        found.head(chain[0])


@pytest.fixture
def umask() -> Iterator[None]:
    """As most have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_ledger_is_made_readable_to_all(tmp_path: Path) -> None:
    """And written by its owner alone."""
    record = Record(sha256=A, name=f"evidence/qualify/{WHEN}-{A}.json", verdict="PASS")
    assert ledger.append(tmp_path / "LEDGER", [record], []) == 1
    assert stat.S_IMODE((tmp_path / "LEDGER").stat().st_mode) == 0o644
    assert (tmp_path / "LEDGER").read_bytes() == numbered(receipt(A))


def test_half_a_write_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number, which the operating system did not give; nothing is left of it."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[: len(content) // 2]))
    record = Record(sha256=A, name=f"evidence/qualify/{WHEN}-{A}.json", verdict="PASS")
    with pytest.raises(OSError, match="No space left on device") as found:
        ledger.append(tmp_path / "LEDGER", [record], [])
    assert found.value.errno == errno.ENOSPC
    assert (tmp_path / "LEDGER").read_bytes() == b""


def test_the_first_problem_is_why_nothing_is_added(tmp_path: Path) -> None:
    """Of several."""
    path = tmp_path / "LEDGER"
    path.write_bytes(b"a note\nanother\n")
    record = Record(sha256=A, name=f"evidence/qualify/{WHEN}-{A}.json", verdict="PASS")
    with pytest.raises(CampaignError, match=r"line 1 is no record: 'a note'; nothing was added$"):
        ledger.append(path, [record], [])


def test_a_ledger_that_is_a_folder_is_bad_input(tmp_path: Path) -> None:
    """As is any other that cannot be read."""
    with pytest.raises(CampaignError, match=r"Is a directory; give the ledger, receipts/LEDGER$"):
        ledger.read(tmp_path)


def test_the_innermost_folder_of_receipts_is_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a ledger is not made up for by one around it; a checkout's is."""
    outer = tmp_path / "receipts"
    inner = outer / "of-another" / "receipts"
    inner.mkdir(parents=True)
    (outer / "LEDGER").touch()
    monkeypatch.setattr(ledger, "find_checkout", lambda: None)
    assert ledger.find(outer / "evidence" / "x.json") == outer / "LEDGER"
    assert ledger.find(inner / "evidence" / "x.json") is None
    checkout = tmp_path / "checkout"
    (checkout / "receipts").mkdir(parents=True)
    (checkout / "receipts" / "LEDGER").touch()
    monkeypatch.setattr(ledger, "find_checkout", lambda: checkout)
    assert ledger.find(inner / "evidence" / "x.json") == checkout / "receipts" / "LEDGER"
    (inner / "LEDGER").touch()
    assert ledger.find(inner / "evidence" / "x.json") == inner / "LEDGER"
