"""One cell of given weights."""

from fractions import Fraction

import numpy as np

from pp3.harness.cells import Cell, Event


def cell(shares: list[int], rate: Fraction = Fraction(1)) -> Cell:
    """A cell with this law."""
    return Cell(
        event=Event.TOKEN,
        target="t",
        depth=4,
        position=0,
        context=0,
        pattern="",
        atoms=np.arange(len(shares)),
        shares=tuple(shares),
        rate=rate,
    )
