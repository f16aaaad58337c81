"""Trials from Python: what is refused, and how many requests a promise takes."""

from typing import Any

import pytest

from pp3 import Description, qualify
from pp3.harness.errors import CampaignError
from pp3.harness.samplers.contract import Kind
from pp3.harness.trial.api import plan
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import LARGEST_REQUESTS, TrialSpec, make, with_enough
from pp3.harness.trial.problems import names
from pp3.harness.verdict import Verdict

WHO = Description(name="mine", kind="verifier", target_carrier="probs", greedy=True)
PLAIN = Description(name="mine", kind="plain", filters=("temperature",))
FROM_PYTHON: dict[str, tuple[dict[str, Any], str]] = {
    "another profile": ({"profile": "plain"}, "profile 'plain': mine says it is 'verifier'; one of them is wrong"),
    "a target that is almost one": ({"targets": ["neer"]}, "qualify: unknown target 'neer'; did you mean 'near'?"),
    "a target like none": ({"targets": "zzz"}, "qualify: unknown target 'zzz'; a verifier has near, far, equal"),
    "no requests": ({"requests": 0}, "qualify: requests = 0; it must be from 1 to"),
    "requests that are none": ({"requests": "many"}, "qualify: Expected `int`, got `str` - at `$.requests`"),
    "half a request": ({"requests": 0.5}, "qualify: Expected `int`, got `float`"),
    "targets that are none": ({"targets": [3]}, "qualify: Expected `str`, got `int`"),
    "an alpha of 0": ({"alpha": 0.0}, "qualify: alpha = 0.0; it must be at least 1e-30 and below 1"),
    "an alpha above 1": ({"alpha": 2.0}, "qualify: alpha = 2.0; it must be"),
    "a counter below 0": ({"counter": -1}, "--counter -1: it must be from 0"),
    "a promise that cannot be kept": ({"requests": 100, "detect": 0.01}, "qualify: detect = 0.01 needs "),
    "a promise that nobody can keep": (
        {"detect": 1e-9},
        "qualify: detect = 1e-09 needs more than 1,099,511,627,776 requests",
    ),
}


@pytest.mark.parametrize(("options", "message"), FROM_PYTHON.values(), ids=FROM_PYTHON)
def test_what_is_refused_in_python(options: dict[str, Any], message: str) -> None:
    class Mine:
        def describe(self) -> Description:
            return WHO

        def run(self, batch: Any) -> None:
            pytest.fail("it was run")

    with pytest.raises(CampaignError) as error:
        qualify(Mine(), device="cpu", **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "who",
    [WHO, PLAIN, Description(name="b", kind="verifier", rule="block", target_carrier="probs")],
    ids=["verifier", "plain", "block"],
)
@pytest.mark.parametrize("detect", [0.3, 0.05, 0.01, 0.002])
def test_a_promise_takes_as_many_requests_as_it_needs(who: Description, detect: float) -> None:
    """And hardly more; the number that is named when too few are given is one that works."""
    start = make(TrialSpec(detect=detect, requests=50), who, "test")
    enough = with_enough(start, "test")
    assert enough.resolution <= detect
    fewer = make(TrialSpec(detect=detect, requests=int(enough.spec.requests * 0.75)), who, "test")
    assert (
        fewer.resolution > detect or any(check.required and not check.df for check in fewer.checks) or enough is start
    )
    with pytest.raises(CampaignError, match=f"needs {enough.spec.requests:,} requests of each law, and requests = 50"):
        plan(start.spec, who, "test", given=True)
    works = TrialSpec(detect=detect, requests=enough.spec.requests)
    assert plan(works, who, "test", given=True).spec.requests == enough.spec.requests


def test_a_promise_of_a_deterministic_law_is_kept() -> None:
    """Where every other outcome is impossible, one in a few thousand shows."""
    trial = make(TrialSpec(detect=0.01, targets=["greedy"]), WHO, "test")
    assert with_enough(trial, "test") is trial
    assert 0 < trial.resolution < 0.001


def test_the_largest_number_is_a_number() -> None:
    assert make(TrialSpec(requests=LARGEST_REQUESTS), PLAIN, "test").requests > LARGEST_REQUESTS


@pytest.mark.parametrize("kind", list(Kind))
def test_every_target_is_named_once(kind: Kind) -> None:
    assert len(set(names(kind))) == len(names(kind)) >= 9


def test_a_promise_is_not_raised_beyond_the_most_that_is_run() -> None:
    """What cannot be kept then is said in the verdict; without a limit it is kept."""
    promise = TrialSpec(requests=500, detect=0.01)
    most = plan(promise, PLAIN, "test", given=False, most=2_000)
    assert (most.spec.requests, most.spec.detect) == (2_000, 0.01)
    judged = conclude(most, Measured(), "a CPU")
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"a total variation of {most.resolution:.4f} is seen, 0.01 was promised" in judged.reasons
    free = plan(promise, PLAIN, "test", given=False)
    assert free.resolution <= 0.01
    assert plan(promise, PLAIN, "test", given=False, most=free.spec.requests).plan_sha256 == free.plan_sha256
