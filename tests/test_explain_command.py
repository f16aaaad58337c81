"""`pp3 explain`: ten lines an entry, near names for an unknown one, and the figures of a receipt."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.explain import table

ROOT = Path(__file__).resolve().parents[1]


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of pp3 explain."""
    code = cli.run(["explain", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("entry", table.ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_takes_ten_lines(
    entry: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a wide terminal; none at all is folded at 400 columns."""
    monkeypatch.setattr("pp3.harness.terminal.WIDEST", 400)
    monkeypatch.setenv("COLUMNS", "400")
    code, out, err = explained(capsys, entry.name)
    assert (code, err, len(out.splitlines())) == (0, "", 10)
    assert out.startswith(f"{entry.name}: {entry.part.value}; more in {entry.page}")


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = explained(capsys)
    assert code == 0
    assert [entry.name for entry in table.ENTRIES if not re.search(f"^{re.escape(entry.name)} ", out, re.M)] == []
    code, out, _ = explained(capsys, "--json")
    assert [one["name"] for one in json.loads(out)] == [entry.name for entry in table.ENTRIES]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("near/depth-4/token/position-0", "token"),
        ("near/depth-4/match/requests-32", "match"),
        ("(near/depth-4/pair/requests-1)", "pair"),
        ("stream/place-3", "engine:place"),
        ("company/warm/rank", "engine:rank"),
        ("greedy/ties", "engine:argmax"),
        ("replay/batch", "engine:replay"),
        ("replay/slot", "engine:replay"),
        ("draws", "exact:draws"),
        ("exact:pairs", "pairs"),
        ("propose.json", "answers"),
        ("verify/carrier/vocab-33/depth-4", "bits"),
        ("near/illegal-token", "breach"),
        ("selector/vocab-163840/depth-5/batch-1/random/hot", "probe:selector"),
        ("fit:", "fit"),
    ],
)
def test_a_printed_name_is_found(asked: str, name: str) -> None:
    found = table.find(asked)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("tokn", "token"),
        ("lenght-pair", "length-pair"),
        ("near/depth-4/tokn/position-0", ""),
        ("zzz", "lists all"),
        ("whole", "docs/reference/targets.md"),
        ("k-tie-second", "it is a target"),
    ],
)
def test_an_unknown_name_exits_2_with_near_ones(asked: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explained(capsys, asked)
    assert (code, out) == (2, "")
    assert "no such check" in err
    assert hint in err


def evidence(kind: str) -> str:
    """A committed receipt of a kind."""
    return str(max((ROOT / "receipts" / "evidence" / kind).glob("*.json")))


def test_a_receipt_adds_the_figures_of_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are in it, after it has verified."""
    path = evidence("engine")
    test = json.loads(Path(path).read_bytes())["predicate"]["tests"][0]
    code, out, err = explained(capsys, test["id"], "--receipt", path)
    if code == 3:  # sources that a receipt binds have changed since, and its statistics do not follow from these
        assert "does not verify here" in err
        return
    assert code == 0, err
    for figure in ("p", "alpha", "detectable", "excluded", "g"):
        assert test[figure] in out
    assert f"{test['events']:,} events" in out
    code, out, _ = explained(capsys, "engine:after", "--receipt", path)
    assert code == 0
    assert re.search(r"end/after +0 of [\d,]+ are wrong", out)


def test_a_receipt_without_the_check_says_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = explained(capsys, "length-pair", "--receipt", evidence("engine"))
    assert code in (2, 3)
    assert "has no check length-pair; it has engine:token" in err or "does not verify here" in err


def test_an_altered_receipt_adds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(evidence("engine"))
    copy = tmp_path / source.name
    shutil.copy(source, copy)
    copy.write_bytes(copy.read_bytes().replace(b'"required":true', b'"required":false', 1))
    code, out, err = explained(capsys, "engine:rank", "--receipt", str(copy))
    assert (code, out) == (1, "")
    assert "pp3: error" in err


def test_it_needs_a_check_for_a_receipt(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, "--receipt", evidence("engine"))[0] == 2


def test_it_is_quick_and_loads_no_arithmetic() -> None:
    """A third of a second of one processor, on a machine that is busy with other tests too."""
    program = """
import sys, time
start = time.process_time()
from pp3.harness.cli import run
code = run(["explain", "fit"])
slow = [name for name in ("numpy", "scipy", "torch", "triton") if name in sys.modules]
print(code, slow, time.process_time() - start, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    code, rest = done.stderr.split(" ", 1)
    assert (code, rest.split("]")[0]) == ("0", "[")
    assert float(rest.split("]")[1]) < 0.3
