"""A receipt with something changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.evidence import receipt

Statement = dict[str, Any]


def changed(path: Path, change: Callable[[Statement], object], folder: Path) -> Path:
    """A receipt with something changed, under its own name."""
    statement: Statement = canonical.decode(path.read_bytes())
    change(statement)
    return receipt.write(statement, folder)
