"""What a command loads before it does anything: seconds of start follow from it, and are the same on every machine."""

import subprocess
import sys

import pytest

SLOW = ("torch", "triton", "scipy.stats", "scipy.optimize", "scipy.special", "pandas", "matplotlib", "numpy", "rich")
HELP = "from pp3.harness.cli import run; run(['--help'])"


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        pytest.param("import pp3", (), id="import-pp3"),
        pytest.param("from pp3 import Batch, Sampler", ("numpy",), id="the-contract"),
        pytest.param("from pp3 import qualify", ("numpy", "scipy.special"), id="the-api"),
        pytest.param(HELP, (), id="pp3-help"),
        pytest.param("import pp3.harness.evidence.verify", ("numpy", "scipy.special"), id="pp3-verify"),
    ],
)
def test_nothing_slow_is_loaded(program: str, allowed: tuple[str, ...]) -> None:
    asked = f"import sys; {program}; print('loaded', *[name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert set(loaded[1:]) <= set(allowed)
