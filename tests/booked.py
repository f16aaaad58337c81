"""Receipts on the shelf of a checkout, recorded in its ledger and checked at the command line."""

import shutil
from collections.abc import Callable
from pathlib import Path

from pp3.harness import campaign as campaigns
from pp3.harness import cli
from pp3.harness.campaign import Campaign

PLANS = 3


def receipts_in(folder: Path, receipt_of: Callable[[Campaign, Path], Path]) -> list[Path]:
    """Small real receipts, each of a plan of its own."""
    small = {"targets": ["disjoint"], "paired": 20, "depths": [4], "batch_sizes": [1]}
    return [receipt_of(campaigns.of_document(small | {"requests": 200 + n}, "test"), folder) for n in range(PLANS)]


def shelved(receipts: list[Path], checkout: Path) -> list[Path]:
    """Copies in the evidence folder of an empty checkout."""
    folder = checkout / "receipts" / "evidence" / "qualify"
    folder.mkdir(parents=True)
    return [Path(shutil.copy(path, folder)) for path in receipts]


def digest(path: Path) -> str:
    """The digest in a receipt's name."""
    return path.stem.rpartition("-")[2]


def add(book: Path, *arguments: Path | str) -> int:
    """`pp3 ledger add`; its exit code."""
    return cli.run(["ledger", "add", *map(str, arguments), "--ledger", str(book)])


def check(book: Path) -> int:
    """`pp3 ledger check`; its exit code."""
    return cli.run(["ledger", "check", "--ledger", str(book)])
