"""The exact law of a round, in integers: what each event's probability is, from the target and the tickets alone.

One position: accept draft x with min(1, P/Q), emit a rejected one from (P - Q)+, a -1 and the bonus from P, so that the
emitted law is P (Leviathan et al. 2023, appendix A.1). P and Q are integers over one total, 2^24 for our own targets.
Contexts chain by the token just emitted; a forward recursion over (position, context) gives every probability with
denominator total^k.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pp3.targets import drafts_of, invalidated

Weights = npt.NDArray[np.int64]
Reach = dict[tuple[int, int], Fraction]


class Judged(Protocol):
    """What a law is read from: a target, with the proposal that drafts for it."""

    @property
    def name(self) -> str:
        """Name within a campaign."""

    @property
    def weights(self) -> Weights:
        """Target law of each row, [rows, vocab] over `total`."""

    @property
    def total(self) -> int:
        """What every row sums to, at most 2^52."""

    @property
    def row_of(self) -> npt.NDArray[np.int64]:
        """Row that judges a position in a context, [positions, contexts]."""

    @property
    def context_of(self) -> npt.NDArray[np.int64]:
        """Context that a token leads to, [vocab]."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Which drafts are invalidated or absent, dealt to requests in turn."""

    @property
    def starts(self) -> int:
        """In how many contexts requests start, dealt in turn."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the starting contexts, or none."""

    @property
    def lump(self) -> Weights | None:
        """Token that a token emitted first is counted as, [contexts, vocab]; None where each counts as itself."""

    def proposal_weights(self) -> Weights:
        """Proposal law of each row, [rows, vocab] over `total`."""

    def kept_weights(self) -> Weights:
        """Mass of each token drafted and kept, [rows, vocab] over `total`."""

    def void_weights(self) -> Weights:
        """Law of the token emitted for an invalidated draft, [rows, vocab], each row over its own sum."""

    @property
    def compares(self) -> bool:
        """Whether a draft is kept where a draw from the target equals it, so that what replaces it depends on it."""

    @property
    def block(self) -> bool:
        """Whether drafts are verified as a block (Sun et al. 2024), so that only joint laws are known."""


@dataclass(frozen=True, eq=False)
class Law:
    """The laws of one target. Each row is int64 [vocab] over its own total."""

    target: Judged

    @cached_property
    def tickets(self) -> Weights:
        """Proposal law of each row, [rows, vocab]."""
        return self.target.proposal_weights()

    @cached_property
    def residual(self) -> Weights:
        """The replaced tokens of each row, [rows, vocab], (P - Q)+ under standard rejection; its sum is their mass."""
        rejected: Weights = self.target.weights - self.kept
        return rejected

    @cached_property
    def kept(self) -> Weights:
        """The kept drafts of each row, [rows, vocab], min(P, Q) under standard rejection; its sum is their mass."""
        return self.target.kept_weights()

    def row(self, position: int, context: int) -> int:
        """The row that judges a position in a context."""
        return int(self.target.row_of[position, context])

    def drafted(self, depth: int) -> Reach:
        """Probability that draft `position` is drawn in `context`; every position is drawn, whatever is accepted."""
        return self._chain(self.tickets, depth, (False,) * depth)

    def reached(self, depth: int, pattern: str) -> Reach:
        """Probability that a token is emitted at `position` in `context`, from 0 to the number of the pattern's drafts.

        The last position is the bonus, of a request without drafts the first.
        """
        drafts = drafts_of(pattern, depth)
        return self._chain(self.kept, drafts + 1, (*invalidated(pattern, depth)[:drafts], False))

    def lengths(self, depth: int, pattern: str) -> list[Fraction]:
        """Probability of each number of accepted drafts, 0 to depth."""
        reached = self.reached(depth, pattern)
        at_least = [
            sum((p for (j, _), p in reached.items() if j == position), Fraction(0)) for position in range(depth + 1)
        ]
        return [now - later for now, later in zip(at_least, [*at_least[1:], Fraction(0)], strict=True)]

    def rejected(self, position: int, context: int) -> Fraction:
        """Probability that a draft at this position and context is rejected."""
        return Fraction(int(self.residual[self.row(position, context)].sum()), self.target.total)

    def _chain(self, flow: Weights, positions: int, stops: tuple[bool, ...]) -> Reach:
        """Mass that arrives at each (position, context) when `flow` carries it on and stops nothing lets through."""
        contexts, total, starts = self.target.row_of.shape[1], self.target.total, self.target.starts
        state = [1] * starts
        reach: Reach = {}
        for position in range(positions):
            arriving = {context: mass for context, mass in enumerate(state) if mass}
            reach |= {(position, c): Fraction(mass, starts * total**position) for c, mass in arriving.items()}
            state = [0] * contexts
            if stops[position]:
                break
            for context, mass in arriving.items():
                by_context = np.bincount(
                    self.target.context_of, weights=flow[self.row(position, context)], minlength=contexts
                )
                for following, part in enumerate(by_context.astype(np.int64).tolist()):
                    state[following] += mass * part
        return reach
