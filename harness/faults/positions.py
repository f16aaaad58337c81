"""K3: positions, the bonus and the number of tokens."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.faults.correct import Correct, Round
from pp3.harness.faults.fault import Shows, planting
from pp3.harness.faults.residual import STUDY
from pp3.harness.faults.running import Integers
from pp3.harness.samplers.contract import Kind

plant = planting("position, bonus and length")


class OneLate(Correct):
    """Each row of P is that of the position after the draft; the first draft is never judged."""

    def target_row(self, target: Any, position: Any, context: Integers, token: Integers) -> Integers:
        """The row after the draft."""
        row: Integers = target.row_of[np.asarray(position) + 1, target.context_of[token]]
        return row

    def accept(self, this: Round) -> npt.NDArray[np.bool_]:
        """The first draft is kept."""
        kept = super().accept(this)
        kept[:, 0] = this.drafts[:, 0] >= 0
        return kept


class RatioOneLate(Correct):
    """The ratio and the residual take Q from the next position."""

    def ratio_row(self, target: Any, position: Any, context: Integers, token: Integers) -> Integers:
        """The row after the draft."""
        row: Integers = target.row_of[np.asarray(position) + 1, context]
        return row


class OwnContext(Correct):
    """The context of a position is that of the draft it judges, not of the one before."""

    def target_row(self, target: Any, position: Any, context: Integers, token: Integers) -> Integers:
        """The row in the draft's own context."""
        row: Integers = target.row_of[position, target.context_of[token]]
        return row


class FirstContext(Correct):
    """The bonus is drawn in the context that the round started in."""

    def bonus_row(self, target: Any, depth: int, context: Integers) -> Integers:
        """In context 0."""
        row: Integers = target.row_of[depth, context * 0]
        return row


class BonusOfLastDraft(Correct):
    """The bonus is drawn from the row that judged the last draft."""

    def bonus_row(self, target: Any, depth: int, context: Integers) -> Integers:
        """One position early."""
        row: Integers = target.row_of[depth - 1, context]
        return row


class BonusOfFirst(Correct):
    """The bonus is drawn from the first row."""

    def bonus_row(self, target: Any, depth: int, context: Integers) -> Integers:
        """Position 0."""
        row: Integers = target.row_of[0, context]
        return row


class BonusOfDraft(Correct):
    """The bonus is the draft model's next token."""

    def bonus_law(self, target: Any) -> Integers:
        """Q."""
        law: Integers = target.proposal_weights()
        return law


class NoBonus(Correct):
    """A round ends with its last draft when all are kept."""

    def length(self, kept: npt.NDArray[np.bool_], this: Round) -> Integers:
        """One draft less in a full round."""
        found = super().length(kept, this)
        return np.where(found == kept.shape[1], found - 1, found)

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """The last draft itself where it was kept."""
        found = super().replace(this, which, at)
        kept = self.accept(this)[which, at]
        return np.where(kept, this.tokens[which, at], found)


class OneShort(Correct):
    """A round is reported one token shorter than it is."""

    def length(self, kept: npt.NDArray[np.bool_], this: Round) -> Integers:
        """At least none."""
        return np.maximum(super().length(kept, this) - 1, 0)


class Counted(Correct):
    """All kept drafts are counted, also those after the first rejection."""

    def length(self, kept: npt.NDArray[np.bool_], this: Round) -> Integers:
        """The sum without the product."""
        found: Integers = kept.sum(axis=1)
        return found


class FirstUnjudged(Correct):
    """The first draft is committed without a test."""

    def accept(self, this: Round) -> npt.NDArray[np.bool_]:
        """Kept at position 0."""
        kept = super().accept(this)
        kept[:, 0] = this.drafts[:, 0] >= 0
        return kept


class VoidOneLate(Correct):
    """An invalidated draft is replaced from the row of the next position."""

    def void_row(self, target: Any, position: Any, context: Integers) -> Integers:
        """The row after it."""
        row: Integers = target.row_of[np.asarray(position) + 1, context]
        return row


class VoidOfDraft(Correct):
    """An invalidated draft is replaced by another draft."""

    def void_law(self, target: Any) -> Integers:
        """Q."""
        law: Integers = target.proposal_weights()
        return law


class DraftOneLate(Correct):
    """The first draft is drawn from the second position's row."""

    def draft_row(self, target: Any, position: Any, context: Integers) -> Integers:
        """Position 1 for position 0."""
        row: Integers = target.row_of[np.maximum(position, 1), context]
        return row


FAULTS = (
    plant("K3-013", OneLate, "forbidden", "lattice issue 243", ("context",), shows=Shows.ROUND),
    plant("K3-013/ratio", RatioOneLate, "forbidden", "lattice issue 243", ("near",)),
    plant("K3-013/context", OwnContext, "token", "lattice issue 243", ("context",)),
    plant("K3-013/first", FirstUnjudged, "token", "lattice issue 243", ("near",), shows=Shows.ROUND),
    plant("K3/bonus-of-last", BonusOfLastDraft, "bonus", STUDY, ("near",), others=("prefix",)),
    plant("K3/bonus-context", FirstContext, "bonus", STUDY, ("context",), others=("prefix",)),
    plant("K3/bonus-first", BonusOfFirst, "bonus", STUDY, ("equal",), others=("prefix",)),
    plant("K3/bonus-draft", BonusOfDraft, "bonus", STUDY, ("whole",), others=("prefix", "joint")),
    plant("K3/no-bonus", NoBonus, "length", STUDY, ("near",), shows=Shows.ROUND),
    plant("K3/short", OneShort, "length", STUDY, ("near",), shows=Shows.ROUND),
    plant("K3/counted", Counted, "breach", STUDY, ("void",), shows=Shows.CONTRACT),
    plant("K3/void", VoidOneLate, "full-target", STUDY, ("void",), others=("prefix",)),
    plant("K3/void-of-draft", VoidOfDraft, "full-target", STUDY, ("void",), others=("prefix",)),
    plant("K3/first-draft", DraftOneLate, "proposal", STUDY, ("near",), kind=Kind.PROPOSAL, others=("pair",)),
)
