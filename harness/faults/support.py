"""K9: tokens of probability 0, and the ends of the unit interval."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import Shows, planting
from pp3.harness.faults.running import Integers, Running, Words, high
from pp3.harness.samplers.contract import Batch, Kind

plant = planting("support and end points")
PLAIN: dict[str, Any] = {"kind": Kind.PLAIN, "requests": 4_000}


class ZeroNoise(Correct):
    """An exponential of 0 makes 0 / 0 of a token without probability, and NaN wins: 3e-8 an element."""

    rate = 3e-8

    def run(self, batch: Batch) -> Any:
        """A token that cannot be, once in 1 / rate draws for each that there is."""
        found = super().run(batch)
        start = self.plain_rows(batch, batch.requests // len(batch.target.patterns) % batch.target.starts)
        zero = batch.target.weights[start] == 0
        noise = self.words(batch, "noise", 1)[:, 0] / 2.0**64
        return np.where(noise < self.rate * zero.sum(axis=1), zero.argmax(axis=1), found)


class OftenZeroNoise(ZeroNoise):
    """An exponential of 0 makes 0 / 0 of a token without probability, and NaN wins: in half precision, often."""

    rate = 2.0**-11


class LeftSide(Running):
    """Running sums searched for the first that reaches a place, not the first beyond it."""

    def at(self, rows: Integers, places: Integers) -> Integers:
        """The token before, where a place is a border."""
        found = np.searchsorted(self.sums, places + self.lift[rows], side="left")
        token: Integers = np.maximum(found - rows * self.weights.shape[1], 0)
        return token


class Left(Correct):
    """The search in the running sums takes the wrong side: a ticket of 2^24 of each token belongs to the one before."""

    running = LeftSide


class ByteLeftSide(LeftSide):
    """Likewise, with places on a grid of 256."""

    def draw(self, rows: Integers, word: Words) -> Integers:
        """By the first eight bits."""
        return self.at(rows, high(word >> np.uint64(56) << np.uint64(56), self.totals[rows]))


class ByteLeft(Correct):
    """The search in the running sums takes the wrong side, with a uniform of eight bits that is 0 now and then."""

    running = ByteLeftSide


class UpToOne(Running):
    """A uniform of 32 bits divided by 2^32 - 1, so that it may be 1."""

    def draw(self, rows: Integers, word: Words) -> Integers:
        """The largest word lies beyond the last token."""
        top = (word >> np.uint64(32)).astype(np.int64)
        places = np.where(top == 2**32 - 1, self.totals[rows], high(word, self.totals[rows]))
        return self.at(rows, places)


class One(Correct):
    """A hash of all ones becomes a uniform of 1, and an id beyond the vocabulary, or the next row's first, wins."""

    running = UpToOne


class ZeroCoin(Correct):
    """A coin of 24 bits keeps a draft where it is at most P / Q, so that 0 keeps what the target forbids."""

    bits = 24

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """floor(2^bits P / Q) + 1 of 2^bits coins."""
        return (p << self.bits) // np.where(q == 0, 1, q) + 1, q * 0 + (1 << self.bits)


class CoarseZeroCoin(ZeroCoin):
    """A coin of eight bits keeps a draft where it is at most P / Q, so that 0 keeps what the target forbids."""

    bits = 8


EXACT: dict[str, Any] = {"shows": Shows.EXACT}
FAULTS = (
    plant("K9-038", ZeroNoise, "exact:exponential", "pytorch issue 192577", ("rows-of-24",), **EXACT | PLAIN),
    plant(
        "K9-038/often", OftenZeroNoise, "forbidden", "pytorch issue 192577", ("rows-of-24",), **PLAIN, shows=Shows.ROUND
    ),
    plant("K9-039", Left, "exact:draws", "pytorch issues 48841 and 50034", ("far",), **EXACT),
    plant("K9-039/byte", ByteLeft, "forbidden", "pytorch issues 48841 and 50034", ("far",), shows=Shows.ROUND),
    plant("K9-040", One, "exact:draws", "sgl-project/sglang issue 25106", ("far",), **EXACT),
    plant("K9-041", ZeroCoin, "exact:edges", "sgl-project/sglang issue 35771", ("far",), **EXACT),
    plant("K9-041/byte", CoarseZeroCoin, "forbidden", "sgl-project/sglang issue 35771", ("far",)),
)
