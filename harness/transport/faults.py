"""Which requests of a campaign lose their proposal on the way, and how: fixed by the seed before anything runs.

Every request whose first draft is to be -1 loses it in the path itself: its row fails or comes late, or its whole frame
is corrupted, never comes, or comes in the next round. Requests are dealt into frames of at most the batch size; those
of a frame that is lost are all such requests, and the others may share frames with anybody.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import Seed, integers
from pp3.harness.transport.frame import MAX_ROWS

Array = npt.NDArray[Any]


class Fault(StrEnum):
    """How a proposal is lost."""

    FAILED = "failed"  # the drafter says so, of one row
    TIMED_OUT = "timed-out"  # likewise
    CORRUPT = "corrupt"  # the frame is changed on the wire
    MISSING = "missing"  # the frame never comes
    LATE = "late"  # the frame comes in the next round


SHARES = {Fault.FAILED: 13, Fault.TIMED_OUT: 13, Fault.CORRUPT: 4, Fault.MISSING: 1, Fault.LATE: 1}
OUT_OF = sum(SHARES.values())
ROW_FAULTS = (Fault.FAILED, Fault.TIMED_OUT)
KINDS = tuple(Fault)
EDGES = np.cumsum([SHARES[kind] for kind in KINDS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One round: the rows that share it, and what befalls the whole."""

    rows: tuple[int, ...]  # places in the batch
    fault: Fault | None  # of the frame
    pick: int  # u64: for slots, and for how a frame is corrupted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """A batch in frames."""

    kinds: Array  # [n] index into KINDS, -1 where nothing befalls a request
    frames: list[Frame]

    def injected(self) -> dict[str, int]:
        """Requests of each kind of fault."""
        return {kind.value: int((self.kinds == place).sum()) for place, kind in enumerate(KINDS)}


def deal(seed: Seed, label: str, lost: Array, size: int) -> Dealt:
    """Deal n requests, of which `lost` [n] bool lose their proposal, into frames of at most `size` rows, 4 at most.

    Everything follows from seed and label.
    """
    n, size = len(lost), min(size, MAX_ROWS)
    words = integers(seed, f"path/{label}", 3 * n).reshape(3, n)
    kinds = np.where(lost, np.searchsorted(EDGES, words[0] % np.uint64(OUT_OF), side="right"), -1)
    groups: list[tuple[Array, Fault | None]] = [(kinds < len(ROW_FAULTS), None)]
    groups += [(kinds == place, kind) for place, kind in enumerate(KINDS) if kind not in ROW_FAULTS]
    frames = []
    for which, fault in groups:
        rows = np.flatnonzero(which)
        rows = rows[np.argsort(words[1, rows], kind="stable")]
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size].tolist()
            frames.append(Frame(rows=tuple(chosen), fault=fault, pick=int(words[2, chosen[0]])))
    frames.sort(key=lambda frame: frame.pick)
    return Dealt(kinds=kinds, frames=frames)
