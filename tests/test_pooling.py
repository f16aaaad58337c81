"""Pooling by hand: groups of every stratum, their degrees of freedom, and the events that a rate leaves."""

from fractions import Fraction

import numpy as np
import pytest
from weighted_cell import cell

from pp3.harness.pooling import Pooled, pool


def pooled(shares: list[int], strata: list[int] | None, requests: int, least: int, rate: Fraction) -> Pooled:
    """A cell with this law that can decide."""
    found = pool(cell(shares, rate, strata=None if strata is None else np.array(strata)), requests, least)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shares", "strata", "groups", "df"),
    [
        pytest.param([3, 1, 2], [0, 0, 0], [2, 0, 1], 2, id="one"),
        pytest.param([1, 2, 3, 3, 1], [0, 0, 0, 1, 1], [0, 1, 2, 4, 3], 3, id="two"),
        pytest.param([1, 2, 3, 3, 1, 1, 1, 2], [0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 2, 4, 3, 5, 6, 7], 5, id="three"),
        pytest.param(
            [1, 2, 3, 3, 1, 1, 1, 2, 1, 4],
            [0, 0, 0, 1, 1, 2, 2, 3, 3, 3],
            [0, 1, 2, 4, 3, 5, 6, 8, 7, 9],
            6,
            id="four",
        ),
        pytest.param([3, 1, 2, 1], [7, 2, 7, 2], [3, 0, 2, 1], 2, id="interleaved"),
    ],
)
def test_every_stratum_has_groups_of_its_own(shares: list[int], strata: list[int], groups: list[int], df: int) -> None:
    """Numbered on from those of the strata before, rarest first; each stratum costs a degree of freedom."""
    found = pooled(shares, strata, 10_000, 20, Fraction(1))
    assert found.groups.tolist() == groups
    assert found.df == df
    numbers = sorted(set(strata))
    owners = {groups[atom]: numbers.index(stratum) for atom, stratum in enumerate(strata)}
    assert found.strata.tolist() == [owners[group] for group in range(len(groups))]
    mass = [sum(share for share, s in zip(shares, strata, strict=True) if s == stratum) for stratum in strata]
    given = {groups[atom]: shares[atom] / mass[atom] for atom in range(len(shares))}
    assert found.probabilities.tolist() == pytest.approx([given[group] for group in range(len(groups))])


@pytest.mark.parametrize(
    ("rate", "groups", "events"),
    [
        pytest.param(Fraction(1), [0, 1, 2], 160, id="every-request"),
        pytest.param(Fraction(2, 3), [0, 0, 1], 320 / 3, id="two-of-three"),
        pytest.param(Fraction(3, 8), [0, 0, 1], 60, id="few"),
    ],
)
def test_a_rate_leaves_so_many_events(rate: Fraction, groups: list[int], events: float) -> None:
    """A quarter of 160 requests is 40, enough; a quarter of what lower rates leave is not, and half of it is."""
    found = pooled([1, 1, 2], None, 160, 30, rate)
    assert found.groups.tolist() == groups
    assert found.events == pytest.approx(events)
