"""Cases of filtered sampling: a row, the settings it is filtered with, and what goes wrong there.

Rows are integers over 2^24, so that probabilities are exact in FP32 and sums of them too, in any order. As logits,
log(weight / 2^24) rounded to FP32, -inf for 0, they are exact no more: where a sum or a ratio equals its threshold
(`exact_hit`), a sampler that is fed logits may honestly fall on either side, one that is fed probabilities may not.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.targets.target import ONE

COOLEST, HOTTEST = 1e-3, 1e3
STRIDE = 5  # ids are dealt by it, so that a sorted row is not in the order of its ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a row is filtered with; neutral by default. Raises ValueError for a value out of range.

    Samplers hold the three floats in FP32, so their FP32 values are meant.
    """

    temperature: float = 1.0  # 0: the argmax
    top_k: int = 0  # off: 0, or the vocabulary and more
    top_p: float = 1.0  # off: 1
    min_p: float = 0.0  # off: 0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or COOLEST <= self.temperature <= HOTTEST):
            raise ValueError(f"temperature = {self.temperature!r}; give 0, or {COOLEST:g} to {HOTTEST:g}")
        if self.top_k < 0:
            raise ValueError(f"top_k = {self.top_k!r}; give 0 (off) or more")
        if not (self.top_p <= 1 and np.float32(self.top_p) > 0):
            raise ValueError(f"top_p = {self.top_p!r}; give more than 0 and at most 1 (off)")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p = {self.min_p!r}; give 0 (off) to 1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A row under one setting."""

    name: str
    why: str
    weights: npt.NDArray[np.int64]  # [vocab] over 2^24
    settings: Settings = field(default_factory=Settings)
    exact_hit: bool = False  # a sum equals top_p, or a ratio min_p, in some order of the filters

    @property
    def probs(self) -> npt.NDArray[np.float32]:
        """[vocab] probabilities at temperature 1, exact."""
        return (self.weights / ONE).astype(np.float32)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """[vocab] log-probabilities at temperature 1, rounded; -inf where masked."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights / ONE).astype(np.float32)


