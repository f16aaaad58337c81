"""Faults that one check sees and no other, at the number of requests that is planned for them.

Most shift a law within ranges of ids that the checks of dependence cannot tell apart, and so evenly over many tokens
that no single count stands out (reshape.aliased). A sum over all statistics holds what each of them holds, so that such
a fault touches one target of several. One check is never alone, and one not always:

    kept    what is kept of a token is what is drafted of it where P is at least Q, which proposal counts too, and what
            is emitted of it where Q is larger, which token counts too (acceptance.SwappedIds)
    length  its five outcomes are counted one by one as well: a shift that it sees with power 0.93 was seen by it alone
            with 83 of 100 seeds, one that it sees with 0.999 is often a rare cell too (SomePointMasses)
"""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import BONUS, ENGINE, Correct, Round
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.reshape import aliased, apportioned, without_each
from pp3.harness.faults.running import Integers, Words, high
from pp3.harness.faults.truncation import Filtered
from pp3.harness.samplers.contract import Batch, Kind

plant = planting("made to be seen by one check")
COOL, VOCAB = 0.7, 20  # of the one target whose tables are off
SCALE = 1_000_000  # of shares
COPIED = 0.2  # of requests that repeat another's words


class AliasedPlain(Filtered):
    """Rows of twelve: the cuts of the first row's alias table are off."""

    size = 0.037

    def plain_law(self, target: Any) -> Integers:
        """Row 0 moved within its slots."""
        law = super().plain_law(target)
        return first_aliased(law, self.size) if law.shape[1] == 12 else law


class AliasedDraft(Correct):
    """The cuts of the first draft's alias table are off."""

    size = 0.017

    def draft_law(self, target: Any) -> Integers:
        """Row 0 moved within its slots, of one target."""
        law = super().draft_law(target)
        return first_aliased(law, self.size) if tabled(target) else law


class AliasedBonus(Correct):
    """The cuts of the bonus's alias tables are off."""

    size = 0.0203

    def bonus_law(self, target: Any) -> Integers:
        """Moved within their slots, of one target."""
        law = super().bonus_law(target)
        return aliased(law, self.size) if tabled(target) else law


class AliasedVoid(Correct):
    """The cuts of the alias table that replaces an invalidated first draft are off."""

    size = 0.0128

    def void_law(self, target: Any) -> Integers:
        """Row 0 moved within its slots."""
        return first_aliased(super().void_law(target), self.size)


class AliasedResidual(Correct):
    """The cuts of one replacement's alias table are off; of all tokens emitted, few are replacements."""

    size = 0.055

    def residual(self, p: Integers, q: Integers) -> Integers:
        """That of the first row moved within its slots."""
        return first_aliased(super().residual(p, q), self.size)


class BonusOfFirstDraft(Correct):
    """The bonus is looked up at the place of the first draft among all that is kept there, in 65 requests of 1,000."""

    share = 0.065

    def bonus(self, this: Round, which: Integers) -> Integers:
        """Uniform over the bonus row, independent of the draft before it, and a function of the first."""
        target = this.batch.target
        row, token = target.row_of[0, this.contexts[which, 0]], this.tokens[which, 0]
        kept, at = target.kept_weights()[row], np.arange(len(which))
        sums = np.cumsum(kept, axis=1)
        word = self.words(this.batch, BONUS, 1)[which, 0]
        place = (sums - kept)[at, token] + high(word, kept[at, token])
        spread: Words = (place / sums[:, -1] * 2.0**53).astype(np.uint64) << np.uint64(11)
        now = self.words(this.batch, "lookup", 1)[which, 0] < np.uint64(self.share * 2.0**64)
        rows = self.bonus_row(target, this.batch.depth, this.contexts[which, -1])
        return this.tables.bonus.draw(rows, np.where(now, spread, word))


