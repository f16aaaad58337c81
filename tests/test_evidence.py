"""The committed receipts: never changed. That an H200's counts come out of the reference is in test_replay.py."""

import re
import subprocess
from pathlib import Path

import pytest

from pp3.harness.evidence.receipt import read
from pp3.harness.report.alarm import alarm_of
from pp3.harness.report.render import page

ROOT = Path(__file__).resolve().parents[1]
DRAWN = re.compile(r"<svg.*?</svg>", re.DOTALL)
COMMITTED = sorted((ROOT / "receipts" / "evidence").glob("*/*.json"))


def git(*arguments: str) -> str:
    """What git says in this checkout."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_there_is_evidence_of_every_kind() -> None:
    """The campaign, the bridge and the enumerations, each measured on a GPU; engines and the battery where they run."""
    assert {path.parent.name for path in COMMITTED} >= {"qualify", "oracle", "exhaustive"}
    for path in COMMITTED:
        _, statement = read(path)
        kind = statement["predicate"]["kind"]
        assert kind in (path.parent.name, "trial")
        if kind not in ("trial", "survey", "engine", "calibration"):
            assert statement["predicate"]["kernels"]["identity"]["gpu"]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name[:32])
def test_a_committed_receipt_was_never_changed(path: Path) -> None:
    """One version of its blob in the whole history, at most."""
    if not (ROOT / ".git").exists():
        versions = set[str]()  # a plain copy has no history to hold it against; its digest is in its name
    else:
        log = git("log", "--format=%H", "--", path.relative_to(ROOT).as_posix()).split()
        versions = {git("rev-parse", f"{commit}:{path.relative_to(ROOT).as_posix()}") for commit in log}
    assert len(versions) <= 1


@pytest.mark.parametrize(
    "path",
    [path for path in COMMITTED if path.parent.name in ("oracle", "exhaustive")],
    ids=lambda path: path.name[:16],
)
def test_a_committed_page_is_what_its_receipt_renders_to(path: Path) -> None:
    """A corrected wording reaches the page too; the bytes of pictures follow matplotlib's version."""
    committed = ROOT / "reports" / "evidence" / path.parent.name / f"{path.stem}.html"
    content, statement = read(path)
    rendered = page(content, statement, alarm_of(path, content))
    assert DRAWN.sub("", committed.read_text("utf-8")) == DRAWN.sub("", rendered)
