"""What the bridge finds: planted faults, moved draws and tickets, tables that are no law, mass outside the target."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from enumerated import VOCAB, W64, ResidualOfP, cross, emitted

from pp3.harness import canonical
from pp3.harness.bridge import Fault, Steps, Use, bridge
from pp3.harness.emission import Row
from pp3.kernels.reference import ONE
from pp3.targets.policies import POLICIES, build_policy


def edited(name: str, field: str, row: int, column: int, value: int) -> dict[str, Any]:
    """One entry of an emitted table replaced."""
    tables = {"ids": emitted(name).ids.copy(), "tickets": emitted(name).tickets.copy()}
    tables[field][row, column] = value
    return tables


@pytest.mark.parametrize(
    ("changed", "breach", "row", "token", "got", "expected"),
    [
        pytest.param(
            edited("tilt", "ids", 2, 5, int(emitted("tilt").ids[2, 4])),
            "ids",
            2,
            int(emitted("tilt").ids[2, 4]),
            str(emitted("tilt").ids[2, 4]),
            f"above {emitted('tilt').ids[2, 4]}, below 4133",
            id="duplicated-id",
        ),
        pytest.param(edited("tilt", "ids", 0, 31, 4133), "ids", 0, 4133, "4133", "below 4133", id="id-past-the-last"),
        pytest.param(edited("tilt", "ids", 0, 0, -1), "ids", 0, -1, "-1", "above -1", id="id-below-0"),
        pytest.param(edited("tilt", "ids", 9, 0, 4000), "ids", 9, None, "", "above 4000", id="ids-descend"),
        pytest.param(edited("tilt", "tickets", 3, 7, -1), "tickets", 3, None, "-1", "none negative", id="negative"),
        pytest.param(edited("tilt", "tickets", 3, 7, ONE), "tickets", 3, -1, "", "16777216", id="too-many-tickets"),
        pytest.param(edited("tilt", "tickets", 31, 0, 0), "tickets", 31, -1, "", "16777216", id="a-ticket-lost"),
        pytest.param({"drawn": [{5: ONE - 1}] * 32}, "draws", 0, -1, "16777215", "16777216", id="a-draw-lost"),
        pytest.param({"drawn": [{4133: ONE}] * 32}, "ids", 0, 4133, "4133", "below 4133", id="a-draw-past-the-last"),
    ],
)
def test_tables_that_are_no_law(
    changed: dict[str, Any], breach: str, row: int, token: int | None, got: str, expected: str
) -> None:
    crossed = cross("tilt", **changed)
    fault = crossed.fault
    assert fault is not None
    assert (fault.breach, fault.row, fault.position, fault.context) == (breach, row, -1, -1)
    assert token is None or fault.token == token
    assert got in fault.got
    assert expected in fault.expected
    assert not crossed.ok
    assert (crossed.variations, crossed.design_lengths, crossed.device_lengths) == ((), (), ())
    assert canonical.encode(crossed.plain())


class BonusOfThePositionBefore(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        return super().row(use, position - (use is Use.WHOLE and position > 0), context)


class WholeTargetOfOneRow(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        return 7 if use is Use.WHOLE else super().row(use, position, context)


class AcceptanceOfAnotherContext(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        other = (context + 1) % self.target.contexts
        return super().row(use, position, other if use is Use.ACCEPTANCE and position > 0 else context)


class ResidualOfAnotherContext(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        other = (context + 1) % self.target.contexts
        return super().row(use, position, other if use is Use.RESIDUAL and position > 0 else context)


class CarrierOfThePositionBefore(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        return super().row(use, position - (use is Use.CARRIER and position > 0), context)


class ResidualOfTheDistance(Steps):
    def residual(self, weights: Row, tickets: Row) -> Row:
        tokens = sorted(weights | tickets)
        return {t: abs(weights.get(t, 0) - tickets.get(t, 0)) for t in tokens} if weights != tickets else weights


class AcceptanceAtThreeOfAnotherRow(Steps):
    def row(self, use: Use, position: int, context: int) -> int:
        return super().row(use, position, context) ^ (use is Use.ACCEPTANCE and position == 3)


FAULTS = {
    AcceptanceAtThreeOfAnotherRow: {"identity", "tilt", "sparse"},
    BonusOfThePositionBefore: {"identity", "tilt", "sparse"},
    WholeTargetOfOneRow: {"identity", "tilt", "sparse"},
    AcceptanceOfAnotherContext: {"identity", "tilt", "sparse"},
    ResidualOfAnotherContext: {"tilt", "sparse"},
    CarrierOfThePositionBefore: {"identity", "tilt", "sparse"},
    ResidualOfP: {"tilt", "sparse"},
    ResidualOfTheDistance: {"tilt", "sparse", "disjoint"},
}


@pytest.mark.parametrize("steps", FAULTS, ids=lambda steps: steps.__name__)
@pytest.mark.parametrize("depth", [4, 5])
def test_a_planted_fault_is_no_equality(steps: type[Steps], depth: int) -> None:
    """Each is named by its place; the policies that cannot show it are those that never take the step."""
    shown = set()
    for name in POLICIES:
        fault = cross(name, depth, steps=steps).fault
        if fault is None:
            continue
        shown.add(name)
        assert fault.breach == "law"
        assert Fraction(fault.got) != Fraction(fault.expected)
        expected = Fraction(int(build_policy(name).weights[fault.row, fault.token]), ONE)
        assert Fraction(fault.expected) == expected
        assert fault.row == build_policy(name).row_of[fault.position, fault.context]
        if steps in (BonusOfThePositionBefore, WholeTargetOfOneRow):
            assert fault.position == depth
        if steps is AcceptanceAtThreeOfAnotherRow:  # rows met before, rightly, at other places
            assert fault.position == 3
    assert shown == FAULTS[steps]


class ResidualWithAStray(Steps):
    def residual(self, weights: Row, tickets: Row) -> Row:
        return {0: 1} | super().residual(weights, tickets)


def test_mass_outside_the_target_counts() -> None:
    """Half of it, of a residual of |P - Q| for disjoint laws; and one share in 2^24 + 1 on a token of neither."""
    assert cross("disjoint", steps=ResidualOfTheDistance).variations == (((0, 0), (1, 2)),)
    crossed = cross("disjoint", steps=ResidualWithAStray)
    assert crossed.fault == Fault(
        breach="law", row=0, position=0, context=0, token=0, got=f"1/{ONE + 1}", expected="0/1"
    )
    assert Fraction(*crossed.largest) == Fraction(math.ceil(Fraction(W64, ONE + 1)), W64)


@pytest.mark.parametrize("steps", [BonusOfThePositionBefore, WholeTargetOfOneRow])
@pytest.mark.parametrize("void", range(1, 5))
def test_a_full_target_of_a_wrong_row(steps: type[Steps], void: int) -> None:
    fault = cross("tilt", 5, void, steps=steps).fault
    assert fault is not None
    assert fault.position == void


@pytest.mark.parametrize("inside", [pytest.param(True, id="in-support"), pytest.param(False, id="outside")])
@pytest.mark.parametrize("name", POLICIES)
def test_one_draw_moved_to_another_id(name: str, inside: bool) -> None:
    """Drafts drawn with one of the 2^24 values on a wrong id: equality fails by a single ticket."""
    tables = zip(emitted(name).ids.tolist(), emitted(name).tickets.tolist(), strict=True)
    draws = [dict(zip(*row, strict=True)) for row in tables]
    assert cross(name, drawn=draws).ok
    first = draws[int(build_policy(name).row_of[0, 0])]
    source, goal = max(first, key=lambda token: first[token]), min(set(range(VOCAB)) - first.keys())
    if inside:
        goal = min((token for token, tickets in first.items() if tickets), key=lambda token: first[token])
    assert (goal in first) == inside
    first[source] -= 1
    first[goal] = first.get(goal, 0) + 1
    fault = cross(name, drawn=draws).fault
    if name == "disjoint" and inside:  # both drafts are rejected: which of them was drawn changes no law
        assert fault is None
        return
    assert fault is not None
    assert (fault.breach, fault.position, fault.context) == ("law", 0, 0)


def test_one_ticket_moved_in_draws_and_carrier_alike() -> None:
    """Rejection sampling is exact for any proposal: the emitted law stays, and only the accepted length tells."""
    tickets = emitted("identity").tickets.copy()
    row = int(build_policy("identity").row_of[0, 0])
    held = np.flatnonzero(tickets[row] > 1)
    tickets[row, held[:2]] += np.array([1, -1])
    crossed = cross("identity", tickets=tickets)
    assert crossed.fault is None
    assert crossed.design_lengths[0] == (1, ONE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"depth": 3}, "depth 3 with 3 drafts marked", id="depth-3"),
        pytest.param({"depth": 6}, "depth 6", id="depth-6"),
        pytest.param({"ids": emitted("tilt").ids[:31]}, r"\(31, 32\)", id="a-row-less"),
        pytest.param({"tickets": emitted("tilt").tickets[:, :31]}, r"\(32, 31\)", id="a-column-less"),
        pytest.param({"tickets": emitted("tilt").tickets / 1.0}, "float64", id="floats"),
        pytest.param({"ids": [[2**70] * 32] * 32}, "object", id="beyond-64-bits"),
        pytest.param({"drawn": [{1: ONE}]}, "drawn a row", id="draws-of-one-row"),
    ],
)
def test_what_no_device_emits_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cross("tilt", **changed)


def test_void_has_a_mark_a_draft() -> None:
    with pytest.raises(ValueError, match="depth 5 with 4 drafts marked"):
        bridge(build_policy("tilt"), emitted("tilt").ids, emitted("tilt").tickets, 5, (False,) * 4)


def test_a_variation_at_the_bound_is_not_within() -> None:
    crossed = cross("tilt")
    assert crossed.within
    assert not replace(crossed, bound=crossed.largest).within
    assert not replace(crossed, variations=()).within
    above = crossed.largest[0] * 10**9 + 1, crossed.largest[1] * 10**9
    assert replace(crossed, bound=above).ok
    assert not replace(crossed, bound=crossed.largest).ok


def test_a_fault_within_the_bound_is_not_ok() -> None:
    fault = Fault(breach="law", row=0, got="1/2", expected="1/3")
    crossed = replace(cross("tilt"), fault=fault)
    assert (crossed.within, crossed.ok) == (True, False)
