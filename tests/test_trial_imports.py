"""What loads neither torch nor triton: the package, its types, the plugin, help, and the verification of receipts."""

import subprocess
import sys
from pathlib import Path

import pytest

from pp3.harness.evidence import receipt
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed

HEAVY = ("torch", "triton")
LIGHT = {
    "the package": "import pp3; pp3.__version__",
    "its types": "from pp3 import Batch, Description, Emission, Report, Sampler; Description(name='x', kind='plain')",
    "qualify itself": "from pp3 import qualify",
    "a star": "from pp3 import *",
    "the plugin": "import pp3.harness.pytest_plugin",
    "help": "from pp3.harness.cli import run; run(['--help'])",
    "help of a command": "from pp3.harness.cli import run; run(['qualify', '--help'])",
    "version": "from pp3.harness.cli import run; run(['--version'])",
    "verification": "import pp3.harness.evidence.verify, pp3.harness.evidence.trial, pp3.harness.evidence.survey",
    "verification of other kinds": "from pp3.harness.evidence import campaign, engine, exact, probe",
    "the page of a trial": "import pp3.harness.report.trial",
    "the judge": "import pp3.harness.trial.judge",
    "the command's own process": "import pp3.harness.trial.command, pp3.harness.trial.survey, pp3.harness.trial.parent",
    "the plan of a sampler": (
        "from pp3 import Description\nfrom pp3.harness.trial.plan import TrialSpec, make\n"
        "[make(TrialSpec(), Description(name='x', kind=k), 'x').checks for k in ('plain', 'verifier', 'pipeline')]"
    ),
    "a name that is none": "from pp3.harness.cli import run; assert run(['qualify', '--sampler', 'zzz']) == 2",
}
BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""


def python(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_neither_is_loaded(code: str) -> None:
    said = python(f"{code}\nimport sys\nprint('loaded', [name for name in {HEAVY} if name in sys.modules])")
    assert said.splitlines()[-1] == "loaded []"


def test_a_receipt_is_verified_and_shown_where_neither_is_installed(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from pp3.harness.evidence import trial as trial_receipt
    from pp3.harness.trial.device import identity
    from pp3.harness.trial.parent import Found
    from pp3.harness.trial.plan import TrialSpec, make
    from pp3.harness.trial.run import run

    sampler = Multinomial()
    trial = make(TrialSpec(targets=["rows-of-12"], requests=2_000), sampler.describe(), "test")
    measured = run(trial, sampler, Seed.of(trial.plan_sha256, 1), "cpu", lambda *_: None)
    found = Found(trial=trial, device=identity("cpu"), measured=measured)
    statement = trial_receipt.build(found, 1, "next", datetime.now(UTC), trial_receipt.judge(found))
    path = receipt.write(statement, tmp_path)
    blocked = BLOCKED.format(heavy=HEAVY) + "from pp3.harness.cli import run\nsys.exit(run(sys.argv[1:]))\n"
    assert python(blocked, "verify", str(path)).splitlines()[-1].startswith("VERIFIED verdict=PASS ")
    assert Path(python(blocked, "report", str(path)).strip()).is_file()


def test_without_torch_a_trial_says_what_is_missing(tmp_path: Path) -> None:
    """69, before anything is written."""
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    code = (
        "import importlib.util, os, sys\nfound = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'torch' else found(name, *rest)\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "from pp3.harness.cli import run\nprint(run(['qualify', '--sampler', 'mine.py:Mine', '--out', 'out']))\n"
        "sys.stderr.close()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "69\n"
    assert done.stderr == "pp3: error: sampler mine.py:Mine: torch is not installed\n"
    assert not (tmp_path / "out").exists()
