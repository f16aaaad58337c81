"""docs/performance.md holds the tables of the committed probe, and names commands and options that there are."""

import re
from pathlib import Path

from pp3.harness import cli
from pp3.harness.evidence.receipt import read
from pp3.harness.probe import tables
from pp3.harness.probe.plan import Kind

ROOT = Path(__file__).resolve().parents[1]
DOCS = (ROOT / "docs" / "performance.md").read_text("utf-8")
BEGIN, END = "<!-- probe: written by pp3 probe --markdown RECEIPT -->", "<!-- end of probe -->"
NONE = "No receipt of a probe is committed yet."


def test_the_tables_are_those_of_the_newest_probe() -> None:
    """Printed, not written; without a receipt the page says that there is none."""
    committed = sorted((ROOT / "receipts" / "evidence" / "probe").glob("*.json"))
    right = tables.page(read(committed[-1])[1]["predicate"]) if committed else NONE
    assert DOCS.split(BEGIN)[1].split(END)[0].strip() == right.strip()


def test_every_command_and_option_is_there() -> None:
    """Of each line that begins with pp3."""
    found = re.findall(r"^pp3 (\w+)([^\n#]*)", DOCS, re.MULTILINE)
    assert {command for command, _ in found} == {"probe", "verify", "report", "estimate"}
    for command, rest in found:
        known = {name for option in cli.commands.commands[command].params for name in option.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, (command, rest)


def test_every_make_target_is_there() -> None:
    """And every kind of rows is explained."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"`make (\w+)", DOCS)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for kind in Kind:
        assert f"`{kind}`" in DOCS
