"""K10: resolution, rounding, sums and remainders."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.reshape import short
from pp3.harness.faults.running import Integers, Running, Words, high
from pp3.harness.samplers.contract import Batch, Kind
from pp3.harness.tally import start_of

plant = planting("resolution and precision")
GRID = 10  # bits
PLAIN: dict[str, Any] = {"kind": Kind.PLAIN, "targets": ("rows-of-1000",)}


class OnGrid(Running):
    """Places on a grid of 2^10."""

    def draw(self, rows: Integers, word: Words) -> Integers:
        """By the first ten bits."""
        short = word >> np.uint64(64 - GRID) << np.uint64(64 - GRID)
        return self.at(rows, high(short, self.totals[rows]))

    def counts(self, row: int) -> Integers:
        """How many points of the grid fall to each token."""
        places = np.arange(1 << GRID) * int(self.totals[row]) >> GRID
        ends = np.searchsorted(places, np.cumsum(self.weights[row]), side="left")
        return np.diff(ends, prepend=0)


class Grid(Correct):
    """Uniforms of ten bits: of tokens rarer than 2^-10 some never win and some win too often."""

    running = OnGrid


class ShortSums(Running):
    """Running sums kept in bfloat16."""

    def __init__(self, weights: Integers) -> None:
        super().__init__(weights)
        shares = np.cumsum(weights, axis=1) / np.maximum(self.totals, 1)[:, None]
        sums = (short(shares) * self.totals[:, None]).astype(np.int64)
        self.between = np.diff(sums, axis=1, prepend=0)
        self.sums = (sums + self.lift[:, None]).ravel()

    def counts(self, row: int) -> Integers:
        """What lies between the rounded sums."""
        found: Integers = self.between[row]
        return found


class Short(Correct):
    """Running sums in bfloat16: borders of rare tokens collapse."""

    running = ShortSums


class Wobbling(Running):
    """Running sums off by one unit of 2^24 at every other border."""

    def __init__(self, weights: Integers) -> None:
        super().__init__(weights)
        inner = (np.arange(len(self.sums)) % 2 == 1) & (weights.ravel() > 1)
        inner &= np.arange(len(self.sums)) % weights.shape[1] < weights.shape[1] - 1
        self.sums = self.sums - inner * np.maximum(1, np.repeat(self.totals, weights.shape[1]) >> 24)


class Wobble(Correct):
    """Prefix sums that are not associative: a border is off by one in the last place."""

    running = Wobbling


class RemainderOf(Running):
    """Places as a word of 24 bits modulo the sum."""

    def draw(self, rows: Integers, word: Words) -> Integers:
        """By a remainder instead of a product."""
        return self.at(rows, (word >> np.uint64(40)).astype(np.int64) % self.totals[rows])

    def counts(self, row: int) -> Integers:
        """How many of the 2^24 words leave each token's places."""
        whole, rest = divmod(1 << 24, int(self.totals[row]))
        ends = np.cumsum(self.weights[row])
        found: Integers = whole * self.weights[row] + np.diff(np.minimum(ends, rest), prepend=0)
        return found


class Remainder(Correct):
    """A place is the remainder of a word by the mass of the residual, and low places come more often."""

    running = RemainderOf


class CoinOf23Bits(Correct):
    """Acceptance on a grid of 2^-23, rounded up: what is rarer than that is kept too often."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """ceil(2^23 P / Q) / 2^23."""
        return -(-(p << 23) // np.where(q == 0, 1, q)), q * 0 + (1 << 23)


class SaturatedSum(Running):
    """The denominator stops growing at 15/16 of the mass: what comes later is never reached."""

    def draw(self, rows: Integers, word: Words) -> Integers:
        """Places below 15/16."""
        return self.at(rows, high(word, self.totals[rows] * 15 // 16))

    def counts(self, row: int) -> Integers:
        """Up to 15/16 of the mass."""
        ends = np.minimum(np.cumsum(self.weights[row]), int(self.totals[row]) * 15 // 16)
        found: Integers = np.diff(ends, prepend=0)
        return found


class Saturated(Correct):
    """The sum that normalises a row saturates in a narrow type."""

    running = SaturatedSum


class CollapsedTail(Correct):
    """Six of a tail of equal, rare tokens are looked up in one slot: one comes six times as often, five never."""

    def run(self, batch: Batch) -> Any:
        """The first of each six of a row's rarest tokens, where there are as many."""
        found = super().run(batch)
        rows = self.plain_rows(batch, start_of(batch.target, batch.requests))
        slots = _slots(self.plain_law(batch.target))
        return np.take_along_axis(slots[rows], found[:, None], axis=1)[:, 0]


def _slots(weights: Integers) -> Integers:
    """The id that each token of each row comes out as, [rows, vocab]."""
    slots = np.tile(np.arange(weights.shape[1]), (len(weights), 1))
    for row, law in enumerate(weights):
        rare = np.flatnonzero(law == law[law > 0].min())
        if len(rare) >= 12 and law[rare[0]] * 1000 < law.sum():
            slots[row, rare[:6]] = rare[0]
    return slots


EXACT: dict[str, Any] = {"shows": Shows.EXACT}
FAULTS = (
    plant("K10-043", Grid, "rare-cell", "vLLM PR 43150; vLLM PR 51367; jax PR 26974", requests=80_000, **PLAIN),
    plant("K10-044", Short, "token", "pytorch issues 43115, 28390 and 37403", requests=32_000, **PLAIN),
    plant("K10-045", Wobble, "exact:draws", "flashinfer PRs 225 and 226", ("far",), **EXACT),
    plant("K10-046", Saturated, "token", "huggingface/candle issue 3727", **PLAIN),
    plant("K10-047", Remainder, "residual", "jax issue 27702; pytorch issue 148175", ("far",), others=("token",)),
    plant("K10-049", CoinOf23Bits, "exact:edges", "jax PR 28022", ("far",), **EXACT),
    plant("sole-rare-cell", CollapsedTail, "rare-cell", MADE, **PLAIN, shows=Shows.ROUND, sole=True),
)
