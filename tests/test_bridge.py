"""The bridge against a second implementation: every draft sequence of small chains, enumerated in fractions."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from enumerated import W32, W64, Enumerated, ResidualOfP, cross, small, split

from pp3.harness import canonical
from pp3.harness.bridge import Bridge, bridge, mean
from pp3.kernels.reference import ONE
from pp3.targets import Target
from pp3.targets.policies import POLICIES, build_policy

Law = dict[int, Fraction]


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
