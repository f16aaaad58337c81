"""Pooling, the error budget and strata: what is fixed before a run."""

import inspect
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from weighted_cell import cell

from pp3.harness import campaign, weights
from pp3.harness.cells import Cell, Event
from pp3.harness.design import CERTAIN, EMITTED, FAMILY, LAWS, SINGLE, Check, Method, design
from pp3.harness.pooling import pool
from pp3.harness.verdict import all_cells


@pytest.mark.parametrize(
    ("shares", "requests", "least", "groups"),
    [
        pytest.param([1, 1, 1, 1], 400, 100, [0, 1, 2, 3], id="all-stand-exactly"),
        pytest.param([1, 1, 1, 1], 399, 100, [0, 0, 1, 1], id="one-event-short"),
        pytest.param([1, 1, 1, 1, 1], 450, 100, [0, 0, 1, 1, 1], id="the-rest-joins-the-last"),
        pytest.param([97, 1, 1, 1], 10_000, 300, [1, 0, 0, 0], id="rarest-first"),
        pytest.param([97, 1, 1, 1], 10_000, 100, [3, 0, 1, 2], id="common-last"),
        pytest.param([50, 1, 49], 1000, 100, [1, 0, 0], id="rare-with-the-next"),
        pytest.param([1, 1], 200, 100, [0, 1], id="two"),
    ],
)
def test_pool(shares: list[int], requests: int, least: int, groups: list[int]) -> None:
    pooled = pool(cell(shares), requests, least)
    assert pooled is not None
    assert pooled.groups.tolist() == groups
    assert pooled.df == max(groups)
    for group, probability in enumerate(pooled.probabilities):
        total = sum(share for share, g in zip(shares, groups, strict=True) if g == group)
        assert probability == pytest.approx(total / sum(shares), rel=1e-14)  # sums of a few doubles


@pytest.mark.parametrize(
    ("shares", "requests"),
    [
        pytest.param([1], 10**6, id="one-outcome"),
        pytest.param([1, 1], 199, id="one-event-short-of-two"),
        pytest.param([1, 1, 1], 1, id="one-request"),
        pytest.param([10**6, 1, 1], 1000, id="all-but-certain"),
    ],
)
def test_pool_cannot(shares: list[int], requests: int) -> None:
    assert pool(cell(shares), requests, 100) is None


def test_pool_of_random_laws(rng: np.random.Generator) -> None:
    """Every group expects enough, every atom is in one, and no group is rarer than an atom of the one before."""
    stood = 0
    for _ in range(300):
        shares = rng.integers(1, 2 ** rng.integers(1, 20), rng.integers(1, 60)).tolist()
        rate = Fraction(int(rng.integers(1, 9)), 9)
        requests, least = int(rng.integers(1, 20_000)), int(rng.integers(20, 300))
        pooled = pool(cell(shares, rate), requests, least)
        if groups_that_stand(shares, requests * rate, least) < 2:
            assert pooled is None
            continue
        assert pooled is not None
        assert pooled.df + 1 == groups_that_stand(shares, requests * rate, least)
        stood += 1
        assert pooled.events == pytest.approx(float(requests * rate))
        assert set(pooled.groups.tolist()) == set(range(pooled.df + 1))
        assert (pooled.probabilities * pooled.events >= least * (1 - 1e-12)).all()
        assert math.fsum(pooled.probabilities) == pytest.approx(1, abs=1e-12)
        order = pooled.groups[np.argsort(shares, kind="stable")]
        assert (np.diff(order) >= 0).all()
    assert stood > 100


def test_pool_sees_the_null_only() -> None:
    """Neither pooling nor the design can look at counts: nothing hands them any."""
    assert list(inspect.signature(pool).parameters) == ["cell", "requests", "least"]
    assert list(inspect.signature(design).parameters) == ["campaign"]
    assert "counts" not in {field for kind in (Cell, Check) for field in kind.__dataclass_fields__}


