"""A qualification of our own engine with drafts, and its receipt sealed anew."""

import hashlib
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.evidence import receipt

Statement = dict[str, Any]


def arguments(models: Path, *more: str) -> list[str]:
    """Of a qualification of our own engine, with drafts."""
    served = ["--checkpoint", str(models / "target"), "--draft-checkpoint", str(models / "draft")]
    return ["qualify", "--engine", "reference", *served, *more]


def sealed(statement: Statement, folder: Path) -> tuple[Path, bytes]:
    """As a forger would write it."""
    content = canonical.encode(statement)
    moment = receipt.stamp(statement["predicate"]["run"]["startedUtc"])
    return folder / f"{moment}-{hashlib.sha256(content).hexdigest()}.json", content
