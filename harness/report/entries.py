"""Receipts as rows of a list: what each says of itself, and what the ledger says of it. Nothing is recomputed."""

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError
from pp3.harness.evidence import ledger
from pp3.harness.evidence.receipt import read
from pp3.harness.regression.opened import SURVEY, device, who

ALTERED = "altered: its bytes are not those of its name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One receipt; "" or None where its kind has no such thing, or it says no number."""

    path: Path
    sha256: str
    measured: str
    kind: str
    verdict: str
    judged: str  # sampler and version
    device: str
    resolution: float | None  # total variation of a first token's law that would have been seen
    nearest: float | None  # the smallest p-value over its level: at most 1 fails
    environment: tuple[str, ...]
    superseded: str  # the digest of what stands in its place, by the ledger
    altered: bool

    @property
    def state(self) -> str:
        """What is to be said of it beside its verdict."""
        return ALTERED if self.altered else f"superseded by {self.superseded[:12]}" if self.superseded else ""

    @property
    def group(self) -> tuple[str, str]:
        """Whose history it belongs to, whatever the version."""
        return self.kind, self.judged if self.kind == SURVEY else self.judged.rpartition(" ")[0]


def entry_of(path: Path) -> Entry:
    """A receipt as a row. ReceiptError for what is none."""
    content, statement = read(path)
    p, digest = statement["predicate"], hashlib.sha256(content).hexdigest()
    where = ledger.find(path)
    head = ledger.read(where).head(digest) if where else digest
    levels = [(finite(test["p"]), finite(test["alpha"])) for test in p.get("tests", [])]
    return Entry(
        path=path,
        sha256=digest,
        measured=p["run"]["startedUtc"],
        kind=p["kind"],
        verdict=p["verdict"],
        judged=who(p),
        device="" if p["kind"] == SURVEY else device(p),
        resolution=finite(p.get("resolution", p.get("sees", {}).get("token", ""))),
        nearest=min((value / level for value, level in levels if value is not None and level), default=None),
        environment=_environment(p),
        superseded=head if head != digest else "",
        altered=path.stem.rpartition("-")[2] != digest,
    )


def entries_of(paths: Iterable[Path]) -> list[Entry]:
    """Receipts as rows, oldest first. CampaignError for one that is given twice."""
    found = sorted((entry_of(path) for path in paths), key=lambda entry: (entry.measured, entry.sha256))
    for one, other in pairwise(found):
        if one.sha256 == other.sha256:
            raise CampaignError(f"{other.path} holds the same receipt as {one.path}; give each once")
    return found


def under(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """Every receipt under a folder, and every other JSON file with why it is none.

    CampaignError for what is no folder; PP3Error (4) where no receipt lies.
    """
    if not folder.is_dir():
        raise CampaignError(f"{folder}: no such folder; give one that holds receipts")
    found, left = [], {}
    for path in sorted(folder.rglob("*.json")):
        try:
            read(path)
        except ReceiptError as error:
            left[path] = str(error).removeprefix(f"{path}: ")
            continue
        found.append(path)
    if not found:
        others = f", and {len(left)} JSON files that are none" if left else ""
        raise PP3Error(f"no receipt lies under {folder}{others}; pp3 qualify --out makes one", Exit.NOTHING_RAN)
    return found, left


def finite(text: str) -> float | None:
    """A stored number; None for what is none, which only a receipt that was altered can hold."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def page_beside(receipt: Path, written_in: Path) -> str:
    """Where a receipt's page lies as seen from a folder, and within it: a relative address, or ""."""
    page = receipt.with_suffix(".html")
    if not page.is_file():
        return ""
    relative = os.path.relpath(page.resolve(), written_in.resolve())
    return "" if relative.startswith("..") else quote(Path(relative).as_posix())


def _environment(p: dict[str, Any]) -> tuple[str, ...]:
    """What a number may depend on beside the sampler: the device, and the versions of what it ran with."""
    versions = tuple(f"{name} {version}" for name, version in sorted(p["environment"]["versions"].items()))
    return ("" if p["kind"] == SURVEY else device(p), *versions)
