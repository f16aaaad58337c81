"""K2: what replaces a rejected draft."""

from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness.faults.correct import DRAFT, Correct, Round
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.reshape import apportioned, best, without_each
from pp3.harness.faults.round_law import Mass
from pp3.harness.faults.running import Integers, Words, high
from pp3.harness.samplers.contract import Kind

plant = planting("replacement")


class Softmax(Correct):
    """A softmax of the clamped difference instead of a division by its sum."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """exp((P - Q)+): nothing is impossible."""
        total = p.sum(axis=1)
        return apportioned(np.exp(np.maximum(p - q, 0) / total[:, None]), total)


class Unclamped(Correct):
    """The sign of the difference is lost."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """|P - Q|."""
        found: Integers = np.abs(p - q)
        return found


class WholeTarget(Correct):
    """The proposal is not taken off."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """P."""
        return p


class Reversed(Correct):
    """The operands of the difference have changed places."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """(Q - P)+: what was just rejected."""
        found: Integers = np.maximum(q - p, 0)
        return found


class WholeWhereTargetWins(Correct):
    """Tokens are masked where Q exceeds P; the others keep all of P."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """P where it exceeds Q."""
        found: Integers = np.where(p > q, p, 0)
        return found


class Unnormalised(Correct):
    """The residual is drawn from as if its mass were that of a law: what is beyond it falls to its last token."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """The last of the support takes the mass that is missing."""
        left: Integers = np.maximum(p - q, 0)
        last = left.shape[1] - 1 - (left > 0)[:, ::-1].argmax(axis=1)
        left[np.arange(len(left)), last] += p.sum(axis=1) - left.sum(axis=1)
        return left


class Argmax(Correct):
    """Filters and temperature are computed, then the best is returned."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """The largest of (P - Q)+."""
        return best(super().residual(p, q))


class SharedCoin(Correct):
    """The word that decided the rejection picks the replacement as well."""

    def replacing(self, this: Round, which: Integers, at: Integers) -> Words:
        """The coin of the rejected draft."""
        return self.coins(this)[which, at]

    def replaced_law(self, row: Integers, chance: Fraction) -> Mass:
        """What a coin that is uniform from `chance` to 1 finds among the running sums of a row."""
        total, low, found = int(row.sum()), 0, {}
        for token in np.flatnonzero(row).tolist():
            end = low + int(row[token])
            if (part := Fraction(end, total) - max(chance, Fraction(low, total))) > 0:
                found[token] = part / (1 - chance)
            low = end
        return found


class SharedDraft(Correct):
    """The draft's word picks the replacement as well."""

    def replacing(self, this: Round, which: Integers, at: Integers) -> Words:
        """The word that drew the rejected draft."""
        return self.words(this.batch, DRAFT, this.batch.depth)[which, at]


class PlaceOfDraft(Correct):
    """The replacement is looked up at the rejected draft's place among all that is rejected, of the same mass."""

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """Uniform over the residual, and a function of the draft."""
        pair, token, target = self.pairs(this)[which, at], this.tokens[which, at], this.batch.target
        count, rows = len(target.weights), np.arange(len(which))
        gone = np.maximum(self.ratio_law(target)[pair % count] - self.target_law(target)[pair // count], 0)
        before, mass = (np.cumsum(gone, axis=1) - gone)[rows, token], gone[rows, token]
        within = high(self.words(this.batch, DRAFT, this.batch.depth)[which, at], mass)
        return this.tables.residual.at(pair, before + within)


class ZeroedFirst(Correct):
    """The draft's entry is zeroed in the shared row before the acceptance test reads it."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Nothing is ever kept."""
        return p * 0, q

    def residual(self, p: Integers, q: Integers) -> Integers:
        """(P - Q)+ without each token."""
        return without_each(super().residual(p, q))

    def residual_key(self, target: Any, pair: Integers, token: Integers) -> Integers:
        """Without this token."""
        key: Integers = pair * target.weights.shape[1] + token
        return key


class Rarely(Correct):
    """One rejection in a hundred is replaced from the whole target."""

    def residual(self, p: Integers, q: Integers) -> Integers:
        """The residual and a hundredth of P, each of its own mass."""
        left = super().residual(p, q)
        return apportioned(
            99 * left / np.maximum(left.sum(axis=1, keepdims=True), 1) + p / p.sum(axis=1, keepdims=True), p.sum(axis=1)
        )


class PreviousProposal(Correct):
    """The residual takes off the proposal of the position before."""

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """Q of the row before."""
        target, before = this.batch.target, np.maximum(at - 1, 0)
        pair = self.pairs(this)[which, at]
        q = self.ratio_row(target, before, this.contexts[which, before], this.tokens[which, before])
        key = pair // len(target.weights) * len(target.weights) + q
        return this.tables.residual.draw(key, self.replacing(this, which, at))


STUDY = "study of statistics, section 3"
FAULTS = (
    plant("K2-008", Softmax, "forbidden", "huggingface/transformers PR 28508", ("near",)),
    plant("K2/absolute", Unclamped, "forbidden", STUDY, ("near",)),
    plant("K2/target", WholeTarget, "forbidden", STUDY, ("near",)),
    plant("K2/reversed", Reversed, "forbidden", STUDY, ("near",)),
    plant("K2/masked", WholeWhereTargetWins, "residual", STUDY, ("near",), others=("recovery", "joint")),
    plant("K2/unnormalised", Unnormalised, "token", MADE, ("near",)),
    plant("K2/rarely", Rarely, "forbidden", STUDY, ("near",), requests=40_000, sole=True),
    plant("K2-009", SharedCoin, "token", "vllm-project/vllm-ascend PR 16370", ("far", "near")),
    plant("K2-009/draft", SharedDraft, "token", STUDY, ("far",), kind=Kind.PIPELINE, shows=Shows.ROUND),
    plant("K2-010", ZeroedFirst, "length", "vllm-project/vllm-ascend PR 2881", ("near",)),
    plant("K2-011", Argmax, "residual", "mistral.rs PR 2424", ("near",), others=("token", "recovery")),
    plant("K2/position", PreviousProposal, "forbidden", STUDY, ("near",), shows=Shows.ROUND),
    plant("sole-recovery", PlaceOfDraft, "recovery", MADE, ("far",), shows=Shows.ROUND, sole=True),
)