def groups_that_stand(shares: list[int], events: Fraction, least: int) -> int:
    """Groups made from the rarest atom on, in exact fractions."""
    found, gathered = 0, Fraction(0)
    for share in sorted(shares):
        gathered += Fraction(share, sum(shares)) * events
        if gathered >= least:
            found, gathered = found + 1, Fraction(0)
    return found


@pytest.fixture(scope="module")
def default() -> tuple[campaign.Campaign, list[Check]]:
    """The default campaign and its checks."""
    chosen = campaign.load(None)
    return chosen, design(chosen)


def test_the_family_keeps_its_alpha(default: tuple[campaign.Campaign, list[Check]]) -> None:
    """Each family divides its weight equally among those of its checks that can decide."""
    chosen, checks = default
    deciding = [check for check in checks if check.decides]
    assert len(deciding) > 300
    assert math.fsum(check.alpha for check in checks) == pytest.approx(chosen.spec.alpha, rel=1e-12)
    for family, weight in weights.DEFAULT.items():
        alphas = [check.alpha for check in deciding if FAMILY[check.event] == family]
        assert len(set(alphas)) == 1
        assert math.fsum(alphas) == pytest.approx(chosen.spec.alpha * weight, rel=1e-12)
    assert all(bool(check.alpha) == (check.reason == "") for check in checks)


def test_every_event_has_a_family() -> None:
    assert set(FAMILY) == set(Event)
    assert set(FAMILY.values()) == set(weights.Family)
    assert set(SINGLE) < set(LAWS)


def test_weights_move_the_levels() -> None:
    """All of alpha to one family: its checks decide, at larger levels, and no other does."""
    shared = design(campaign.of_document({}, "a test"))
    alone = design(campaign.of_document({"weights": {"law": 1.0}}, "a test"))
    for one, other in zip(shared, alone, strict=True):
        assert (one.id, one.required) == (other.id, other.required)
        if FAMILY[one.event] is weights.Family.LAW and one.decides:
            assert other.alpha == pytest.approx(2 * one.alpha)
        elif FAMILY[one.event] is not weights.Family.LAW:
            assert not other.decides


def test_every_cell_is_in_one_check(default: tuple[campaign.Campaign, list[Check]]) -> None:
    """Checks of all outcomes, one by one and together, count no cell of their own."""
    chosen, checks = default
    counted = [name for check in checks for name in check.counted]
    assert sorted(counted) == sorted(cell.id for cell in all_cells(chosen))
    assert len({check.id for check in checks}) == len(checks)
    for check in checks:
        if check.method is Method.FIT:
            assert not check.counted
            assert {pooled.cell.event for pooled in check.cells} == {*EMITTED}
            continue
        assert {pooled.cell.id for pooled in check.cells} <= set(check.counted)
        assert check.events == pytest.approx(sum(pooled.events for pooled in check.cells))
        if check.method is Method.RARE:
            assert not check.counted
            assert {cell.event for cell in check.single} <= set(SINGLE)
            assert all(len(cell.atoms) > 1 for cell in check.single)
        elif check.method is Method.REPEAT:
            assert [cell.id for cell in check.single] == [*check.counted]
        else:
            assert bool(check.df) == (check.reason == "")
            assert not check.single


def test_methods(default: tuple[campaign.Campaign, list[Check]]) -> None:
    """One cell of two outcomes is a coin; each target and depth has one rare-cell check, the campaign one fit."""
    chosen, checks = default
    of = {method: [check for check in checks if check.method is method] for method in Method}
    pairs = [(target.name, depth) for target in chosen.targets for depth in chosen.spec.depths]
    assert [(check.target, check.depth) for check in of[Method.RARE]] == pairs
    assert [check.id for check in of[Method.FIT]] == ["fit"]
    assert {check.event for check in of[Method.REPEAT]} == {Event.REPEAT}
    assert {check.event for check in of[Method.BINOMIAL]} >= {Event.MATCH}
    for check in of[Method.BINOMIAL]:
        assert check.df == len(check.cells) == len(check.counted) == 1
        assert len(check.cells[0].cell.atoms) == 2
    for check in of[Method.G]:
        assert check.df != 1 or len(check.counted) > 1 or len(check.cells[0].cell.atoms) > 2


