"""`pp3 verify`: whether a receipt is of the given tree, its exit codes, and its one object."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from altered import sealed
from forged import STEPS

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
Statement = dict[str, Any]
Change = Callable[[Statement], object]


@pytest.fixture
def statement(real_receipt: Path) -> Statement:
    """The statement of the session's real receipt, a fresh copy."""
    return dict(canonical.decode(real_receipt.read_bytes()))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package with its links dereferenced."""
    shutil.copytree(ROOT / "pp3", tmp_path / "copy" / "pp3", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


def run_verify(*arguments: str | Path) -> int:
    """The command; its exit code."""
    return cli.run(["verify", *map(str, arguments)])


def test_the_tree_it_was_run_from_is_current(real_receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, current=yes."""
    assert run_verify(real_receipt, "--source", ROOT) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(" current=yes")
    assert "ok   sources: all " in lines[-2]


def test_a_plain_copy_is_current(real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links or not, the names are import-relative."""
    assert run_verify(real_receipt, "--source", copied) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1].endswith(" current=yes")


def test_an_edited_tree_is_not_current(real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bound file with one more line: verified all the same, exit 3, the file named."""
    with (copied / "pp3" / "kernels" / "verifier.py").open("a") as file:
        file.write("# edited\n")
    assert run_verify(real_receipt, "--source", copied) == Exit.INCONCLUSIVE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("VERIFIED verdict=PASS ")
    assert lines[-1].endswith(" current=no")
    assert " skip sources: stale: 1 of " in lines[-2]
    assert "pp3/kernels/verifier.py" in lines[-2]


def test_a_tree_without_a_bound_file_is_not_current(
    real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the file named."""
    (copied / "pp3" / "targets" / "toy.py").unlink()
    assert run_verify(real_receipt, "--source", copied) == Exit.INCONCLUSIVE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(" current=no")
    assert "pp3/targets/toy.py" in lines[-2]


def test_an_empty_tree_is_not_current(real_receipt: Path, tmp_path: Path) -> None:
    """Every bound file is missing."""
    assert run_verify(real_receipt, "--source", tmp_path) == Exit.INCONCLUSIVE


def test_a_tree_that_is_not_there_is_a_usage_error(
    real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, not a stale receipt."""
    assert run_verify(real_receipt, "--source", tmp_path / "nowhere") == Exit.USAGE
    assert "no such folder" in capsys.readouterr().err


BINDS_LESS: dict[str, Change] = {
    "nothing": lambda s: s.update(subject=[]),
    "all but one file": lambda s: s["subject"].pop(),
    "a file that is nowhere, without a digest": lambda s: s["subject"].append({"digest": {}, "name": "pp3/wish.py"}),
    "a file outside the package": lambda s: s["subject"].append(
        {"digest": {"sha256": "0" * 64}, "name": "wish.py"},
    ),
    "a file up the tree": lambda s: s["subject"].append(
        {"digest": {"sha256": "0" * 64}, "name": "pp3/../../wish.py"},
    ),
}


@pytest.mark.parametrize("change", BINDS_LESS.values(), ids=BINDS_LESS)
def test_a_receipt_that_binds_other_files_is_never_current(change: Change, statement: Statement) -> None:
    """Leaving out a file may not turn a no into a yes."""
    change(statement)
    assert sealed(statement, ROOT).current != "yes"


@pytest.mark.parametrize(
    ("wanted", "code"), [("PASS", Exit.OK), ("FAIL", Exit.NEGATIVE)], ids=["the verdict it has", "another"]
)
def test_a_verdict_may_be_required(wanted: str, code: Exit, real_receipt: Path) -> None:
    """Without it an authentic FAIL would be exit 0."""
    assert run_verify(real_receipt, "--require-verdict", wanted) == code


def test_json_is_one_object(real_receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what was verified, step by step."""
    assert run_verify(real_receipt, "--json", "--source", ROOT) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["verified"], found["verdict"], found["current"]) == (True, "PASS", "yes")
    assert (found["assurance"], found["sha256"]) == ("self-attested", real_receipt.stem.rpartition("-")[2])
    assert [step["name"] for step in found["steps"]] == STEPS
