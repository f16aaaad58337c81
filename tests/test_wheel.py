"""What is shipped: a source distribution, a wheel made from it, and PP3 run from the wheel, outside the checkout."""

import email
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import pp3

ROOT = Path(__file__).resolve().parents[1]
TREE = ("pp3", "harness", "kernels", "targets", "docs", "tests/vectors", "tests/golden")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE", "Makefile", "constraints.txt")
BACKEND = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
USER = """
from pp3 import Batch, Emission, Sampler, qualify


class Mine:
    def describe(self) -> int:
        return 1

    def run(self, batch: Batch) -> Emission:
        reveal_type(batch.depth)
        raise NotImplementedError


reveal_type(qualify)
wrong: Sampler = Mine()
"""


SKIPPED = "[mypy]\n[mypy-torch.*,triton.*,transformers.*,pandas.*]\nfollow_imports = skip\n"  # a minute's reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """Both files, and a virtual environment that has the wheel and what it needs."""

    sdist: Path
    wheel: Path
    python: Path

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A command of the environment, in a folder that is no checkout."""
        program, *rest = words
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [str(self.python.parent / program), *rest],
            cwd=cwd,
            env=environment | {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def done(words: Sequence[str | Path], cwd: Path, **more: str) -> str:
    """What a command that must work prints."""
    ran = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """Built as `python -m build` does: the wheel from the unpacked source distribution, by the named backend."""
    folder = tmp_path_factory.mktemp("shipped")
    tree, backend, dist = folder / "tree", folder / "backend", folder / "dist"
    for name in TREE:
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=skipped)
    for name in (*FILES, "pp3_locked.sh"):
        shutil.copy(ROOT / name, tree)
    [wanted] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    done([*pip, "install", "--no-deps", "--target", backend, wanted], folder)
    build = [sys.executable, "-P", "-c", BACKEND]
    sdist = dist / done([*build, "build_sdist", dist], tree, PYTHONPATH=str(backend)).splitlines()[-1]
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    [unpacked] = (folder / "source").iterdir()
    wheel = dist / done([*build, "build_wheel", dist], unpacked, PYTHONPATH=str(backend)).splitlines()[-1]
    done([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    site = Path(done([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    (site / "rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n", "utf-8")
    done([*pip, "--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel], folder)
    return Shipped(sdist=sdist, wheel=wheel, python=python)


def names(wheel: Path) -> set[str]:
    """Files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_module_and_nothing_else(shipped: Shipped) -> None:
    """Of the packages that pyproject.toml lists; type information, templates, known answers."""
    found = names(shipped.wheel)
    modules = {name for name in found if name.endswith(".py") and not name.startswith("pp3/harness/trial/starter/")}
    written = {
        "pp3/" + path.relative_to(ROOT).as_posix()
        for top in ("harness", "kernels", "targets")
        for path in (ROOT / top).rglob("*.py")
        if path.parent.name != "starter" and "typings" not in path.parts
    }
    assert modules == written | {"pp3/__init__.py"}
    assert {"pp3/py.typed", "pp3/harness/vectors/propose.json", "pp3/harness/report/templates/base.html"} <= found
    assert {name.split("/")[0] for name in found} == {"pp3", f"pp3-{pp3.__version__}.dist-info"}


def test_the_licence_and_the_metadata_are_whole(shipped: Shipped) -> None:
    with zipfile.ZipFile(shipped.wheel) as archive:
        info = f"pp3-{pp3.__version__}.dist-info"
        licence = archive.read(f"{info}/licenses/LICENSE")
        said = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        entries = archive.read(f"{info}/entry_points.txt").decode()
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in licence
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("pp3", pp3.__version__, "Apache-2.0")
    assert said["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in said.get_all("Classifier", [])
    assert not [one for one in said.get_all("Classifier", []) if one.startswith("License ::")]
    assert said["Keywords"]
    assert said.get_payload().startswith("# PP3\n")  # type: ignore[union-attr]  # of a message of one part a text
    assert "pp3 = pp3.harness.cli:main" in entries
    assert "[pytest11]" in entries


def test_the_source_distribution_builds_and_documents_itself(shipped: Shipped) -> None:
    """It has what the wheel is made of, the guides, and neither receipts nor tests but the known answers."""
    with tarfile.open(shipped.sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {*FILES, "pp3_locked.sh", "docs/battery.md", "tests/vectors/propose.json"} <= found
    assert [name for name in found if name.startswith(("receipts", "reports", "tests/test_", ".venv"))] == []


def test_it_runs_outside_the_checkout(shipped: Shipped, tmp_path: Path) -> None:
    """Version, a check explained, known answers, a receipt made and verified; from the wheel's own files."""
    where = shipped.run("python", "-P", "-c", "import pp3; print(pp3.__file__)", cwd=tmp_path).stdout.strip()
    assert Path(where).is_relative_to(shipped.python.parents[1])
    said = shipped.run("pp3", "--version", cwd=tmp_path)
    assert (said.returncode, said.stdout, said.stderr) == (0, f"pp3, version {pp3.__version__}\n", "")
    assert shipped.run("pp3", "explain", "fit", cwd=tmp_path).stdout.startswith("fit: statistics of a sampler")
    vectors = Path(where).parent / "harness" / "vectors"
    said = shipped.run("pp3", "conform", str(vectors / "propose.json"), str(vectors / "verify.json"), cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    said = shipped.run("pp3", "oracle", "--device", "cpu", "--out", "out", cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    [receipt] = (tmp_path / "out").glob("*.json")
    said = shipped.run("pp3", "verify", str(receipt), "--require-verdict", "PASS", "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["verified"] is True


def test_type_information_reaches_a_user(shipped: Shipped, tmp_path: Path) -> None:
    """mypy reads the types of the installed wheel: a sampler whose description is an int is refused."""
    (tmp_path / "mine.py").write_text(USER, "utf-8")
    (tmp_path / "mypy.ini").write_text(SKIPPED, "utf-8")
    words = ["--python-executable", shipped.python, "--strict", "--cache-dir", tmp_path / "cache", "mine.py"]
    command = [sys.executable, "-m", "mypy", *map(str, words)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 1, said.stdout + said.stderr
    assert 'mine.py:10: note: Revealed type is "int"' in said.stdout.replace("builtins.int", "int")
    assert "def (" in said.stdout
    assert "Any" not in said.stdout.split("Revealed type is")[1]
    [error] = [line for line in said.stdout.splitlines() if ": error: " in line]
    assert error.startswith("mine.py:15: error: Incompatible types in assignment")
