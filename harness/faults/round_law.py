"""The exact law of one round of a sampler of correct.py, faulty or not, read off the tables that it draws from.

A place is a position in a context. Words of different places are taken to be independent: what a fault breaks of that
is no law of one place, and is not known here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np

from pp3.harness.cells import Cell, Event
from pp3.harness.faults.correct import Correct
from pp3.harness.samplers.contract import Kind
from pp3.harness.trial.problems import Problem
from pp3.targets import invalidated

Mass = dict[int, Fraction]  # of each outcome that has any
Reach = dict[tuple[int, int], Fraction]  # by position and context


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What becomes of a draft at one place; kept and replaced add up to the proposal's mass, 1."""

    proposal: Mass
    kept: Mass
    replaced: Mass


class RoundLaw:
    """The law of one sampler on one problem, per request."""

    def __init__(self, sampler: Correct, problem: Problem) -> None:
        self.sampler, self.problem = sampler, problem
        self.target, self.depth = problem.target, problem.depth
        self.tables = sampler.tables(problem.target)
        self.place = cache(self._place)
        self.reach = cache(self._reach)

    def void(self, pattern: str) -> tuple[bool, ...]:
        """Which positions are invalidated, depth + 1 of them."""
        return (*invalidated(pattern, self.depth), False)

    @cached_property
    def drafted(self) -> Reach:
        """Probability that a place is drafted at."""
        return self._chain(lambda j, c: self.place(j, c).proposal, (False,) * (self.depth + 1), self.depth)

    def lengths(self, pattern: str) -> Mass:
        """Probability of each number of kept drafts."""
        at_least = [Fraction(0)] * (self.depth + 2)
        for (j, _), mass in self.reach(pattern).items():
            at_least[j] += mass
        return {j: now - at_least[j + 1] for j, now in enumerate(at_least[:-1])}

    def of(self, cell: Cell) -> Mass:
        """Mass of each outcome of a cell, per request; what it sums to is how often the cell is met."""
        j, c = cell.position, cell.context
        if cell.event is Event.PROPOSAL:
            return _times(self.place(j, c).proposal, self.drafted.get((j, c), Fraction(0)))
        share = Fraction(1, len(self.target.patterns))
        if cell.event is Event.LENGTH:
            return _times(self.lengths(cell.pattern), share)
        if cell.event is Event.JOINT:
            return _times(self._joint(cell.pattern), share)
        wanted = cell.event is Event.FULL_TARGET
        met = [p for p in self.target.patterns if self.void(p)[j] == wanted]
        rate = sum((self.reach(p).get((j, c), Fraction(0)) for p in met), Fraction(0)) * share
        return _times(self._emitted(cell.event, j, c), rate)

    def _emitted(self, event: Event, j: int, c: int) -> Mass:
        """Mass of each token for one visit of a place."""
        if event is Event.FULL_TARGET:
            return self._drawn(self.tables.void.counts(int(self.sampler.void_row(self.target, j, np.array(c)))))
        if event is Event.BONUS:
            return self._drawn(self.tables.bonus.counts(int(self.sampler.bonus_row(self.target, j, np.array(c)))))
        if self.depth == 0:
            lump = self.target.lump
            found: Mass = {}
            row = self.tables.plain.counts(int(self.target.row_of[0, c]))
            for token, mass in self._drawn(row).items():
                seen = token if lump is None else int(lump[c, token])
                found[seen] = found.get(seen, Fraction(0)) + mass
            return found
        place = self.place(j, c)
        if event is Event.RESIDUAL:
            return place.replaced
        return _plus(place.kept, place.replaced)

    def acceptance(self, j: int, c: int) -> Mass:
        """Probability that each token is kept once drafted, of those that the sampler may draft."""
        tokens = np.arange(self.problem.vocab)
        sampler, target = self.sampler, self.target
        before = np.full(len(tokens), c)
        pair = sampler.target_row(target, j, before, tokens) * len(target.weights)
        pair = pair + sampler.ratio_row(target, j, before, tokens)
        accepting, of = self.tables.accepting[pair, tokens], self.tables.of[pair, tokens]
        chances = zip(accepting.tolist(), of.tolist(), strict=True)
        return {x: Fraction(1) if a >= b else Fraction(a, b) for x, (a, b) in enumerate(chances)}

    def _place(self, j: int, c: int) -> Place:
        sampler, target = self.sampler, self.target
        if sampler.kind == Kind.VERIFIER:
            law = target.proposal_weights()[target.row_of[j, c]]
        else:
            law = self.tables.draft.counts(int(sampler.draft_row(target, j, np.array(c))))
        proposal, chance = self._drawn(law), self.acceptance(j, c)
        kept = {x: mass * chance[x] for x, mass in proposal.items() if chance[x]}
        replaced: Mass = {}
        for x, mass in proposal.items():
            if chance[x] < 1:
                replaced = _plus(replaced, _times(self._replacing(j, c, x), mass * (1 - chance[x])))
        return Place(proposal=proposal, kept=kept, replaced=replaced)

    def _replacing(self, j: int, c: int, token: int) -> Mass:
        """The law of what replaces a token that was rejected."""
        sampler, target, x, at = self.sampler, self.target, np.array(token), np.array(c)
        pair = sampler.target_row(target, j, at, x) * len(target.weights) + sampler.ratio_row(target, j, at, x)
        key = int(sampler.residual_key(target, pair, x))
        if hasattr(sampler, "replaced_law"):
            found: Mass = sampler.replaced_law(self.tables.residual.weights[key], self.acceptance(j, c)[token])
            return found
        return self._drawn(self.tables.residual.counts(key))

    def _drawn(self, row: Any) -> Mass:
        total = int(row.sum())
        return {int(x): Fraction(int(row[x]), total) for x in np.flatnonzero(row)}

    def _reach(self, pattern: str) -> Reach:
        """Probability that a token is emitted at a place, given the pattern."""
        return self._chain(lambda j, c: self.place(j, c).kept, self.void(pattern), self.depth + 1)

    def _chain(self, flow: Any, stops: tuple[bool, ...], positions: int) -> Reach:
        state = {start: Fraction(1, self.target.starts) for start in range(self.target.starts)}
        reach: Reach = {}
        for j in range(positions):
            reach |= {(j, c): mass for c, mass in state.items()}
            if stops[j] or j == self.depth:
                break
            following: dict[int, Fraction] = {}
            for c, mass in state.items():
                for token, part in flow(j, c).items():
                    to = int(self.target.context_of[token])
                    following[to] = following.get(to, Fraction(0)) + mass * part
            state = following
        return reach

    def _joint(self, pattern: str) -> Mass:
        """Mass of each code of a whole round (joint.py)."""
        found: Mass = {}
        void, vocab = self.void(pattern), self.problem.vocab

        def end(code: int, law: Mass, mass: Fraction) -> None:
            for token, part in law.items():
                at = (code + 1) * vocab + token
                found[at] = found.get(at, Fraction(0)) + mass * part

        def walk(j: int, c: int, code: int, mass: Fraction) -> None:
            if j == self.depth or void[j]:
                end(code, self._emitted(Event.FULL_TARGET if void[j] else Event.BONUS, j, c), mass)
                return
            place = self.place(j, c)
            end(code, place.replaced, mass)
            for token, part in place.kept.items():
                walk(j + 1, int(self.target.context_of[token]), (code + 1) * vocab + token, mass * part)

        for start in range(self.target.starts):
            walk(0, start, -1, Fraction(1, self.target.starts))
        return found


def _times(law: Mass, factor: Fraction) -> Mass:
    return {outcome: mass * factor for outcome, mass in law.items() if factor}


def _plus(one: Mass, other: Mass) -> Mass:
    return {x: one.get(x, Fraction(0)) + other.get(x, Fraction(0)) for x in one.keys() | other.keys()}
