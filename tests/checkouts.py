"""A checkout with the small campaign, and the command line run in it as a process."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from pp3.harness.evidence import store

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
SMALL = """
name = "small"
targets = ["disjoint"]
requests = 4_000
paired = 400
batch_sizes = [1, 2]
depths = [4]
"""


def empty_checkout(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """One without sources, which the store takes for the one it runs from."""
    (root / "receipts" / "evidence" / "qualify").mkdir(parents=True)
    patch.setattr(store, "find_checkout", lambda: root)
    return root


def make_checkout(tree: Path) -> Path:
    """A checkout of its own, so that a run's counter and receipt stay in it."""
    for name in ("pp3", "harness", "kernels", "targets"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore)
    shutil.copytree(VECTORS, tree / "tests" / "vectors")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "small.toml").write_text(SMALL)
    return tree


def environment(tree: Path, interpret: bool = True) -> dict[str, str]:
    """For a process that runs the code of that tree and sees no GPU."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    chosen = {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return kept | chosen | ({"TRITON_INTERPRET": "1"} if interpret else {})


def command(*arguments: str) -> list[str]:
    """The command line in a process of its own."""
    return [sys.executable, "-P", "-m", "pp3.harness.cli", *arguments]
