"""Provenance: the files that determined the numbers and no others, by names and digests that any copy shares."""

import getpass
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pp3.harness.evidence import provenance

ROOT = Path(__file__).resolve().parent.parent
BOUND = (
    "pp3/__init__.py",
    "pp3/harness/backends.py",
    "pp3/harness/battery.py",
    "pp3/harness/bits.py",
    "pp3/harness/campaign.py",
    "pp3/harness/cells.py",
    "pp3/harness/conform.py",
    "pp3/harness/design.py",
    "pp3/harness/oracle.py",
    "pp3/harness/paired.py",
    "pp3/harness/run.py",
    "pp3/harness/samplers/kernels.py",
    "pp3/harness/samplers/reference.py",
    "pp3/harness/seeds.py",
    "pp3/harness/tally.py",
    "pp3/harness/verdict.py",
    "pp3/kernels/addressing.py",
    "pp3/kernels/philox.py",
    "pp3/kernels/proposal.py",
    "pp3/kernels/reference.py",
    "pp3/kernels/verifier.py",
    "pp3/targets/target.py",
    "pp3/targets/toy.py",
)
UNBOUND = ("pp3/harness/cli.py", "pp3/harness/qualify.py", "pp3/harness/progress.py", "pp3/harness/report/")
PRINT = """
import json
from pp3.harness.evidence import provenance
print(json.dumps(provenance.sources("qualify")))
"""
WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""


def digests(tree: Path, before: str = WITHOUT_TORCH) -> dict[str, str]:
    """Name to digest of each bound file, found by the code of that tree in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", before + PRINT],
        cwd="/",
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return {subject["name"]: subject["digest"]["sha256"] for subject in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def ours() -> dict[str, str]:
    """Name to digest of each bound file of this checkout."""
    return digests(ROOT)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package with its links dereferenced, and nothing else of the checkout."""
    shutil.copytree(ROOT / "pp3", tmp_path / "pp3", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_what_determines_the_numbers_is_bound() -> None:
    """Sampler, targets, harness and statistics; not what only shows or writes."""
    names = [subject["name"] for subject in provenance.sources("qualify")]
    assert [name for name in BOUND if name not in names] == []
    assert [name for name in names if name.startswith(UNBOUND)] == []
    assert names == sorted(set(names))


def test_names_are_import_relative_and_digests_those_of_the_files() -> None:
    """So that anyone can run sha256sum."""
    for subject in provenance.sources("qualify"):
        name, digest = subject["name"], subject["digest"]["sha256"]
        assert name.startswith("pp3/")
        assert digest == hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


def test_a_copy_without_links_has_the_same_digests(ours: dict[str, str], copied: Path) -> None:
    """Run from the copy, by the copy's code."""
    assert not (copied / "pp3" / "harness").is_symlink()
    assert digests(copied) == ours


def test_the_same_files_are_bound_with_torch_and_without(ours: dict[str, str]) -> None:
    """What is installed does not choose them."""
    assert digests(ROOT, before="") == ours


@pytest.mark.parametrize("name", ["pp3/kernels/verifier.py", "pp3/targets/toy.py"])
def test_editing_a_bound_file_changes_its_digest_alone(name: str, ours: dict[str, str], copied: Path) -> None:
    """A comment is enough: the bytes are bound, not the meaning."""
    with (copied / name).open("a") as file:
        file.write("# edited\n")
    after = digests(copied)
    assert [changed for changed in ours | after if ours.get(changed) != after.get(changed)] == [name]


def test_editing_an_unbound_file_changes_nothing(ours: dict[str, str], copied: Path) -> None:
    """A wording of the command line does not make evidence stale."""
    with (copied / "pp3" / "harness" / "cli.py").open("a") as file:
        file.write("# edited\n")
    assert digests(copied) == ours


def test_a_module_that_a_bound_one_begins_to_import_is_bound(copied: Path) -> None:
    """Written inside a function, too."""
    (copied / "pp3" / "kernels" / "extra.py").write_text("VALUE = 1\n")
    with (copied / "pp3" / "kernels" / "reference.py").open("a") as file:
        file.write("\n\ndef late() -> int:\n    from pp3.kernels.extra import VALUE\n\n    return VALUE\n")
    assert "pp3/kernels/extra.py" in digests(copied)


def test_another_tree_is_compared_whole(copied: Path) -> None:
    """Equal in a checkout with links, in a copy, and in one whose links were lost; a missing or a new file is stale."""
    bound = provenance.sources("qualify", ROOT)
    assert provenance.stale("qualify", bound, ROOT) == provenance.stale("qualify", bound, copied) == []
    shutil.move(copied / "pp3" / "kernels", copied / "kernels")
    assert provenance.stale("qualify", bound, copied) == []
    (copied / "kernels" / "verifier.py").unlink()
    assert provenance.stale("qualify", bound, copied) == ["pp3/kernels/verifier.py"]
    assert provenance.stale("qualify", bound[1:], ROOT) == [bound[0]["name"]]


def test_the_environment_says_what_can_change_a_number() -> None:
    """Versions of everything that computes, and nothing beside."""
    found = provenance.environment()
    assert set(found) == {"machine", "system", "variables", "versions"}
    assert set(found["versions"]) == {"python", "numpy", "scipy", "msgspec", "torch", "triton"}
    assert found["versions"]["python"] == platform.python_version()
    assert all(isinstance(version, str) for version in found["versions"].values())


def test_the_environment_names_no_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the host, the user and their variables are called."""
    monkeypatch.setattr(socket, "gethostname", lambda: "zq-host")
    monkeypatch.setattr(platform, "node", lambda: "zq-host")
    monkeypatch.setattr(getpass, "getuser", lambda: "zq-user")
    monkeypatch.chdir(tmp_path)
    for variable in ("HOSTNAME", "USER", "LOGNAME", "HOME", "PWD", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "SECRET"):
        monkeypatch.setenv(variable, f"/home/zq-{variable}")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    found = provenance.environment()
    assert found["variables"].get("TRITON_INTERPRET") == "1"
    text = json.dumps(found)
    assert [part for part in ("zq-", "/home/", str(tmp_path), str(ROOT), sys.executable) if part in text] == []


def test_variables_are_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can change a number, when they are set."""
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    assert provenance.environment()["variables"] == {}
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("PATH", "/bin")
    assert provenance.environment()["variables"] == {"TRITON_DEFAULT_FP_FUSION": "0"}
