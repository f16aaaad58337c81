"""`pp3 exhaustive`: every enumeration once and in order, a line for each, and a receipt that verifies."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from exact_owed import CLAIMS, EXPECTED, RIGHT, Rows, right

from pp3.harness import backends, canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify
from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, suite, tree
from pp3.harness.exact.enumeration import Enumeration


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be observed, computed once for all tests of this file."""
    monkeypatch.setattr(suite, "expected", EXPECTED)
    monkeypatch.setattr(suite, "right", RIGHT)


def enumeration(which: str) -> Enumeration:
    """A right one, without running it."""
    return RIGHT(which, False)


@pytest.mark.parametrize("device", [Backend.REFERENCE, Backend.CUDA])
def test_every_enumeration_runs_once_in_order(device: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the backend that was asked for."""
    asked: list[Any] = []

    def plant(module: Any, function: str, which: str) -> None:
        def observe(*given: Any) -> Enumeration:
            asked.append((function, *given))
            return enumeration(which)

        monkeypatch.setattr(module, function, observe)

    monkeypatch.setattr(backends, "start", lambda backend: f"arithmetic of {backend}")
    place = "cuda" if device is Backend.CUDA else "reference"
    plant(draws, f"observe_{place}", "draws")
    plant(edges, "observe", "edges")
    plant(tree, "observe", "tree")
    plant(exponential, f"observe_{place}", "exponential")
    plant(counters, "observe", "counters")
    plant(invariance, "observe", "invariance")
    plant(pairs, "observe", "pairs")
    said: list[tuple[str, int, int]] = []
    found = suite.observe(device, lambda *progress: said.append(progress))
    assert [one.id for one in found] == list(suite.IDS)
    assert said == [("enumerations", done, len(suite.IDS)) for done in range(len(suite.IDS) + 1)]
    assert asked == [
        (f"observe_{place}", suite.supports(device is Backend.CUDA)),
        ("observe", f"arithmetic of {device}"),
        ("observe", f"arithmetic of {device}"),
        (f"observe_{place}",),
        ("observe",),
        ("observe", device),
        ("observe", f"arithmetic of {device}", device is Backend.CUDA),
    ]


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """A command whose enumerations were made by hand; change them before it runs."""
    rows = right()
    found = [
        Enumeration(id=row["id"], claim=row["claim"], compared=row["compared"], values=row["values"]) for row in rows
    ]
    monkeypatch.setattr(suite, "observe", lambda device, progress: found)
    return rows


def exhaustive(out: Path, *more: str) -> int:
    """The command on a CPU; its exit code."""
    return cli.run(["exhaustive", "--device", "cpu", "--out", str(out), *more])


@pytest.mark.usefixtures("by_hand")
def test_a_run_writes_a_receipt_that_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout, a receipt and a page."""
    assert exhaustive(tmp_path / "out", "--json") == Exit.OK
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)
    assert set(result) == {"verdict", "sentence", "receipt", "report", "seconds"}
    assert result["verdict"] == "PASS"
    written = Path(result["receipt"])
    found = verify(written, written.read_bytes())
    assert (found.ok, found.verdict) == (True, "PASS")
    assert Path(result["report"]).is_file()


@pytest.mark.usefixtures("by_hand")
def test_a_run_says_a_line_for_each_enumeration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exhaustive(tmp_path / "out") == Exit.OK
    said, table, written, *_ = capsys.readouterr().out.split("\n\n")
    assert said.startswith("PASS: the NumPy reference of ")
    head, *lines = table.splitlines()
    assert head.split() == ["enumeration", "compared", "claim"]
    starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
    rows = [" ".join(" ".join(lines[at:end]).split()) for at, end in pairwise([*starts, len(lines)])]
    assert [row.split()[0] for row in rows] == list(suite.IDS)
    assert all(row.endswith(CLAIMS[row.split()[0]]) for row in rows)
    assert [line.split()[0] for line in written.splitlines()] == ["receipt", "page", "check", "took"]


def test_a_wrong_integer_is_exit_1_and_still_written(
    by_hand: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FAIL is a value: its receipt verifies."""
    by_hand[0]["values"]["flat"][0] -= 1
    assert exhaustive(tmp_path / "out", "--json") == Exit.NEGATIVE
    written = Path(json.loads(capsys.readouterr().out)["receipt"])
    assert canonical.decode(written.read_bytes())["predicate"]["verdict"] == "FAIL"
    assert cli.run(["verify", str(written)]) == Exit.OK
    assert cli.run(["verify", str(written), "--require-verdict", "PASS"]) == Exit.NEGATIVE


@pytest.mark.usefixtures("by_hand")
def test_a_used_folder_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    assert exhaustive(tmp_path) == Exit.USAGE
