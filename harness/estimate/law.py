"""Expected tokens of a round, exactly: accepted drafts and the one that ends it, as a rational.

With the proposal's law carried, draft x is kept with min(1, P/Q). Without it a draft is a point mass: our proposal's
first token, kept with P of it. Both lengths come from the target and the tickets alone (harness/oracle.py).
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pp3.harness.oracle import Law, Weights
from pp3.kernels.reference import allocate
from pp3.targets import Target

WHOLE = "none"  # no draft is invalidated


class PointMass(Law):
    """The lengths of a target whose drafts are the proposal's first tokens, each verified as a point mass."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        first = allocate(target.draft_logits).first
        kept: Weights = np.zeros_like(target.weights)
        rows = np.arange(len(first))
        kept[rows, first] = target.weights[rows, first]
        self.__dict__["kept"] = kept


def sampled(target: Target, depth: int) -> Fraction:
    """Tokens of a round that carries the proposal's law."""
    return _emitted(Law(target).lengths(depth, WHOLE))


def point_mass(target: Target, depth: int) -> Fraction:
    """Tokens of a round whose drafts are point masses."""
    return _emitted(PointMass(target).lengths(depth, WHOLE))


def assumed(acceptance: Fraction, depth: int) -> Fraction:
    """Tokens of a round that keeps every draft with one probability, whatever came before."""
    return sum((acceptance**kept for kept in range(depth + 1)), Fraction(0))


def _emitted(lengths: Sequence[Fraction]) -> Fraction:
    return sum((chance * (kept + 1) for kept, chance in enumerate(lengths)), Fraction(0))
