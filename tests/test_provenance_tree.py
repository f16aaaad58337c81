"""What a tree binds, on one small enough to see whole: packages, what is imported for types, and no other package."""

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.evidence import provenance

FILES = {
    "pp3/__init__.py": "",
    "pp3/a/__init__.py": "",
    "pp3/a/b/__init__.py": "",
    "pp3/a/b/run.py": "from pp3.a.b.other import x\n",
    "pp3/a/b/other.py": "x = 1\n",
    "pp3/types_only.py": "",
    "pp3/otherwise.py": "",
    "pp3/behind.py": "",
    "pp3/early.py": "",
    "pp3/late.py": "",
    "pp3/never.py": "",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """These files, and a kind that is rooted in one of them."""
    monkeypatch.setitem(provenance.ROOTS, "small", ("pp3.a.b.run",))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(tree: Path) -> list[str]:
    """What is bound, less the packages."""
    return [name for name in sorted(provenance.source_files("small", tree)) if not name.endswith("__init__.py")]


def test_every_package_around_a_module_is_bound(tree: Path) -> None:
    """Its `__init__` runs before it, whether anything names it or not."""
    assert sorted(provenance.source_files("small", tree)) == [
        "pp3/__init__.py",
        "pp3/a/__init__.py",
        "pp3/a/b/__init__.py",
        "pp3/a/b/other.py",
        "pp3/a/b/run.py",
    ]


RUN = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pp3.types_only
else:
    import pp3.otherwise
if SOMETHING:
    import pp3.early
if ZEAL:
    import pp3.late
import pp3.behind
"""


def test_what_is_imported_for_its_types_alone_is_not_bound(tree: Path) -> None:
    """Anything else is, under any other condition, before it and behind it."""
    (tree / "pp3" / "a" / "b" / "run.py").write_text(RUN)
    assert names(tree) == ["pp3/a/b/run.py", "pp3/behind.py", "pp3/early.py", "pp3/late.py", "pp3/otherwise.py"]


@pytest.mark.parametrize("package", ["aaa", "pp2", "pp4", "zzz"])
def test_another_package_is_not_bound(package: str, tree: Path) -> None:
    """Though a folder that holds this package under no name of its own has a file of the same path."""
    for name in ("a", "never.py", "__init__.py"):
        (tree / "pp3" / name).rename(tree / name)
    (tree / "a" / "b" / "run.py").write_text(f"import {package}.never\nimport {package}\n")
    assert names(tree) == ["pp3/a/b/run.py"]


def test_a_file_at_the_root_of_a_tree_is_not_the_package(tree: Path) -> None:
    """Unless the tree is named as it is."""
    (tree / "__init__.py").write_text("import pp3.never\n")
    (tree / "pp3" / "__init__.py").unlink()
    assert "pp3/__init__.py" not in provenance.source_files("small", tree)
    for own in (tree / "pp3").iterdir():
        own.rename(tree / own.name)
    (tree / "pp3").rmdir()
    found = provenance.source_files("small", tree.rename(tree.parent / "pp3"))
    assert "pp3/__init__.py" in found
    assert "pp3/never.py" in found


KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "a campaign": ({"kind": "qualify", "sampler": {"name": "transformers", "image": "x"}}, "qualify"),
    "enumerations": ({"kind": "exhaustive", "sampler": {"name": "transformers"}}, "exhaustive"),
    "a survey, which has no sampler": ({"kind": "survey"}, "survey"),
    "a calibration": ({"kind": "calibration", "sampler": {"name": "transformers", "image": "x"}}, "calibration"),
    "over the wire": ({"kind": "wire", "sampler": {"name": "it", "image": "x"}}, "wire"),
    "a trial": ({"kind": "trial", "sampler": {"name": "transformers", "image": None}}, "trial"),
    "a trial of an image": ({"kind": "trial", "sampler": {"name": "transformers", "image": {"a": 1}}}, "trial-image"),
    "a trial of overlays": (
        {"kind": "trial", "overlay": {"a": 1}, "sampler": {"name": "it", "image": {"a": 1}}},
        "trial-overlay",
    ),
    "an engine of ours": ({"kind": "engine", "sampler": {"name": "pp3-reference"}}, "engine-pp3-reference"),
    "an engine with an adapter": ({"kind": "engine", "sampler": {"name": "transformers"}}, "engine-transformers"),
    "an engine that is served": ({"kind": "engine", "sampler": {"name": "vllm"}}, "engine"),
}


@pytest.mark.parametrize(("predicate", "kind"), KINDS.values(), ids=KINDS)
def test_which_roots_a_receipt_has(predicate: dict[str, Any], kind: str) -> None:
    """By its kind; of a trial what loaded or stood around the sampler, of an engine its adapter."""
    assert provenance.kind_of(predicate) == kind


def test_what_is_not_installed_is_said_to_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each package by itself."""
    version = importlib.metadata.version

    def without(package: str) -> str:
        if package == "triton":
            raise importlib.metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(importlib.metadata, "version", without)
    found = provenance.environment()["versions"]
    assert found["triton"] == "absent"
    assert found["numpy"] == version("numpy")
