"""The guide to the battery: its worked example is what the functions give, and those are right by other ways."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pp3.harness import seed_example

GUIDE = (Path(__file__).resolve().parent.parent / "docs" / "battery.md").read_text("utf-8")
BEGIN, END = "<!-- begin: python -m pp3.harness.seed_example -->\n", "<!-- end -->\n"


def test_the_worked_example_is_computed() -> None:
    """Mend a difference by printing the section again: python -m pp3.harness.seed_example."""
    assert GUIDE.count(BEGIN) == GUIDE.count(END) == 1
    assert GUIDE.split(BEGIN)[1].split(END)[0] == seed_example.section()
    assert GUIDE.endswith(END)


def test_the_budget_is_spent_whole() -> None:
    table = GUIDE.split("| part |")[1].split("\n\n")[0]
    assert sum(int(share) for share in re.findall(r"\| (\d+) % \|", table)) == 100


def test_adjusted_p_values_by_hand() -> None:
    """Sorted: .045524 times 5, .537776 times 4 and all after it at 1."""
    values = seed_example.P_VALUES
    assert seed_example.bonferroni(values) == pytest.approx([1, 1, 1, 0.22762, 1])
    assert seed_example.holm(values) == pytest.approx([1, 1, 1, 0.22762, 1])
    assert seed_example.holm((0.01, 0.04, 0.03)) == pytest.approx([0.03, 0.06, 0.06])
    assert seed_example.bonferroni((0.01, 0.04, 0.03)) == pytest.approx([0.03, 0.12, 0.09])


def test_chances_of_extremes(rng: np.random.Generator) -> None:
    """As often as five uniform numbers give them: 5 standard errors of 200,000 families."""
    families = rng.random((200_000, 5))
    for found, expected in (
        ((families.min(axis=1) <= 0.045524).mean(), seed_example.chance_of_minimum(seed_example.P_VALUES)),
        ((families.max(axis=1) >= 0.972743).mean(), seed_example.chance_of_maximum(seed_example.P_VALUES)),
    ):
        assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / 200_000)


@pytest.mark.parametrize("outcomes", seed_example.OUTCOMES)
def test_one_test_seldom_finds_a_percent(outcomes: int, rng: np.random.Generator) -> None:
    """Pearson's test itself, on histograms off by 2 % up and down: within a factor of 1.5, at 1e5 to 4e5 runs."""
    null, runs = np.full(outcomes, 1 / outcomes), 400_000 if outcomes == 8 else 100_000
    truth = null * (1 + 0.02 * np.resize([1, -1], outcomes))
    expected = seed_example.REQUESTS * null
    critical = stats.chi2.isf(2e-6, outcomes - 1)
    failed = 0
    for _ in range(runs // 20_000):
        draws = rng.multinomial(seed_example.REQUESTS, truth, 20_000)
        failed += int((((draws - expected) ** 2 / expected).sum(axis=1) >= critical).sum())
    stated = seed_example.chance_of_finding(0.01, outcomes, seed_example.REQUESTS) * runs
    assert stats.poisson.ppf(1e-6, stated / 1.5) <= failed <= stats.poisson.isf(1e-6, stated * 1.5)


def test_passes_exclude_one_to_three_percent() -> None:
    for p in seed_example.P_VALUES:
        for outcomes in seed_example.OUTCOMES:
            assert 0.01 < seed_example.not_excluded(p, outcomes, seed_example.REQUESTS) < 0.03
