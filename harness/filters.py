"""The law of filtered sampling: temperature, top-k, top-p, min-p and masks, in the orders that engines apply them.

A filter keeps a prefix of the row sorted by falling probability. top-k keeps k tokens; top-p the shortest prefix whose
share of what is left reaches p, so with the token that crosses it; min-p those of at least min_p times the maximum.

Probabilities over 2^24 are decided in integers. What a sampler must compute in FP32 (a softmax, a renormalisation) is
decided outside a margin that no honest rounding leaves; where a threshold lies within it, every outcome is returned.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.filter_cuts import MOST, Prefix, Sorted, crossings, cut, states_of
from pp3.harness.filter_rules import ENGINES, Hit, Order, Rules, Ties
from pp3.targets.filtered import Settings

__all__ = [
    "ENGINES",
    "Filtered",
    "Hit",
    "Order",
    "Outcome",
    "Rules",
    "Settings",
    "Ties",
    "law_of_logits",
    "law_of_probs",
]

FINE = 1 << 50  # total of a law that is not rational
LARGEST = 1 << 52  # total of one that is
HEAVIEST = 1 << 128  # mass of the first token where masses are exponentials
FAINT = HEAVIEST >> 40  # tokens below add less to a sum than its rounding does
WIDE = Context(prec=50, Emin=MIN_EMIN, Emax=MAX_EMAX)
UNIT = Fraction(1, 1 << 24)  # relative error of an FP32 operation
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A law that a sampler may show: draws are counted by cell_of[token] and compared with weights over total.

    A tie that is cut by Ties.VALUE_ONLY is one cell, its weight at its lowest id: how many are kept is claimed, not
    which, nor that they are the same in every draw.
    """

    weights: Ints  # [vocab], 0 where filtered
    total: int  # their sum, at most 2^52
    cell_of: Ints  # [vocab] a token itself, or the lowest id of its cell
    kept: int  # tokens that are left


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filtered:
    """What a row becomes. A sampler meets it that shows one of the outcomes, always the same one for a row."""

    outcomes: tuple[Outcome, ...]  # that of exact arithmetic first
    undecided: frozenset[int]  # tokens that only some outcomes keep

    @property
    def law(self) -> Outcome:
        """The outcome of exact arithmetic."""
        return self.outcomes[0]


