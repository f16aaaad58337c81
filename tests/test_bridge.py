"""The bridge against a second implementation: every draft sequence of small chains, enumerated in fractions."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from pp3.harness import canonical
from pp3.harness.bridge import Bridge, Fault, Place, Steps, Use, bridge, mean
from pp3.harness.emission import Row
from pp3.kernels.reference import ONE, SUPPORT, Supports, allocate
from pp3.targets import Target
from pp3.targets.policies import POLICIES, build_policy
from pp3.targets.target import POSITIONS

VOCAB, CONTEXTS, ROWS = 40, 2, 5
W32, W64 = 1 << 32, 1 << 64
Law = dict[int, Fraction]


def small(rng: np.random.Generator) -> tuple[Target, Any, Any]:
    """Two contexts, five rows, three or four tokens a law: near, equal, disjoint, one token, one ticket apart."""
    weights = np.zeros((ROWS, VOCAB), np.int64)
    ids = np.stack([np.sort(rng.permutation(VOCAB)[:SUPPORT]) for _ in range(ROWS)])
    tickets = np.zeros((ROWS, SUPPORT), np.int64)
    for row in range(ROWS):
        places = np.sort(rng.permutation(SUPPORT)[: 3 + row % 2])
        tickets[row, places] = split(rng, len(places))
        outside = [token for token in range(VOCAB) if token not in ids[row, places]]
        if row == 0:
            tokens = [*ids[row, places[:2]], *rng.permutation(outside)[:2]]
            weights[row, tokens] = split(rng, 4)
        elif row == 1:
            weights[row, ids[row]] = tickets[row]
        elif row == 2:
            weights[row, rng.permutation(outside)[:3]] = split(rng, 3)
        elif row == 3:
            weights[row, ids[row, places[0]]] = ONE
        else:
            weights[row, ids[row]] = tickets[row]
            weights[row, ids[row, places[:2]]] += np.array([1, -1])
    target = Target(
        name="small",
        why="small enough to enumerate",
        weights=weights,
        draft_logits=np.zeros((ROWS, VOCAB), np.float32),
        row_of=np.concatenate([[[0, 4]], rng.integers(0, ROWS, (POSITIONS - 1, CONTEXTS))]),
        context_of=rng.permutation(VOCAB) % CONTEXTS,
    )
    return target, ids, tickets


def split(rng: np.random.Generator, count: int) -> list[int]:
    """Positive integers of sum 2^24, of unlike sizes."""
    cuts = sorted({int(2 ** rng.uniform(1, 24)) for _ in range(count - 1)})
    while len(cuts) < count - 1:
        cuts = sorted({*cuts, int(rng.integers(2, ONE))})
    return [high - low for low, high in itertools.pairwise([0, *cuts, ONE])]


class Enumerated:
    """One round by brute force: every sequence of drafts, and every way it can be judged."""

    def __init__(
        self, target: Target, drawn: list[Law], carried: list[Law], depth: int, void: Sequence[bool], device: bool
    ) -> None:
        self.target, self.drawn, self.carried = target, drawn, carried
        self.depth, self.void, self.device = depth, void, device
        self.p = [{t: Fraction(int(w), ONE) for t, w in enumerate(row) if w} for row in target.weights]
        self.reached: dict[Place, Fraction] = defaultdict(Fraction)
        self.emitted: dict[Place, Law] = defaultdict(lambda: defaultdict(Fraction))
        self.lengths = [Fraction(0)] * (depth + 1)
        for places, drafts, chance in self.sequences():
            self.judge(places, drafts, chance)

    def row(self, place: Place) -> int:
        return int(self.target.row_of[place])

    def sequences(self) -> list[tuple[list[Place], list[int], Fraction]]:
        """All drafts of a round, whatever is accepted, with the places they and the bonus are judged at."""
        found: list[tuple[list[Place], list[int], Fraction]] = [([(0, 0)], [], Fraction(1))]
        for j in range(self.depth):
            found = [
                ([*places, (j + 1, int(self.target.context_of[draft]))], [*drafts, draft], chance * share)
                for places, drafts, chance in found
                for draft, share in self.drawn[self.row(places[j])].items()
            ]
        return found

    def judge(self, places: list[Place], drafts: list[int], chance: Fraction) -> None:
        for place, draft in zip(places, [*drafts, -1], strict=True):
            if not chance:
                return
            p, q = self.p[self.row(place)], self.carried[self.row(place)]
            self.reached[place] += chance
            if place[0] == self.depth or self.void[place[0]]:
                self.stop(place, p, chance)
                return
            if not q.get(draft):
                return  # undrawable: the request fails
            keep = min(Fraction(1), p.get(draft, Fraction(0)) / q[draft])
            if self.device:
                keep = Fraction(math.ceil(keep * W32), W32)
            self.emitted[place][draft] += chance * keep
            left = {token: share - q.get(token, 0) for token, share in p.items() if share > q.get(token, 0)}
            self.stop(place, left or p, chance * (1 - keep))
            chance *= keep

    def stop(self, place: Place, shares: Law, chance: Fraction) -> None:
        self.lengths[place[0]] += chance
        total, low = sum(shares.values()), Fraction(0)
        for token in sorted(shares):
            high = low + shares[token]
            hit = Fraction(math.ceil(high / total * W64) - math.ceil(low / total * W64), W64)
            self.emitted[place][token] += chance * (hit if self.device else shares[token] / total)
            low = high

    def laws(self) -> dict[Place, Law]:
        """The law of the emitted token at every place, given that it is reached."""
        return {
            place: {token: mass / self.reached[place] for token, mass in self.emitted[place].items() if mass}
            for place in sorted(self.reached)
        }

    def variations(self) -> dict[Place, Fraction]:
        """Total variation of every law from the target."""
        found = {}
        for place, law in self.laws().items():
            p = self.p[self.row(place)]
            found[place] = sum((abs(law.get(t, Fraction(0)) - p.get(t, 0)) for t in law | p), Fraction(0)) / 2
        return found


def dense(ids: Any, tickets: Any) -> list[Law]:
    """The laws of tables of tickets."""
    return [
        {int(i): Fraction(int(t), ONE) for i, t in zip(*row, strict=True) if t}
        for row in zip(ids, tickets, strict=True)
    ]


def both(target: Target, drawn: list[Law], carried: list[Law], depth: int, void: Sequence[bool]) -> list[Enumerated]:
    """The design and the device."""
    return [Enumerated(target, drawn, carried, depth, void, device) for device in (False, True)]


def agrees(crossed: Bridge, design: Enumerated, device: Enumerated) -> None:
    """Every number of the bridge is the enumerated one."""
    assert [Fraction(*ratio) for ratio in crossed.design_lengths] == design.lengths
    assert [Fraction(*ratio) for ratio in crossed.device_lengths] == device.lengths
    assert {place: Fraction(*ratio) for place, ratio in crossed.variations} == device.variations()
    assert Fraction(*crossed.largest) == max(device.variations().values())
    pairs = zip(design.lengths, device.lengths, strict=True)
    assert Fraction(*crossed.length_variation) == sum(abs(a - b) for a, b in pairs) / 2
    assert Fraction(*mean(crossed.design_lengths)) == sum(n * p for n, p in enumerate(design.lengths))


def every_pattern() -> list[Any]:
    """Rows of a table: both depths, every set of invalidated drafts."""
    return [
        pytest.param(depth, void, id=f"depth-{depth}-void-{''.join(str(int(v)) for v in void)}")
        for depth in (4, 5)
        for void in itertools.product((False, True), repeat=depth)
    ]


@pytest.mark.parametrize(("depth", "void"), every_pattern())
def test_every_draft_sequence(depth: int, void: tuple[bool, ...], rng: np.random.Generator) -> None:
    target, ids, tickets = small(rng)
    crossed = bridge(target, ids, tickets, depth, void)
    design, device = both(target, dense(ids, tickets), dense(ids, tickets), depth, void)
    assert crossed.ok
    assert (crossed.fault, crossed.depth, crossed.void) == (None, depth, void)
    assert design.laws() == {place: design.p[design.row(place)] for place in design.reached}
    agrees(crossed, design, device)
    assert sum(design.lengths) == sum(device.lengths) == 1


@pytest.mark.parametrize("seed", range(8))
def test_drafts_not_drawn_by_the_tickets(seed: int, rng: np.random.Generator) -> None:
    """Draws enumerated on a device that are not its tickets: denominators of all sizes, requests that fail."""
    target, ids, tickets = small(rng)
    other = tickets.copy()
    for row in other:
        held = np.flatnonzero(row)
        row[held] = split(rng, len(held))
    counts = [{int(i): int(n) for i, n in zip(*row, strict=True) if n} for row in zip(ids, other, strict=True)]
    if seed % 2:
        counts[0] = {token: n for token, n in zip((3, 7, 11), split(rng, 3), strict=True)}
    crossed = bridge(target, ids, tickets, 4, (False,) * 4, counts)
    drawn = [{token: Fraction(n, ONE) for token, n in sorted(row.items())} for row in counts]
    design, device = both(target, drawn, dense(ids, tickets), 4, (False,) * 4)
    agrees(crossed, design, device)
    fault = crossed.fault
    assert fault is not None
    assert (fault.breach, fault.position, fault.context, fault.row) == ("law", 0, 0, 0)
    law, expected = design.laws()[0, 0], design.p[0]
    assert fault.token == min(t for t in law | expected if law.get(t, 0) != expected.get(t, 0))
    assert Fraction(fault.got) == law.get(fault.token, 0)
    assert Fraction(fault.expected) == expected.get(fault.token, 0)
    assert not crossed.ok


@cache
def emitted(name: str) -> Supports:
    """What a right device emits for the rows of a policy."""
    return allocate(build_policy(name).draft_logits)


def cross(name: str, depth: int = 5, void: int = -1, **changed: Any) -> Bridge:
    """A bridge of a policy, with draft `void` invalidated and some argument changed."""
    fields = {"ids": emitted(name).ids, "tickets": emitted(name).tickets} | changed
    return bridge(target=build_policy(name), depth=depth, void=[j == void for j in range(depth)], **fields)


def every_round() -> list[Any]:
    """Rows of a table: every policy, depth and place of the first invalidated draft."""
    return [
        pytest.param(name, depth, void, id=f"{name}-depth-{depth}-void-{void}")
        for name in POLICIES
        for depth in (4, 5)
        for void in range(-1, depth)
    ]


@pytest.mark.parametrize(("name", "depth", "void"), every_round())
def test_policies_stand(name: str, depth: int, void: int) -> None:
    crossed = cross(name, depth, void)
    assert crossed.ok
    assert Fraction(*crossed.bound) == Fraction(1, W32) + Fraction(build_policy(name).vocab, W64)
    assert Fraction(*crossed.largest) < Fraction(*crossed.bound)
    assert sum(Fraction(*ratio) for ratio in crossed.design_lengths) == 1
    assert sum(Fraction(*ratio) for ratio in crossed.device_lengths) == 1
    longest = depth if void < 0 else void
    if name == "identity":
        assert crossed.design_lengths == crossed.device_lengths
        assert crossed.design_lengths[longest] == (1, 1)
        assert crossed.largest == (0, 1)
    elif name == "disjoint":
        assert crossed.design_lengths[0] == (1, 1)
        assert [place for place, _ in crossed.variations] == [(0, 0)]
    else:
        assert all(ratio[0] for ratio in crossed.design_lengths[: longest + 1])
        assert (crossed.largest[0] > 0) == (void != 0)
    assert not any(ratio[0] for ratio in crossed.design_lengths[longest + 1 :])


def test_tilt_reaches_all_32_states() -> None:
    assert [sum(place[0] == j for place, _ in cross("tilt").variations) for j in range(6)] == [1, 16, 32, 32, 32, 32]


def test_numbers_stay_at_24_bits_a_position() -> None:
    """One common denominator, and no larger than it must be: what keeps a depth-5 chain of 32 states fast."""
    for name in POLICIES:
        for position, (_, denominator) in enumerate(cross(name).design_lengths):
            assert ONE ** (position + 1) % denominator == 0


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


class ResidualOfP(Steps):
    def residual(self, weights: Row, tickets: Row) -> Row:
        return weights


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


def test_receipt_form() -> None:
    """No floats, rationals in lowest terms, doubles that are the nearest."""
    crossed = cross("tilt", 4, 2)
    plain = crossed.plain()
    assert canonical.decode(canonical.encode(plain)) == plain
    assert (plain["depth"], plain["void"], plain["fault"], plain["ok"]) == (4, [0, 0, 1, 0], None, True)
    rationals = [plain["bound"], *plain["designLengths"], *plain["deviceLengths"]]
    rationals += [text for *_, text in plain["variations"]]
    numbers = [plain[key] for key in ("largest", "designMean", "deviceMean", "lengthVariation")]
    for text in [*rationals, *(number["ratio"] for number in numbers)]:
        value = Fraction(text)
        assert text == f"{value.numerator}/{value.denominator}"
    for number in numbers:
        assert number["double"] == repr(float(Fraction(number["ratio"])))
    assert cross("tilt", steps=ResidualOfP).plain()["fault"]["breach"] == "law"
    assert plain["variations"][0][:2] == [0, 0]
