"""The exact law of a checkpoint, from its tensors, as the dtype it is loaded in and a request's parameters make it.

Everything is worked out in FP64. What an engine works out in FP32 may differ from it by `error`: a logit is one rounded
entry times a power of two, so only the normalisation's root, the product with it and the division by the temperature
round, each by at most 2 units of 2^-24 of the logit; the exponential and the division of the softmax add 6 such units
of the probability. A factor common to a row drops out. So each probability is off by a relative `error` of at most
2 (6 |logit| / T + 6) 2^-24, the noncentrality of N events by at most N error^2, and N is limited so that this stays
below MOST_BIAS. Draws themselves are the engine's: their grid is judged, not excused.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.checkpoint import LAYER, NEVER, ZERO
from pp3.harness.engine.tensors import Floats, Loaded, as_loaded
from pp3.harness.errors import CampaignError
from pp3.targets.chains import Chain

UNIT = 2.0**-24
MOST_BIAS = 0.01  # noncentrality that the arithmetic of an engine may add
IMPOSSIBLE = 1e-30  # a probability below it never occurs
CLEAR = 4  # times the error that a border of a filter must keep from any token
Law = npt.NDArray[np.float64]  # [classes, vocab]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What of a request changes the law."""

    name: str = "plain"
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Parameters that an engine must take, beside the temperature."""
        given = {
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "logit_bias": self.logit_bias or None,
            "repetition_penalty": self.repetition_penalty,
        }
        return frozenset(name for name, value in given.items() if value is not None)


def logits_of(tensors: Mapping[str, Floats], chain: Chain, dtype: Loaded, epsilon: float) -> Law:
    """Logits after a token of each class, [classes, vocab]. CampaignError if they depend on more than that token."""
    for name in ZERO:
        if np.any(tensors[f"{LAYER}.{name}.weight"]):
            raise CampaignError(f"{name} is not zero: the law would depend on more than the last token")
    embedding = as_loaded(tensors["model.embed_tokens.weight"], dtype)
    first = np.array([int(np.flatnonzero(chain.class_of == number)[0]) for number in range(chain.classes)])
    if not np.array_equal(embedding, embedding[first[chain.class_of]]):
        raise CampaignError("tokens of one class have different embeddings: they have no common law")
    rows = embedding[first]
    hidden = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + epsilon)
    hidden *= as_loaded(tensors["model.norm.weight"], dtype)
    logits: Law = hidden @ as_loaded(tensors["lm_head.weight"], dtype).T
    return logits


def law_of(logits: Law, setting: Setting, seen: npt.NDArray[np.bool_] | None = None) -> Law:
    """Probabilities [rows, vocab] of rows of logits; `seen` [rows, vocab] are tokens that the penalty is for.

    Temperature 0 gives equal shares to the tokens of the largest logit. Filters stand alone in a setting but for the
    temperature with top-k, which commute, so no order of them matters.
    """
    logits = logits + _bias(setting, logits.shape[1])
    if setting.repetition_penalty is not None and seen is not None:
        factor = setting.repetition_penalty
        logits = np.where(seen, np.where(logits > 0, logits / factor, logits * factor), logits)
    possible = logits > NEVER / 2
    if setting.temperature == 0:
        best = (logits == logits.max(axis=1, keepdims=True)).astype(np.float64)
        even: Law = best / best.sum(axis=1, keepdims=True)
        return even
    scaled = np.where(possible, logits / setting.temperature, -np.inf)
    law = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    law = np.where(_kept(law, setting), law, 0.0)
    law[law < IMPOSSIBLE] = 0
    law /= law.sum(axis=1, keepdims=True)
    return law


def _bias(setting: Setting, vocab: int) -> Law:
    row = np.zeros((1, vocab))
    for token, added in setting.logit_bias.items():
        row[0, token] = added
    return row


def _kept(law: Law, setting: Setting) -> npt.NDArray[np.bool_]:
    kept = np.ones(law.shape, bool)
    falling = -np.sort(-law, axis=1)
    if setting.top_k is not None:
        kept &= law >= falling[:, setting.top_k - 1 : setting.top_k]
    if setting.top_p is not None:
        before = np.cumsum(falling, axis=1) - falling  # the token that crosses is kept
        size = (before < setting.top_p).sum(axis=1)
        kept &= law >= np.take_along_axis(falling, size[:, None] - 1, axis=1)
    if setting.min_p is not None:
        kept &= law >= setting.min_p * falling[:, :1]
    return kept


def error(logits: Law, setting: Setting) -> float:
    """Largest relative error of a probability that an engine's FP32 arithmetic may make."""
    largest = float(np.abs(logits[logits > NEVER / 2]).max()) + max(map(abs, setting.logit_bias.values()), default=0.0)
    largest *= setting.repetition_penalty or 1.0
    return float(2 * (6 * largest / (setting.temperature or 1.0) + 6) * UNIT)


