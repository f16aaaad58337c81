"""One cell of given weights."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness.cells import Cell, Event


def cell(shares: Sequence[int], rate: Fraction = Fraction(1), **more: Any) -> Cell:
    """A cell with this law; at the first place of everything unless more is said."""
    said: dict[str, Any] = {"event": Event.TOKEN, "target": "t", "depth": 4, "position": 0, "context": 0}
    said |= {"pattern": "", "atoms": np.arange(len(shares)), "rate": rate}
    return Cell(shares=tuple(shares), **said | more)
