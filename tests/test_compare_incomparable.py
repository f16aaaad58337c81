"""What cannot be compared, and where equal counts are promised."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_receipts import compared, small

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence.ledger import Record, Superseding, append
from pp3.harness.regression.checks import Change, exact_rows
from pp3.harness.regression.compare import Mark
from pp3.harness.regression.differences import Topic
from pp3.harness.regression.equality import why_not
from pp3.harness.regression.opened import open_receipt
from pp3.harness.samplers.contract import Description, Randomness
from pp3.harness.trial.plan import TrialSpec, make

Statement = dict[str, Any]
OWN = {"name": "own", "vocab": 64}
ROW = {"ids": [3, 7], "draft_ids": [3, 9], "draft_logits": [1.0, 0.5]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """A receipt of counter 1."""
    return receipt_of(small(), folder / "old", 1)


def test_another_law_is_incomparable(receipt_of: Callable[..., Path], folder: Path) -> None:
    """The target of one name has another law: its cells are not compared, those of the others are."""
    paths = []
    for weight in (1 << 23, 1 << 22):
        row = ROW | {"weights": [weight, (1 << 24) - weight]}
        own = small(targets=["disjoint", "own"], target=[OWN | {"rows": [row]}])
        paths.append(receipt_of(own, folder / str(weight), 1))
    found = compared(*paths)
    assert (found.exit, found.not_correctness) == (Exit.INCONCLUSIVE, "the law of own is another one")
    assert {row.mark for row in found.cells if row.id.startswith("own/")} == {Mark.OTHER_LAW}
    assert {row.mark for row in found.cells if row.id.startswith("disjoint/")} <= {Mark.SAME, Mark.EQUAL}


def test_no_target_in_common_is_incomparable(receipt_of: Callable[..., Path], folder: Path) -> None:
    one, other = (receipt_of(small(targets=[name]), folder / name, 1) for name in ("disjoint", "invalidated"))
    found = compared(one, other)
    assert found.exit is Exit.INCONCLUSIVE
    assert found.sentence == "INCOMPARABLE: no target in common: disjoint there, invalidated here"


def test_one_that_other_sources_made_is_incomparable(old: Path, folder: Path) -> None:
    """A plan as an older version wrote it: it may be authentic, and cannot be verified here."""

    def age(statement: Statement) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
        del statement["predicate"]["plan"]["detect"]

    statement = canonical.decode(old.read_bytes())
    age(statement)
    found = compared(receipt.write(statement, folder / "aged"), old)
    assert found.exit is Exit.INCONCLUSIVE
    assert found.not_correctness.startswith("OLD does not verify here: plan:")
    assert [row.name for row in found.differences if row.topic is Topic.SOURCES] == [statement["subject"][0]["name"]]


def test_exact_receipts_lose_nothing() -> None:
    """Enumerations that are gone are regressions, smaller ones are weaker; a survey's rows go by verdict."""

    def exact(**sizes: int) -> Statement:
        return {"kind": "exhaustive", "enumerations": [{"id": name, "compared": size} for name, size in sizes.items()]}

    rows = exact_rows(exact(draws=9, edges=5), exact(draws=8))
    assert [(row.id, row.change) for row in rows] == [("draws", Change.WEAKER), ("edges", Change.VANISHED)]

    def surveyed(**verdicts: str) -> Statement:
        return {"kind": "survey", "samplers": [{"name": name, "verdict": verdicts[name]} for name in verdicts]}

    rows = exact_rows(surveyed(a="PASS", b="FAIL", c="PASS"), surveyed(a="FAIL", b="PASS", d="PASS"))
    assert [row.change for row in rows] == [Change.WORSE, Change.BETTER, Change.VANISHED, Change.ADDED]


H200, XEON, EPYC = {"gpu": "NVIDIA H200"}, {"processor": "Xeon"}, {"processor": "EPYC"}


@pytest.mark.parametrize(
    ("randomness", "rows", "old", "new", "why"),
    [
        (Randomness.GENERATOR, 64, XEON, XEON, "torch.Generator"),
        (Randomness.GLOBAL, 64, XEON, XEON, "global generator"),
        (Randomness.KEYED, 64, XEON, XEON, ""),
        (Randomness.INJECTED, 0, XEON, XEON, ""),
        (Randomness.KEYED, 64, XEON, EPYC, "in floating point, on Xeon there and on EPYC here"),
        (Randomness.KEYED, 64, {}, XEON, "in floating point, on a CPU there and on Xeon here"),
        (Randomness.ADDRESSED, 64, XEON, EPYC, ""),
        (Randomness.ADDRESSED, 64, H200, XEON, ""),
        (Randomness.ADDRESSED, 0, H200, XEON, "requests at a time"),
        (Randomness.KEYED, 64, H200, XEON, "floating point"),
    ],
)
def test_equal_counts_are_promised_where_they_can_be(
    randomness: Randomness, rows: int, old: dict[str, str], new: dict[str, str], why: str
) -> None:
    who = Description(name="x", kind="plain", randomness=randomness, rows_per_launch=rows)
    trial = make(TrialSpec(sampler="x", requests=1_000_000, targets=["rows-of-12"]), who, "test")
    found = why_not(trial, old, new)
    assert (why in found) if why else (found == "")


def test_a_superseded_receipt_of_other_sources_is_incomparable(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verification skips what does not recompute of one that the ledger supersedes: nothing follows from it."""
    statement: Statement = canonical.decode(old.read_bytes())
    now = receipt.write(statement, tmp_path / "receipts" / "evidence" / "qualify")
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    del statement["predicate"]["plan"]["power"]
    before = receipt.write(statement, now.parent)
    digests = [path.stem.rpartition("-")[2] for path in (before, now)]
    records = [
        Record(sha256=digest, name=f"evidence/qualify/{path.name}", verdict="PASS")
        for digest, path in zip(digests, (before, now), strict=True)
    ]
    append(tmp_path / "receipts" / "LEDGER", records, [Superseding(sha256=digests[0], by=digests[1], reason="a test")])
    opened = open_receipt(before)
    assert (opened.verified.failed, opened.verified.ok) == (None, False)
    assert cli.run(["compare", str(before), str(now)]) == Exit.INCONCLUSIVE
    assert capsys.readouterr().out.startswith("INCOMPARABLE: OLD does not verify here: plan: ")