def log_error(logits: Law) -> float:
    """Largest error of a reported log-probability at temperature 1: that of the logit, and of a sum of all tokens."""
    return float(error(logits, Setting()) + logits.shape[1] * UNIT)


def most_tokens(logits: Law) -> int:
    """Events up to which the engine's arithmetic adds less than MOST_BIAS to any noncentrality."""
    return math.floor(MOST_BIAS / error(logits, Setting(temperature=0.7)) ** 2)


def clear_top_k(law: Law, wanted: range, near: float) -> int | None:
    """The smallest k whose border is clear of ties in every row; None if rounding may tie tokens at each."""
    falling = -np.sort(-law, axis=1)
    sizes = np.array([k for k in wanted if k < law.shape[1] and (falling[:, k] > 0).all()])
    if not len(sizes):
        return None
    clear = (falling[:, sizes - 1] / falling[:, sizes] - 1).min(axis=0) > CLEAR * near
    return int(sizes[clear.argmax()]) if clear.any() else None


def clear_top_p(law: Law, wanted: npt.NDArray[np.float64], near: float) -> float | None:
    """The p that lies furthest from all sums of all rows, sums being off by their number of terms; None if none is."""
    falling = -np.sort(-law, axis=1)
    sums = np.cumsum(falling, axis=1)
    best, furthest = None, 0.0
    for p in wanted.tolist():
        size = (sums - falling < p).sum(axis=1)
        rows = np.arange(len(law))
        after = np.where(falling[rows, size % law.shape[1]] > 0, falling[rows, size % law.shape[1]], 1e-300)
        apart = (falling[rows, size - 1] / after - 1).min()
        room = min(np.abs(sums - p).min() / (2 * law.shape[1] * UNIT + near), apart / (CLEAR * near))
        if room > furthest:
            best, furthest = p, float(room)
    return best if furthest > 1 else None


def clear_min_p(law: Law, wanted: npt.NDArray[np.float64], near: float) -> float | None:
    """The min-p that is furthest, relatively, from every ratio of every row; None if rounding may decide at each."""
    ratios = np.sort((law / law.max(axis=1, keepdims=True))[law > 0])
    best, furthest = None, CLEAR * near
    for share in wanted.tolist():
        place = int(np.searchsorted(ratios, share))
        around = ratios[max(place - 1, 0) : place + 1]
        room = float(np.abs(around / share - 1).min())
        if room > furthest:
            best, furthest = share, room
    return best


def travel(law: Law, class_of: npt.NDArray[np.int64], start: npt.NDArray[np.float64], length: int, end: int) -> Law:
    """How often each class is the last token's at each of `length` draws of a sequence, [length, classes].

    `start` [classes] is where sequences begin; one that meets `end` (-1: none does) draws no more.
    """
    moves = np.zeros((len(law), len(law)))
    for number in range(len(law)):
        inside = class_of == number
        if end >= 0:
            inside[end] = False
        moves[:, number] = law[:, inside].sum(axis=1)
    rates = np.zeros((length, len(law)))
    alive = start
    for place in range(length):
        rates[place] = alive
        alive = alive @ moves
    return rates
