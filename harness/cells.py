"""Cells: the events of a target that are counted, and the law each count is held to.

A cell is one kind of event at one depth, position and context (and pattern, for lengths). Its atoms are the outcomes
its law allows; a count vector has one entry an atom and a last one for every outcome the law forbids. Kinds:

    proposal     draft tokens, drawn at every position whatever is accepted
    token        tokens emitted for a draft, kept or replaced
    residual     the replaced ones alone
    full-target  tokens emitted for an invalidated draft
    bonus        tokens emitted when all drafts are kept
    length       number of drafts kept
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pp3.harness.oracle import Law
from pp3.targets import invalidated


class Event(StrEnum):
    """What is counted."""

    PROPOSAL = "proposal"
    TOKEN = "token"
    RESIDUAL = "residual"
    FULL_TARGET = "full-target"
    BONUS = "bonus"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One histogram and its law: probability shares[i] / shares.sum() of atom i, given the event."""

    event: Event
    target: str
    depth: int
    position: int  # -1 for a length
    context: int  # -1 for a length
    pattern: str  # "" except for a length
    atoms: npt.NDArray[np.int64]  # ascending tokens, or lengths
    shares: tuple[int, ...]  # integers in proportion to the law
    rate: Fraction  # events a request, by the law

    @property
    def id(self) -> str:
        """Name within a campaign, less the batch size."""
        where = self.pattern if self.event is Event.LENGTH else f"position-{self.position}/context-{self.context}"
        return f"{self.target}/depth-{self.depth}/{self.event.value}/{where}"

    def probabilities(self) -> npt.NDArray[np.float64]:
        """The law as doubles, [atoms]."""
        total = sum(self.shares)
        return np.array([share / total for share in self.shares])


def enumerate_cells(law: Law, depth: int) -> list[Cell]:
    """Every cell of one target and depth that its law can reach, in a fixed order."""
    target = law.target
    cells = []
    for (j, context), rate in law.drafted(depth).items():
        cells.append(_tokens(law, Event.PROPOSAL, depth, j, context, law.tickets, rate))
    share = Fraction(1, len(target.patterns))
    reached: dict[tuple[Event, int, int], Fraction] = {}
    for pattern in target.patterns:
        void = (*invalidated(pattern, depth), False)
        for (j, context), rate in law.reached(depth, pattern).items():
            event = Event.BONUS if j == depth else Event.FULL_TARGET if void[j] else Event.TOKEN
            reached[event, j, context] = reached.get((event, j, context), Fraction(0)) + rate * share
    for (event, j, context), rate in sorted(reached.items()):
        cells.append(_tokens(law, event, depth, j, context, target.weights, rate))
        rejected = law.rejected(j, context) if event is Event.TOKEN else Fraction(0)
        if rejected:
            cells.append(_tokens(law, Event.RESIDUAL, depth, j, context, law.residual, rate * rejected))
    for pattern in target.patterns:
        lengths = law.lengths(depth, pattern)
        possible = [n for n, p in enumerate(lengths) if p]
        scale = math.lcm(*(lengths[n].denominator for n in possible))
        cells.append(
            Cell(
                event=Event.LENGTH,
                target=target.name,
                depth=depth,
                position=-1,
                context=-1,
                pattern=pattern,
                atoms=np.array(possible, np.int64),
                shares=tuple(int(lengths[n] * scale) for n in possible),
                rate=share,
            )
        )
    return cells


def _tokens(
    law: Law, event: Event, depth: int, position: int, context: int, weights: npt.NDArray[np.int64], rate: Fraction
) -> Cell:
    row = weights[law.row(position, context)]
    atoms = np.flatnonzero(row)
    return Cell(
        event=event,
        target=law.target.name,
        depth=depth,
        position=position,
        context=context,
        pattern="",
        atoms=atoms,
        shares=tuple(row[atoms].tolist()),
        rate=rate,
    )
