"""The receipt of a survey: one receipt for each sampler that can run, and no claim beyond those beside it."""

import copy
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from altered import Change, Statement, both, edit
from altered import sealed_in as sealed

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import provenance
from pp3.harness.evidence.verify import verify
from pp3.harness.samplers import registry
from pp3.harness.samplers.registry import Entry

ENTRIES = {
    "torch-multinomial": registry.find("torch-multinomial"),
    "torch-standard-rejection": registry.find("torch-standard-rejection"),
    "no_such:x": Entry(name="no_such:x", target="no_such:x", about="cannot be imported"),
    "absent": Entry(name="absent", target="m:x", about="needs what there is not", needs=("no_such_package",)),
}


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """One survey."""

    folder: Path
    code: int
    said: dict[str, Any]

    @property
    def receipt(self) -> Path:
        """Of the survey itself."""
        return Path(self.said["receipt"])

    @property
    def statement(self) -> Statement:
        """A fresh copy."""
        return dict(canonical.decode(self.receipt.read_bytes()))


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Surveyed:
    """Two controls, one that cannot be imported, and one whose package is missing."""
    folder = tmp_path_factory.mktemp("survey") / "out"
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(printed):
        patched.setattr(registry, "everything", lambda: ENTRIES)
        code = cli.run(["survey", "--requests", "500", "--device", "cpu", "--out", str(folder), "--json"])
    return Surveyed(folder=folder, code=code, said=json.loads(printed.getvalue()))


