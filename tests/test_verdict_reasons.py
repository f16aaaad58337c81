"""Counts that are added, checks that could not decide, and the words of each kind of failure."""

from collections.abc import Callable
from typing import Any

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import verdict
from pp3.harness.battery import TestResult as Result  # pytest collects what is named Test
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Event
from pp3.harness.design import TOO_FEW, Method, design
from pp3.harness.power import Effect, Unit
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.verdict import MARGIN, Verdict, conclude, merge, on_level, unkept

CPU = {"name": "pp3-top32", "version": "1.2", "backend": "reference"}


def test_counts_of_batch_sizes_are_added() -> None:
    """Outcome by outcome, also of a cell that only one batch size has."""
    counts = {("a", 1): [1, 2, 3], ("b", 4): [5, 0], ("a", 4): [10, 20, 30], ("a", 16): [100, 0, 300]}
    assert merge(counts) == {"a": [111, 22, 333], "b": [5, 0]}
    assert counts["a", 1] == [1, 2, 3]


def test_counts_of_unlike_lengths_are_no_counts_of_one_cell() -> None:
    with pytest.raises(ValueError, match="argument 2 is"):
        merge({("a", 1): [1, 2, 3], ("a", 4): [1, 2]})


def test_a_required_check_of_too_few_events_is_not_decided(measure: Callable[[Campaign, Seed], Measured]) -> None:
    """Each is named in the order of the plan, and none that is not required; nothing else is against this run."""
    few = {"targets": ["disjoint"], "requests": 200, "paired": 40, "batch_sizes": [1], "depths": [4]}
    campaign = campaigns.of_document(few, "a test")
    found = measure(campaign, Seed.of(campaigns.plan_sha256(campaign), 7))
    judged = conclude(campaign, found.counts, found.first, found.breaches, found.pairs, found.kernels, CPU)
    checks = design(campaign)
    named = [f"{check.id}: {TOO_FEW}" for check in checks if check.required and not check.alpha]
    assert 0 < len(named) < sum(check.reason == TOO_FEW for check in checks)
    assert (judged.verdict, judged.reasons) == (Verdict.INCONCLUSIVE, named)


def failed(method: Method, **more: Any) -> Result:
    """A check that found something."""
    effect = Effect(size=0.1, unit=Unit.TV)
    said: dict[str, Any] = {"event": Event.TOKEN, "df": 0, "events": 900, "g": 0.0, "pearson": 0.0, "pearson_p": 1.0}
    said |= {"p": 1.2e-9, "alpha": 3.5e-7, "forbidden": 0, "worst": "", "reason": "", "required": True}
    return Result(id="t/check", method=method, detectable=effect, excluded=effect, **said | more)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        pytest.param(failed(Method.G, df=5, g=61.2), "G = 61.2 on 5 df, p = 1.2e-09 <= 3.5e-07", id="a-law"),
        pytest.param(failed(Method.RARE, worst="t/a: outcome 3"), "t/a: outcome 3, p = 1.2e-09 <= 3.5e-07", id="rare"),
        pytest.param(failed(Method.REPEAT), "repeats, p = 1.2e-09 <= 3.5e-07", id="a-repeat"),
        pytest.param(failed(Method.G, df=5, g=61.0, forbidden=2), "2 outcomes of zero probability", id="forbidden"),
    ],
)
def test_a_failure_says_what_was_found(test: Result, said: str) -> None:
    assert verdict._why(test) == f"t/check: {said}"


@pytest.mark.parametrize(("seen", "kept"), [(0.05, True), (0.1, True), (0.2, True), (0.25, False)])
def test_more_may_be_seen_than_was_promised(seen: float, kept: bool) -> None:
    """The less, the more is seen; 0.2 is seen where 0.2 was promised, be it the same object or computed."""
    assert (unkept(seen, 0.2) == []) is kept
    assert unkept(float("0.2"), float("0.2")) == []


@pytest.mark.parametrize("p", [1.7972963737060926e-06, 1.7972604281380742e-06], ids=["above", "below"])
def test_a_p_value_at_the_margin_lies_on_its_level(p: float) -> None:
    """One of the few levels that have doubles at exactly the margin from them, found by search."""
    alpha = 1.7972784009220834e-06
    assert abs(p - alpha) == MARGIN * alpha
    assert on_level(failed(Method.G, df=1, p=p, alpha=alpha))
