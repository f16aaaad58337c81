"""History: one row a receipt, oldest first, with its state against this tree; what is no receipt is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.campaign import of_document
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.regression import history

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"targets": ["disjoint"], "paired": 64, "batch_sizes": [1], "depths": [4]}
Statement = dict[str, Any]


@pytest.fixture(scope="module")
def made(receipt_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a small campaign."""
    return receipt_of(of_document(SMALL | {"requests": 20_000}, "a test"), tmp_path_factory.mktemp("made"), 3)


def at(made: Path, folder: Path, moment: str, change: Callable[[Statement], object] = lambda statement: None) -> Path:
    """The receipt as if it had been measured at another moment."""
    statement: Statement = canonical.decode(made.read_bytes())
    statement["predicate"]["run"]["startedUtc"] = moment
    change(statement)
    return receipt.write(statement, folder)


def age(statement: Statement) -> None:
    """Made by other sources than these."""
    statement["subject"][0]["digest"]["sha256"] = "0" * 64


def of_gpu(statement: Statement) -> None:
    """Measured on a GPU, by other sources."""
    age(statement)
    statement["predicate"]["kernels"]["identity"]["gpu"] = "NVIDIA H200"


def test_csv_reads_back_as_the_frame(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every column, typed, one row a receipt."""
    import io

    import pandas

    folder = tmp_path / "many"
    at(made, folder, "2026-11-02T00:00:00Z")
    at(made, folder, "2026-11-01T00:00:00Z", age)
    assert cli.run(["history", str(folder), "--csv"]) == Exit.OK
    found = pandas.read_csv(io.StringIO(capsys.readouterr().out), parse_dates=["measured"], dtype={"version": str})
    rows, _ = history.history(folder)
    pandas.testing.assert_frame_equal(found, history.frame(rows), check_dtype=False)
    assert list(found["requests"]) == [20_000, 20_000]
    assert found["measured"].is_monotonic_increasing
    assert cli.run(["history", str(folder), "--csv", "--json"]) == Exit.USAGE
    assert "give one" in capsys.readouterr().err


def test_a_row_says_what_the_receipt_says(made: Path) -> None:
    [row], left = history.history(made.parent)
    p = canonical.decode(made.read_bytes())["predicate"]
    assert left == {}
    assert (row.kind, row.verdict, row.sampler, row.version) == (
        "qualify",
        "PASS",
        "pp3-top32",
        p["sampler"]["version"],
    )
    assert (row.device, row.requests, row.resolution) == ("a CPU", 20_000, p["sees"]["token"])
    assert (row.state, row.receipt) == ("current", made.name)
    sizes = {
        t["id"]: float(t["detectable"]) for t in p["tests"] if float(t["alpha"]) and t["unit"] == "total variation"
    }
    name, _, size = row.weakest.rpartition(" ")
    assert sizes[name] == max(sizes.values()) == pytest.approx(float(size), rel=5e-3)  # written to three digits


def test_rows_go_by_time_and_a_later_one_supersedes(made: Path, tmp_path: Path) -> None:
    """Only what is stale is superseded, and only by one of its kind, sampler and device."""
    at(made, tmp_path / "b", "2026-01-02T00:00:00Z", age)
    at(made, tmp_path / "a", "2026-01-03T00:00:00Z", of_gpu)
    at(made, tmp_path, "2026-01-01T00:00:00Z")
    at(made, tmp_path, "2026-01-04T00:00:00Z")
    rows, _ = history.history(tmp_path)
    assert [row.measured[:10] for row in rows] == [f"2026-01-0{day}" for day in range(1, 5)]
    assert [row.state for row in rows] == ["current", "superseded", "stale: 1 sources differ", "current"]
    assert [row.receipt.partition("/")[0] for row in rows][1:3] == ["b", "a"]


def test_an_altered_receipt_supersedes_nothing(made: Path, tmp_path: Path) -> None:
    at(made, tmp_path, "2026-01-01T00:00:00Z", age)
    later = at(made, tmp_path, "2026-01-02T00:00:00Z")
    content = later.read_bytes().replace(b'"verdict":"PASS"', b'"verdict":"FAIL"')
    later.chmod(0o644)
    later.write_bytes(content)
    assert [row.state for row in history.history(tmp_path)[0]] == ["stale: 1 sources differ", "altered"]


def test_a_replay_is_no_new_evidence(made: Path, tmp_path: Path) -> None:
    """It is marked, and takes the place of nothing."""

    def again(statement: Statement) -> None:
        statement["predicate"]["seed"]["chosen"] = "replay"

    at(made, tmp_path, "2026-01-01T00:00:00Z", age)
    at(made, tmp_path, "2026-01-02T00:00:00Z", again)
    assert [row.state for row in history.history(tmp_path)[0]] == ["stale: 1 sources differ", "current, replay"]


def test_the_committed_evidence_is_tabled(capsys: pytest.CaptureFixture[str]) -> None:
    """Every receipt of every kind and of older versions, in order."""
    folder = ROOT / "receipts" / "evidence"
    assert cli.run(["history", str(folder), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["leftOut"] == {}
    assert sorted(row["receipt"] for row in found["receipts"]) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*.json")
    )
    moments = [row["measured"] for row in found["receipts"]]
    assert moments == sorted(moments)
    assert all(row["verdict"] and row["sampler"] and row["state"] != "altered" for row in found["receipts"])
    assert all(row["requests"] for row in found["receipts"] if row["kind"] in ("qualify", "survey"))


def test_what_is_no_receipt_is_named(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at(made, tmp_path, "2026-01-01T00:00:00Z")
    (tmp_path / "other.json").write_text('{"a":1}', "utf-8")
    assert cli.run(["history", str(tmp_path)]) == Exit.OK
    said = capsys.readouterr()
    assert f"left out: {tmp_path / 'other.json'}: not an in-toto statement" in said.err
    assert said.out.count("\n") == 2


def test_a_copy_is_taken_once(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under its own name where there is such a file, and the others are named; another run is no copy."""
    one = at(made, tmp_path / "b", "2026-01-01T00:00:00Z")
    at(made, tmp_path / "b", "2026-01-02T00:00:00Z")
    copied = [tmp_path / "a" / "renamed.json", tmp_path / "c" / one.name]
    for path in copied:
        path.parent.mkdir()
        path.write_bytes(one.read_bytes())
    assert cli.run(["history", str(tmp_path), "--json"]) == Exit.OK
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert next((row["receipt"], row["state"]) for row in found["receipts"]) == (f"b/{one.name}", "current")
    assert len(found["receipts"]) == 2
    why = f"it is a copy of {one}, which is taken once"
    assert found["leftOut"] == {str(path): why for path in copied}
    assert [f"left out: {path}: {why}" in said.err for path in copied] == [True, True]
    one.unlink()
    assert next(row.receipt for row in history.history(tmp_path)[0]) == f"c/{one.name}"


def test_the_table_fits_a_terminal(made: Path) -> None:
    """A row a receipt in 80 columns, whatever it is called; what is left out is in --json."""
    [row], _ = history.history(made.parent)
    head, line = history.table([row])
    assert head.split() == ["measured", "kind", "verdict", "sampler", "device", "sees", "pp3"]
    moment = row.measured[:10], row.measured[11:16]
    seen = f"{float(row.resolution):.3g}"
    assert line.split() == [*moment, "qualify", "PASS", "pp3-top32", row.version, "a", "CPU", seen, "current"]
    long = replace(row, sampler="a-very-long-name-of-a-sampler" * 3, device="NVIDIA H200", verdict="INCONCLUSIVE")
    lines = history.table([replace(long, state="stale: 12 sources differ, replay")])
    assert max(map(len, lines)) <= 80
    assert len(lines) > 2


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("missing", Exit.USAGE, "no such folder"), ("", Exit.NOTHING_RAN, "no receipt lies under")],
    ids=["missing", "empty"],
)
def test_bad_input_is_named(
    name: str, code: Exit, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["history", str(tmp_path / name)]) == code
    assert said in capsys.readouterr().err
