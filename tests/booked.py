"""Records added to a ledger, and the ledger checked, at the command line."""

from pathlib import Path

from pp3.harness import cli


def digest(path: Path) -> str:
    """The digest in a receipt's name."""
    return path.stem.rpartition("-")[2]


def add(book: Path, *arguments: Path | str) -> int:
    """`pp3 ledger add`; its exit code."""
    return cli.run(["ledger", "add", *map(str, arguments), "--ledger", str(book)])


def check(book: Path) -> int:
    """`pp3 ledger check`; its exit code."""
    return cli.run(["ledger", "check", "--ledger", str(book)])