# Shares by falling weight; the first takes what scaling to 2^24 leaves. A 0 is a masked token.
ROWS: dict[str, tuple[int, ...]] = {
    "halves": (16, 8, 4, 2, 1, 1),
    "dyadic": (8, 8, 4, 4, 4, 2, 1, 1),
    "tenths": (4, 3, 2, 1),
    "steps": (230, 190, 150, 110, 90, 70, 50, 40, 30, 20, 12, 5),
    "ties": (50, 31, 31, 31, 22, 22, 12, 12, 12, 12),
    "twins": (8, 8, 8, 4, 2, 1, 1),
    "flat": (1,) * 16,
    "one-left": (1, 0, 0, 0, 0, 0, 0, 0),
    "few-left": (9, 5, 5, *(0,) * 21),
    "odd": (300, 200, 120, *range(118, 58, -1)),
    "wide": (512, 300, 212, 180, 160, 140, 120, 90, 90, 90, 60, 40, 24, 10, *(1,) * 20, *(0,) * 966),
}
Line = tuple[str, str, Settings, str]
HITS: tuple[Line, ...] = (
    ("p-hit-edge", "halves", Settings(top_p=0.5), "the first token alone sums to p: another one is one too many"),
    ("p-hit-later", "halves", Settings(top_p=0.75), "a sum of two equals p"),
    ("p-hit-tie-edge", "dyadic", Settings(top_p=0.5), "a tie ends where the sum equals p"),
    ("p-hit-in-tie", "dyadic", Settings(top_p=0.75), "the sum equals p inside a tie of three"),
    ("p-hit-flat", "flat", Settings(top_p=0.5), "every token is tied, half of them sum to p"),
    ("p-hit-after-k", "dyadic", Settings(top_k=2, top_p=0.5), "the sum equals p only once top-k has renormalised"),
    ("p-hit-wide", "wide", Settings(top_k=3, top_p=0.5), "half of what a top-k of 3 leaves of 1,000 tokens"),
    ("min-p-hit", "halves", Settings(min_p=0.5), "half of the maximum is kept at min-p 0.5: not below it"),
    ("min-p-hit-tie", "dyadic", Settings(min_p=0.5), "three tied tokens lie at min-p times the maximum"),
    ("min-p-hit-p", "dyadic", Settings(min_p=0.5, top_p=0.75), "a hit of min-p moves the sum that top-p stops at"),
)
MISSES: tuple[Line, ...] = (
    ("plain", "steps", Settings(), "nothing to filter"),
    ("plain-flat", "flat", Settings(), "nothing to filter, every token tied"),
    ("plain-odd", "odd", Settings(), "nothing to filter, a vocabulary of 63"),
    ("plain-wide", "wide", Settings(), "nothing to filter, a vocabulary of 1,000, most of it masked"),
    ("neutral", "steps", Settings(top_k=12, top_p=1.0, min_p=0.0), "every filter on and neutral"),
    ("k-1", "steps", Settings(top_k=1), "one token is left, as if greedy"),
    ("k-5", "steps", Settings(top_k=5), "no tie anywhere"),
    ("k-all-but-one", "steps", Settings(top_k=11), "V - 1"),
    ("k-vocab", "steps", Settings(top_k=12), "V is off"),
    ("k-beyond", "steps", Settings(top_k=13), "V + 1 is off and must not be clamped or wrap"),
    ("k-wide", "wide", Settings(top_k=40), "a k beyond the tokens that are left by a mask"),
    ("k-odd", "odd", Settings(top_k=32), "the 32nd place of 63"),
    ("k-tie-inside", "ties", Settings(top_k=2), "the border cuts three tied tokens after the first"),
    ("k-tie-last", "ties", Settings(top_k=3), "the border cuts three tied tokens before the last"),
    ("k-tie-edge", "ties", Settings(top_k=4), "a tie ends at the border: no rule is needed"),
    ("k-tie-second", "ties", Settings(top_k=5), "one of two tied tokens, after a whole tie"),
    ("k-tie-top", "twins", Settings(top_k=1), "three tokens share the maximum"),
    ("k-flat", "flat", Settings(top_k=5), "five of sixteen equal tokens"),
    ("k-tie-wide", "wide", Settings(top_k=8), "the border cuts a tie among 1,000"),
    ("p-inside", "tenths", Settings(top_p=0.8), "the token that crosses p is kept"),
    ("p-tiny", "steps", Settings(top_p=2.0**-20), "at least one token is left"),
    ("p-tiny-tie", "twins", Settings(top_p=2.0**-20), "p lies inside the first of three tied maxima"),
    ("p-in-tie", "ties", Settings(top_p=0.4), "p lies inside the second of three tied tokens"),
    ("p-wide", "wide", Settings(top_p=0.7), "p lies inside a heavy token of a long row"),
    ("p-odd", "odd", Settings(top_p=0.3), "an ascending sum adds 60 small tokens before it gets to p"),
    ("p-next-to-1", "dyadic", Settings(top_p=0.9999999), "an FP32 sum may never reach p: every token is kept"),
    ("min-p-1", "steps", Settings(min_p=1.0), "only the maximum reaches itself"),
    ("min-p-1-tie", "twins", Settings(min_p=1.0), "every tied maximum reaches itself"),
    ("min-p-tenth", "steps", Settings(min_p=0.1), "nine tokens of twelve"),
    ("min-p-tiny", "odd", Settings(min_p=2.0**-20), "on, and keeps everything"),
    ("min-p-wide", "wide", Settings(min_p=0.05), "a threshold among 1,000"),
    ("greedy", "steps", Settings(temperature=0.0), "the argmax"),
    ("greedy-tie", "twins", Settings(temperature=0.0), "one of three tied maxima, always the same one"),
    ("greedy-filtered", "ties", Settings(temperature=0.0, top_k=3, top_p=0.4), "filters change nothing at T 0"),
    ("cool", "steps", Settings(temperature=0.5), "weights are squared"),
    ("lukewarm", "steps", Settings(temperature=0.7), "0.7 is no FP32 number"),
    ("warm", "steps", Settings(temperature=1.5), "above 1"),
    ("hot", "odd", Settings(temperature=2.0), "weights become their square roots"),
    ("hot-flat", "flat", Settings(temperature=2.0), "a tie stays a tie"),
    ("cool-masked", "few-left", Settings(temperature=0.5), "-inf divided by T stays -inf"),
    ("one-left", "one-left", Settings(), "one finite token"),
    ("one-left-all", "one-left", Settings(temperature=0.7, top_k=4, top_p=0.5, min_p=0.5), "nothing can be removed"),
    ("few-left-k", "few-left", Settings(top_k=8), "k reaches into the masked tokens, which are tied at -inf"),
    ("few-left-k-tie", "few-left", Settings(top_k=2), "a tie cut beside a mask"),
    ("few-left-p", "few-left", Settings(top_p=0.6), "p lies inside a tie beside a mask"),
    ("few-left-min-p", "few-left", Settings(min_p=0.5), "a mask leaves a maximum that min-p is relative to"),
    ("k-then-p", "tenths", Settings(top_k=2, top_p=0.5), "0.4 misses p, 4/7 reaches it: top-p before or after top-k"),
    ("min-p-then-p", "steps", Settings(min_p=0.4, top_p=0.6), "what min-p removes decides where top-p stops"),
    ("p-then-min-p", "tenths", Settings(top_p=0.65, min_p=0.3), "top-p first: min-p is relative, it removes the same"),
    ("k-then-p-tie", "ties", Settings(top_k=3, top_p=0.6), "both borders lie in one tie"),
    ("cool-p", "steps", Settings(temperature=0.5, top_p=0.7), "top-p before temperature keeps two tokens more"),
    ("hot-p", "steps", Settings(temperature=2.0, top_p=0.7), "top-p before temperature keeps fewer tokens"),
    ("cool-min-p", "steps", Settings(temperature=0.5, min_p=0.2), "min-p before temperature keeps more"),
    ("hot-min-p", "steps", Settings(temperature=1.5, min_p=0.2), "min-p before temperature keeps fewer"),
    ("cool-k", "ties", Settings(temperature=0.7, top_k=3), "top-k and temperature commute"),
    ("all", "steps", Settings(temperature=0.7, top_k=6, top_p=0.85, min_p=0.15), "every filter removes something"),
    ("all-hot", "odd", Settings(temperature=1.5, top_k=40, top_p=0.52, min_p=0.2), "as above, above 1"),
    ("all-tie", "ties", Settings(temperature=1.5, top_k=9, top_p=0.5, min_p=0.1), "as above, with ties"),
)
NAMES = tuple(name for name, *_ in (*HITS, *MISSES))


@cache
def cases() -> tuple[Case, ...]:
    """Every case, in the order of NAMES."""
    return tuple(
        Case(name=name, why=why, weights=row(shares), settings=settings, exact_hit=table is HITS)
        for table in (HITS, MISSES)
        for name, shares, settings, why in table
    )


@cache
def row(name: str) -> npt.NDArray[np.int64]:
    """Weights [vocab] over 2^24 of a row of this name. Raises KeyError for a name not in ROWS."""
    shares = ROWS[name]
    scaled = [share * ONE // sum(shares) for share in shares]
    scaled[0] += ONE - sum(scaled)
    stride = STRIDE if len(shares) % STRIDE else STRIDE + 2
    weights = np.zeros(len(shares), np.int64)
    weights[[(3 + rank * stride) % len(shares) for rank in range(len(shares))]] = scaled
    weights.flags.writeable = False
    return weights
