"""The restated rules, by hand, and how often each rejects a correct sampler."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pp3.harness.faults import peers

HALVES = np.array([0.5, 0.5])
QUARTERS = np.array([0.5, 0.25, 0.25])
Measure = Callable[[peers.Counts, peers.Law], float]
RULES = {rule.name: rule for rule in peers.RULES}


@pytest.mark.parametrize(
    ("measure", "counts", "null", "value"),
    [
        (peers.cosine, [1, 1], HALVES, 1.0),
        (peers.cosine, [3, 1], HALVES, 4 / math.sqrt(20)),
        (peers.cosine, [2, 1, 1], QUARTERS, 1.0),
        (peers.cosine, [1, 0], np.array([0.0, 1.0]), 0.0),
        (peers.total_variation, [3, 1], HALVES, 0.25),
        (peers.total_variation, [1, 1, 2], QUARTERS, 0.25),
        (peers.total_variation, [4, 0], HALVES, 0.5),
        (peers.divergence, [4, 0], HALVES, math.log(2)),
        (peers.divergence, [3, 1], HALVES, 0.75 * math.log(1.5) + 0.25 * math.log(0.5)),
        (peers.divergence, [3, 1], np.array([1.0, 0.0]), math.inf),
        (peers.sigmas, [60, 40], HALVES, 2.0),
        (peers.sigmas, [600, 600, 1200], QUARTERS, 600 / math.sqrt(450)),
        (peers.sigmas, [5, 0], np.array([1.0, 0.0]), 0.0),
        (peers.sigmas, [4, 1], np.array([1.0, 0.0]), math.inf),
    ],
)
def test_by_hand(measure: Measure, counts: list[int], null: peers.Law, value: float) -> None:
    assert measure(np.array(counts), null) == pytest.approx(value, rel=1e-14)


def test_distance_ratio_by_hand() -> None:
    """Counts (60, 40), first ten (8, 2): .32 falls to .1 of sqrt(2), and against uniform laws, the same null, less."""
    counts, first = np.array([60, 40]), np.array([8, 2])
    variance = peers.REFERENCE_VARIANCE / 2
    towards_null, towards_reference = 3.0, math.sqrt((0.18 + variance) / (0.02 + variance))
    found = peers.distance_ratio(counts, HALVES, first)
    assert found == pytest.approx(towards_null / towards_reference, rel=1e-14)


def test_first_ten_given_all_by_hand() -> None:
    """Ten of 20 draws, 12 and 8: a mean square of .02 + .48 / 10 * 10 / 19 about the null."""
    counts, variance = np.array([12, 8]), peers.REFERENCE_VARIANCE / 2
    start, last = 0.02 + 0.48 / 19, 0.02
    expected = math.sqrt(start / last) / math.sqrt((start + variance) / (last + variance))
    assert peers.distance_ratio(counts, HALVES) == pytest.approx(expected, rel=1e-14)


def test_first_ten_are_a_sample_of_all(rng: np.random.Generator) -> None:
    """The mean square of the closed form is that of ten draws without replacement: within 5 standard errors."""
    counts, null = np.array([50, 30, 20]), np.array([0.4, 0.4, 0.2])
    firsts = rng.multivariate_hypergeometric(counts, 10, 20_000) / 10
    squares = ((firsts - null) ** 2).sum(axis=1)
    frequencies = counts / 100
    mean = ((frequencies - null) ** 2).sum() + (1 - frequencies @ frequencies) / 10 * 90 / 99
    assert abs(squares.mean() - mean) < 5 * squares.std() / math.sqrt(20_000)


def test_reference_variance(rng: np.random.Generator) -> None:
    """Softmaxes of 400 uniform logits: summed squares of differences from 1 / k, times k, to 1 %."""
    laws = np.exp(rng.random((2000, 400)))
    laws /= laws.sum(axis=1, keepdims=True)
    squares = ((laws - 1 / 400) ** 2).sum(axis=1) * 400
    assert squares.mean() == pytest.approx(peers.REFERENCE_VARIANCE, rel=0.01)


def test_perfect_counts_fall_without_end() -> None:
    assert peers.distance_ratio(np.array([50, 50]), HALVES) == math.inf


@pytest.mark.parametrize(
    ("name", "inside", "outside", "null"),
    [
        ("cosine", [567, 433], [572, 428], HALVES),  # tan of the angle: (a - b) / (a + b) < .1425
        ("total-variation", [519, 481], [521, 479], HALVES),
        ("divergence", [570, 430], [571, 429], HALVES),  # 2 d^2 + 4 d^4 / 3 of d = .0706
        ("sigmas", [5499, 4501], [5501, 4499], HALVES),  # one standard error is 50
        ("distance-ratio", [50_100, 49_900], [52_000, 48_000], np.array([0.501, 0.499])),
    ],
)
def test_either_side_of_the_bar(name: str, inside: list[int], outside: list[int], null: peers.Law) -> None:
    assert RULES[name].passes(np.array(inside), null)
    assert not RULES[name].passes(np.array(outside), null)


def test_rules_are_named_once_and_frozen() -> None:
    assert len(RULES) == len(peers.RULES) == 5
    assert all(rule.source and rule.about for rule in peers.RULES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        peers.RULES[0].name = "other"  # type: ignore[misc]


def laws() -> dict[str, peers.Law]:
    """Twenty tokens, equal or in proportion to 1, 1/2, 1/3, ..."""
    weights = 1 / np.arange(1, 21)
    return {"uniform": np.full(20, 1 / 20), "zipf": weights / weights.sum()}


@pytest.mark.parametrize("name", ["cosine", "divergence", "sigmas"])
@pytest.mark.parametrize("law", ["uniform", "zipf"])
def test_bars_that_a_correct_sampler_never_meets(name: str, law: str, rng: np.random.Generator) -> None:
    """20,000 draws: G would be 400 of 19 degrees of freedom, a count off by 10 standard errors."""
    assert peers.false_alarm(RULES[name], laws()[law], 20_000, 5000, rng) == 0


@pytest.mark.parametrize("law", ["uniform", "zipf"])
def test_false_alarms_of_total_variation(law: str, rng: np.random.Generator) -> None:
    """As often as a normal vector of the same covariance is over the bar: two shares, to 5 standard errors."""
    null, events, runs = laws()[law], 20_000, 20_000
    found = peers.false_alarm(RULES["total-variation"], null, events, runs, rng)
    covariance = (np.diag(null) - np.outer(null, null)) / events
    normal = np.abs(rng.multivariate_normal(np.zeros(20), covariance, runs)).sum(axis=1) / 2
    expected = int((normal > peers.TOTAL_VARIATION).sum())
    assert abs(found - expected) <= 5 * math.sqrt(found + expected + 1)
    assert found < runs / 500  # measured: 0.0005 of a uniform law


def test_false_alarms_of_the_distance_ratio_depend_on_the_law(rng: np.random.Generator) -> None:
    """At 20,000 draws, not the 100,000 it is meant for, a uniform law fails: it is the mean of the reference."""
    rule = RULES["distance-ratio"]
    assert peers.false_alarm(rule, laws()["uniform"], 20_000, 500, rng) > 490
    share = stats.binomtest(peers.false_alarm(rule, laws()["zipf"], 20_000, 4000, rng), 4000).proportion_ci(1 - 1e-6)
    assert 0 < share.low < share.high < 0.05  # measured: 0.015 to 0.018
    assert peers.false_alarm(rule, laws()["zipf"], 100_000, 1000, rng) == 0


def test_false_alarms_as_the_source_runs_it(rng: np.random.Generator) -> None:
    """Ten tokens, random laws, the first ten draws counted: a correct sampler fails now and then (measured: 0.003)."""
    failed = 0
    for _ in range(4000):
        null = np.exp(rng.random(10))
        null /= null.sum()
        first = rng.multinomial(10, null)
        failed += peers.distance_ratio(first + rng.multinomial(99_990, null), null, first) <= peers.FALLS
    assert 0 < failed < stats.binom.isf(1e-6, 4000, 0.01)
