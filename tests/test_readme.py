"""The README says what is so: commands and options exist, the campaign loads, links lead, the table is computed."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pp3.harness import campaign
from pp3.harness.cli import commands
from pp3.harness.evidence import table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]


def test_the_evidence_table_is_the_computed_one() -> None:
    """Whatever is committed is listed, current or stale as this tree stands; a stale receipt warns."""
    rows = table.rows()
    between = README.split(table.BEGIN)[1].split(table.END)[0].strip()
    assert between == table.render(rows), "run make evidence"
    for row in rows:
        if row.state != "current":
            warnings.warn(f"{row.receipt} is {row.state}", table.StaleEvidence, stacklevel=1)


def test_committed_evidence_verifies() -> None:
    """Every committed receipt is authentic, and has its page."""
    for row in table.rows():
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pp3.harness.cli",
                "verify",
                str(ROOT / row.receipt),
                "--require-verdict",
                row.verdict,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert row.page, f"{row.receipt} has no page in reports/evidence"


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("pp3 ")])
def test_each_pp3_command_has_the_options_it_is_shown_with(line: str) -> None:
    """A renamed command or option breaks the README."""
    _, name, *rest = line.split()
    command = commands.commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    used = {word for word in rest if word.startswith("--")}
    assert used <= options, f"{line}: {used - options}"


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_each_make_target_exists(line: str) -> None:
    """A renamed target breaks the README."""
    done = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_campaign_loads(tmp_path: Path) -> None:
    """The example file is a campaign."""
    [text] = [block for language, block in BLOCKS if language == "toml"]
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    loaded = campaign.load(path)
    assert [target.name for target in loaded.targets] == ["sparse-tail", "mine"]


def test_every_link_leads_somewhere() -> None:
    """Relative links only, to files that exist."""
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link
