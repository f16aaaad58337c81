"""Rounding beside a law: where equal laws travel as logits a few rejections are no fault, and many are."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from one_thread import one_thread
from scipy import stats

from pp3 import Batch, Description, Emission, Report, qualify
from pp3.harness.battery import Slack
from pp3.harness.cells import Event
from pp3.harness.samplers.contract import Carrier
from pp3.harness.samplers.torch_controls import StandardRejection
from pp3.harness.trial.judge import BEYOND, UNREACHED, TrialJudgement, conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.trial.problems import ROUNDING, rounds
from pp3.harness.verdict import Verdict

MANY = 2_000_000
LOGITS: dict[str, Any] = {"target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.LOGITS}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that spin on a shared machine cost more than they bring."""
    with one_thread():
        yield


def trial_of(requests: int = MANY, **declared: Any) -> Trial:
    """A trial on equal laws."""
    who = replace(StandardRejection().describe(), **LOGITS | declared)
    return make(TrialSpec(sampler="it", targets=["equal"], requests=requests), who, "it")


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[int]]:
    """Counts of every cell by its law."""
    rng = np.random.default_rng(5)
    (problem,) = trial_of().problems
    found = {}
    for cell in problem.cells:
        events = int(MANY * cell.rate)
        found[cell.id] = [*rng.multinomial(events, cell.probabilities()).tolist(), 0]
        if cell.event is Event.REPEAT:
            found[cell.id] = [events, 0, 0]
    return found


def judged(trial: Trial, counts: dict[str, list[int]], rejected: int, position: int = 0) -> TrialJudgement:
    """What becomes of so many rejections at one position of a law that keeps every draft."""
    (problem,) = trial.problems
    found = {name: [*row] for name, row in counts.items()}
    for cell in problem.cells:
        if cell.event in (Event.LENGTH, Event.LENGTH_PAIR) or (
            cell.event is Event.ACCEPT and cell.position == position
        ):
            found[cell.id][-1] += rejected
    breaches = {"equal/unreachable": UNREACHED * rejected} if rejected else {}
    return conclude(trial, Measured(counts=found, first=found, breaches=breaches), "a laptop")


@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize(
    ("rejected", "verdict"),
    [
        pytest.param(0, Verdict.PASS, id="none"),
        pytest.param(2, Verdict.PASS, id="two"),
        pytest.param(8, Verdict.PASS, id="as-many-as-rounding-makes"),
        pytest.param(200, Verdict.FAIL, id="two-hundred"),
        pytest.param(20_000, Verdict.FAIL, id="one-in-a-hundred"),
    ],
)
def test_rejections_of_equal_laws(rejected: int, verdict: Verdict, position: int, drawn: dict[str, list[int]]) -> None:
    """Rounding makes at most MANY depth 2^-20, which is 8; half as many in one position."""
    found = judged(trial_of(), drawn, rejected, position)
    assert found.verdict is verdict, found.reasons
    if verdict is Verdict.FAIL:
        assert any("events that the law cannot reach" in reason for reason in found.reasons)
        assert any("numbers of kept drafts" in reason for reason in found.reasons)
    else:
        assert found.reasons == []
        assert all(test.forbidden == 0 for test in found.tests)


@pytest.mark.parametrize("rejected", [1, 2])
def test_as_probabilities_not_one(rejected: int, drawn: dict[str, list[int]]) -> None:
    """Nothing is rounded there."""
    probs: dict[str, Any] = {"target_carrier": Carrier.PROBS, "draft_carrier": Carrier.PROBS}
    found = judged(trial_of(**probs), drawn, rejected)
    assert found.verdict is Verdict.FAIL


def test_the_slack_ends_where_its_tail_does() -> None:
    """The most that may be rounding: P(that many or more) is still above the level, and of one more no longer."""
    slack = Slack(chance=ROUNDING, level=1e-5 * BEYOND)
    for drafts in (0, 1, 1000, 8_000_000, 10**10):
        tails = stats.binom.sf(np.arange(-1, 12_000), drafts, ROUNDING)
        most = int(np.flatnonzero(tails > slack.level)[-1])
        assert slack.explains(most, drafts)
        assert not slack.explains(most + 1, drafts)
        assert slack.explains(0, drafts)
        assert most >= drafts * ROUNDING - 1


@pytest.mark.parametrize(
    ("declared", "rounded"),
    [
        pytest.param({}, True, id="logits"),
        pytest.param({"draft_carrier": Carrier.PROBS}, True, id="target-logits"),
        pytest.param({"target_carrier": Carrier.PROBS}, True, id="draft-logits"),
        pytest.param({"target_carrier": Carrier.PROBS, "draft_carrier": Carrier.PROBS}, False, id="probs"),
        pytest.param({"draft_carrier": Carrier.ONE_HOT}, False, id="one-hot"),
        pytest.param({"rule": "sample-match"}, False, id="sample-match"),
    ],
)
def test_who_rounds(declared: dict[str, Any], rounded: bool) -> None:
    """Whoever divides two laws of which one is its own softmax; and only where both laws are equal."""
    who = replace(StandardRejection().describe(), **LOGITS | declared)
    assert rounds(who) is rounded
    trial = make(TrialSpec(sampler="it", targets=["equal", "near", "far"]), who, "it")
    assert {problem.name: bool(problem.slack) for problem in trial.problems} == {
        "equal": rounded,
        "near": False,
        "far": False,
    }


@pytest.mark.parametrize("draft", [Carrier.PROBS, Carrier.LOGITS, Carrier.SCALED_LOGITS])
@pytest.mark.parametrize("target", [Carrier.PROBS, Carrier.LOGITS])
def test_whatever_they_travel_in_equal_laws_can_be_passed(target: Carrier, draft: Carrier) -> None:
    """Of two carriers the rounding differs, so that a rejection has a law; too rare a one to be needed for a PASS."""
    trial = trial_of(20_000, target_carrier=target, draft_carrier=draft)
    (problem,) = trial.problems
    counts = {}
    for cell in problem.cells:
        events = int(20_000 * cell.rate)
        counts[cell.id] = [*np.random.default_rng(5).multinomial(events, cell.probabilities()).tolist(), 0]
    found = conclude(trial, Measured(counts=counts, first=counts), "a laptop")
    assert found.verdict is Verdict.PASS, found.reasons


def test_too_few_first_tokens_are_still_missing() -> None:
    found = judged(trial_of(20), {cell.id: [0] * (len(cell.atoms) + 1) for cell in trial_of(20).problems[0].cells}, 0)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("/token/position-0: too few events" in reason for reason in found.reasons)


class Rejects(StandardRejection):
    """Rejects the first draft of some requests of equal laws, and emits it all the same."""

    def __init__(self, rejected: int) -> None:
        self.rejected = rejected

    def describe(self) -> Description:
        """Laws as logits."""
        return replace(super().describe(), **LOGITS)

    def run(self, batch: Batch) -> Emission:
        """Some of them."""
        found = super().run(batch)
        now = min(self.rejected, len(batch))
        self.rejected -= now
        found.num_sampled[:now] = 1
        return found


@pytest.mark.parametrize(("rejected", "verdict"), [(0, Verdict.PASS), (2, Verdict.PASS), (8, Verdict.FAIL)])
def test_a_sampler_that_rejects_of_equal_laws(rejected: int, verdict: Verdict) -> None:
    """Of 32,000 drafts rounding rejects 0.03: two have a chance of 5e-4, eight of 2e-17, against a level of 1e-8."""
    report: Report = qualify(Rejects(rejected), targets=["equal"], requests=8_000, device="cpu")
    assert report.verdict is verdict, str(report)
