"""The README's table of the survey: which receipt it is of, how its lines are ordered, and what they say."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.errors import PP3Error
from pp3.harness.evidence import ledger, survey_table, table
from pp3.harness.evidence.receipt import read

ROOT = Path(__file__).resolve().parents[1]


def row(name: str, version: str, verdict: str = "PASS", about: str = "") -> dict[str, Any]:
    """A sampler of a survey."""
    return {"name": name, "version": version, "verdict": verdict, "about": about, "receipt": "none.json"}


def test_engines_with_most_samplers_come_first_and_their_newest_version() -> None:
    """Versions are numbers: 0.30 is newer than 0.9."""
    rows = [row("b-x", "1.0"), *(row(f"a-{v}", v) for v in ("0.9.0", "0.30.0", "0.4")), row("b-y", "2.0.post1")]
    assert list(survey_table.grouped(rows)) == [
        ("a", "0.30.0"),
        ("a", "0.9.0"),
        ("a", "0.4"),
        ("b", "2.0.post1"),
        ("b", "1.0"),
    ]


def test_what_does_not_pass_is_named_and_a_control_that_must_fail_is_told_apart() -> None:
    control = "negative control: kept at a fixed rate"
    rows = [
        row("vllm-v2-0.33.0", "0.33.0"),
        row("vllm-classic-0.33.0", "0.33.0", "FAIL"),
        row("vllm-slow-0.33.0", "0.33.0", "INCONCLUSIVE"),
        row("vllm-fly-0.33.0", "0.33.0", "FAIL", control),
        row("vllm-tame-0.33.0", "0.33.0", "PASS", control),
    ]
    assert survey_table._line("vllm", "0.33.0", rows) == (
        "| vLLM | 0.33.0 | 5 | 2 PASS; FAIL: `classic`; INCONCLUSIVE: `slow`; "
        "negative controls, which must fail: `fly` |"
    )


def test_one_that_passes_and_fails_in_a_trial_of_its_own_is_named() -> None:
    """Only where name and version are those of the trial; one that fails in both is named once."""
    rows = [row("flashinfer-chain", "1"), row("flashinfer-top-k", "1"), row("flashinfer-min-p", "1", "FAIL")]
    failing = {("flashinfer-chain", "1"), ("flashinfer-top-k", "2"), ("flashinfer-min-p", "1")}
    assert survey_table._line("flashinfer", "1", rows, failing) == (
        "| FlashInfer | 1 | 3 | 2 PASS; FAIL: `min-p`; FAIL in trials of their own: `chain` |"
    )


def test_trials_that_fail_are_read_from_the_tree(tree: Path) -> None:
    """A superseded one is not counted."""
    assert survey_table.failing_trials(tree) == set()
    folder = tree / "receipts" / "evidence" / "trial"
    shutil.copytree(ROOT / "receipts" / "evidence" / "trial", folder)
    known = ledger.read(tree / "receipts" / ledger.FILE)
    current = [path for path in folder.glob("*.json") if known.head(path.stem[-64:]) == path.stem[-64:]]
    assert survey_table.failing_trials(tree) == {
        (said["sampler"]["name"], said["sampler"]["version"])
        for said in (read(path)[1]["predicate"] for path in current)
        if said["verdict"] == "FAIL"
    }
    for path in current:
        path.unlink()
    assert survey_table.failing_trials(tree) == set()
    assert list(folder.glob("*.json"))


def test_every_sampler_of_the_committed_survey_is_counted_once() -> None:
    path = survey_table.newest(ROOT)
    assert path is not None
    rows = read(path)[1]["predicate"]["samplers"]
    lines = survey_table.render(ROOT).splitlines()[4:]
    assert sum(int(line.split("|")[3]) for line in lines) == len(rows)
    passed = sum(int(line.split("|")[4].split()[0]) for line in lines)
    assert passed == sum(one["verdict"] == "PASS" for one in rows)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout's receipts: the committed surveys and their ledger."""
    folder = tmp_path / "receipts" / "evidence" / "survey"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "receipts" / ledger.FILE, tmp_path / "receipts")
    for path in (ROOT / "receipts" / "evidence" / "survey").glob("*.json"):
        if read(path)[1]["predicate"]["kind"] == "survey":
            shutil.copy(path, folder)
    return tmp_path


def test_a_survey_that_is_superseded_is_not_shown(tree: Path) -> None:
    """Also where the one in its place is not there."""
    path = survey_table.newest(tree)
    assert path is not None
    path.unlink()
    assert survey_table.newest(tree) is None
    assert survey_table.render(tree) == "No survey is committed."


def test_a_file_is_rewritten_between_both_pairs_of_marks(tmp_path: Path) -> None:
    """One that has no place for the survey keeps what it has."""
    text = f"a\n{survey_table.BEGIN}\nold\n{survey_table.END}\nb\n{table.BEGIN}\nold\n{table.END}\nc\n"
    (tmp_path / "both.md").write_text(text)
    table.replace_in(tmp_path / "both.md", [])
    said = (tmp_path / "both.md").read_text()
    assert said == (
        f"a\n{survey_table.BEGIN}\n{survey_table.render(ROOT)}\n{survey_table.END}\nb\n"
        f"{table.BEGIN}\n{table.render([])}\n{table.END}\nc\n"
    )
    (tmp_path / "one.md").write_text(f"{table.BEGIN}\nold\n{table.END}\n")
    table.replace_in(tmp_path / "one.md", [])
    assert survey_table.BEGIN not in (tmp_path / "one.md").read_text()


def test_there_is_none_outside_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_table, "find_checkout", lambda: None)
    with pytest.raises(PP3Error, match="run it from one"):
        survey_table.render()
