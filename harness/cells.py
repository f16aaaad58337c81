"""Cells: the events of a target that are counted, and the law each count is held to.

A cell is one kind of event at one depth, position and context (and pattern, for lengths). Its atoms are the outcomes
its law allows; a count vector has one entry an atom and a last one for every outcome the law forbids. Kinds:

    proposal     draft tokens, drawn at every position whatever is accepted
    token        tokens emitted for a draft, kept or replaced
    kept         the kept ones alone
    residual     the replaced ones alone
    accept       the draft and whether it was kept: what decides is the bit, given the draft
    full-target  tokens emitted for an invalidated draft
    bonus        tokens emitted when all drafts of a request are kept, or when it has none in a batch of some depth
    length       number of drafts kept
    joint        number and values of all tokens of a round, as one outcome (of small targets, by request)

harness/dependence.py adds what may not depend on each other.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pp3.harness.joint import joint_law
from pp3.harness.oracle import Law
from pp3.targets import drafts_of, invalidated


class Event(StrEnum):
    """What is counted, and what is judged from other counts (the last two)."""

    PROPOSAL = "proposal"
    TOKEN = "token"
    KEPT = "kept"
    RESIDUAL = "residual"
    ACCEPT = "accept"
    FULL_TARGET = "full-target"
    BONUS = "bonus"
    LENGTH = "length"
    JOINT = "joint"
    PREFIX = "prefix"
    RECOVERY = "recovery"
    MATCH = "match"
    ROUND = "round-match"
    PAIR = "pair"
    LENGTH_PAIR = "length-pair"
    REPEAT = "repeat"
    RARE = "rare-cell"
    FIT = "fit"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One histogram and its law: probability shares[i] / shares.sum() of atom i, given the event."""

    event: Event
    target: str
    depth: int
    position: int  # -1 for a length or a joint outcome
    context: int  # likewise
    pattern: str  # of a length or a joint outcome; else the name of its context, where it has one
    atoms: npt.NDArray[np.int64]  # ascending tokens, lengths or codes
    shares: tuple[int, ...]  # integers in proportion to the law
    rate: Fraction  # events a request, by the law
    strata: npt.NDArray[np.int64] | None = None  # [atoms]: what the law is given, if it is a conditional one
    maps: tuple[npt.NDArray[np.int64], ...] = field(default=())  # [vocab] each: tokens to the parts of a code

    @property
    def id(self) -> str:
        """Name within a campaign, less the batch size."""
        where = self.pattern or f"position-{self.position}/context-{self.context}"
        return f"{self.target}/depth-{self.depth}/{self.event}/{where}"

    def probabilities(self) -> npt.NDArray[np.float64]:
        """The law as doubles, [atoms]."""
        total = sum(self.shares)
        return np.array([share / total for share in self.shares])


# What our own campaigns count: joint cells are for small targets, rounds of a slot for batches that have slots.
CAMPAIGN = frozenset(Event) - {Event.JOINT, Event.ROUND, Event.RARE, Event.FIT}


def enumerate_cells(law: Law, depth: int, events: Collection[Event] = CAMPAIGN) -> list[Cell]:
    """Every cell of one target and depth that its law can reach, of the wanted events, in a fixed order."""
    target = law.target
    cells: list[Cell] = []
    if Event.PROPOSAL in events:
        for (j, context), rate in law.drafted(depth).items():
            having = Fraction(sum(drafts_of(pattern, depth) > j for pattern in target.patterns), len(target.patterns))
            if having:
                cells.append(_tokens(law, Event.PROPOSAL, depth, j, context, law.tickets, rate * having))
    share = Fraction(1, len(target.patterns))
    if Event.TOKEN in events:
        cells += _emitted(law, depth, share)
    for pattern in target.patterns:
        if Event.LENGTH in events:
            lengths = law.lengths(depth, pattern)
            cells.append(_whole(law, Event.LENGTH, depth, pattern, dict(enumerate(lengths)), share))
        if Event.JOINT in events:
            cells.append(_whole(law, Event.JOINT, depth, pattern, joint_law(law, depth, pattern), share))
    return [cell for cell in cells if cell.event in events]


def _emitted(law: Law, depth: int, share: Fraction) -> list[Cell]:
    """Cells of emitted tokens, by what they were emitted for."""
    target = law.target
    reached: dict[tuple[Event, int, int], Fraction] = {}
    for pattern in target.patterns:
        void, last = (*invalidated(pattern, depth), False), drafts_of(pattern, depth)
        for (j, context), rate in law.reached(depth, pattern).items():
            event = Event.FULL_TARGET if void[j] else Event.BONUS if depth and j == last else Event.TOKEN
            reached[event, j, context] = reached.get((event, j, context), Fraction(0)) + rate * share
    cells = []
    for (event, j, context), rate in sorted(reached.items()):
        weights = target.void_weights() if event is Event.FULL_TARGET else target.weights
        cells.append(_tokens(law, event, depth, j, context, weights, rate))
        if event is Event.TOKEN and j < depth:
            cells += _judged(law, depth, j, context, rate)
    return cells


def _judged(law: Law, depth: int, j: int, context: int, rate: Fraction) -> list[Cell]:
    """Cells of the drafts that are judged at one position in one context: kept, replaced, and each with its bit."""
    cells, rejected = [], law.rejected(j, context)
    if rejected < 1:
        cells.append(_tokens(law, Event.KEPT, depth, j, context, law.kept, rate * (1 - rejected)))
    if rejected:
        cells.append(_tokens(law, Event.RESIDUAL, depth, j, context, law.residual, rate * rejected))
    row = law.row(j, context)
    bits = np.stack([law.tickets[row] - law.kept[row], law.kept[row]], axis=1).ravel()  # code 2 * draft + kept
    codes = np.flatnonzero(bits)
    cells.append(
        Cell(
            event=Event.ACCEPT,
            target=law.target.name,
            depth=depth,
            position=j,
            context=context,
            pattern=law.target.labels[context] if law.target.labels else "",
            atoms=codes,
            shares=tuple(bits[codes].tolist()),
            rate=rate,
            strata=codes // 2,
        )
    )
    return cells


def _whole(
    law: Law, event: Event, depth: int, pattern: str, probabilities: dict[int, Fraction], share: Fraction
) -> Cell:
    """A cell that every request of a pattern falls into once."""
    possible = [outcome for outcome, p in sorted(probabilities.items()) if p]
    scale = math.lcm(*(probabilities[outcome].denominator for outcome in possible))
    return Cell(
        event=event,
        target=law.target.name,
        depth=depth,
        position=-1,
        context=-1,
        pattern=pattern,
        atoms=np.array(possible, np.int64),
        shares=tuple(int(probabilities[outcome] * scale) for outcome in possible),
        rate=share,
    )


def _tokens(
    law: Law, event: Event, depth: int, position: int, context: int, weights: npt.NDArray[np.int64], rate: Fraction
) -> Cell:
    row = weights[law.row(position, context)]
    atoms = np.flatnonzero(row)
    labels = law.target.labels
    return Cell(
        event=event,
        target=law.target.name,
        depth=depth,
        position=position,
        context=context,
        pattern=labels[context] if labels else "",
        atoms=atoms,
        shares=tuple(row[atoms].tolist()),
        rate=rate,
    )
