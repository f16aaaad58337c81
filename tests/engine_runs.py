"""Models for our own engine, its qualification with drafts, and the receipt of that sealed anew."""

from pathlib import Path

from altered import Statement, written

from pp3.harness import cli
from pp3.harness.errors import Exit


def models_in(folder: Path) -> Path:
    """The folder, with a target and its draft model."""
    assert cli.run(["checkpoint", "chain-64", "--out", str(folder / "target")]) == Exit.OK
    assert cli.run(["checkpoint", "chain-64", "--draft", "--out", str(folder / "draft")]) == Exit.OK
    return folder


def arguments(models: Path, *more: str) -> list[str]:
    """Of a qualification of our own engine, with drafts."""
    served = ["--checkpoint", str(models / "target"), "--draft-checkpoint", str(models / "draft")]
    return ["qualify", "--engine", "reference", *served, *more]


def sealed(statement: Statement, folder: Path) -> tuple[Path, bytes]:
    """As a forger would write it."""
    name, content = written(statement)
    return folder / name, content
