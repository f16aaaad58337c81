"""The distance from the ideal softmax: rows known exactly, then an exponential series in integers of 1,000 bits."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness import canonical
from pp3.harness.softmax_distance import Enclosure, RowDistance, _Directed, distance, distances
from pp3.kernels.reference import ONE, allocate
from pp3.targets.policies import POLICIES, build_policy

BITS = 1000
TAU = Fraction(11744051, 1 << 24)  # the FP32 value nearest 0.7


def exponential(exponent: Fraction) -> int:
    """exp of a rational <= 0, times 2^BITS: a Taylor series of a 2^-k part, squared k times; right to 900 bits."""
    halvings = max(0, math.ceil(-exponent)).bit_length() + 8
    guard = BITS + 64 + halvings
    x = (exponent.numerator << guard) // (exponent.denominator << halvings)
    term, total, n = 1 << guard, 1 << guard, 0
    while term not in (0, -1):
        n += 1
        term = (term * x >> guard) // n
        total += term
    for _ in range(halvings):
        total = total * total >> guard
    return total >> guard - BITS


def ideal(logits: dict[int, float], tau: Fraction = TAU) -> dict[int, Fraction]:
    """The softmax as rationals, right to 250 decimals."""
    first = max(Fraction(x) for x in logits.values() if x != -math.inf)
    shares = {t: 0 if x == -math.inf else exponential((Fraction(x) - first) / tau) for t, x in logits.items()}
    total = sum(shares.values())
    return {token: Fraction(share, total) for token, share in shares.items()}


def hamilton(law: dict[int, Fraction]) -> dict[int, int]:
    """Largest remainders; tokens are given by rank, and equal remainders go by it."""
    tickets = {token: math.floor(share * ONE) for token, share in law.items()}
    order = sorted(law, key=lambda token: tickets[token] - law[token] * ONE)
    for token in order[: ONE - sum(tickets.values())]:
        tickets[token] += 1
    return tickets


def variation(law: dict[int, Fraction], tickets: dict[int, int]) -> Fraction:
    """Total variation."""
    return (
        sum((abs(law.get(t, Fraction(0)) - Fraction(tickets.get(t, 0), ONE)) for t in law | tickets), Fraction(0)) / 2
    )


def holds(enclosure: Enclosure, value: Fraction) -> bool:
    """Whether a number lies between the ends, and they are close."""
    lower, upper = Fraction(enclosure.lower), Fraction(enclosure.upper)
    return lower <= value <= upper and upper - lower <= Fraction(1, 10**20)


def ranked(logits: Any) -> dict[int, float]:
    """The support of a row, by rank."""
    order = sorted(range(len(logits)), key=lambda token: (-float(logits[token]), token))
    return {token: float(logits[token]) for token in order[:32]}


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(-1), Fraction(-1, 3), Fraction(-40)])
def test_the_series_is_the_exponential(exponent: Fraction) -> None:
    assert exponential(exponent) / (1 << BITS) == pytest.approx(math.exp(exponent), rel=1e-15)


def test_the_series_is_precise() -> None:
    """The first digits of 1/e and of 1/e^20."""
    assert str(exponential(Fraction(-1)) * 10**50 >> BITS) == "36787944117144232159552377016146086744581113103176"
    assert str(exponential(Fraction(-20)) * 10**40 >> BITS).startswith("20611536224385578279659403801")


def flat(n: int) -> dict[int, float]:
    """n equal logits, the rest masked."""
    return {token: 1.5 if token < n else -math.inf for token in range(32)}


@pytest.mark.parametrize(
    ("n", "emitted", "expected", "best"),
    [
        pytest.param(32, dict.fromkeys(range(32), ONE // 32), (0, 1), (0, 1), id="32-equal-are-exact"),
        pytest.param(1, {0: ONE}, (0, 1), (0, 1), id="one-finite-is-exact"),
        pytest.param(2, {0: ONE // 2, 1: ONE // 2}, (0, 1), (0, 1), id="two-equal-are-exact"),
        pytest.param(2, {0: ONE // 2 + 1, 1: ONE // 2 - 1}, (1, ONE), (0, 1), id="one-ticket-moved"),
        pytest.param(3, {0: 5592406, 1: 5592405, 2: 5592405}, (2, 3 * ONE), (2, 3 * ONE), id="thirds"),
        pytest.param(3, {0: 5592405, 1: 5592406, 2: 5592405}, (2, 3 * ONE), (2, 3 * ONE), id="thirds-by-another-rank"),
        pytest.param(5, {0: ONE}, (4, 5), (4, 5 * ONE), id="four-fifths-away"),
        pytest.param(2, {40: ONE}, (1, 1), (0, 1), id="outside-the-support"),
    ],
)
def test_rows_known_exactly(n: int, emitted: dict[int, int], expected: Any, best: Any) -> None:
    found = distance(flat(n), emitted)
    assert holds(found.emitted, Fraction(*expected))
    assert holds(found.largest_remainder, Fraction(*best))
    assert found.emitted.lower >= 0
    assert found.largest_remainder.lower >= 0


def test_equal_remainders_go_by_rank() -> None:
    """17 equal logits: 2^24 is 1 more than a multiple of 17, and rank 0 gets it, whatever its id."""
    logits = {token: 2.0 for token in range(40, 23, -1)}
    tickets = dict.fromkeys(logits, ONE // 17)
    assert distance(logits, tickets | {40: ONE // 17 + 1}).moved == 0
    assert distance(logits, tickets | {24: ONE // 17 + 1}).moved == 1


@pytest.mark.parametrize("name", POLICIES)
def test_policies_against_the_series(name: str) -> None:
    target = build_policy(name)
    supports = allocate(target.draft_logits)
    found = distances(target, supports.ids, supports.tickets)
    assert len(found) == len(target.weights)
    for row, got in enumerate(found):
        law = ideal(ranked(target.draft_logits[row]))
        emitted = dict(zip(supports.ids[row].tolist(), supports.tickets[row].tolist(), strict=True))
        best = hamilton(law)
        assert holds(got.emitted, variation(law, emitted))
        assert holds(got.largest_remainder, variation(law, best))
        assert got.moved == sum(abs(best[t] - emitted[t]) for t in best) // 2
        assert got.largest_remainder.upper <= got.emitted.lower


@pytest.mark.parametrize("seed", range(12))
def test_hashed_rows_against_the_series(seed: int, rng: np.random.Generator) -> None:
    """Any FP32 logits, with ties, masks, subnormals and differences down to the last bit."""
    logits = rng.normal(0, 10.0 ** rng.integers(-3, 2), 32).astype(np.float32)
    logits[1] = np.nextafter(logits[0], np.float32(9))
    logits[2:4] = logits[4]
    logits[5:8] = np.array([2.0**-149, -0.0, 0.0])
    if seed % 2:
        logits[9:12] = -np.inf
    support = ranked(logits)
    supports = allocate(logits[None])
    emitted = dict(zip(supports.ids[0].tolist(), supports.tickets[0].tolist(), strict=True))
    law = ideal(support)
    got = distance(support, emitted)
    assert holds(got.emitted, variation(law, emitted))
    assert holds(got.largest_remainder, variation(law, hamilton(law)))


@pytest.mark.parametrize("digits", range(3, 12))
@pytest.mark.parametrize("row", range(8))
def test_intervals_hold_at_any_precision(digits: int, row: int) -> None:
    """So few digits that each rounding shows. Tickets are right or undecided, never wrong."""
    support = ranked(build_policy("tilt").draft_logits[row])
    law, arithmetic = ideal(support), _Directed(digits)
    intervals = arithmetic.softmax(support)
    for token, (lower, upper) in intervals.items():
        assert Fraction(lower) <= law[token] <= Fraction(upper)
    assert arithmetic.hamilton(intervals, support) in (None, hamilton(law))


@pytest.mark.parametrize("value", [-0.125 * n for n in range(1, 97)])
def test_the_exponential_lies_strictly_inside(value: float) -> None:
    lower, upper = _Directed(4)._exp(value, 0.0)
    assert Fraction(lower) < Fraction(exponential(Fraction(value) / TAU), 1 << BITS) < Fraction(upper)


def test_hamilton_is_the_nearest() -> None:
    """No ticket moved between two tokens brings it nearer."""
    law = ideal(ranked(build_policy("tilt").draft_logits[4]))
    best = hamilton(law)
    least = variation(law, best)
    for source in [token for token in law if best[token]]:
        for goal in law.keys() - {source}:
            assert variation(law, best | {source: best[source] - 1, goal: best[goal] + 1}) >= least


@pytest.mark.parametrize("tau", [Fraction(7, 10), Fraction(0.7), TAU + Fraction(1, 1 << 48)])
def test_another_tau_lies_outside(tau: Fraction) -> None:
    """The enclosure tells FP32's 0.7 from the real and the FP64 one."""
    target = build_policy("tilt")
    supports = allocate(target.draft_logits)
    emitted = dict(zip(supports.ids[0].tolist(), supports.tickets[0].tolist(), strict=True))
    got = distance(ranked(target.draft_logits[0]), emitted)
    assert not holds(got.emitted, variation(ideal(ranked(target.draft_logits[0]), tau), emitted))


