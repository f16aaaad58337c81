"""The ledger of committed receipts, receipts/LEDGER: one line a record, appended to and never changed.

    000001 SHA256 evidence/KIND/NAME.json VERDICT[ counter=N]
    000002 SHA256 superseded-by SHA256 REASON

The first kind records a receipt, the second that another one stands in its place. Whether a receipt is superseded is
said here and nowhere else; that no line was changed or removed is what a version history, or a copy elsewhere, shows.
"""

import fcntl
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError
from pp3.harness.paths import find_checkout

FILE = "LEDGER"
RECORD = re.compile(
    r"(\d{6,}) ([0-9a-f]{64}) (evidence/[a-z]+/[0-9TZ]+-[0-9a-f]{64}\.json) ([A-Z]+)(?: counter=(\d+))?"
)
SUPERSEDING = re.compile(r"(\d{6,}) ([0-9a-f]{64}) superseded-by ([0-9a-f]{64}) (\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A receipt: its digest, its path below the ledger's folder, what it concludes."""

    sha256: str
    name: str
    verdict: str
    counter: int | None = None

    def line(self, sequence: int) -> str:
        """The line of this record."""
        counter = "" if self.counter is None else f" counter={self.counter}"
        return f"{sequence:06d} {self.sha256} {self.name} {self.verdict}{counter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseding:
    """A receipt in whose place another stands, and why."""

    sha256: str
    by: str
    reason: str

    def line(self, sequence: int) -> str:
        """The line of this record."""
        return f"{sequence:06d} {self.sha256} superseded-by {self.by} {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a ledger says, and what is wrong with it as it stands."""

    path: Path
    records: dict[str, Record] = field(default_factory=dict)
    superseded: dict[str, Superseding] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def head(self, sha256: str) -> str:
        """The receipt that stands in the end in place of this one: itself if none does. ReceiptError for a cycle."""
        passed = [sha256]
        while passed[-1] in self.superseded:
            passed.append(self.superseded[passed[-1]].by)
            if passed[-1] in passed[:-1]:
                raise ReceiptError(f"{self.path.name}: {passed[-1][:16]} is superseded by itself, over a cycle")
        return passed[-1]


def find(receipt: Path) -> Path | None:
    """The ledger of the folder `receipts` that holds a receipt, else of the checkout; None where there is none."""
    above = [folder for folder in receipt.absolute().parents if folder.name == "receipts"]
    root = find_checkout()
    folders = [*above[:1], *([root / "receipts"] if root else [])]
    return next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)


def read(path: Path) -> Ledger:
    """A ledger and its problems. CampaignError for a file that cannot be read; one that is missing is empty."""
    try:
        return parse(path, path.read_bytes() if path.exists() else b"")
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give the ledger, receipts/{FILE}") from None


def parse(path: Path, content: bytes) -> Ledger:
    """What the bytes of a ledger say; each problem names its line."""
    ledger = Ledger(path=path)
    problems = ledger.problems
    if content and not content.endswith(b"\n"):
        problems.append("its last line is not whole: a write was broken off, or the file was cut; restore it")
    for count, raw in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], 1):
        line = raw.decode("utf-8", "replace")
        found = RECORD.fullmatch(line) or SUPERSEDING.fullmatch(line)
        if found is None or not line.isprintable():
            problems.append(f"line {count} is no record: {line[:60]!r}")
            continue
        if found[1] != f"{count:06d}":
            problems.append(f"line {count} has the sequence number {found[1]}, must have {count:06d}")
        if found.re is RECORD:
            _record(ledger, count, found)
        else:
            _superseding(ledger, count, found)
    cycles = [sha256 for sha256 in ledger.superseded if _cyclic(ledger, sha256)]
    problems += [f"{sha256[:16]} is superseded by itself, over a cycle" for sha256 in cycles]
    return ledger


def _record(ledger: Ledger, line: int, found: re.Match[str]) -> None:
    sha256, name, verdict = found[2], found[3], found[4]
    if not name.endswith(f"-{sha256}.json"):
        ledger.problems.append(f"line {line}: the digest is {sha256[:16]}, its name says another: {name}")
    if sha256 in ledger.records:
        ledger.problems.append(f"line {line}: {sha256[:16]} is recorded twice")
    counter = None if found[5] is None else int(found[5])
    ledger.records.setdefault(sha256, Record(sha256=sha256, name=name, verdict=verdict, counter=counter))


def _superseding(ledger: Ledger, line: int, found: re.Match[str]) -> None:
    one = Superseding(sha256=found[2], by=found[3], reason=found[4])
    unknown = [sha256 for sha256 in (one.sha256, one.by) if sha256 not in ledger.records]
    ledger.problems.extend(f"line {line}: {sha256[:16]} has no line above" for sha256 in unknown)
    if not unknown and _kind(ledger.records[one.sha256]) != _kind(ledger.records[one.by]):
        ledger.problems.append(f"line {line}: a receipt of another kind cannot stand in place of {one.sha256[:16]}")
    if one.sha256 in ledger.superseded:
        ledger.problems.append(f"line {line}: {one.sha256[:16]} is superseded twice")
    ledger.superseded.setdefault(one.sha256, one)


def _kind(record: Record) -> str:
    return record.name.split("/")[1]


def _cyclic(ledger: Ledger, sha256: str) -> bool:
    try:
        ledger.head(sha256)
    except ReceiptError:
        return True
    return False


def append(path: Path, records: list[Record], supersedings: list[Superseding]) -> int:
    """Append records to a ledger in one write, by one writer at a time; the number of lines added.

    CampaignError if the ledger has problems, before or with these lines, and then nothing is written; PP3Error (75) if
    another process is writing; OSError if it cannot be written, and then it is as it was.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PP3Error(f"{path}: another process is adding to it; run again after it", Exit.LOCKED) from None
        before = os.pread(handle, os.fstat(handle).st_size, 0)
        start = before.count(b"\n") + 1
        rows: list[Record | Superseding] = [*records, *supersedings]
        lines = [row.line(number) for number, row in enumerate(rows, start)]
        added = "".join(f"{line}\n" for line in lines).encode()
        problems = parse(path, before).problems or parse(path, before + added).problems
        if problems:
            raise CampaignError(f"{path}: {problems[0]}; nothing was added")
        try:
            if os.write(handle, added) != len(added):
                raise OSError(28, "No space left on device", str(path))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, len(before))
            raise
    finally:
        os.close(handle)
    return len(lines)
