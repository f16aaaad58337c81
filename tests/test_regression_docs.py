"""docs/regressions.md says what is so: its worked example is typed line by line, and prints what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "regressions.md").read_text("utf-8")
EXAMPLE = PAGE.split("## A worked example")[1]
FUNCTIONS = f"""
pp3() {{ {sys.executable} -P -m pp3.harness.cli "$@"; }}
python3() {{ {sys.executable} "$@"; }}
"""


def blocks(language: str) -> list[str]:
    """The example's blocks in one language."""
    return re.findall(rf"```{language}\n(.*?)```", EXAMPLE, flags=re.DOTALL)


def test_the_worked_example_runs(tmp_path: Path) -> None:
    """Every line, its exit code as written; the lines of the comparison that the page shows, in their order."""
    [commands] = blocks("sh")
    printed = {}
    for line in commands.splitlines():
        command, _, code = line.partition("  # ")
        done = subprocess.run(
            ["bash", "-c", FUNCTIONS + command],
            cwd=tmp_path,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == int(code or 0), f"{command}: {done.stdout}{done.stderr}"
        printed[" ".join(command.split()[:2])] = done.stdout + done.stderr
    [shown] = blocks("text")
    lines = iter(printed["pp3 compare"].splitlines())
    for line in shown.splitlines():
        assert re.sub(r"\d+", "", line) in (re.sub(r"\d+", "", said) for said in lines), line
    assert "my_sampler.py is another file here" in printed["pp3 replay"]
    assert len(printed["pp3 history"].splitlines()) == 3
