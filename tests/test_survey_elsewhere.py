"""A survey whose trial no longer recomputes: whether other sources made that is said as of the trial itself."""

import copy
from pathlib import Path

import pytest
from built import STARTED, Statement
from every_receipt import of_trial

from pp3.harness.evidence import receipt, survey
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.evidence.verify import verify

SAID = "PASS: as it was said then."


@pytest.fixture(scope="module")
def trial() -> Statement:
    """A small real trial of a control; copy before changing."""
    return of_trial(["rows-of-8"], 500)


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
