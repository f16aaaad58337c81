"""Packaging: the hand-written list, the three links, and what an import may load."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import pp3

ROOT = Path(__file__).resolve().parent.parent
LINKED = ("harness", "kernels", "targets")
DATA = {"pp3.harness.vectors": "tests/vectors"}  # a package of files alone, for an installed pp3
FORBIDDEN = ("/" + "work" + "/", "." + "library")  # of the place this was written in; in two parts, or it finds itself
LIGHT = ("pp3", "pp3.harness.cli", "pp3.harness.qualify", "pp3.harness.evidence.verify", "pp3.kernels.reference")
LOADED = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
EVERYTHING = """
import importlib, json, pkgutil, sys
import pp3

names = [found.name for found in pkgutil.walk_packages(pp3.__path__, "pp3.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(sys.modules)]))
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python from the root folder with the package as it is installed, or else from this checkout."""
    environment = dict(os.environ)
    try:
        metadata.version("pp3")
    except metadata.PackageNotFoundError:
        environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_packages_are_the_folders(project: dict[str, Any]) -> None:
    """The list is written by hand: a new folder must be in it, or a wheel would lack it."""
    folders = {"pp3"}
    for top in LINKED:
        for init in (ROOT / top).rglob("__init__.py"):
            folders.add(".".join(("pp3", *init.parent.relative_to(ROOT).parts)))
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(folders | set(DATA))


def test_package_dir_maps_each_folder(project: dict[str, Any]) -> None:
    """A wheel builds right even where links were lost."""
    mapped = project["tool"]["setuptools"]["package-dir"]
    assert mapped == {"pp3": "pp3"} | {f"pp3.{name}": name for name in LINKED} | DATA


@pytest.mark.parametrize("folder", DATA.values())
def test_a_package_of_files_has_files_alone(folder: str) -> None:
    """Code in it would run from two places."""
    names = [path.name for path in (ROOT / folder).iterdir()]
    assert names
    assert [name for name in names if name.endswith(".py")] == []


def test_every_module_lies_in_a_package() -> None:
    """A folder with modules and no __init__.py would be left out of the wheel; what `pp3 init` writes is data."""
    for top in LINKED:
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").is_file() or module.parent.name == "starter", module


def test_three_relative_links_join_the_folders() -> None:
    """pp3/x -> ../x, and no other link."""
    links = {path.name: os.readlink(path) for path in (ROOT / "pp3").iterdir() if path.is_symlink()}
    assert links == {name: f"../{name}" for name in LINKED}


def test_one_version(project: dict[str, Any]) -> None:
    """Of the project and of the package."""
    assert project["project"]["version"] == pp3.__version__


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_import_loads_neither_torch_nor_triton(module: str) -> None:
    """The command line, verification and the reference work without them."""
    loaded = json.loads(python("-c", LOADED, module).stdout)
    assert module in loaded
    assert {"torch", "triton"} & set(loaded) == set()


def test_nothing_is_imported_twice() -> None:
    """Every module imports, under pp3 only: a second copy at the top level would have other classes."""
    done = python("-c", EVERYTHING)
    assert done.returncode == 0, done.stderr
    names, loaded = json.loads(done.stdout)
    assert {"pp3.harness.cli", "pp3.kernels.verifier", "pp3.targets.toy"} <= set(names)
    assert [module for module in loaded if module.partition(".")[0] in LINKED] == []


def test_the_command_runs_from_anywhere() -> None:
    """With the current folder off the path."""
    done = python("-m", "pp3.harness.cli", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"pp3, version {pp3.__version__}\n"


def tracked() -> list[Path]:
    """Files under version control, or that would be; all but the ignored ones."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_the_place_it_was_written_in() -> None:
    """A clone elsewhere must not meet it."""
    found = [
        f"{path.relative_to(ROOT)}: {part}"
        for path in tracked()
        for part in FORBIDDEN
        if part.encode() in path.read_bytes()
    ]
    assert found == []
