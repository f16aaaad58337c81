"""Comparison: equal receipts are equal, other seeds are no evidence, and everything that is worse is named."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_receipts import compared, resealed, small, wrong_replacements

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.regression.checks import Change, check_rows
from pp3.harness.regression.compare import Mark
from pp3.harness.regression.differences import Topic
from pp3.harness.regression.homogeneity import two_sample
from pp3.harness.regression.integers import first_mismatch, of_predicate

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """A receipt of counter 1."""
    return receipt_of(small(), folder / "old", 1)


@pytest.fixture(scope="module")
def broken(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """The same plan under a sampler that takes a third of its replacements from the target instead of the residual."""
    with wrong_replacements():
        return receipt_of(small(), folder / "broken", 2)


def move_one(statement: Statement) -> None:
    """One event of a pair cell's fullest outcome to its next: no sum changes."""
    cells = statement["predicate"]["cells"]
    counts = next(cell["counts"] for cell in cells if cell["id"].startswith("invalidated/depth-4/proposal"))
    first, second = sorted(range(len(counts) - 1), key=lambda atom: -counts[atom])[:2]
    counts[first] -= 1
    counts[second] += 1


@pytest.mark.parametrize(
    ("old", "new", "df"),
    [
        ([], [], 0),
        ([0], [0], 0),
        ([50, 0], [70, 0], 0),  # one nonempty outcome
        ([30, 30], [0, 0], 0),  # an empty sample
        ([10, 10], [10, 10], 0),  # no two groups expect 20 in either sample
        ([30, 30], [30, 30], 1),
        ([30, 30, 0], [30, 30, 0], 1),  # what neither met has no degree of freedom
        ([30, 30, 3, 3], [30, 30, 3, 3], 1),  # rare ones join another
        ([500, 500, 500], [30, 30, 30], 2),
    ],
    ids=str,
)
def test_degrees_of_freedom_are_nonempty_groups_less_one(old: list[int], new: list[int], df: int) -> None:
    found = two_sample(old, new)
    assert found.df == df
    if not df:
        assert found.p == 1


# Receipts.


def test_a_receipt_equals_itself(old: Path) -> None:
    found = compared(old, old)
    assert found.exit is Exit.OK
    assert found.same_seed
    assert found.differences == []
    assert {row.mark for row in found.cells} == {Mark.EQUAL}
    assert {row.change for row in found.checks} == {Change.SAME}
    assert found.not_timing == ""
    assert {(row.ratio, row.mark) for row in found.timings} == {(1.0, "~")}
    assert "so is every count" in found.sentence


