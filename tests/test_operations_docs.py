"""docs/operations.md and its example name commands, options, variables and files that there are."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it has no types

from pp3.harness import cli
from pp3.harness.evidence import ledger
from pp3.harness.operations.where import Where

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


def steps() -> list[str]:
    """Commands of the example's job, one a line, with the values of its own variables."""
    [job] = yaml.safe_load(NIGHTLY)["jobs"].values()
    values = {name: value.replace("${{ github.workspace }}", "/w") for name, value in job["env"].items()}
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    for name, value in values.items():
        lines = [line.replace(f"${name}", value) for line in lines]
    return lines


def parsed(command: str, words: list[str]) -> dict[str, Any]:
    """What the command line makes of them."""
    return dict(cli.commands.commands[command].make_context(command, list(words)).params)


def test_the_example_s_commands_are_ours() -> None:
    """Each is parsed as it is run; what one writes the next reads, below the folders that are kept."""
    given: dict[str, list[dict[str, Any]]] = {}
    for line in steps():
        words = [word.replace("*.json", "1.json") for word in shlex.split(line.removeprefix("head="))]
        if words[0] == "./pp3_locked.sh":
            assert words[1] == "--qualify"
            words = ["pp3", *(word.removeprefix("--") for word in words[1:2]), *words[2:]]
        if Path(words[0]).name == "pp3":
            given.setdefault(words[1], []).append(parsed(words[1], words[2:]))
        else:
            assert words[0] in ("make", "test") or words[0].startswith("$(awk"), line
    first, again = given["qualify"]
    assert (first["require_gpu"], first["resume"], again["resume"]) == (True, False, True)
    assert first["folder"] == again["folder"] == Path("/w/nightly/pieces")
    assert first["out"] == again["out"] == Path("/w/nightly/receipt")
    [verify], [compare] = given["verify"], given["compare"]
    assert verify["receipt"] == first["out"] / "1.json"
    assert (verify["source"], verify["require_verdict"]) == (Path("."), "PASS")
    assert (compare["old"], compare["new"]) == (Path("receipts/$head"), first["out"] / "1.json")
    for where in (first, again):
        Where(**{name: where[name] for name in ("folder", "resume", "shard", "gpus", "dask", "stall_timeout")}).check()


def test_the_example_s_steps_go_on_as_it_says() -> None:
    """Its target of make is there; it may read and no more; after a failure the rest is still done."""
    workflow = yaml.safe_load(NIGHTLY)
    [job] = workflow["jobs"].values()
    run, again = (step for step in job["steps"] if "pp3_locked.sh" in step.get("run", ""))
    assert workflow["permissions"] == {"contents": "read"}
    assert run["continue-on-error"] is True
    assert f"steps.{run['id']}.outcome == 'failure'" in again["if"]
    assert "hashFiles('nightly/pieces/campaign.json') != ''" in again["if"]
    assert [step["if"] for step in job["steps"][-3:]] == ["always()"] * 3
    assert job["steps"][-1]["with"]["path"].split() == [
        "nightly/receipt",
        "nightly/pieces/events.jsonl",
        "nightly/pieces/status",
    ]
    for line in (line for line in steps() if line.startswith("make ")):
        assert re.search(rf"^{re.escape(line.split()[1])}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


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
