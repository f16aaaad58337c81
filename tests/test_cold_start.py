"""What a command loads before it does anything: seconds of start follow from it, and are the same on every machine."""

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = ("torch", "triton", "scipy.stats", "scipy.optimize", "scipy.special", "pandas", "matplotlib", "numpy", "rich")
HELP = "from pp3.harness.cli import run; run(['--help'])"


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        pytest.param("import pp3", (), id="import-pp3"),
        pytest.param("from pp3 import Batch, Sampler", ("numpy",), id="the-contract"),
        pytest.param("from pp3 import qualify", ("numpy",), id="the-api"),
        pytest.param(HELP, (), id="pp3-help"),
        pytest.param("import pp3.harness.evidence.campaign", ("numpy",), id="the-steps-of-a-campaign"),
        pytest.param("import pp3.harness.evidence.verify", ("numpy",), id="pp3-verify"),
    ],
)
def test_nothing_slow_is_loaded(program: str, allowed: tuple[str, ...]) -> None:
    asked = f"import sys; {program}; print('loaded', *[name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert set(loaded[1:]) <= set(allowed)


def test_only_the_kind_of_the_receipt_is_loaded(real_receipt: Path) -> None:
    """What other kinds are verified by takes as long to load as this one to verify."""
    program = (
        "import sys; from pp3.harness.cli import run; run(['verify', sys.argv[1]]);"
        "print('loaded', *[name for name in sys.modules if name.startswith('pp3.harness.')])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(real_receipt)], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    kinds = ("trial", "engine", "probe", "exact", "survey")
    assert "pp3.harness.evidence.campaign" in loaded
    assert [name for name in loaded if name in {f"pp3.harness.evidence.{kind}" for kind in kinds}] == []
    assert [name for name in loaded if name.startswith(("pp3.harness.trial.", "pp3.harness.exact."))] == []
