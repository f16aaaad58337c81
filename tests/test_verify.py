"""Verification: a real receipt holds without torch, and every tampering, sealed anew, is caught at its own step."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from altered import reseal_plan, sealed
from forged import REVIEWED, STEPS
from tampered import BACKED_BY_NOTHING, TAMPERED

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify

ROOT = Path(__file__).resolve().parent.parent
WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from pp3.harness.cli import main

main()
"""
Statement = dict[str, Any]
Change = Callable[[Statement], object]


@pytest.fixture
def statement(real_receipt: Path) -> Statement:
    """The statement of the session's real receipt, a fresh copy."""
    return dict(canonical.decode(real_receipt.read_bytes()))


def test_a_real_receipt_verifies(real_receipt: Path) -> None:
    """Every step, in order; the sources are skipped, which is not ok."""
    found = verify(real_receipt, real_receipt.read_bytes())
    assert [(step.name, step.outcome) for step in found.steps] == [
        (name, "skip" if name in REVIEWED else "ok") for name in STEPS
    ]
    assert found.ok
    assert (found.verdict, found.current) == ("PASS", "unchecked")
    assert found.sha256 in real_receipt.name
    assert found.sentence == (f"VERIFIED verdict=PASS sha256={found.sha256} assurance=self-attested current=unchecked")


def test_it_verifies_without_torch_and_triton(real_receipt: Path) -> None:
    """In a process where neither can be imported, from another folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_TORCH, "verify", str(real_receipt)],
        cwd="/",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(STEPS) + 1
    assert lines[-1].startswith("VERIFIED verdict=PASS sha256=")


@pytest.mark.parametrize(("change", "step"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_caught_at_its_own_step(change: Change, step: str, statement: Statement) -> None:
    """Re-canonicalised and renamed to its new digest, so that only the step that knows better can see it."""
    before = copy.deepcopy(statement)
    change(statement)
    assert canonical.encode(statement) != canonical.encode(before)  # True and 1 are equal in Python, not in JSON
    found = sealed(statement)
    assert not found.ok
    assert found.steps[-1].outcome == "FAIL"
    assert (found.steps[-1].name, [one.name for one in found.steps[:-1]]) == (step, STEPS[: STEPS.index(step)])
    assert {one.outcome for one in found.steps[:-1]} <= {"ok"}
    assert found.sentence.startswith(f"NOT VERIFIED at {step}: ")
    assert "\n" not in found.sentence


@pytest.mark.parametrize("change", BACKED_BY_NOTHING.values(), ids=BACKED_BY_NOTHING)
def test_a_claim_that_nothing_backs_is_refused(change: Change, statement: Statement) -> None:
    """At whatever step."""
    change(statement)
    assert not sealed(statement).ok


def test_every_step_has_a_tampering_that_it_catches() -> None:
    """But for the bytes, the name and what a reviewer brings, which have tests of their own below."""
    assert {step for _, step in TAMPERED.values()} == {*STEPS[2 : -len(REVIEWED)]}


def test_a_target_that_no_sampler_runs_is_refused(statement: Statement) -> None:
    """A plan may be sealed with a vocabulary of 31; its laws cannot be rebuilt."""
    row = {"ids": [3], "weights": [1 << 24], "draft_ids": [3], "draft_logits": [1.0]}
    target = {"name": "tiny", "vocab": 31, "rows": [row]}
    statement["predicate"]["plan"] = campaigns.of_document({"targets": ["tiny"], "target": [target]}, "test").plan
    reseal_plan(statement)
    assert not sealed(statement).ok


def test_a_copied_verdict_does_not_verify(
    statement: Statement, receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """One run's judgement over another run's counts."""
    other = campaigns.load(None, {"requests": 20_001})
    predicate = canonical.decode(receipt_of(other, tmp_path).read_bytes())["predicate"]
    for field in ("tests", "deviations", "seedFamily", "sees", "verdict", "reasons", "sentence"):
        predicate[field] = statement["predicate"][field]
    statement["predicate"] = predicate
    assert sealed(statement).steps[-1].name == "recompute statistics"
