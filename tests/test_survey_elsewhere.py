"""A survey whose trial no longer recomputes: whether other sources made that is said as of the trial itself."""

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from pp3.harness.evidence import receipt, survey
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.evidence.verify import verify
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COUNTER = 7
SAID = "PASS: as it was said then."
Statement = dict[str, Any]


@pytest.fixture(scope="module")
def trial() -> Statement:
    """A small real trial of a control; copy before changing."""
    sampler, threads = Multinomial(), torch.get_num_threads()
    torch.set_num_threads(1)
    planned = make(TrialSpec(sampler="multinomial", targets=["rows-of-8"], requests=500), sampler.describe(), "test")
    measured = run(planned, sampler, Seed.of(planned.plan_sha256, COUNTER), "cpu", lambda *_: None)
    torch.set_num_threads(threads)
    one = Found(trial=planned, device=identity("cpu"), measured=measured, sources=Sources([["a.py", "0" * 64]], {}))
    return trial_receipt.build(one, COUNTER, "given", STARTED, trial_receipt.judge(one))


def surveyed(trial: Statement, folder: Path, beside: bool = True) -> Verified:
    """What becomes of a survey of that trial alone, which lies beside it or does not."""
    file, p = receipt.write(trial, folder), trial["predicate"]
    row = {key: p[key] for key in survey.COPIED} | {"version": p["sampler"]["version"], "name": "multinomial"}
    row |= {"about": "a control", "receipt": file.name, "requests": survey.requests_of(p)}
    path = receipt.write(survey.build(STARTED, [row], {"another": "not installed"}), folder)
    if not beside:
        file.unlink()
    return verify(path, path.read_bytes())


def test_a_survey_is_its_trials(trial: Statement, tmp_path: Path) -> None:
    """Each a step under its name, between the survey's own and the verdict; one that is not there is skipped."""
    for beside in (True, False):
        found = surveyed(trial, tmp_path / str(beside), beside)
        steps = [(one.name, one.outcome) for one in found.steps]
        trials = ("multinomial", "ok" if beside else "skip")
        assert steps[3:7] == [("survey", "ok"), trials, ("verdict", "ok"), ("non-claims", "ok")]
        assert (found.ok, found.verdict, found.elsewhere) == (True, "SURVEYED", False)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_trial_that_does_not_recompute_fails_its_survey(elsewhere: bool, trial: Statement, tmp_path: Path) -> None:
    """And says, once, that other sources made it, if they did."""
    changed, true = copy.deepcopy(trial), trial["predicate"]["sentence"]
    changed["predicate"]["sentence"] = SAID
    if elsewhere:
        changed["subject"][0]["digest"]["sha256"] = "0" * 64
    found = surveyed(changed, tmp_path)
    why = f"NOT VERIFIED at verdict: sentence recomputes to {true!r}, the receipt says {SAID!r}"
    here = f" (made by other sources: 1 of {len(trial['subject'])} differ here; the pp3 that made it verifies it)"
    assert found.failed == Step(name="multinomial", outcome="FAIL", detail=why + here * elsewhere)
    assert found.elsewhere is elsewhere
