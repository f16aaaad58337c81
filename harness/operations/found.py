"""The receipt of a campaign in pieces, which a start that was killed near its end may have written already."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from pp3.harness.errors import PP3Error
from pp3.harness.evidence import receipt, store
from pp3.harness.evidence.moment import stamp
from pp3.harness.evidence.once import WRITING
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import VERDICT, write_status


def open_out(out: Path | None, manifest: dict[str, Any]) -> store.Store:
    """As store.open_store; a folder may also hold what earlier starts of this campaign have left there."""
    if out is not None and out.is_dir():
        mine = (WRITING, f"{stamp(manifest['startedUtc'])}-")
        if all(path.name.startswith(mine) for path in out.iterdir()):
            return store.Store(receipts=out, reports=out, home=store.open_store(None).home)
    return store.open_store(out)


def keep(campaign: Folder, statement: dict[str, Any], receipts: Path) -> Path:
    """As write_or_find; the folder of the campaign says what came of it, and where that lies."""
    written = write_or_find(statement, receipts)
    with suppress(OSError):  # of a full disk: the receipt is whole
        content = {"receipt": str(written.resolve()), "verdict": statement["predicate"]["verdict"]}
        write_status(campaign.path / VERDICT, content)
    return written


def write_or_find(statement: dict[str, Any], folder: Path) -> Path:
    """The receipt that is there and says the same but for when it ended and how often it was started, or a new one."""
    began = stamp(statement["predicate"]["run"]["startedUtc"])
    for path in sorted(folder.glob(f"{began}-*.json")) if folder.is_dir() else []:
        try:
            _, there = receipt.read(path)
        except PP3Error:
            continue
        if _but_starts(there) == _but_starts(statement):
            return path
    return receipt.write(statement, folder)


def _but_starts(statement: dict[str, Any]) -> dict[str, Any]:
    predicate = dict(statement["predicate"])
    execution = dict(predicate.get("execution") or {})
    execution.pop("attempts", None)
    predicate.pop("attempts", None)  # of an engine
    return statement | {"predicate": predicate | {"execution": execution, "run": {}}}
