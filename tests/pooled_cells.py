"""Cells by hand, pooled, and checks over them."""

from fractions import Fraction

import numpy as np

from pp3.harness.cells import Cell, Event
from pp3.harness.design import Check, Method
from pp3.harness.pooling import Pooled, pool

SHARES = [40, 25, 15, 10, 6, 4]
EVENTS = 5000


def cell(shares: list[int], context: int = 0) -> Cell:
    """A cell with this law."""
    return Cell(
        event=Event.TOKEN,
        target="t",
        depth=4,
        position=1,
        context=context,
        pattern="",
        atoms=np.arange(len(shares)),
        shares=tuple(shares),
        rate=Fraction(1),
    )


def pooled_of(shares: list[int], least: int = 20, context: int = 0) -> Pooled:
    """A cell that can decide."""
    pooled = pool(cell(shares, context), EVENTS, least)
    assert pooled is not None
    return pooled


def check_of(*cells: Pooled, alpha: float = 1e-3, reason: str = "", extra: tuple[str, ...] = ()) -> Check:
    """A check of these cells."""
    return Check(
        id="t/check",
        event=Event.TOKEN,
        target="t",
        depth=4,
        method=Method.G,
        cells=cells,
        counted=(*(pooled.cell.id for pooled in cells), *extra),
        alpha=alpha,
        reason=reason,
        required=True,
    )
