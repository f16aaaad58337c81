"""`pp3 ledger`: add receipts to the ledger, and hold the ledger against the receipts that lie beside it."""

import hashlib
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence.ledger import FILE, Ledger, Record, Superseding, append, read
from pp3.harness.evidence.receipt import leftovers
from pp3.harness.evidence.receipt import read as read_receipt
from pp3.harness.evidence.verify import verify
from pp3.harness.paths import find_checkout
from pp3.harness.terminal import sentence, step


def ledger_of(given: Path | None) -> Path:
    """The ledger that was asked for, else the checkout's. PP3Error (2) where there is none."""
    root = find_checkout()
    if given is None and root is None:
        raise PP3Error("no checkout holds this pp3: give its receipts/LEDGER with --ledger", Exit.USAGE)
    path = given or (root or Path()) / "receipts" / FILE
    if not path.parent.is_dir():
        raise CampaignError(f"{path}: {path.parent} is no folder; give the ledger, receipts/{FILE}")
    return path


def add(receipts: tuple[Path, ...], supersedes: str | None, reason: str | None, given: Path | None) -> int:
    """Record receipts, or that one stands in place of another; says what was added."""
    path = ledger_of(given)
    if (supersedes is None) != (reason is None):
        raise CampaignError("--supersedes and --reason go together: say which receipt, and why")
    if supersedes is not None and len(receipts) != 1:
        raise CampaignError(f"--supersedes with {len(receipts)} receipts; one receipt stands in place of another")
    known = read(path)
    records = [record_of(receipt, path) for receipt in receipts]
    fresh = [record for record in records if record.sha256 not in known.records]
    old = [record for record in records if record.sha256 in known.records]
    if old and supersedes is None:
        raise CampaignError(f"{old[0].name} is in {path} already; give only receipts without a line")
    over = []
    if supersedes is not None and reason is not None:
        over = [Superseding(sha256=_named(supersedes, known), by=records[0].sha256, reason=" ".join(reason.split()))]
    count = append(path, fresh, over)
    click.echo(f"{path}: {count} line{'s' * (count != 1)} added")
    return Exit.OK


def record_of(receipt: Path, path: Path) -> Record:
    """The record of a receipt that lies below a ledger's folder. CampaignError if it lies elsewhere or is not whole."""
    content, statement = read_receipt(receipt)
    try:
        name = receipt.resolve().relative_to(path.parent.resolve()).as_posix()
    except ValueError:
        name = ""
    if not name.startswith("evidence/"):
        raise CampaignError(f"{receipt} does not lie in {path.parent / 'evidence'}; put it there first")
    found = verify(receipt, content)
    if not found.ok and not found.elsewhere:
        raise CampaignError(f"{receipt}: {found.sentence}; only what verifies is recorded")
    return Record(
        sha256=found.sha256,
        name=name,
        verdict=str(statement["predicate"]["verdict"]),
        counter=_counter(statement["predicate"]),
    )


def _counter(predicate: dict[str, Any]) -> int | None:
    return int(predicate["seed"]["counter"]) if "seed" in predicate else None


def _named(digest: str, known: Ledger) -> str:
    """The recorded receipt whose digest, or path, this is or begins."""
    wanted = digest.removesuffix(".json").rpartition("-")[2]
    found = [sha256 for sha256 in known.records if wanted and sha256.startswith(wanted)]
    if len(found) != 1:
        raise CampaignError(f"--supersedes {digest}: {len(found)} recorded receipts begin so; give the whole digest")
    return found[0]


def problems_of(path: Path) -> list[str]:
    """What is wrong with a ledger: its lines, and each against the receipt it records."""
    known = read(path)
    there = {file.relative_to(path.parent).as_posix(): file for file in sorted((path.parent / "evidence").glob("*/*"))}
    left = [one for folder in {file.parent for file in there.values()} for one in leftovers(folder)]
    receipts = {name: file for name, file in there.items() if name.endswith(".json")}
    named = {record.name: record for record in known.records.values()}
    problems = [*known.problems]
    problems += [f"{name} has no line" for name in receipts if name not in named]
    problems += [f"{name} has a line and does not exist" for name in named if name not in receipts]
    for name in sorted(named.keys() & receipts.keys()):
        problems += _differences(named[name], receipts[name])
    return problems + [f"{one.name} was left by a write that was broken off; it is no receipt" for one in sorted(left)]


def _differences(record: Record, file: Path) -> list[str]:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != record.sha256:
        return [f"{record.name} hashes to {digest}, its line says {record.sha256}"]
    try:
        predicate = read_receipt(file)[1]["predicate"]
    except PP3Error as error:
        return [f"{record.name}: {error}"]
    said = {"verdict": predicate["verdict"], "counter": _counter(predicate)}
    mine = {"verdict": record.verdict, "counter": record.counter}
    return [f"{record.name}: {key} {said[key]}, its line says {mine[key]}" for key in said if said[key] != mine[key]]


def check(given: Path | None, as_json: bool) -> int:
    """Say what is wrong with the ledger; 0 if nothing is, 4 if it records nothing and there is nothing to record."""
    path = ledger_of(given)
    known, problems = read(path), problems_of(path)
    if as_json:
        counts = {"receipts": len(known.records), "superseded": len(known.superseded)}
        click.echo(msgspec.json.encode({"ok": not problems, **counts, "problems": problems}).decode())
    else:
        for problem in problems:
            for line in step("FAIL", problem):
                click.echo(line)
        said = f"{len(known.records)} receipts, {len(known.superseded)} superseded, {len(problems)} problems"
        for line in sentence(f"{'NOT ' * bool(problems)}WHOLE {path}: {said}"):
            click.echo(line)
    if problems:
        return Exit.NEGATIVE
    return Exit.OK if known.records else Exit.NOTHING_RAN
