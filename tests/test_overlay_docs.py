"""docs/overlays.md says what is so: commands and options that there are, every edit, every refusal, every file."""

import re
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.overlay.command import PAIRS
from pp3.harness.overlay.pins import OVERLAYS, RUNNER, SAMPLER
from pp3.harness.overlay.prepare import ATTESTATION, READ_ONLY
from pp3.harness.overlay.problems import EVERY, GRAMMAR, LAWS, NAMES, SHORTER
from pp3.harness.overlay.refusal import Reason

ROOT = Path(__file__).resolve().parents[1]
DOCS = (ROOT / "docs" / "overlays.md").read_text("utf-8")


def table(head: str) -> list[list[str]]:
    """The rows under a head's first column."""
    lines = DOCS[DOCS.index(f"| {head} |") :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[: lines.index("")]]


def test_every_command_and_option_is_there() -> None:
    found = re.findall(r"^pp3 ([a-z]+)([^\n]*)", DOCS, re.MULTILINE)
    assert {command for command, _ in found} == {"prepare", "qualify"}
    for command, rest in found:
        options = {name for option in cli.commands.commands[command].params for name in option.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options
    assert all(f"VERSION={version}" in DOCS or version in DOCS for version in OVERLAYS)


def test_every_refusal_is_there() -> None:
    rows = table("name")
    assert [row[0].strip("`") for row in rows] == [reason.value for reason in Reason]


def test_every_file_is_there() -> None:
    assert [row[0].strip("`") for row in table("file")] == [SAMPLER, RUNNER, ATTESTATION]
    assert f"({READ_ONLY:04o})" in DOCS


def test_every_edit_is_there() -> None:
    pytest.importorskip("libcst", reason="LibCST is the extra `image`")
    from pp3.harness.overlay.changes import CHANGES

    said = [(row[0].strip("`"), row[1].strip("`")) for row in table("edit")]
    for changes in CHANGES.values():
        assert [(edit.name, edit.function) for name in (SAMPLER, RUNNER) for edit in changes[name].edits] == said
    assert len({function for _, function in said}) == 5


def test_the_targets() -> None:
    assert (len(LAWS), len(NAMES), EVERY) == (6, 12, 3)
    assert "Six laws: the customer's five" in DOCS
    assert f"under its name with `{SHORTER}`" in DOCS
    assert f"{PAIRS['cuda']:,} temperature-0 requests" in DOCS
    assert f"`{GRAMMAR}`, whose rows went through a mask that forbids a\nthird" in DOCS