class SomePointMasses(Correct):
    """Some of the first two drafts are judged as point masses and stay inside: every token is right, fewer are kept.
    The number of drafts kept is one of five, each counted by itself too: of the ways to move it this is one that shows
    least in any one."""

    shares = 0.022, 0.055, 0.0, 0.0, 0.0  # of the drafts of each row, and so of each position

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """(1 - s) min(1, P / Q) + s P"""
        part = self._parts(p)
        return (SCALE - part) * np.minimum(p, q) * total + part * p * q, SCALE * q * total

    def residual(self, p: Integers, q: Integers) -> Integers:
        """Of each token: (P - Q)+, or P without it, each as often as it was rejected so."""
        left, total = np.maximum(p - q, 0), p.sum(axis=1, keepdims=True)
        part = self._parts(p) / SCALE
        with np.errstate(divide="ignore", invalid="ignore"):
            rejected = np.where(q > 0, (1 - part) * np.maximum(1 - p / q, 0), 0)
        shares = rejected[:, :, None] * (left / np.maximum(left.sum(axis=1, keepdims=True), 1))[:, None, :]
        shares = shares.reshape(-1, p.shape[1]) + np.repeat(part, p.shape[1], axis=0) * without_each(p) / total.max()
        shares += shares.sum(axis=1, keepdims=True) == 0  # of tokens that are never rejected
        return apportioned(shares, np.repeat(total, p.shape[1]))

    def residual_key(self, target: Any, pair: Integers, token: Integers) -> Integers:
        """That of this token."""
        key: Integers = pair * target.weights.shape[1] + token
        return key

    def _parts(self, p: Any) -> Integers:
        """Millionths of the drafts of each pair of rows, [pairs, 1]."""
        rows = round(len(p) ** 0.5)
        return np.repeat(np.round(np.array(self.shares) * SCALE).astype(np.int64), rows)[:, None]


class RowBefore(Correct):
    """One request in five has the words of the request that had its row in the launch before."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """Its own, or a launch earlier."""
        late = self.words_of(batch, "row", 1, batch.requests)[:, 0] < np.uint64(COPIED * 2.0**64)
        before = batch.requests - len(batch)
        return np.where(late & (before >= 0), before, batch.requests)


class SlotBefore(Correct):
    """One request in five has the words of the request that had its slot in the launch before."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.reset()

    def reset(self) -> None:
        """Nobody has had a slot."""
        self._held: tuple[Integers, Integers] | None = None

    def run(self, batch: Batch) -> Any:
        """Remembers who had which slot."""
        found = super().run(batch)
        self._held = batch.held.slots, batch.requests
        return found

    def address(self, batch: Batch, purpose: str) -> Integers:
        """Its own, or that of the slot."""
        if self._held is None:
            return batch.requests
        slots, requests = self._held
        of_slot = np.full(batch.held.num_slots, -1)
        of_slot[slots] = requests
        before = of_slot[batch.held.slots]
        late = self.words_of(batch, "slot", 1, batch.requests)[:, 0] < np.uint64(COPIED * 2.0**64)
        return np.where(late & (before >= 0), before, batch.requests)


def first_aliased(rows: Integers, size: float) -> Integers:
    """Rows of which the first is moved within its slots."""
    found = rows.copy()
    found[:1] = aliased(rows[:1], size)
    return found


def tabled(target: Any) -> bool:
    """Whether its tables are made once and kept: those of one temperature and one vocabulary."""
    return tuple(target.pair.temperatures) == (COOL,) and target.pair.vocab == VOCAB


OTHERS = ("far", "equal", "context", "mixed", "peaked")
ROWS = tuple(f"rows-of-{vocab}" for vocab in (12, 6, 8, 10, 16, 24, 63, 1000))
LAUNCHES: dict[str, Any] = {"kind": Kind.PIPELINE, "shows": Shows.STREAM, "requests": 40_000, "sole": True}
FAULTS = (
    plant("sole-token", AliasedPlain, "token", MADE, ROWS, kind=Kind.PLAIN, requests=10_500, sole=True),
    plant(
        "sole-proposal",
        AliasedDraft,
        "proposal",
        MADE,
        ("near", *OTHERS, "mixed-greedy"),
        kind=Kind.PROPOSAL,
        requests=27_500,
        sole=True,
    ),
    plant("sole-bonus", AliasedBonus, "bonus", MADE, ("near", *OTHERS), requests=23_000, sole=True),
    plant("sole-full-target", AliasedVoid, "full-target", MADE, ("void", "near", *OTHERS), requests=27_000, sole=True),
    plant("sole-residual", AliasedResidual, "residual", MADE, ("near",), requests=90_000, sole=True),
    plant("sole-length", SomePointMasses, "length", MADE, ("far",), kind=ENGINE, requests=26_000, sole=True),
    plant("sole-joint", BonusOfFirstDraft, "joint", MADE, ("whole",), shows=Shows.ROUND, requests=28_000, sole=True),
    plant("sole-round-match", RowBefore, "round-match", MADE, ("near",), **LAUNCHES),
    plant("sole-round-match/slot", SlotBefore, "round-match", MADE, ("near",), **LAUNCHES),
)
