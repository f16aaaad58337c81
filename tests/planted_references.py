"""The reference with one fault planted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.harness.samplers import reference as sampler_module
from pp3.harness.samplers.contract import Batch, Description, Emission, Sampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.kernels import reference
from pp3.targets import Target

Array = npt.NDArray[Any]
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    """The reference behind a change of its batch, of its emission, or of both."""

    before: Callable[[Batch], Batch] = lambda batch: batch
    after: Callable[[Batch, Emission], Emission] = lambda batch, emission: emission

    def describe(self) -> Description:
        """See the contract."""
        return ReferenceSampler().describe()

    def run(self, batch: Batch) -> Emission:
        """See the contract."""
        return self.after(batch, ReferenceSampler().run(self.before(batch)))


def residual_from_the_target(patch: Patch) -> Sampler:
    """A rejected draft is replaced from P instead of (P - Q)+."""
    emit = reference._emit

    def wrong(rows: Any, row: Any, support: Any, tickets: Any, rejected: Array, block: Any) -> Any:
        return emit(rows, row, support, tickets, np.zeros_like(rejected), block)

    patch.setattr(reference, "_emit", wrong)
    return ReferenceSampler()


def bonus_from_another_row(patch: Patch) -> Sampler:
    """The bonus is drawn from the row that judged the last draft."""
    verify = reference.verify_rows

    def wrong(rows: Any, row: Array, drafts: Any, *rest: Any) -> reference.Verification:
        return verify(rows, np.concatenate([row[:, :-1], row[:, -2:-1]], axis=1), drafts, *rest)

    patch.setattr(reference, "verify_rows", wrong)
    return ReferenceSampler()


def always_accepts(patch: Patch) -> Sampler:
    """Every draft is kept; what follows the last one is drawn from its own row."""
    verify = reference.verify_rows

    def wrong(
        rows: Any, row: Array, drafts: Array, support: Any, tickets: Any, sampled: Array, *words: Any
    ) -> reference.Verification:
        found = verify(rows, row, drafts, support, tickets, sampled, *words)
        n, depth = drafts.shape
        last = np.where((drafts == -1).any(axis=1), (drafts == -1).argmax(axis=1), depth)
        at_last = np.repeat(row[np.arange(n), last][:, None], depth + 1, axis=1)
        drawn = verify(rows, at_last, np.full_like(drafts, -1), support, tickets, sampled, *words).tokens[:, 0]
        tokens = np.where(np.arange(depth + 1) < last[:, None], np.pad(drafts, ((0, 0), (0, 1))), -1)
        tokens[np.arange(n), last] = drawn
        keep = sampled[:, None]
        return reference.Verification(
            found.status, np.where(keep, tokens, found.tokens), np.where(sampled, last + 1, found.num_sampled)
        )

    patch.setattr(reference, "verify_rows", wrong)
    return ReferenceSampler()


def tau_1_throughout(patch: Patch) -> Sampler:
    """Tickets of tau 1.0: consistent with the draws, so that only the proposal's own law shows it."""
    tables = sampler_module._tables

    def wrong(target: Target) -> Any:
        return reference.allocate(target.draft_logits, 1.0), tables(target)[1]

    patch.setattr(sampler_module, "_tables", wrong)
    return ReferenceSampler()


def tau_1_drawn(patch: Patch) -> Sampler:
    """Drafts drawn at tau 1.0, tickets declared at 0.7."""
    tables, propose = sampler_module._tables, reference.propose_rows
    hot: dict[int, reference.Supports] = {}

    def remember(target: Target) -> Any:
        supports, rows = tables(target)
        hot[id(supports)] = reference.allocate(target.draft_logits, 1.0)
        return supports, rows

    def wrong(supports: reference.Supports, *rest: Any) -> reference.Proposal:
        return propose(supports, *rest)._replace(token=propose(hot[id(supports)], *rest).token)

    patch.setattr(sampler_module, "_tables", remember)
    patch.setattr(reference, "propose_rows", wrong)
    return ReferenceSampler()


def same_draw_twice(patch: Patch) -> Sampler:
    """Every draft position reads the words of the first one."""
    propose = reference.propose_rows

    def wrong(
        supports: Any, row: Any, sampled: Any, keys: Any, rounds: Any, positions: Array, tau: float
    ) -> reference.Proposal:
        return propose(supports, row, sampled, keys, rounds, np.full_like(positions, 5), tau)

    patch.setattr(reference, "propose_rows", wrong)
    return ReferenceSampler()


def acceptance_word_for_the_residual(patch: Patch) -> Sampler:
    """The residual is drawn with the word that has just rejected the draft."""
    emit = reference._emit

    def wrong(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, block: Array) -> Any:
        return emit(rows, row, support, tickets, rejected, np.stack([block[:, 0]] * 4, axis=1))

    patch.setattr(reference, "_emit", wrong)
    return ReferenceSampler()


def row_0_for_every_context(patch: Patch) -> Sampler:
    """Proposal and target both forget the previous token."""

    def before(batch: Batch) -> Batch:
        rows = np.repeat(batch.target.row_of[:, :1], batch.target.contexts, axis=1)
        return replace(batch, target=replace(batch.target, row_of=rows))

    return Planted(before=before)


def late_context(patch: Patch) -> Sampler:
    """The target of position j is that of the draft two before: the lookup is one step behind."""
    verify = reference.verify_rows

    def wrong(rows: Any, row: Array, drafts: Any, *rest: Any) -> reference.Verification:
        behind = np.concatenate([row[:, :1], row[:, :1], row[:, 1:-1]], axis=1)
        return verify(rows, behind if (row < 8).all() and len(rows.valid) == 8 else row, drafts, *rest)

    patch.setattr(reference, "verify_rows", wrong)
    return ReferenceSampler()


def one_impossible_token(patch: Patch) -> Sampler:
    """Twice in a hundred thousand requests, once in each half of a cell, a token that the law forbids."""

    def after(batch: Batch, emission: Emission) -> Emission:
        if batch.target.name != "disjoint" or not batch.sampled.all() or batch.depth != 5 or batch.rows_per_launch != 3:
            return emission
        tokens = emission.tokens.copy()
        tokens[11, emission.num_sampled[11] - 1] = np.flatnonzero(batch.target.weights.sum(axis=0) == 0)[0]
        return replace(emission, tokens=tokens)

    return Planted(after=after)


def one_in_fifty_without_check(patch: Patch) -> Sampler:
    """The last row of one launch in twelve keeps its first draft unseen: a fault of launches, not of the law."""

    def after(batch: Batch, emission: Emission) -> Emission:
        if batch.rows_per_launch != 4 or not batch.sampled.all():
            return emission
        tokens, lengths = emission.tokens.copy(), emission.num_sampled.copy()
        hit = (np.arange(len(batch)) % 48 == 47) & (lengths == 1) & (batch.given[:, 0] != -1)
        tokens[hit, 0] = emission.drafts[hit, 0]
        return replace(emission, tokens=tokens, num_sampled=lengths)

    return Planted(after=after)
