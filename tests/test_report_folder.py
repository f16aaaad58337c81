"""The history and the index of a folder of receipts: which pages they link, and what is superseded or left out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tags import addresses, changed, measured_at, tags
from two_receipts import smallest, wrong_replacements

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.ledger import Record, Superseding, append
from pp3.harness.report import entries, history

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written, below a folder that a ledger lies in."""
    return tmp_path_factory.mktemp("several") / "receipts" / "evidence" / "qualify"


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """A receipt that passes."""
    return receipt_of(smallest(), shelf, 1)


@pytest.fixture(scope="module")
def broken(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """The same plan under a sampler that takes a third of its replacements from the target instead of the residual."""
    with wrong_replacements():
        return receipt_of(smallest(), shelf, 2)


def test_superseded_ones_are_hollow_by_the_ledger(old: Path, broken: Path, tmp_path: Path) -> None:
    """And a line is broken where the environment changes."""
    folder = tmp_path / "receipts" / "evidence" / "qualify"
    first = changed(old, folder, measured_at("2026-01-01T00:00:00Z"))
    last = changed(broken, folder, measured_at("2026-01-03T00:00:00Z"))

    def of_another(statement: Statement) -> None:
        measured_at("2026-01-02T00:00:00Z")(statement)
        statement["predicate"]["environment"]["versions"]["numpy"] = "1.0"

    middle = changed(old, folder, of_another)
    digests = [path.stem.rpartition("-")[2] for path in (first, last)]
    records = [
        Record(sha256=digest, name=f"evidence/qualify/{path.name}", verdict="PASS")
        for digest, path in zip(digests, (first, last), strict=True)
    ]
    alone = history.page(entries.entries_of([first, middle, last]), {})
    assert "hollow: superseded" not in alone
    append(tmp_path / "receipts" / "LEDGER", records, [Superseding(sha256=digests[0], by=digests[1], reason="a test")])
    rows = entries.entries_of([last, middle, first])
    assert [row.path for row in rows] == [first, middle, last]
    assert [row.superseded for row in rows] == [digests[1], "", ""]
    page = history.page(rows, {})
    assert f"superseded by {digests[1][:12]}" in page
    assert "hollow: superseded" in page
    assert page.count("<small>the environment changes") == 2
    assert "Lines are broken where the environment changes: 2 times." in page
    assert "the last that stands, of 2026-01-03T00:00:00Z, says FAIL" in page


def test_an_index_links_only_pages_that_lie_below_it(old: Path, broken: Path, tmp_path: Path) -> None:
    """By an address relative to the index; none of a page that is not there, or not below."""
    folder = tmp_path / "with space"
    folder.mkdir()
    for path in (old, broken):
        shutil.copy(path, folder)
    here = folder / old.name
    here.with_suffix(".html").write_text("page", "utf-8")
    assert cli.run(["report", str(folder)]) == Exit.OK
    page = (folder / "index.html").read_text("utf-8")
    assert addresses(page) == [here.with_suffix(".html").name]
    assert cli.run(["report", str(folder), "--out", str(tmp_path / "above.html")]) == Exit.OK
    assert addresses((tmp_path / "above.html").read_text("utf-8")) == [f"with%20space/{here.stem}.html"]
    (tmp_path / "other").mkdir()
    assert cli.run(["report", str(folder), "--out", str(tmp_path / "other" / "aside.html")]) == Exit.OK
    assert addresses((tmp_path / "other" / "aside.html").read_text("utf-8")) == []
    assert cli.run(["report", str(folder)]) == Exit.USAGE  # nothing is overwritten


def test_a_history_of_a_folder_takes_a_copy_once(
    old: Path, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which it left out, there and on the page."""
    for path in (old, broken):
        shutil.copy(path, tmp_path)
    (tmp_path / "again").mkdir()
    shutil.copy(old, tmp_path / "again")
    assert cli.run(["report", "--history", str(tmp_path)]) == Exit.OK
    again = tmp_path / "again" / old.name
    said = f"pp3: left out: {again}: it is a copy of {tmp_path / old.name}, which is taken once\n"
    assert capsys.readouterr().err == said
    text = tags((tmp_path / "history.html").read_text("utf-8")).text
    assert f"again/{old.name}" in text
    assert f"it is a copy of {old.name}, which is taken once" in text


def test_a_folder_of_other_files_is_indexed_with_what_was_left_out(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(old, tmp_path)
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}), "utf-8")
    assert cli.run(["report", str(tmp_path)]) == Exit.OK
    assert "left out" in capsys.readouterr().err
    assert "other.json" in tags((tmp_path / "index.html").read_text("utf-8")).text
