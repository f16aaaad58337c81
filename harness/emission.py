"""An emission: the exact law of the token emitted at one place of a round, over one integer denominator.

Two arithmetics: the design (acceptance min(1, P/Q), shares of a sum) and the device (counts of the 2^32 and 2^64
draws of `standard-u32-v1`, semantics section 3). Shares of rows are over 2^24; P and Q of the semantics are 2^24 times
as many quanta.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from pp3.kernels.reference import ONE

ACCEPTANCE_DRAWS, EMISSION_DRAWS = 1 << 32, 1 << 64
Row = dict[int, int]  # integer share of each token that has one, ids ascending


class Arithmetic(Protocol):
    """How shares become probabilities."""

    def acceptance(self, weight: int, tickets: int) -> tuple[int, int]:
        """Probability of keeping a draft of so many tickets > 0, as numerator and denominator."""

    def draw(self, shares: Row) -> tuple[Row, int]:
        """The law of a token drawn by running sums of shares, as numerators and one denominator."""


class Design:
    """Standard rejection in rationals."""

    def acceptance(self, weight: int, tickets: int) -> tuple[int, int]:
        """See Arithmetic."""
        return min(weight, tickets), tickets

    def draw(self, shares: Row) -> tuple[Row, int]:
        """See Arithmetic."""
        return shares, sum(shares.values())


class Device:
    """Counts of draws."""

    def acceptance(self, weight: int, tickets: int) -> tuple[int, int]:
        """See Arithmetic."""
        return accepting(weight * ONE, tickets), ACCEPTANCE_DRAWS

    def draw(self, shares: Row) -> tuple[Row, int]:
        """See Arithmetic."""
        total, low, counts = sum(shares.values()), 0, {}
        for token, share in shares.items():
            counts[token] = hits(low, low + share, total)
            low += share
        return counts, EMISSION_DRAWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """What one place emits. Numerators over `scale`; they add up to it unless a draft without tickets fails a round."""

    law: Row
    kept: Row  # the part of law that carries the round on
    scale: int


def of_draft(drawn: Row, tickets: Row, weights: Row, left: Row, arithmetic: Arithmetic) -> Emission:
    """Keep a draft drawn by `drawn` by its tickets and weight, or replace it by a draw from `left`.

    A drawn token without tickets fails its round (semantics 3, rule 3) and emits nothing.
    """
    parts, judged = {}, 0
    for token, chance in drawn.items():
        if carried := tickets.get(token, 0):
            numerator, denominator = arithmetic.acceptance(weights.get(token, 0), carried)
            common = math.gcd(numerator * chance, denominator)
            parts[token] = numerator * chance // common, denominator // common
            judged += chance
    scale = math.lcm(*(denominator for _, denominator in parts.values()))
    kept = {token: numerator * (scale // denominator) for token, (numerator, denominator) in parts.items() if numerator}
    rejected = judged * scale - sum(kept.values())
    if not rejected:
        return Emission(law=kept, kept=kept, scale=ONE * scale)
    shares, total = arithmetic.draw(left)
    common = math.gcd(rejected, total)
    each, grown = rejected // common, total // common
    kept = {token: part * grown for token, part in kept.items()}
    law = dict(kept)
    for token, share in shares.items():
        law[token] = law.get(token, 0) + share * each
    return Emission(law=law, kept=kept, scale=ONE * scale * grown)


def of_whole(weights: Row, arithmetic: Arithmetic) -> Emission:
    """Draw from a whole target row: an invalidated draft, or the bonus. The round ends."""
    law, scale = arithmetic.draw(weights)
    return Emission(law=law, kept={}, scale=scale)


def accepting(quanta: int, tickets: int) -> int:
    """How many of the 2^32 values of w0 keep a draft of probability quanta / 2^48 and tickets > 0."""
    return min(ACCEPTANCE_DRAWS, _ceil(quanta << 8, tickets))


def hits(low: int, high: int, total: int) -> int:
    """How many of the 2^64 values of w64 fall into the running sums [low, high) of total, in any one unit."""
    return _ceil(high * EMISSION_DRAWS, total) - _ceil(low * EMISSION_DRAWS, total)


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
