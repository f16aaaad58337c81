"""K4: rows and slots out of line, and buffers that hold what was there before."""

import numpy as np

from pp3.harness.faults.correct import Correct, Round
from pp3.harness.faults.fault import Shows, planting
from pp3.harness.faults.running import Integers
from pp3.harness.samplers.contract import Emission, Kind

plant = planting("row and slot alignment")
PADDED = 4  # rows of a captured graph
WRAP = 1024  # rows after which an index of too few bits starts anew


class RatioOfNeighbour(Correct):
    """The batch was reordered between draft and verification, and Q was not."""

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """Q of the request before."""
        return np.roll(rows, 1, axis=0) if which == "ratio" else rows


class TargetOfNeighbour(Correct):
    """P is that of the request before."""

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """P of the request before."""
        return np.roll(rows, 1, axis=0) if which == "target" else rows


class PaddingWrites(Correct):
    """The padded row of a captured graph writes its stale index over the first row's Q."""

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """Every fourth row holds the Q of the row after it."""
        if which == "target":
            return rows
        found = rows.copy()
        first = np.arange(0, len(rows) - 1, PADDED)
        found[first] = rows[first + 1]
        return found


class CopiesReplacement(Correct):
    """A replacement is written to its column in every row of its group: indices select a block, not pairs."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """Groups of four; the last writer wins."""
        found = super().emit(this, proposed, length, last)
        whole = len(length) // PADDED * PADDED
        block = found.tokens[:whole].reshape(-1, PADDED, this.batch.depth + 1)
        for member in range(PADDED):
            at = np.arange(len(block))
            block[at, :, length[member:whole:PADDED]] = last[member:whole:PADDED, None]
        return found


class IndexWraps(Correct):
    """The product of row and vocabulary wraps: late rows of a batch read the P of early ones, one request aside."""

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """From row 1,024 on."""
        if which == "ratio":
            return rows
        at = np.arange(len(rows))
        return rows[np.where(at >= WRAP, at - WRAP, at)]


class StaleRatio(Correct):
    """Every second row of a batch has the Q that the batch before left in its slot."""

    def __init__(self, kind: str = Kind.VERIFIER) -> None:
        super().__init__(kind)
        self.reset()

    def reset(self) -> None:
        """Forget the batch before."""
        self._before: Integers | None = None

    def read(self, this: Round, which: str, rows: Integers) -> Integers:
        """Rows of the batch before in every second place."""
        if which == "target":
            return rows
        before = self._before
        if before is None or before.shape[1:] != rows.shape[1:] or before.max() >= len(this.batch.target.weights):
            before = np.roll(rows, 1, axis=0)
        found, count = rows.copy(), min(len(before), len(rows))
        found[:count:2] = before[:count][::-1][::2]  # slots are handed out from the other end
        return found

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """Leave this batch's rows behind."""
        target, position = this.batch.target, np.arange(this.batch.depth)
        self._before = self.ratio_row(target, position, this.contexts[:, :-1], this.tokens)
        return super().emit(this, proposed, length, last)


class LateWinner(Correct):
    """One time in 1,024 the scratch of an arg-reduction still holds the winner of the row before."""

    def last(self, this: Round, length: Integers) -> Integers:
        """The last token of the request before."""
        found = super().last(this, length)
        late = self.words(this.batch, "race", 1)[:, 0] >> np.uint64(54) == 0
        return np.where(late, np.roll(found, 1), found)


FAULTS = (
    plant("K4-016", RatioOfNeighbour, "token", "vLLM PR 41044", ("mixed",), shows=Shows.ROUND),
    plant("K4-016/target", TargetOfNeighbour, "forbidden", "vLLM PR 41044", ("mixed",), shows=Shows.ROUND),
    plant("K4-017", PaddingWrites, "length", "vLLM PR 47066", ("mixed",), shows=Shows.ROUND),
    plant("K4-017/stale", StaleRatio, "length", "vLLM PR 47066", ("mixed",), shows=Shows.ROUND),
    plant("K4-018", CopiesReplacement, "breach", "flash-attention PR 2779", ("near",), shows=Shows.CONTRACT),
    plant("K13-064", IndexWraps, "forbidden", "vLLM PRs 46560, 48055 and 47383", ("mixed",), shows=Shows.ROUND),
    plant("K14-067", LateWinner, "forbidden", "flashinfer PR 3624", ("mixed",), shows=Shows.ROUND),
)
