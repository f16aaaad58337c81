"""Shares of alpha: what is refused and why, and that a family without a share cannot buy a PASS."""

import math
from collections.abc import Callable

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness.campaign import Campaign
from pp3.harness.design import FAMILY, NO_SHARE, REQUIRED, design
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.verdict import Verdict, conclude
from pp3.harness.weights import DEFAULT, ROUNDING, Family, checked


def test_the_default_is_a_division_of_one() -> None:
    assert set(DEFAULT) == set(Family)
    assert math.fsum(DEFAULT.values()) == pytest.approx(1, abs=ROUNDING)
    assert min(DEFAULT.values()) > 0
    assert checked({}, "it") == DEFAULT
    assert checked({}, "it") is not DEFAULT


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param({"law": 1.0}, {"law": 1.0}, id="one"),
        pytest.param({"law": 1}, {"law": 1.0}, id="a-whole-number"),
        pytest.param({"law": 0.5, "rare": 0.5}, {"law": 0.5, "rare": 0.5}, id="two"),
        pytest.param(
            {"law": 0.1, "conditional": 0.2, "dependence": 0.3, "rare": 0.15, "fit": 0.25},
            {"law": 0.1, "conditional": 0.2, "dependence": 0.3, "rare": 0.15, "fit": 0.25},
            id="all",
        ),
        pytest.param({"law": 1 / 3, "rare": 1 / 3, "fit": 1 / 3}, dict.fromkeys(("law", "rare", "fit"), 1 / 3), id="3"),
        pytest.param({"law": 1 - 0.9 * ROUNDING}, {"law": 1 - 0.9 * ROUNDING}, id="within-rounding"),
    ],
)
def test_those_not_given_are_0(given: dict[str, float], found: dict[str, float]) -> None:
    assert checked(given, "it") == dict.fromkeys(DEFAULT, 0.0) | found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            {"laws": 1.0}, "weights has 'laws'; its keys are law, conditional, dependence, rare, fit", id="key"
        ),
        pytest.param({"x" * 500: 1.0}, "xxx'; its keys are law", id="a-long-key"),
        pytest.param({"law": -0.1, "fit": 1.1}, "weights.law = -0.1; it must be a share from 0 to 1", id="below-0"),
        pytest.param({"law": 1.1}, "weights.law = 1.1; it must be a share from 0 to 1", id="above-1"),
        pytest.param({"law": math.nan}, "weights.law = nan; it must be a share from 0 to 1", id="nan"),
        pytest.param({"law": math.inf}, "weights.law = inf; it must be a share from 0 to 1", id="inf"),
        pytest.param({"law": 0.5}, "weights sum to 0.5; they must sum to 1: divide each by 0.5", id="less"),
        pytest.param({"law": 1.0, "fit": 1.0}, "weights sum to 2; they must sum to 1: divide each by 2", id="more"),
        pytest.param({"law": 1 - 2 * ROUNDING}, "they must sum to 1: divide each by 1", id="beyond-rounding"),
        pytest.param({"law": 0.0}, "weights sum to 0; they must sum to 1: the default is {'law': 0.5", id="nothing"),
    ],
)
def test_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(CampaignError) as refused:
        checked(given, "a file")
    assert said in str(refused.value)
    assert str(refused.value).startswith("a file: ")
    assert refused.value.exit_code == Exit.USAGE


def test_divided_as_is_said_they_are_accepted() -> None:
    """The way out that a message gives."""
    given = {"law": 0.7, "rare": 0.2, "fit": 0.5}
    total = math.fsum(given.values())
    found = checked({name: weight / total for name, weight in given.items()}, "it")
    assert math.fsum(found.values()) == pytest.approx(1)


SMALL = {"targets": ["context"], "requests": 6000, "paired": 40, "batch_sizes": [2], "depths": [4]}


@pytest.mark.parametrize("family", Family)
def test_all_to_one_family(family: Family) -> None:
    """It spends alpha, whole; no other check can fail but by an outcome of zero probability, and each says why."""
    checks = design(campaigns.of_document(SMALL | {"weights": {family.value: 1.0}}, "test"))
    assert math.fsum(check.alpha for check in checks) == pytest.approx(1e-5)
    for check in checks:
        assert not check.alpha or FAMILY[check.event] is family
        assert bool(check.alpha) == (check.reason == "")
        if FAMILY[check.event] is not family:
            assert check.reason


@pytest.fixture(scope="module")
def measured(measure: Callable[[Campaign, Seed], Measured]) -> Measured:
    """One run, which the plan's weights do not change but by its seed."""
    chosen = campaigns.of_document(SMALL, "test")
    return measure(chosen, Seed.of(campaigns.plan_sha256(chosen), 7))


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [
        pytest.param({}, Verdict.PASS, id="default"),
        pytest.param({"law": 0.5, "conditional": 0.5}, Verdict.PASS, id="all-that-is-required"),
        pytest.param({"law": 1.0}, Verdict.INCONCLUSIVE, id="no-conditional"),
        pytest.param({"fit": 0.5, "conditional": 0.5}, Verdict.INCONCLUSIVE, id="no-law"),
        pytest.param({"dependence": 1.0}, Verdict.INCONCLUSIVE, id="dependence-alone"),
    ],
)
def test_weights_buy_no_pass(weights: dict[str, float], verdict: Verdict, measured: Measured) -> None:
    """A required check without a share is missing."""
    chosen = campaigns.of_document(SMALL | {"weights": weights}, "test")
    found = conclude(
        chosen,
        measured.counts,
        measured.first,
        measured.breaches,
        measured.pairs,
        measured.kernels,
        {"name": "it", "version": "1", "backend": "reference"},
    )
    assert found.verdict is verdict, found.reasons
    if verdict is Verdict.INCONCLUSIVE:
        assert all(reason.endswith(NO_SHARE) for reason in found.reasons)
        lacking = {test.id for test in found.tests if test.required and test.reason == NO_SHARE}
        assert {reason.partition(": ")[0] for reason in found.reasons} == lacking
        assert {test.event for test in found.tests if test.id in lacking} <= set(REQUIRED)
