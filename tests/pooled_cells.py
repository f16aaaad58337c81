"""Cells by hand, pooled, and checks over them."""

from weighted_cell import cell

from pp3.harness.cells import Event
from pp3.harness.design import Check, Method
from pp3.harness.pooling import Pooled, pool

SHARES = [40, 25, 15, 10, 6, 4]
EVENTS = 5000


def pooled_of(shares: list[int], least: int = 20, context: int = 0) -> Pooled:
    """A cell that can decide."""
    pooled = pool(cell(shares, context=context), EVENTS, least)
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
