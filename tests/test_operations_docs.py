"""docs/operations.md and its example name commands, options, variables and files that there are."""

import re
import subprocess
from pathlib import Path

from pp3.harness import cli
from pp3.harness.evidence import ledger

ROOT = Path(__file__).resolve().parents[1]
DOCS = (ROOT / "docs" / "operations.md").read_text("utf-8")
NIGHTLY = (ROOT / "docs" / "examples" / "nightly.yml").read_text("utf-8")
SCRIPT = (ROOT / "pp3_locked.sh").read_text("utf-8")


def options(command: str) -> set[str]:
    """Of a command of pp3."""
    return {name for option in cli.commands.commands[command].params for name in option.opts if name.startswith("--")}


def test_every_command_and_option_is_there() -> None:
    """Of each `pp3 ...` line in the page and the example, and of the wrapper's own."""
    found = re.findall(r"(?:^|bin/|\s)pp3 (qualify|merge|status|verify|compare)\b([^\n`#]*)", DOCS + NIGHTLY)
    assert {command for command, _ in found} == {"qualify", "merge", "status", "verify", "compare"}
    for command, rest in found:
        assert set(re.findall(r"--[a-z-]+", rest)) <= options(command), (command, rest)
    for rest in re.findall(r"\./pp3_locked\.sh([^\n`#]*)", DOCS + NIGHTLY):
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in SCRIPT or option in options("qualify")


def test_every_variable_is_the_script_s_with_its_default() -> None:
    """And the script has no other."""
    rows = dict(re.findall(r"^\| `(PP3_[A-Z_]+)` \| ([^|]+) \|", DOCS, re.MULTILINE))
    assert set(rows) == set(re.findall(r"PP3_[A-Z_]+", SCRIPT)) - {"PP3_"}
    for name, default in (
        ("PP3_NICE", "19"),
        ("PP3_THREADS", "8"),
        ("PP3_GRACE_S", "10"),
        ("PP3_LOCK", "/tmp/pp3.lock"),
    ):
        assert f"{name}=${{{name}:-{default}}}" in SCRIPT
        assert rows[name].strip().strip("`") == default


def test_the_example_finds_the_ledger_s_head() -> None:
    """Its awk gives the newest receipt of a campaign."""
    [program] = re.findall(r"awk '([^']+)' receipts/LEDGER", NIGHTLY)
    done = subprocess.run(
        ["awk", program, "receipts/LEDGER"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    text = (ROOT / "receipts" / ledger.FILE).read_text("utf-8")
    campaigns = [line.split()[2] for line in text.splitlines() if " evidence/qualify/" in line]
    assert done == campaigns[-1]
    assert (ROOT / "receipts" / done).is_file()