@pytest.mark.parametrize("edit", ["move", "swap"])
def test_wrong_tickets_show(edit: str) -> None:
    target = build_policy("tilt")
    supports = allocate(target.draft_logits)
    right = distances(target, supports.ids, supports.tickets)
    tickets = supports.tickets.copy()
    held = np.flatnonzero(tickets[3] > 1)[:2]
    tickets[3, held] = tickets[3, held] + np.array([1, -1]) if edit == "move" else tickets[3, held[::-1]]
    wrong = distances(target, supports.ids, tickets)
    assert [row for row in range(32) if wrong[row] != right[row]] == [3]
    assert wrong[3].largest_remainder == right[3].largest_remainder


@pytest.mark.parametrize("low", [-90.0, -210.0])
def test_steep_rows_get_the_digits_they_need(low: float) -> None:
    """A quota within 1e-60 or 1e-130 of 2^24 is still below it: 2^24 - 1, and the largest remainder."""
    logits = {0: 0.0, 1: low, 2: math.nextafter(low, -math.inf)}
    got = distance(logits, {0: ONE})
    assert holds(got.emitted, variation(ideal(logits), {0: ONE}))
    assert (got.emitted, got.moved) == (got.largest_remainder, 0)


def test_a_row_too_steep_is_refused() -> None:
    """An exponential below every decimal: whether the first quota is whole cannot be shown."""
    with pytest.raises(ValueError, match="not told apart at 960 digits"):
        distance({0: 3e38, 1: -3e38}, {0: ONE})


def test_receipt_form() -> None:
    got = RowDistance(
        emitted=Enclosure(lower=Decimal("1.5E-9"), upper=Decimal("0.0000000016")),
        largest_remainder=Enclosure(lower=Decimal("0E-24"), upper=Decimal("1E-24")),
        moved=3,
    )
    plain = got.plain()
    assert canonical.decode(canonical.encode(plain)) == plain
    assert plain == {
        "emitted": ["0.0000000015", "0.0000000016"],
        "largestRemainder": ["0.000000000000000000000000", "0.000000000000000000000001"],
        "moved": 3,
    }
