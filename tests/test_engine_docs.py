"""docs/engine.md says what is so: its commands run as they stand, its tables are those of the code."""

import re
from pathlib import Path

import documents

from pp3.harness import cli
from pp3.harness.engine.planted import FAULTS
from pp3.targets import chains

PAGE = (documents.DOCS / "engine.md").read_text("utf-8")


def test_the_commands_run(tmp_path: Path) -> None:
    """Line by line, in an empty folder."""
    said = "".join(one.said for one in documents.play(documents.DOCS / "engine.md", tmp_path))
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
