"""The exact law of a round, in integers: what each event's probability is, from the target and the tickets alone.

One position: accept draft x with min(1, P/Q), emit a rejected one from (P - Q)+, a -1 and the bonus from P, so that the
emitted law is P (Leviathan et al. 2023, appendix A.1). P and Q are integers over 2^24. Contexts chain by the token
just emitted; a forward recursion over (position, context) gives every probability with denominator 2^(24 k).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import ONE, allocate
from pp3.targets import Target, invalidated

Weights = npt.NDArray[np.int64]
Reach = dict[tuple[int, int], Fraction]


@dataclass(frozen=True, eq=False)
class Law:
    """The laws of one target. Each row is int64 [vocab] over its own total."""

    target: Target

    @cached_property
    def tickets(self) -> Weights:
        """Proposal law of each row, [rows, vocab] over 2^24."""
        supports = allocate(self.target.draft_logits)
        dense = np.zeros_like(self.target.weights)
        np.put_along_axis(dense, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
        return dense

    @cached_property
    def residual(self) -> Weights:
        """(P - Q)+ of each row, [rows, vocab]; its total is the rejected mass over 2^24."""
        rejected: Weights = np.maximum(self.target.weights - self.tickets, 0)
        return rejected

    @cached_property
    def kept(self) -> Weights:
        """min(P, Q) of each row, [rows, vocab]; its total is the accepted mass over 2^24."""
        return np.minimum(self.target.weights, self.tickets)

    def row(self, position: int, context: int) -> int:
        """The row that judges a position in a context."""
        return int(self.target.row_of[position, context])

    def drafted(self, depth: int) -> Reach:
        """Probability that draft `position` is drawn in `context`; every position is drawn, whatever is accepted."""
        return self._chain(self.tickets, depth, (False,) * depth)

    def reached(self, depth: int, pattern: str) -> Reach:
        """Probability that a token is emitted at `position` in `context`, positions 0 to depth."""
        return self._chain(self.kept, depth + 1, (*invalidated(pattern, depth), False))

    def lengths(self, depth: int, pattern: str) -> list[Fraction]:
        """Probability of each number of accepted drafts, 0 to depth."""
        reached = self.reached(depth, pattern)
        at_least = [
            sum((p for (j, _), p in reached.items() if j == position), Fraction(0)) for position in range(depth + 1)
        ]
        return [now - later for now, later in zip(at_least, [*at_least[1:], Fraction(0)], strict=True)]

    def rejected(self, position: int, context: int) -> Fraction:
        """Probability that a draft at this position and context is rejected."""
        return Fraction(int(self.residual[self.row(position, context)].sum()), ONE)

    def _chain(self, flow: Weights, positions: int, stops: tuple[bool, ...]) -> Reach:
        """Mass that arrives at each (position, context) when `flow` carries it on and stops nothing lets through."""
        contexts = self.target.contexts
        state = [1] + [0] * (contexts - 1)
        reach: Reach = {}
        for position in range(positions):
            arriving = {context: mass for context, mass in enumerate(state) if mass}
            reach |= {(position, c): Fraction(mass, ONE**position) for c, mass in arriving.items()}
            state = [0] * contexts
            if stops[position] if position < len(stops) else False:
                break
            for context, mass in arriving.items():
                by_context = np.bincount(
                    self.target.context_of, weights=flow[self.row(position, context)], minlength=contexts
                )
                for following, part in enumerate(by_context.astype(np.int64).tolist()):
                    state[following] += mass * part
        return reach
