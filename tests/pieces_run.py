"""Campaigns in pieces at the command line: run, merged, and what their receipts say."""

from pathlib import Path
from typing import Any

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit

OF_RUN = (
    "run",
    "execution",
    "seed",
    "environment",
    "timings",
)  # what two runs may say differently; the seed's `chosen`


def run(*arguments: str | Path) -> int:
    """pp3 qualify, in this process."""
    return cli.run(["qualify", *map(str, arguments)])


def predicate_in(folder: Path) -> dict[str, Any]:
    """Of the only receipt in a folder, which verifies."""
    [path] = folder.glob("*.json")
    assert cli.run(["verify", str(path)]) == Exit.OK
    return dict(canonical.decode(path.read_bytes())["predicate"])


def counts(predicate: dict[str, Any]) -> bytes:
    """Everything but when and how it was run, in canonical bytes."""
    return canonical.encode({key: value for key, value in predicate.items() if key not in OF_RUN})


def part_of(folder: Path) -> Path:
    """A part of requests."""
    return sorted((folder / "parts").glob("requests,*"))[0]