def law_of_probs(row: npt.NDArray[Any], settings: Settings, rules: Rules) -> Filtered:
    """The law of a sampler that is fed probabilities: row is [vocab] integer weights, or fp32 probabilities.

    Raises ValueError for a temperature other than 1 and 0 (probabilities have theirs in them), for a row that is no
    law, and for a threshold within the margin of more than 64 sums.
    """
    if settings.temperature not in (0, 1):
        raise ValueError(f"temperature = {settings.temperature!r} with probabilities; divide first, then give 1")
    floating = np.issubdtype(row.dtype, np.floating)
    if row.ndim != 1 or not (row >= 0).all() or not 0 < row.sum() < math.inf:
        raise ValueError(f"probabilities are {row.dtype} {row.shape}; want one row, none negative, not all 0")
    if floating and (row.dtype != np.float32 or abs(math.fsum(row) - 1) > len(row) / (1 << 24)):
        raise ValueError(f"probabilities are {row.dtype} and sum to {math.fsum(row)!r}; want float32 and 1")
    weights = row.tolist()
    if floating:
        scaled = [int(Fraction(p) * (1 << 149)) for p in weights]
        common = math.gcd(*scaled)
        weights = [p // common for p in scaled]
    ids = sorted((i for i, p in enumerate(weights) if p), key=lambda i: (-weights[i], i))
    total = sum(weights)
    dyadic = total <= 1 << 24 and total.bit_count() == 1
    masses = [weights[i] for i in ids]
    found = Sorted(ids=ids, values=masses, masses=masses, error=Fraction(0) if dyadic else UNIT)
    return _filtered(lambda heat: found, len(row), settings, rules)


def law_of_logits(row: npt.NDArray[np.float32], settings: Settings, rules: Rules) -> Filtered:
    """The law of a sampler that is fed logits: row is [vocab] fp32, -inf where masked.

    Raises ValueError for a row with NaN, +inf or nothing above -inf, and for a threshold within the margin of more
    than 64 sums.
    """
    if row.ndim != 1 or row.dtype != np.float32 or not np.isfinite(row.max(initial=-math.inf)):
        raise ValueError(f"logits are {row.dtype} {row.shape}; want a float32 row without NaN or +inf, not all -inf")
    logits = [float(x) for x in row]
    ids = sorted((i for i, x in enumerate(logits) if x > -math.inf), key=lambda i: (-logits[i], i))
    values = [logits[i] for i in ids]
    first = Fraction(values[0])

    def heated(heat: Fraction) -> Sorted:
        mass = {x: _exponential((Fraction(x) - first) / heat) for x in set(values)}
        last = Fraction(min(x for x in mass if mass[x] >= FAINT))
        # Of T, of 1/T and the product with x; of the difference, log2(e) and their product; of exp, four last places.
        error = UNIT * (3 * max(abs(first), abs(last)) / heat + 3 * (first - last) / heat + 8)
        return Sorted(ids=ids, values=values, masses=[mass[x] for x in values], error=error)

    return _filtered(heated, len(row), settings, rules)


def _filtered(heated: Callable[[Fraction], Sorted], vocab: int, settings: Settings, rules: Rules) -> Filtered:
    """Every prefix that the filters may leave, in the order of the rules."""
    row = heated(Fraction(1))
    prefixes = [Prefix(len(row.ids))]
    if settings.temperature == 0:
        ties = Ties.LOWER_ID if rules.ties is Ties.LOWER_ID else Ties.VALUE_ONLY
        prefixes = list(dict.fromkeys(cut(row, prefixes[0], 1, ties)))
    else:
        for step in _STEPS[rules.order]:
            if step is None:
                row = row if settings.temperature == 1 else heated(_fp32(settings.temperature))
                continue
            prefixes = list(dict.fromkeys(left for prefix in prefixes for left in step(row, prefix, settings, rules)))
            if len(prefixes) > MOST:
                raise ValueError(f"{settings} leaves {len(prefixes)} outcomes to FP32; move a threshold off the sums")
    states = np.array([states_of(prefix, len(row.ids)) for prefix in prefixes])
    return Filtered(
        outcomes=tuple(_outcome(row, prefix, vocab) for prefix in prefixes),
        undecided=frozenset(row.ids[i] for i in np.flatnonzero((states != states[0]).any(axis=0)).tolist()),
    )


def _top_k(row: Sorted, prefix: Prefix, settings: Settings, rules: Rules) -> Iterator[Prefix]:
    if settings.top_k == 0:
        yield prefix
    else:
        yield from cut(row, prefix, settings.top_k, rules.ties)


def _top_p(row: Sorted, prefix: Prefix, settings: Settings, rules: Rules) -> Iterator[Prefix]:
    share = _fp32(settings.top_p)
    if share == 1:
        yield prefix
        return
    seen = len(row.ids) if rules.order is Order.JOINT else prefix.size
    sums = row.sums[1 : seen + 1]
    error = _error(row, seen)  # of a sum, as a share: of its terms and additions, and of those of the total
    margin = 2 * error + (2 * len(row.ids) + 4) * UNIT if error else UNIT
    for place in crossings(sums, share * sums[-1], margin * sums[-1], error == 0, rules.hit):
        yield from cut(row, prefix, place + 1, rules.top_p_ties)


def _min_p(row: Sorted, prefix: Prefix, settings: Settings, rules: Rules) -> Iterator[Prefix]:
    share = _fp32(settings.min_p)
    rising = row.masses[prefix.size - 1 :: -1]
    error = _error(row, len(row.ids) if rules.order is Order.JOINT else prefix.size)
    limit = share * rising[-1]
    exact = error == 0 or (row.error == 0 and share.numerator == 1)  # any rounding keeps a ratio of a power of two
    for below in crossings(rising, limit, (2 * error + UNIT) * limit, exact, Hit.STOPS):
        yield from cut(row, prefix, max(prefix.size - below, 1), Ties.ALL_KEPT)


_STEPS = {  # None: temperature
    Order.MIN_P_FIRST: (None, _min_p, _top_k, _top_p),
    Order.TOP_K_FIRST: (None, _top_k, _top_p, _min_p),
    Order.JOINT: (None, _top_k, _top_p, _min_p),
    Order.TEMPERATURE_LAST: (_top_k, _top_p, _min_p, None),
    Order.TOP_P_FIRST: (_top_p, _min_p, _top_k, None),
}


def _error(row: Sorted, seen: int) -> Fraction:
    """Relative error of a probability, renormalised unless the whole row is seen."""
    return row.error if seen == len(row.ids) else row.error + 3 * UNIT


def _outcome(row: Sorted, prefix: Prefix, vocab: int) -> Outcome:
    masses = row.masses[: prefix.size]
    total = sum(masses)
    if total > LARGEST:
        shares = [max(1, mass * FINE // total) for mass in masses]
        masses, total = [shares[0] + FINE - sum(shares), *shares[1:]], FINE
    cell_of = np.arange(vocab)
    if prefix.cell:
        members = row.ids[slice(*prefix.cell)]
        cell_of[members] = min(members)
    weights = np.zeros(vocab, np.int64)
    np.add.at(weights, cell_of[row.ids[: prefix.size]], masses)
    return Outcome(weights=weights, total=total, cell_of=cell_of, kept=prefix.size)


def _exponential(depth: Fraction) -> int:
    """HEAVIEST times exp(depth) of what is not positive, rounded down."""
    exponent = WIDE.divide(Decimal(depth.numerator), Decimal(depth.denominator))
    return int(WIDE.multiply(WIDE.exp(exponent), Decimal(HEAVIEST)))


def _fp32(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))
