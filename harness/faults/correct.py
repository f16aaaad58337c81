"""One correct sampler of every kind, in small steps: a planted fault overrides one of them.

Laws are the target's integer tables. A word is 64 bits of the sampler's own, addressed by purpose and request number,
so that nothing depends on the size or order of a batch. A draft is kept where word / 2 < ceil(P * 2^63 / Q), and a
token is found where word * sum / 2^64, rounded down, falls among running sums: each law is met to 2^-63.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.faults.running import Integers, Running, Words
from pp3.harness.samplers.contract import INVALIDATED, Batch, Carrier, Description, Emission, Kind, Randomness
from pp3.harness.samplers.words import words
from pp3.harness.tally import start_of

DRAFT, ACCEPT, REPLACE, BONUS = "draft", "accept", "replace", "bonus"  # purposes of a word
CERTAIN = 1 << 63  # words of acceptance
ENGINE = "engine"  # a pipeline whose drafts stay inside


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What a sampler makes of one target's laws. A pair is a target row and a row of the ratio's proposal."""

    draft: Running  # [rows, vocab]
    bonus: Running  # [rows, vocab]
    void: Running  # [rows, vocab]
    plain: Running  # [rows, vocab]
    residual: Running  # [keys, vocab], a key as residual_key gives it
    accepting: npt.NDArray[Any]  # [pairs, vocab] acceptance, numerator; Python integers
    of: npt.NDArray[Any]  # [pairs, vocab] denominator

    @cached_property
    def edges(self) -> Words:
        """How many of the 2^63 acceptance words keep a token, [pairs, vocab]."""
        kept = -(-self.accepting * CERTAIN // np.where(self.of == 0, 1, self.of))
        edges: Words = np.where(self.accepting >= self.of, CERTAIN, kept).astype(np.uint64)
        return edges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One batch under way."""

    batch: Batch
    tables: Tables
    contexts: Integers  # [n, depth + 1] context of each position
    drafts: Integers  # [n, depth] as verified, -1 where invalidated

    @property
    def tokens(self) -> Integers:
        """Drafts [n, depth] as indices: 0 where invalidated."""
        return np.maximum(self.drafts, 0)


class Correct:
    """Standard rejection (Leviathan et al. 2023): min(1, P/Q), then (P - Q)+, then the bonus. Keeps no batch."""

    declared: Mapping[str, Any] = MappingProxyType({})
    running: type[Running] = Running

    def __init__(self, kind: str = Kind.VERIFIER) -> None:
        self.kind = kind
        self._made: dict[int, tuple[Any, Tables]] = {}

    def describe(self) -> Description:
        """See the contract."""
        said: dict[str, Any] = {"target_carrier": Carrier.PROBS, "draft_carrier": Carrier.PROBS, "greedy": True}
        name = f"numpy-{type(self).__name__.lower()}-{self.kind}"
        return Description(
            **{"name": name, "kind": self.kind, "randomness": Randomness.KEYED} | said | dict(self.declared)
        )

    def run(self, batch: Batch) -> Any:
        """One round for every request, in NumPy."""
        tables = self.tables(batch.target)
        start = start_of(batch.target, batch.requests)
        if self.kind == Kind.PLAIN:
            return tables.plain.draw(self.plain_rows(batch, start), self.words(batch, BONUS, 1)[:, 0])
        proposed, contexts = self.draft(batch, tables, start)
        if self.kind == Kind.PROPOSAL:
            return Emission(tokens=None, drafts=proposed)
        drafts = np.where(batch.given == INVALIDATED, INVALIDATED, proposed)
        this = Round(batch=batch, tables=tables, contexts=contexts, drafts=drafts)
        length = self.length(self.accept(this), this)
        return self.emit(this, proposed, length, self.last(this, length))

    # Laws, [rows, vocab] over the target's total.

    def target_law(self, target: Any) -> Integers:
        """P of the ratio and of the residual."""
        law: Integers = target.weights
        return law

    def draft_law(self, target: Any) -> Integers:
        """What own drafts are drawn from."""
        law: Integers = target.proposal_weights()
        return law

    def ratio_law(self, target: Any) -> Integers:
        """Q of the ratio and of the residual."""
        law: Integers = target.proposal_weights()
        return law

    def bonus_law(self, target: Any) -> Integers:
        """P when all drafts are kept."""
        law: Integers = target.weights
        return law

    def void_law(self, target: Any) -> Integers:
        """P at an invalidated draft."""
        law: Integers = target.void_weights()
        return law

    def plain_law(self, target: Any) -> Integers:
        """P of a plain sampler."""
        law: Integers = target.weights
        return law

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Chance of keeping a draft, as numerator and denominator, elementwise; 1 and more is always."""
        return p, q

    def residual(self, p: Integers, q: Integers) -> Integers:
        """What replaces a rejected draft, of P and Q in pairs [pairs, vocab]: [keys, vocab], of any sum."""
        found: Integers = np.maximum(p - q, 0)
        return found

    def residual_key(self, target: Any, pair: Integers, token: Integers) -> Integers:
        """Which row of `residual` replaces a rejected token, elementwise."""
        return pair

    # Rows, elementwise.

    def draft_row(self, target: Any, position: Any, context: Integers) -> Integers:
        """Row of the draft law."""
        return _row(target, position, context)

    def target_row(self, target: Any, position: Any, context: Integers, token: Integers) -> Integers:
        """Row of P that judges a draft token."""
        return _row(target, position, context)

    def ratio_row(self, target: Any, position: Any, context: Integers, token: Integers) -> Integers:
        """Row of Q that judges a draft token."""
        return _row(target, position, context)

    def bonus_row(self, target: Any, depth: int, context: Integers) -> Integers:
        """Row of the bonus after `depth` kept drafts."""
        return _row(target, depth, context)

    def void_row(self, target: Any, position: Any, context: Integers) -> Integers:
        """Row of an invalidated draft."""
        return _row(target, position, context)

    def plain_rows(self, batch: Batch, start: Integers) -> Integers:
        """Row of each plain request [n]."""
        return _row(batch.target, 0, start)

    # Words.

    def address(self, batch: Batch, purpose: str) -> Integers:
        """The request numbers [n] whose words are used."""
        return batch.requests

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """`count` words of each request for one purpose, [n, count]."""
        return self.words_of(batch, purpose, count, self.address(batch, purpose))

    def words_of(self, batch: Batch, purpose: str, count: int, requests: Integers) -> Words:
        """The words [n, count] of any requests [n]."""
        return words(batch.seed, f"faults/{purpose}/{batch.target.name}", requests, count)

    # A round.

    def draft(self, batch: Batch, tables: Tables, start: Integers) -> tuple[Integers, Integers]:
        """Drafts [n, depth], own or given, and the context of each position [n, depth + 1]."""
        n, depth, target = len(batch), batch.depth, batch.target
        drafts = np.maximum(batch.given, 0).astype(np.int64)
        own = self.kind != Kind.VERIFIER
        drawn = self.words(batch, DRAFT, depth) if own else None
        contexts = np.empty((n, depth + 1), np.int64)
        contexts[:, 0] = start
        for j in range(depth):
            if drawn is not None:
                drafts[:, j] = tables.draft.draw(self.draft_row(target, j, contexts[:, j]), drawn[:, j])
            contexts[:, j + 1] = target.context_of[drafts[:, j]]
        return drafts, contexts

    def pairs(self, this: Round) -> Integers:
        """Which pair of rows judges each draft, [n, depth]."""
        target, position = this.batch.target, np.arange(this.batch.depth)
        before, token = this.contexts[:, :-1], this.tokens
        p = self.read(this, "target", self.target_row(target, position, before, token))
        q = self.read(this, "ratio", self.ratio_row(target, position, before, token))
        pair: Integers = p * len(target.weights) + q
        return pair

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """The rows [n, depth] of the target or the ratio as the kernel finds them in its buffer."""
        return rows

    def coins(self, this: Round) -> Words:
        """Acceptance words, [n, depth]."""
        return self.words(this.batch, ACCEPT, this.batch.depth)

    def accept(self, this: Round) -> npt.NDArray[np.bool_]:
        """Which drafts are kept when judged, [n, depth]."""
        edge = this.tables.edges[self.pairs(this), this.tokens]
        return (self.coins(this) >> np.uint64(1) < edge) & (this.drafts >= 0)

    def length(self, kept: npt.NDArray[np.bool_], this: Round) -> Integers:
        """Number of drafts kept before the first that is not, [n]."""
        found: Integers = np.cumprod(kept, axis=1, dtype=np.int64).sum(axis=1)
        return found

    def last(self, this: Round, length: Integers) -> Integers:
        """The token [n] that ends each round."""
        depth, target = this.batch.depth, this.batch.target
        rows, at = np.arange(len(length)), np.minimum(length, depth - 1)
        whole, void = length == depth, (length < depth) & (this.drafts[rows, at] < 0)
        found = np.empty(len(length), np.int64)
        if len(which := np.flatnonzero(whole)):
            found[which] = self.bonus(this, which)
        if len(which := np.flatnonzero(void)):
            row = self.void_row(target, at[which], this.contexts[which, at[which]])
            found[which] = this.tables.void.draw(row, self.words(this.batch, REPLACE, 1)[which, 0])
        if len(which := np.flatnonzero(~whole & ~void)):
            found[which] = self.replace(this, which, at[which])
        return found

    def bonus(self, this: Round, which: Integers) -> Integers:
        """The bonus of the requests `which` [m]."""
        row = self.bonus_row(this.batch.target, this.batch.depth, this.contexts[which, -1])
        return this.tables.bonus.draw(row, self.words(this.batch, BONUS, 1)[which, 0])

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """What replaces the rejected draft at position `at` [m] of the requests `which` [m]."""
        key = self.residual_key(this.batch.target, self.pairs(this)[which, at], this.tokens[which, at])
        return this.tables.residual.draw(key, self.replacing(this, which, at))

    def replacing(self, this: Round, which: Integers, at: Integers) -> Words:
        """Words [m] of the replacements."""
        found: Words = self.words(this.batch, REPLACE, 1)[which, 0]
        return found

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """What a round came to."""
        tokens = np.concatenate([this.drafts, np.full((len(length), 1), -1)], axis=1)
        tokens[np.arange(len(length)), length] = last
        inside = self.kind == ENGINE
        return Emission(
            tokens=tokens,
            num_sampled=length + 1,
            drafts=None if inside else this.drafts,
            proposed=None if inside else proposed,
        )

    def tables(self, target: Any) -> Tables:
        """The tables of a target, made once."""
        if id(target) not in self._made:
            self._made[id(target)] = target, self._tables(target)
        return self._made[id(target)][1]

    def _tables(self, target: Any) -> Tables:
        plain = self.running(self.plain_law(target))
        if self.kind == Kind.PLAIN:
            nothing = np.zeros((0, 0), object)
            return Tables(
                draft=plain, bonus=plain, void=plain, plain=plain, residual=plain, accepting=nothing, of=nothing
            )
        law, ratio = self.target_law(target), self.ratio_law(target)
        p, q = np.repeat(law, len(ratio), axis=0), np.tile(ratio, (len(law), 1))
        accepting, of = self.acceptance(p.astype(object), q.astype(object), target.total)
        residual = self.residual(p, q)
        empty = residual.sum(axis=1) == 0  # met by a faulty acceptance alone: then the whole target
        residual[empty] = np.repeat(p, len(residual) // len(p), axis=0)[empty]
        return Tables(
            draft=self.running(self.draft_law(target)),
            bonus=self.running(self.bonus_law(target)),
            void=self.running(self.void_law(target)),
            plain=plain,
            residual=self.running(residual),
            accepting=accepting,
            of=of,
        )


def _row(target: Any, position: Any, context: Integers) -> Integers:
    row: Integers = target.row_of[position, context]
    return row
