"""How far tickets lie from the ideal softmax they stand for, enclosed between two decimals.

The ideal law of a row is exp((x_i - x_first) / tau) over its 32 largest logits, normalised, in real numbers: logits
are exact, tau is the FP32 value nearest 0.7. Beside the emitted tickets (floor-first) stand the largest-remainder
(Hamilton) tickets of that law. Lower ends round down and upper ends up; decimal's exp is correctly rounded, so the
neighbours of its result enclose it.

Where two logits of a row differ, no quota is whole and remainders of different logits never tie: exponentials of
distinct rationals are linearly independent over the rationals (Lindemann-Weierstrass). So some precision decides every
floor and every order. Equal logits go by rank.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness.bridge import Table
from pp3.kernels.reference import ONE, SUPPORT, TAU
from pp3.targets import Target

DIGITS, MOST_DIGITS = 60, 960  # of the intervals: doubled until the floors and the order of remainders are decided
STEP = Decimal("1e-24")  # ends are reported as multiples of it
Interval = tuple[Decimal, Decimal]
NONE = Decimal(0), Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """A real number between two decimals, less than 1e-20 apart."""

    lower: Decimal
    upper: Decimal

    def plain(self) -> list[str]:
        """Receipt form."""
        return [f"{self.lower:f}", f"{self.upper:f}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDistance:
    """Total variations of one row from its ideal law."""

    emitted: Enclosure
    largest_remainder: Enclosure
    moved: int  # tickets that the two allocations give to different tokens

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "emitted": self.emitted.plain(),
            "largestRemainder": self.largest_remainder.plain(),
            "moved": self.moved,
        }


def distances(target: Target, ids: Table, tickets: Table) -> list[RowDistance]:
    """The distance of each row of emitted ids and tickets [rows, 32] from the softmax of the target's draft logits.

    Raises ValueError for a row whose softmax cannot be told apart at 960 digits.
    """
    found = []
    for row, (support, shares) in enumerate(zip(np.asarray(ids).tolist(), np.asarray(tickets).tolist(), strict=True)):
        logits = target.draft_logits[row]
        ranked = np.argsort(-logits, kind="stable")[:SUPPORT].tolist()
        emitted: dict[int, int] = {}
        for token, share in zip(support, shares, strict=True):
            emitted[token] = emitted.get(token, 0) + share
        found.append(distance({token: float(logits[token]) for token in ranked}, emitted))
    return found


def distance(logits: Mapping[int, float], emitted: Mapping[int, int]) -> RowDistance:
    """The distance of emitted tickets from the softmax of the logits of a support, given by rank."""
    digits = DIGITS
    while digits <= MOST_DIGITS:
        arithmetic = _Directed(digits)
        ideal = arithmetic.softmax(logits)
        best = arithmetic.hamilton(ideal, logits)
        if best is not None:
            return RowDistance(
                emitted=arithmetic.variation(ideal, emitted),
                largest_remainder=arithmetic.variation(ideal, best),
                moved=sum(abs(emitted.get(t, 0) - best.get(t, 0)) for t in emitted.keys() | best.keys()) // 2,
            )
        digits *= 2
    raise ValueError(f"logits {sorted(set(logits.values()))} are not told apart at {MOST_DIGITS} digits; narrow them")


class _Directed:
    """Interval arithmetic of so many digits on numbers that are not negative."""

    def __init__(self, digits: int) -> None:
        self.down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
        self.up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)

    def softmax(self, logits: Mapping[int, float]) -> dict[int, Interval]:
        """The ideal law of a support."""
        first = max(logits.values())
        powers = {value: self._exp(value, first) for value in set(logits.values())}
        low = high = Decimal(0)
        for value in logits.values():
            low, high = self.down.add(low, powers[value][0]), self.up.add(high, powers[value][1])
        law = {v: (self.down.divide(lower, high), self.up.divide(upper, low)) for v, (lower, upper) in powers.items()}
        return {token: law[value] for token, value in logits.items()}

    def _exp(self, value: float, first: float) -> Interval:
        """exp((value - first) / tau)."""
        if value == first:
            return Decimal(1), Decimal(1)
        if value == -np.inf:
            return NONE
        exponent = (Fraction(value) - Fraction(first)) / Fraction(float(np.float32(TAU)))
        top, bottom = Decimal(exponent.numerator), Decimal(exponent.denominator)
        lower = self.down.next_minus(self.down.exp(self.down.divide(top, bottom)))
        return max(lower, Decimal(0)), self.up.next_plus(self.up.exp(self.up.divide(top, bottom)))

    def hamilton(self, ideal: Mapping[int, Interval], logits: Mapping[int, float]) -> dict[int, int] | None:
        """Floors of the quotas, and one ticket more to each of the largest remainders. None if undecided."""
        quotas = {
            t: (self.down.multiply(p, Decimal(ONE)), self.up.multiply(q, Decimal(ONE))) for t, (p, q) in ideal.items()
        }
        tickets = {token: int(lower) for token, (lower, _) in quotas.items()}
        if any(int(upper) != tickets[token] for token, (_, upper) in quotas.items()):
            return None
        whole = {token: Decimal(share) for token, share in tickets.items()}
        least = {token: self.down.subtract(lower, whole[token]) for token, (lower, _) in quotas.items()}
        most = {token: self.up.subtract(upper, whole[token]) for token, (_, upper) in quotas.items()}
        order = sorted(tickets, key=lambda token: least[token], reverse=True)  # equal ones stay in rank
        more = ONE - sum(tickets.values())
        for one, other in itertools.product(order[:more], order[more:]):
            if logits[one] != logits[other] and least[one] <= most[other]:
                return None
        for token in order[:more]:
            tickets[token] += 1
        return tickets

    def variation(self, ideal: Mapping[int, Interval], tickets: Mapping[int, int]) -> Enclosure:
        """Half the sum of the differences."""
        low = high = Decimal(0)
        for token in ideal.keys() | tickets.keys():
            share = self.down.divide(Decimal(tickets.get(token, 0)), Decimal(ONE))  # exact: 24 decimal places
            lower, upper = ideal.get(token, NONE)
            least = max(self.down.subtract(share, upper), self.down.subtract(lower, share), Decimal(0))
            most = max(self.up.subtract(share, lower), self.up.subtract(upper, share))
            low, high = self.down.add(low, least), self.up.add(high, most)
        return Enclosure(
            lower=self.down.divide(low, Decimal(2)).quantize(STEP, ROUND_FLOOR, self.down),
            upper=self.up.divide(high, Decimal(2)).quantize(STEP, ROUND_CEILING, self.up),
        )
