"""As a stranger: pp3 from a wheel, a sampler with a bug in a folder of one's own, and the command finds it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
MINE = """
import torch
from pp3 import Batch, Description

class Mine:
    def describe(self):
        return Description(name="mine", kind="verifier", target_carrier="probs", void="unsupported", version="0.9")

    def run(self, batch: Batch):
        n, depth = len(batch), batch.depth
        p, q, ids = batch.target_probs.double(), batch.draft_probs.double(), batch.draft_ids.long()
        ratio = (p[:, :depth] / q).gather(2, ids[..., None])[..., 0]
        kept = torch.rand(n, depth, generator=batch.generator) < ratio
        length = kept.long().cumprod(1).sum(1)
        rows, at = torch.arange(n), length.clamp(max=depth - 1)
        law = p[rows, length]
        residual = law  # the bug: (law - q[rows, at]).clamp(min=0)
        law = torch.where((length < depth)[:, None], residual, law)
        tokens = torch.cat([ids, ids[:, :1]], 1)
        tokens[rows, length] = torch.multinomial(law, 1, generator=batch.generator)[:, 0]
        return tokens, length + 1
"""
TEST = "from mine import Mine\n\ndef test_mine(qualify):\n    qualify(Mine(), requests=4000, device='cpu')\n"


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside any checkout and a virtual environment: pp3 from its wheel, the rest from these packages."""
    home = tmp_path_factory.mktemp("stranger")
    tree = home / "source"
    for name in ("pp3", "harness", "kernels", "targets"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "vectors", tree / "tests" / "vectors")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(home),
        str(tree),
        cwd=home,
    )
    shutil.rmtree(tree)
    run(sys.executable, "-m", "venv", "--without-pip", str(home / "venv"), cwd=home)
    (wheel,) = home.glob("pp3-*.whl")
    python = home / "venv" / "bin" / "python"
    packages = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, str(wheel), cwd=home)
    # After its own folder, so that the wheel's pp3 comes first; a line of a path file runs no path file of that folder.
    (Path(packages) / "rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    (home / "work").mkdir()
    (home / "work" / "mine.py").write_text(MINE)
    (home / "work" / "test_mine.py").write_text(TEST)
    return home


def run(*command: str, cwd: Path, code: int = 0) -> str:
    """What a command prints; its exit code must be this one."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV", "TRITON"))
    }
    done = subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pp3(stranger: Path, *arguments: str, code: int = 0) -> str:
    """The command, as a module: an installed script is the same call."""
    python = str(stranger / "venv" / "bin" / "python")
    return run(python, "-P", "-m", "pp3.harness.cli", *arguments, cwd=stranger / "work", code=code)


def test_the_bug_is_found_and_the_mended_sampler_passes(stranger: Path) -> None:
    """The law, the place and the size; beside it nothing of a checkout."""
    python = str(stranger / "venv" / "bin" / "python")
    where = run(python, "-P", "-c", "import pp3; print(pp3.__file__)", cwd=stranger).strip()
    assert Path(where).is_relative_to(stranger / "venv")
    said = json.loads(
        pp3(stranger, "qualify", "--sampler", "mine.py:Mine", "--requests", "4000", "--device", "cpu", "--json", code=1)
    )
    assert said["verdict"] == "FAIL"
    assert ", tokens that replace a rejected draft at position " in said["reasons"][0]
    assert " have probability 0: token " in said["reasons"][0]
    assert Path(said["receipt"]).parent == stranger / "work" / "pp3-runs"
    assert pp3(stranger, "verify", said["receipt"]).splitlines()[-1].startswith("VERIFIED verdict=FAIL ")
    path = stranger / "work" / "mine.py"
    path.write_text(path.read_text().replace("residual = law  # the bug: ", "residual = "))
    said = pp3(stranger, "qualify", "--sampler", "mine.py:Mine", "--device", "cpu")
    assert said.startswith("PASS: no evidence against mine 0.9 on a CPU emitting the law it declares, on 8 targets")
    assert "not applicable 4: " in said


def test_the_fixture_comes_with_the_wheel(stranger: Path) -> None:
    """And fails with the same words."""
    path = stranger / "work" / "mine.py"
    path.write_text(MINE)
    python = str(stranger / "venv" / "bin" / "python")
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=stranger / "work", code=int(Exit.NEGATIVE))
    assert "FAIL: mine 0.9 on a CPU does not emit the law it declares" in said
    assert "1 failed" in said