@pytest.fixture(autouse=True)
def _sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not change meanwhile, and every refusal reads them all."""
    monkeypatch.setattr(provenance, "stale", lambda *_: [])


def test_everything_that_can_run_is_judged(surveyed: Surveyed) -> None:
    """Exit 0 whatever the verdicts; a receipt and a page each, and one over them all."""
    assert surveyed.code == Exit.OK
    rows = surveyed.said["samplers"]
    assert [(row["name"], row["verdict"]) for row in rows] == [
        ("torch-multinomial", "PASS"),
        ("torch-standard-rejection", "INCONCLUSIVE"),
    ]
    assert {row["receipt"] for row in rows} | {surveyed.receipt.name} == {
        p.name for p in surveyed.folder.glob("*.json")
    }
    assert [path.stem for path in surveyed.folder.glob("*.html")] == [surveyed.receipt.stem]
    assert all(row["requests"] % 500 == 0 and row["requests"] >= 500 * 10 for row in rows)


def test_what_is_not_run_is_said(surveyed: Surveyed) -> None:
    left = surveyed.said["notRun"]
    assert left["absent"] == "no_such_package is not installed"
    assert left["no_such:x"].startswith("sampler no_such:x: importing no_such raised ModuleNotFoundError")
    page = Path(surveyed.said["report"]).read_text()
    for name in ENTRIES:
        assert name in page


def test_its_receipt_verifies_with_those_beside_it(surveyed: Surveyed) -> None:
    found = verify(surveyed.receipt, surveyed.receipt.read_bytes())
    assert found.ok, found.sentence
    names = [step.name for step in found.steps]
    assert names == [
        "bytes",
        "name",
        "shape",
        "survey",
        "torch-multinomial",
        "torch-standard-rejection",
        "verdict",
        "non-claims",
        "ledger",
        "signature",
        "sources",
    ]
    assert [step.name for step in found.steps if step.outcome != "ok"] == ["ledger", "signature", "sources"]
    assert found.verdict == "SURVEYED"


def test_a_receipt_that_does_not_lie_beside_it_is_a_skip(surveyed: Surveyed, tmp_path: Path) -> None:
    """Never ok."""
    shutil.copy(surveyed.receipt, tmp_path)
    found = verify(tmp_path / surveyed.receipt.name, surveyed.receipt.read_bytes())
    assert found.ok
    assert [s.outcome for s in found.steps if s.name.startswith("torch-")] == ["skip", "skip"]


def say_again(statement: Statement) -> None:
    """Make the sentence follow from the rows."""
    from pp3.harness.evidence.survey import sentence

    p = statement["predicate"]
    p["sentence"] = sentence(p["samplers"], p["notRun"])


def name_again(statement: Statement) -> None:
    """Make the subjects follow from the rows."""
    rows = statement["predicate"]["samplers"]
    names = [row["receipt"] for row in rows]
    statement["subject"] = [{"digest": {"sha256": name[-69:-5]}, "name": name} for name in names]


FIRST, SECOND = "torch-multinomial", "torch-standard-rejection"
TAMPERED: dict[str, tuple[Change, str]] = {
    "a better verdict": (both(edit("samplers", 1, "verdict", to="PASS"), say_again), SECOND),
    "a better verdict, not said": (edit("samplers", 1, "verdict", to="PASS"), "survey"),
    "another sentence of a sampler": (edit("samplers", 0, "sentence", to="PASS: fine"), FIRST),
    "a reason less": (edit("samplers", 1, "reasons", to=lambda reasons: reasons[1:]), SECOND),
    "a finer resolution": (edit("samplers", 0, "resolution", to="0.001"), FIRST),
    "more requests": (edit("samplers", 0, "requests", to=10**9), FIRST),
    "another version": (edit("samplers", 0, "version", to="9"), FIRST),
    "another profile": (edit("samplers", 0, "profile", to="engine"), FIRST),
    "a sampler less": (edit("samplers", to=lambda rows: rows[1:]), "survey"),
    "a sampler less, said": (both(edit("samplers", to=lambda rows: rows[1:]), say_again), "survey"),
    "a sampler twice": (both(edit("samplers", to=lambda rows: [*rows, rows[0]]), say_again, name_again), "survey"),
    "a receipt twice": (
        both(edit("samplers", to=lambda rows: [*rows, rows[0] | {"name": "other"}]), say_again, name_again),
        "survey",
    ),
    "one that was run among those that were not": (both(edit("notRun", FIRST, to="tired"), say_again), "survey"),
    "the receipt of another": (
        both(
            lambda s: s["predicate"]["samplers"][0].update(receipt=s["predicate"]["samplers"][1]["receipt"]),
            edit("samplers", to=lambda rows: rows[:1]),
            say_again,
            name_again,
        ),
        FIRST,
    ),
    "a receipt elsewhere": (
        both(edit("samplers", 0, "receipt", to=lambda name: f"../{name}"), say_again, name_again),
        "survey",
    ),
    "another subject": (lambda s: s["subject"][0]["digest"].update(sha256="0" * 64), "survey"),
    "a subject less": (lambda s: s["subject"].pop(), "survey"),
    "another sentence": (edit("sentence", to="SURVEY: all passed."), "survey"),
    "a reason": (edit("reasons", to=["none"]), "survey"),
    "another verdict": (edit("verdict", to="PASS"), "shape"),
    "an unknown field": (edit("mood", to="good"), "shape"),
    "a claim left out": (edit("nonClaims", to=lambda claims: claims[1:]), "non-claims"),
}


@pytest.mark.parametrize(("change", "step"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_refused_at_its_step(change: Change, step: str, surveyed: Surveyed) -> None:
    statement = copy.deepcopy(surveyed.statement)
    change(statement)
    found = sealed(statement, surveyed.folder)
    assert (found.ok, found.steps[-1].name, found.steps[-1].outcome) == (False, step, "FAIL"), found.sentence


def test_a_receipt_beside_it_that_was_changed_is_refused(surveyed: Surveyed, tmp_path: Path) -> None:
    for path in surveyed.folder.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    row = surveyed.said["samplers"][1]
    (tmp_path / row["receipt"]).write_bytes((tmp_path / row["receipt"]).read_bytes().replace(b"INCONCLUSIVE", b"PASS"))
    found = verify(tmp_path / surveyed.receipt.name, surveyed.receipt.read_bytes())
    assert found.sentence.startswith(f"NOT VERIFIED at {SECOND}: NOT VERIFIED at name: ")


def test_a_receipt_of_another_kind_is_refused(surveyed: Surveyed, real_receipt: Path, tmp_path: Path) -> None:
    """A campaign of our own is no trial."""
    shutil.copy(real_receipt, tmp_path)
    statement = surveyed.statement
    row = statement["predicate"]["samplers"][0] | {"receipt": real_receipt.name}
    both(edit("samplers", to=[row]), say_again, name_again)(statement)
    found = sealed(statement, tmp_path)
    assert found.sentence.endswith(f"{real_receipt.name} is of kind qualify, not of a trial")
