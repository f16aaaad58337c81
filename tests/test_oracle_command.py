"""`pp3 oracle`: a receipt that verifies, how far each policy is, and a wrong device that is still written."""

import json
import re
from pathlib import Path

import pytest
from wrong_devices import OneTicketMoved

from pp3.harness import backends, canonical, cli
from pp3.harness.backends import Arithmetic, Backend
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify
from pp3.targets.policies import POLICIES


def test_a_run_writes_a_receipt_that_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout, a receipt and a page; the tables are those of the reference."""
    assert cli.run(["oracle", "--device", "cpu", "--out", str(tmp_path / "out"), "--json"]) == Exit.OK
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)
    assert set(result) == {"verdict", "sentence", "receipt", "report", "seconds"}
    written = Path(result["receipt"])
    found = verify(written, written.read_bytes())
    assert (found.ok, found.verdict, found.current) == (True, "PASS", "unchecked")
    assert [step.name for step in found.steps] == [
        "bytes",
        "name",
        "shape",
        "kernels",
        "recompute policies",
        "verdict",
        "non-claims",
        "ledger",
        "signature",
        "sources",
    ]
    assert Path(result["report"]).is_file()
    predicate = canonical.decode(written.read_bytes())["predicate"]
    assert (predicate["kind"], predicate["sampler"]["backend"]) == ("oracle", "reference")
    assert all(row["passed"] == row["total"] > 0 for row in predicate["kernels"]["conform"])


def test_a_run_says_how_far_each_policy_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["oracle", "--device", "cpu", "--out", str(tmp_path / "out")]) == Exit.OK
    _, table, written = capsys.readouterr().out.split("\n\n")
    *_, head = (line for line in table.splitlines() if line.startswith("target"))
    assert re.split("  +", head) == ["target", "as emitted", "largest remainder"]
    rows = [line.split() for line in table.split(head)[1].splitlines()[1:]]
    assert [name for name, *_ in rows] == list(POLICIES)
    assert all(float(emitted) > float(largest) > 0 for _, emitted, largest in rows)
    assert [line.split()[0] for line in written.splitlines()] == ["receipt", "page", "check", "took"]


def test_a_wrong_device_is_exit_1_and_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FAIL is a value: its receipt verifies."""
    start = backends.start
    used: list[Arithmetic] = []

    def faulty(backend: Backend) -> Arithmetic:
        used.append(OneTicketMoved() if not used else start(backend))  # known answers come later
        return used[-1]

    monkeypatch.setattr(backends, "start", faulty)
    assert cli.run(["oracle", "--device", "cpu", "--out", str(tmp_path / "out"), "--json"]) == Exit.NEGATIVE
    written = Path(json.loads(capsys.readouterr().out)["receipt"])
    found = verify(written, written.read_bytes())
    assert (found.ok, found.verdict) == (True, "FAIL")