def test_every_group_expects_the_pool(default: tuple[campaign.Campaign, list[Check]]) -> None:
    chosen, checks = default
    share = chosen.spec.requests // len(chosen.spec.depths)
    for pooled in itertools.chain.from_iterable(check.cells for check in checks):
        law = pooled.cell.probabilities()
        mass = math.fsum(law[pooled.groups >= 0])
        assert pooled.events == pytest.approx(float(share * pooled.cell.rate) * mass, rel=1e-12)
        for stratum in range(int(pooled.strata[-1]) + 1):
            mine = pooled.strata == stratum
            inside = np.isin(pooled.groups, np.flatnonzero(mine))
            events = float(share * pooled.cell.rate) * math.fsum(law[inside])
            assert mine.sum() > 1
            assert math.fsum(pooled.probabilities[mine]) == pytest.approx(1, abs=1e-12)
            assert (events * pooled.probabilities[mine] >= chosen.spec.pool * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    ("shares", "strata", "groups", "owners"),
    [
        pytest.param([10, 10, 30, 50], [0, 0, 1, 1], [0, 1, 2, 3], [0, 0, 1, 1], id="two-strata"),
        pytest.param([9, 11, 30, 50], [0, 0, 1, 1], [-1, -1, 0, 1], [0, 0], id="one-too-rare-decides-nothing"),
        pytest.param([20, 30, 50], [0, 1, 1], [-1, 0, 1], [0, 0], id="one-outcome-decides-nothing"),
        pytest.param([30, 5, 5, 10, 50], [0, 1, 1, 1, 0], [0, 2, 2, 3, 1], [0, 0, 1, 1], id="pooled-within"),
    ],
)
def test_strata_are_pooled_by_themselves(
    shares: list[int], strata: list[int], groups: list[int], owners: list[int]
) -> None:
    """1,000 events, and 100 a group."""
    pooled = pool(replace(cell(shares), strata=np.array(strata)), 1000, 100)
    assert pooled is not None
    assert (pooled.groups.tolist(), pooled.strata.tolist()) == (groups, owners)
    assert pooled.df == len(owners) - len(set(owners))
    inside = [share for share, group in zip(shares, groups, strict=True) if group >= 0]
    assert pooled.events == pytest.approx(10 * sum(inside))
    for group, probability in enumerate(pooled.probabilities):
        mine = [i for i, g in enumerate(groups) if g == group]
        whole = sum(share for share, s in zip(shares, strata, strict=True) if s == strata[mine[0]])
        assert probability == pytest.approx(sum(shares[i] for i in mine) / whole, rel=1e-14)


def test_strata_none_of_which_can_decide() -> None:
    assert pool(replace(cell([1, 1, 1]), strata=np.arange(3)), 10**9, 20) is None


def test_what_is_required_and_what_is_certain(default: tuple[campaign.Campaign, list[Check]]) -> None:
    checks = {check.id: check for check in default[1]}
    for certain in ("disjoint/depth-4/length", "equal-q/depth-5/length"):
        assert (checks[certain].reason, checks[certain].required) == (CERTAIN, False)
    for required in (
        "context/depth-4/token/position-0",
        "context/depth-5/bonus",
        "context/depth-5/length",
        "sparse-tail/depth-4/proposal/position-0",
        "invalidated/depth-4/full-target/position-0",
        "disjoint/depth-4/residual/position-0",
    ):
        assert checks[required].required, required
        assert checks[required].df > 0, required
    assert not checks["context/depth-5/token/position-3"].required
    assert "equal-q/depth-4/residual/position-0" not in checks
