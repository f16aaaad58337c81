"""docs/engine.md says what is so: its commands run as they stand, its tables are those of the code."""

import re
import shlex
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.engine.planted import FAULTS
from pp3.harness.errors import Exit
from pp3.targets import chains

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8")


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line)
        assert words[0] == "pp3"
        given = [str(found) for word in words[1:] for found in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
        assert cli.run(given) == Exit.OK, line
    said = capsys.readouterr().out
    assert "PASS: no evidence against the law of pp3-reference 1 with a draft model in 20,000 tokens" in said
    assert "VERIFIED verdict=PASS" in said


def test_every_option_is_there() -> None:
    """Of the page's commands and prose."""
    known = {
        name
        for one in ("qualify", "checkpoint", "verify")
        for p in cli.commands.commands[one].params
        for name in p.opts
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known


def test_the_table_of_targets_is_the_code_s() -> None:
    """Names, sizes, and why each is there."""
    rows = re.findall(r"^\| (chain-\d+) \| ([\d,]+) \| (\d+) \| (.*) \|$", PAGE, flags=re.MULTILINE)
    built = [chains.build(name) for name in chains.NAMES]
    assert rows == [(one.name, f"{one.vocab:,}", str(one.classes), one.why) for one in built]


def test_the_table_of_faults_is_the_code_s() -> None:
    """Each planted fault with its report and its check."""
    rows = re.findall(r"^\| (\w+): [^|]* \| ([^|]*) \| ([^|]*) \|$", PAGE, flags=re.MULTILINE)
    assert rows == [(fault.name, fault.report, fault.check) for fault in FAULTS]
