"""What is promised to be seen: a refusal names what would be accepted, and little less would not be."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pp3.harness import campaign as campaigns
from pp3.harness.campaign import LARGEST_REQUESTS, Campaign
from pp3.harness.cells import Event
from pp3.harness.design import CERTAIN, Check, design
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.power import detectable
from pp3.harness.promise import PROMISED, enough, keep, resolution
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.trial.api import plan
from pp3.harness.trial.plan import TrialSpec, make, with_enough

POWER = 0.999
NEARLY = 1.05  # what is named is at most so much more than is needed


def campaign(**keys: Any) -> Campaign:
    """A campaign of one target."""
    return campaigns.of_document({"targets": ["context"], "depths": [4], "batch_sizes": [1]} | keys, "a file")


def kept(chosen: Campaign) -> bool:
    """Whether its promise is kept."""
    try:
        keep(chosen, "a file")
    except CampaignError:
        return False
    return True


def seen_by(chosen: Campaign) -> float:
    """What it sees."""
    return resolution(design(chosen), chosen.spec.power, chosen.spec.requests)


@pytest.mark.parametrize("detect", [0.2, 0.1, 0.05, 0.02, 0.005])
@pytest.mark.parametrize("requests", [1, 1_000, 20_000])
@pytest.mark.parametrize("target", ["context", "sparse-tail", "invalidated"])
def test_a_refusal_names_the_requests_that_would_do(target: str, requests: int, detect: float) -> None:
    """They are accepted, and of a twentieth fewer not all would be."""
    chosen = campaign(targets=[target], requests=requests, detect=detect)
    if seen_by(chosen) <= detect:
        assert kept(chosen)
        return
    with pytest.raises(CampaignError) as refused:
        keep(chosen, "a file")
    said = str(refused.value)
    assert said.startswith(f"a file: detect = {detect:g} cannot be seen with power 0.999 by {requests:,} requests")
    named = int(re.findall(r"give requests = ([\d,]+)", said)[0].replace(",", ""))
    assert kept(campaign(targets=[target], requests=named, detect=detect))
    assert not kept(campaign(targets=[target], requests=max(requests, int(named / NEARLY)), detect=detect))
    assert refused.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("requests", [3_000, 7_777, 20_000, 123_456])
def test_a_refusal_names_the_size_that_would_do(requests: int) -> None:
    """Rounded up, so that it is accepted; a ten-thousandth less is not."""
    chosen = campaign(requests=requests, detect=1e-3)
    with pytest.raises(CampaignError) as refused:
        keep(chosen, "a file")
    named = float(re.findall(r"or a detect of (\S+)$", str(refused.value))[0])
    assert seen_by(chosen) <= named < seen_by(chosen) + 1e-4
    assert kept(campaign(requests=requests, detect=named))
    assert not kept(campaign(requests=requests, detect=named - 1e-4))


def test_no_promise_is_kept_by_anything() -> None:
    assert kept(campaign(requests=1))
    assert kept(campaign(requests=1, detect=0.0))


def test_what_nobody_can_run_is_refused() -> None:
    with pytest.raises(CampaignError) as refused:
        keep(campaign(detect=1e-9), "a file")
    said = re.escape(f"a file: detect = 1e-09 needs more than {LARGEST_REQUESTS:,} requests of each law; give ")
    named = re.match(rf"{said}(0\.0000\d+) or more, which so many see$", str(refused.value))
    assert named
    assert kept(campaign(detect=float(named[1]), requests=LARGEST_REQUESTS))


def test_a_promise_needs_a_share_of_alpha() -> None:
    """No number of requests makes a check see something at level 0."""
    for weights in ({"fit": 1.0}, {"conditional": 0.5, "rare": 0.5}):
        with pytest.raises(CampaignError, match=r"^a file: detect = 0.1 is seen by checks of laws; give weights.law"):
            keep(campaign(detect=0.1, weights=weights), "a file")
    assert kept(campaign(detect=0.2, weights={"law": 1.0}))


def test_the_promise_is_of_the_weakest_first_token() -> None:
    """Of every target and depth, whichever is worst; of no check that is not required, and none of a bonus."""
    checks = design(campaign(targets=["context", "sparse-tail", "invalidated"], depths=[4, 5]))
    mine = [check for check in checks if check.required and check.event in PROMISED]
    assert {check.event for check in mine} == {Event.TOKEN, Event.FULL_TARGET, Event.PROPOSAL}
    sizes = [detectable(check, POWER).size for check in mine]
    assert resolution(checks, POWER, 20_000) == max(sizes)
    assert max(sizes) > min(sizes)
    assert resolution([check for check in checks if check not in mine], POWER, 20_000) < 1e-3


def test_of_certain_laws_an_impossible_outcome_is_promised() -> None:
    """(1 - r)^requests = 1 - power: with that share of impossible outcomes one is met with this power."""
    size = resolution([], POWER, 5000)
    assert (1 - size) ** 5000 == pytest.approx(1 - POWER)


def test_more_power_needs_more_requests() -> None:
    """And the table [detect] gives it."""
    low, high = (enough_for(power) for power in (0.5, 0.999))
    assert 1.2 * low < high


def enough_for(power: float) -> int:
    """Requests that see a twentieth."""
    chosen = campaign(power=power)

    def checks_of(requests: int) -> Sequence[Check]:
        return design(Campaign(spec=msgspec.structs.replace(chosen.spec, requests=requests), targets=chosen.targets))

    return enough(100, 0.05, checks_of, power, "a file")


@pytest.mark.parametrize("sampler", [Multinomial(), StandardRejection()], ids=["plain", "verifier"])
@pytest.mark.parametrize("detect", [0.0, 0.5, 0.05, 0.01])
def test_a_trial_takes_as_many_as_it_needs(sampler: Any, detect: float) -> None:
    """Never fewer than were asked for, and little more than are needed."""
    trial = make(TrialSpec(sampler="it", requests=2_000, detect=detect), sampler.describe(), "it")
    found = with_enough(trial, "it")
    assert found.spec.requests >= 2_000
    if not detect or trial.resolution <= detect:
        assert found is trial
        return
    assert found.resolution <= detect
    fewer = msgspec.structs.replace(trial.spec, requests=max(2_000, int(found.spec.requests / NEARLY)))
    assert make(fewer, sampler.describe(), "it").resolution > detect
    assert (found.problems, found.left_out) == (trial.problems, trial.left_out)


def test_a_trial_that_nobody_can_run_is_refused() -> None:
    trial = make(TrialSpec(sampler="it", detect=1e-9), Multinomial().describe(), "it")
    said = r"^it: detect = 1e-09 needs more than 1,099,511,627,776 requests of each law; give (0\.0000\d+) or more"
    with pytest.raises(CampaignError, match=said) as refused:
        with_enough(trial, "it")
    named = re.match(said, str(refused.value))
    assert named
    kept_ = make(msgspec.structs.replace(trial.spec, detect=float(named[1])), Multinomial().describe(), "it")
    assert with_enough(kept_, "it").spec.requests <= LARGEST_REQUESTS
    fewer = make(msgspec.structs.replace(trial.spec, detect=float(named[1]) / 1.1), Multinomial().describe(), "it")
    with pytest.raises(CampaignError, match=r"needs more than"):
        with_enough(fewer, "it")


def test_greedy_alone_is_certain() -> None:
    """Every first token has one outcome, so none is required."""
    trial = make(TrialSpec(sampler="it", targets=["greedy"], requests=777), StandardRejection().describe(), "it")
    assert all(check.reason == CERTAIN for check in trial.checks if check.event is Event.TOKEN)
    assert trial.resolution == pytest.approx(1 - 0.001 ** (1 / 777))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param(
            {"pool": 10_001, "requests": 20_000},
            "give requests = 20,002 or more, or a pool of at most 10,000",
            id="one-too-large",
        ),
        pytest.param({"pool": 10**9}, "give requests = 2,000,000,000 or more", id="the-largest"),
        pytest.param({"pool": 101, "requests": 7}, "give requests = 202 or more, or a pool of at most 100", id="few"),
    ],
)
def test_a_pool_that_nothing_fills_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(CampaignError, match=re.escape(said)):
        keep(campaign(**keys), "a file")


def test_the_usual_pool_is_never_refused() -> None:
    """A few requests still show what cannot be."""
    assert kept(campaign(requests=7))
    assert kept(campaign(pool=10_000, requests=20_000))


def test_a_share_that_no_check_has_is_refused() -> None:
    spec = TrialSpec(sampler="it", weights={"law": 0.5, "conditional": 0.5})
    with pytest.raises(CampaignError, match=r"weights.conditional = 0.5, and this profile has no check of that family"):
        plan(spec, Multinomial().describe(), "it", given=True)
    plan(spec, StandardRejection().describe(), "it", given=True)
    assert kept(campaign(weights={"law": 0.5, "conditional": 0.5}))
