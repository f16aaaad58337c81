"""K11: words that are used twice, or hang together; the law of each round alone is mostly right."""

from functools import cache
from typing import Any

import numpy as np

from pp3.harness.faults.correct import ACCEPT, BONUS, DRAFT, REPLACE, Correct, Round
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.running import Integers, Words
from pp3.harness.samplers.contract import Batch, Kind

plant = planting("random numbers used twice, or not independent")


class Replays(Correct):
    """A captured graph replays the same words every 1,024 requests."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """The request's place in the graph."""
        return batch.requests % 1024


class SameSeed(Correct):
    """The rows of a batch of four have one seed."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """That of the first of them."""
        return batch.requests // 4 * 4


class Children(Correct):
    """Two completions of one seeded request are the same."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """The parent's."""
        return batch.requests // 2 * 2


class LinearSeeds(Correct):
    """Consecutive seeds go through one step of an LCG: the quantiles of a run of 64 requests nearly coincide."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """The word of the run's first request, and 25214903917 / 2^48 more for each later one."""
        first = self.words_of(batch, purpose, count, batch.requests // 64 * 64)
        step = (batch.requests % 64).astype(np.uint64) * np.uint64(25214903917 << 16)
        return first + step[:, None]


class Overlaps(Correct):
    """A launch of 1,024 requests moves the counter on by 256: three quarters of the words come again."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """256 requests of words for each launch of 1,024."""
        return batch.requests % 1024 + batch.requests // 1024 * 256


class OverlapsByPosition(Correct):
    """The counter moves on by one word a request, and a request takes one a position: its words come again, shifted."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """Word j of request r is word 0 of request r + j."""
        columns = [self.words_of(batch, purpose, 1, batch.requests + j) for j in range(count)]
        return np.concatenate(columns, axis=1)


class Replicas(Correct):
    """Two ranks have the default seed: what one draws the other does 8,192 requests later."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """The place in the rank's half."""
        return batch.requests % 8192 + batch.requests // 16384 * 8192


class ShortSeed(Correct):
    """A seed is cut to fourteen bits."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """The low bits."""
        return batch.requests & 0x3FFF


class LagsBehind(Correct):
    """One request in five has the words of the 32nd before it, as of the same lane of the warp before."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """Its own, or of 32 requests earlier."""
        late = self.words_of(batch, "lane", 1, batch.requests)[:, 0] < np.uint64(2**64 // 5)
        return np.where(late, np.maximum(batch.requests - 32, 0), batch.requests)


class OneCoin(Correct):
    """One coin judges every position of a round."""

    def coins(self, this: Round) -> Words:
        """The first."""
        return np.repeat(super().coins(this)[:, :1], this.batch.depth, axis=1)


class CoinOfDraft(Correct):
    """The word that drew a draft judges it."""

    def coins(self, this: Round) -> Words:
        """The draft's words."""
        return self.words(this.batch, DRAFT, this.batch.depth)


class CoinOfPositionBefore(Correct):
    """The replacement is drawn with the coin that kept the draft before it."""

    def replacing(self, this: Round, which: Integers, at: Integers) -> Words:
        """The coin of the position before; at the first, its own word."""
        own = self.words(this.batch, REPLACE, 1)[which, 0]
        return np.where(at > 0, self.coins(this)[which, np.maximum(at - 1, 0)], own)


class OneDraftWord(Correct):
    """One word draws the drafts of every position of a round."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """The first, at every position."""
        found = super().words(batch, purpose, count)
        return np.repeat(found[:, :1], count, axis=1) if purpose == DRAFT else found


class Rotated(Correct):
    """The word of a position is that of the one before, turned by a constant: equal neighbours are as rare as ever."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """Turned by what leaves the chance of equal neighbours nearest to that of independent ones."""
        found = super().words(batch, purpose, count).copy()
        if purpose == DRAFT:
            law = batch.target.proposal_weights()[batch.target.row_of[:count, 0]]
            for j in range(1, count):
                by = turn(tuple(law[j - 1].tolist()), tuple(law[j].tolist()))
                found[:, j] = found[:, j - 1] + np.uint64(by << 52)
        return found


@cache
def turn(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """A multiple of 2^-12 by which to turn a uniform that drew from one law, [vocab], before it draws from the other.

    Chosen so that the two tokens are equal nearest to as often as independent ones are.
    """
    one, other, size = np.array(first), np.array(second), 1 << 12
    middle = (2 * np.arange(size) + 1) * int(one.sum()) // (2 * size)
    tokens = [np.searchsorted(np.cumsum(law), middle, side="right") for law in (one, other)]
    equal = [np.mean(tokens[0] == np.roll(tokens[1], -by)) for by in range(size)]
    chance = float((one / one.sum()) @ (other / other.sum()))
    return int(np.abs(np.array(equal) - chance).argmin())


class CopiesAndMirrors(Correct):
    """Of two requests the second mirrors the first draft's word of the first half of the time, and copies it as often
    as keeps equal pairs at their rate."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """1 - u or u of the even request before."""
        found = super().words(batch, purpose, count).copy()
        if purpose != DRAFT:
            return found
        before = self.words_of(batch, purpose, 1, batch.requests // 2 * 2)[:, 0]
        choice = self.words_of(batch, "pair", 1, batch.requests)[:, 0] / 2.0**64
        copies = copying(batch.target.proposal_weights()[int(batch.target.row_of[0, 0])])
        second = batch.requests % 2 == 1
        found[:, 0] = np.where(second & (choice < 0.5), ~before, found[:, 0])
        found[:, 0] = np.where(second & (choice >= 0.5) & (choice < 0.5 + copies), before, found[:, 0])
        return found


def copying(law: Integers) -> float:
    """How often to copy so that copies and as many mirrors as halves leave the rate of equal pairs of a law [vocab].

    b (1 - s) = a (s - m): s = sum p^2 of independent pairs, m of mirrored ones, a = 1/2.
    """
    ends, total = np.cumsum(law), int(law.sum())
    low, high = ends - law, ends
    mirrored = np.maximum(np.minimum(high, total - low) - np.maximum(low, total - high), 0).sum() / total
    equal = float(((law / total) ** 2).sum())
    return 0.5 * (equal - float(mirrored)) / (1 - equal)


class SharedCoins(Correct):
    """Two neighbouring requests are judged with the same coins; their drafts are their own."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """That of the even one of the two."""
        return batch.requests // 2 * 2 if purpose == ACCEPT else batch.requests


class StartsAgain(Correct):
    """Once in 16,384 requests a stretch of 1,024 has the words of 5,003 requests before."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """An earlier one for requests 8,192 to 9,215 of each 16,384."""
        place = batch.requests % 16384
        return np.where((place >= 8192) & (place < 9216), batch.requests - 5003, batch.requests)


class Stratified(Correct):
    """Words of 4,096 requests fall one into each of 4,096 strata, in random order: every frequency is too good."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """Words of drafts and bonus by strata, at each position on its own."""
        found = super().words(batch, purpose, count)
        if purpose not in (DRAFT, BONUS) or not len(batch):
            return found
        block = batch.requests >> 12
        first, last = int(block.min()), int(block.max()) + 1
        order = self.words_of(batch, f"order/{purpose}", count, np.arange(first << 12, last << 12)).reshape(
            -1, 4096, count
        )
        stratum = order.argsort(axis=1).argsort(axis=1).reshape(-1, count)[batch.requests - (first << 12)]
        return (stratum.astype(np.uint64) << np.uint64(52)) + (found >> np.uint64(12))


STREAM: dict[str, Any] = {"kind": Kind.PIPELINE, "shows": Shows.STREAM}
ROUND: dict[str, Any] = {"kind": Kind.PIPELINE, "shows": Shows.ROUND}
STUDY = "study of statistics, section 3.1"
FAULTS = (
    plant("K11-050", Replays, "repeat", "NVIDIA/Megatron-LM PR 5697; flashinfer PR 2132", ("equal", "near"), **STREAM),
    plant("K11-051", SameSeed, "match", "NVIDIA/TensorRT-LLM issue 212", ("near",), **STREAM),
    plant("K11-052", LinearSeeds, "match", "imp PR 1143", ("near",), **STREAM),
    plant("K11-053", Overlaps, "repeat", "pytorch PR 126066", ("near",), **STREAM),
    plant("K11-053/positions", OverlapsByPosition, "length-pair", "pytorch PR 126066", ("near",), **STREAM),
    plant("K11-054", Replicas, "repeat", "vLLM issue 11953; Megatron-LM PR 5983", ("near",), **STREAM),
    plant("K11-055", Children, "match", "vLLM PR 11898; sglang PR 28805", ("near",), **STREAM),
    plant("K11-056", ShortSeed, "repeat", "numpy PR 4676", ("near",), **STREAM, requests=40_000),
    plant("K11/lag", LagsBehind, "match", STUDY, ("near",), **STREAM, requests=40_000, sole=True),
    plant("K11/coin", OneCoin, "length", STUDY, ("far",), **ROUND),
    plant("K11/draft", CoinOfDraft, "token", STUDY, ("far",), **ROUND),
    plant("K11/before", CoinOfPositionBefore, "token", STUDY, ("far",), **ROUND),
    plant("K11/word", OneDraftWord, "prefix", STUDY, ("equal",), **ROUND, others=("match",)),
    plant("sole-prefix", Rotated, "prefix", MADE, ("equal",), **ROUND, sole=True),
    plant("sole-pair", CopiesAndMirrors, "pair", MADE, ("equal",), **STREAM, sole=True),
    plant("sole-length-pair", SharedCoins, "length-pair", MADE, ("near",), **STREAM, sole=True),
    plant("sole-repeat", StartsAgain, "repeat", MADE, ("equal",), **STREAM, sole=True),
    plant("sole-fit", Stratified, "fit", MADE, ("equal",), **STREAM, sole=True),
)