def test_another_seed_is_no_evidence(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    found = compared(old, receipt_of(small(), folder / "seed", 5))
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert not found.same_seed
    assert [(row.topic, row.name, row.old, row.new) for row in found.differences] == [(Topic.SEED, "counter", "1", "5")]
    assert {row.mark for row in found.cells} <= {Mark.SAME, Mark.EQUAL}
    assert min(row.holm for row in found.cells if row.df) > 1e-5


def test_the_first_cell_that_differs_under_one_seed_is_named(old: Path, folder: Path) -> None:
    """One event in another outcome: nothing a test sees, and not the same run."""
    found = compared(old, resealed(old, move_one, folder / "moved"))
    assert found.exit is Exit.NEGATIVE
    assert found.mismatch is not None
    assert found.mismatch.cell == "invalidated/depth-4/proposal/position-0/context-0"
    assert (found.mismatch.batch, found.mismatch.what) == (1, "counts")
    assert found.sentence.startswith("REGRESSION: plan and seed are the same, the counts are not: invalidated/depth-4")
    assert Mark.DIFFERS not in {row.mark for row in found.cells}


@pytest.mark.parametrize("field", ["first", "strays", "breaches", "paired"])
def test_every_integer_that_a_seed_fixes_is_compared(old: Path, field: str) -> None:
    before = canonical.decode(old.read_bytes())["predicate"]
    after = copy.deepcopy(before)
    if field == "first":
        after["cells"][2]["first"][0] += 1
    elif field == "strays":
        after["strays"].append({"batch": 1, "cell": after["cells"][0]["id"], "count": 2, "outcome": 5})
    elif field == "breaches":
        after["breaches"]["failed"] = 3
    else:
        after["paired"][1]["mismatches"] = 1
    assert first_mismatch(of_predicate(before), of_predicate(copy.deepcopy(before)), {}) is None
    found = first_mismatch(of_predicate(before), of_predicate(after), {})
    assert found is not None
    named = {"first": after["cells"][2]["id"], "strays": after["cells"][0]["id"], "breaches": "failed"}
    assert found.cell == named.get(field, "invalidated/depth-4/pairs-0")


def test_a_broken_sampler_is_a_regression(old: Path, broken: Path) -> None:
    """The verdict, the checks and the raw counts say so, each by itself."""
    found = compared(old, broken)
    assert found.exit is Exit.NEGATIVE
    assert found.verdicts == ("PASS", "FAIL")
    assert found.regressions[0] == "the verdict was PASS and is FAIL"
    worse = {row.id for row in found.checks if row.change is Change.WORSE}
    assert "invalidated/depth-4/residual/position-0" in worse
    assert any(row.mark is Mark.DIFFERS and "/residual/" in row.id for row in found.cells)


def test_a_mended_sampler_is_none(old: Path, broken: Path) -> None:
    """The other way round the same cells differ, and their checks pass now."""
    found = compared(broken, old)
    assert any(row.mark is Mark.DIFFERS for row in found.cells)
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert {row.change for row in found.checks} == {Change.SAME, Change.BETTER}


def test_a_mended_sampler_gives_other_counts_under_one_seed(
    receipt_of: Callable[..., Path], broken: Path, folder: Path
) -> None:
    """The first that differs is named all the same; the other way round it is a regression."""
    right = receipt_of(small(), folder / "right", 2)
    found = compared(broken, right)
    assert found.same_seed
    assert found.mismatch is not None
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert "every count" not in found.sentence
    assert compared(right, broken).regressions[0].startswith("plan and seed are the same, the counts are not")


def test_what_vanished_is_a_regression(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    """A target, and a size of launches; what was added is none."""
    less = receipt_of(small(targets=["invalidated"], batch_sizes=[3]), folder / "less", 1)
    found = compared(old, less)
    assert found.exit is Exit.NEGATIVE
    assert any(row.change is Change.VANISHED and row.id.startswith("disjoint/") for row in found.checks)
    gone = [row for row in found.cells if row.mark is Mark.VANISHED]
    assert {row.batch for row in gone if row.id.startswith("invalidated/")} == {1}
    more = compared(less, old)
    assert [row.mark for row in more.cells].count(Mark.ADDED) == len(gone)
    assert not any("not in NEW" in text for text in more.regressions)


def test_less_power_is_weaker(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    """15,000 requests of 20,000: still a PASS, of larger effects; the other way round nothing is weaker."""
    fewer = receipt_of(small(requests=15_000), folder / "fewer", 1)
    found = compared(old, fewer)
    assert found.verdicts == ("PASS", "PASS")
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert found.sentence.startswith("WEAKER: no regression found")
    token = next(row for row in found.checks if row.id == "disjoint/depth-4/token/position-0")
    assert token.change is Change.WEAKER
    assert float(token.sees_new) > float(token.sees_old) * 1.1
    assert compared(fewer, old).weaker == []


def test_sizes_are_compared_at_one_power(old: Path) -> None:
    """A plan that asks for less power sees smaller effects by its own count; at OLD's power they are the same."""
    before = canonical.decode(old.read_bytes())["predicate"]
    after = copy.deepcopy(before)
    after["plan"]["power"] = "0.5"
    for test in after["tests"]:
        test["detectable"] = "1e-9"
    assert {row.change for row in check_rows(before, after, [])} == {Change.SAME}


# The command.


def test_what_is_printed_fits_a_terminal(broken: Path, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The conclusion in one line, for scripts; all else in 80 columns, checks that became worse by name."""
    assert cli.run(["compare", str(old), str(broken)]) == Exit.NEGATIVE
    conclusion, *lines = capsys.readouterr().out.splitlines()
    assert conclusion.startswith("REGRESSION: the verdict was PASS and is FAIL (and ")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    assert any(line.startswith("correctness  comparable") for line in lines)
    assert any(re.search(r"^\w\S+/\S+ +worse +pass +fail ", line) for line in lines)


def test_json_says_the_same(old: Path, broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["compare", str(old), str(broken), "--json"]) == Exit.NEGATIVE
    found = json.loads(capsys.readouterr().out)
    assert found["conclusion"] == "regression"
    assert found["verdicts"] == {"old": "PASS", "new": "FAIL"}
    assert found["comparable"]["correctness"] is True
    assert found["comparable"]["timing"] is True
    assert {row["mark"] for row in found["timings"]} <= {"faster", "~", "slower"}
    assert len(found["timings"]) == 6
    assert {"=", "~", "!"} >= {row["mark"] for row in found["cells"]}
    assert found["verified"] == {"old": True, "new": True}


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("missing", Exit.USAGE, "give the path of a receipt"),
        ("no receipt", Exit.NEGATIVE, "not an in-toto statement"),
        ("no json", Exit.NEGATIVE, ""),
        ("altered", Exit.NEGATIVE, "NOT VERIFIED at name"),
        ("other kind", Exit.INCONCLUSIVE, "give two of one kind"),
        ("alpha", Exit.USAGE, "between 0 and 1"),
    ],
)
def test_bad_input_is_named(
    what: str, code: Exit, said: str, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / old.name
    if what == "no receipt":
        other.write_text("{}", "utf-8")
    elif what == "no json":
        other.write_text("receipt", "utf-8")
    elif what == "altered":
        other.write_bytes(old.read_bytes().replace(b'"counter":1', b'"counter":2'))
    elif what == "other kind":
        evidence = Path(__file__).resolve().parents[1] / "receipts" / "evidence" / "oracle"
        other = max(evidence.glob("*.json"))
    elif what == "alpha":
        other = old
    arguments = ["--alpha", "2"] if what == "alpha" else []
    assert cli.run(["compare", str(old), str(other), *arguments]) == code
    assert said in capsys.readouterr().err
