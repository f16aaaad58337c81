"""Markov chains for whole engines: the law of the next token depends on the class of the last one and on nothing else.

A model of such a chain has as many hidden dimensions as fit its classes, whatever its vocabulary (harness/engine). Rows
are integers over 2^24, 0 for what must never be emitted. The last token ends a sequence; the four before it are doors:
only the row of the doors emits doors and the end, so that a prompt of ordinary tokens never meets the end, whatever an
engine does with a request to ignore it. Each chain is built from a hash of its own name.
"""

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.targets.target import ONE

Weights = npt.NDArray[np.int64]

DOORS = 4
OCTAVES = 5  # shares of a row span so many factors of two
GAP = 1.25  # the likeliest token of a row over the next, so that no rounding decides what is greedy
TIED = 0  # class whose two likeliest tokens are exactly equal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """A target and the proposal that drafts for it. ValueError unless every row sums to 2^24."""

    name: str
    why: str
    weights: Weights  # [classes, vocab], the target
    draft_weights: Weights  # [classes, vocab], the proposal
    class_of: Weights  # [vocab]

    def __post_init__(self) -> None:
        for which, rows in (("target", self.weights), ("proposal", self.draft_weights)):
            if (rows < 0).any() or (rows.sum(axis=1) != ONE).any():
                raise ValueError(f"{self.name}: a {which} row does not sum to {ONE} (2^24)")
        for part in (self.weights, self.draft_weights, self.class_of):
            part.flags.writeable = False

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return len(self.class_of)

    @property
    def classes(self) -> int:
        """Number of laws."""
        return len(self.weights)

    @property
    def end(self) -> int:
        """The token that ends a sequence."""
        return self.vocab - 1

    @property
    def doors(self) -> tuple[int, ...]:
        """Tokens after which the end may come."""
        return tuple(range(self.vocab - 1 - DOORS, self.vocab - 1))

    @property
    def ordinary(self) -> int:
        """Tokens 0 to this are neither doors nor the end."""
        return self.vocab - 1 - DOORS

    def digest(self) -> str:
        """SHA-256 over everything that defines the laws."""
        digest = hashlib.sha256(f"chain/{self.weights.shape}".encode())
        for part in (self.weights, self.draft_weights, self.class_of):
            digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Vocabulary, and classes of ordinary tokens."""

    vocab: int
    classes: int


SIZES = {
    "chain-64": _Size(vocab=64, classes=59),
    "chain-256": _Size(vocab=256, classes=15),
    "chain-1024": _Size(vocab=1024, classes=63),
    "chain-32768": _Size(vocab=32_768, classes=31),
}
WHY = {
    "chain-64": "every token has a law of its own, so that a row read after the wrong token shows",
    "chain-256": "few laws of many tokens: most events a law, so that the smallest deviation shows",
    "chain-1024": "many laws of many tokens",
    "chain-32768": "a vocabulary of the size that models have, with a tail of rare tokens",
}
NAMES = tuple(SIZES)


@cache
def build(name: str) -> Chain:
    """The chain of this name. KeyError for a name not in NAMES."""
    size, why = SIZES[name], WHY[name]
    doors = size.classes  # the class of the doors
    ordinary = size.vocab - 1 - DOORS
    class_of = np.zeros(size.vocab, np.int64)
    class_of[:ordinary] = np.arange(ordinary) % size.classes
    class_of[ordinary:-1] = doors
    target = np.zeros((size.classes + 1, size.vocab), np.int64)
    draft = np.zeros_like(target)
    for row in range(size.classes):
        shares = _shares(f"{name}/{row}/target", ordinary)
        tilt = _integers(f"{name}/{row}/tilt", ordinary, 4, 16)
        lacks = _integers(f"{name}/{row}/lacks", ordinary, 0, 8)  # 0: the target lacks it, 1: the proposal
        mine = np.where(lacks == 0, 0, shares)
        theirs = np.where(lacks == 1, 0, shares * tilt)
        first, second = np.argsort(-mine, kind="stable")[:2]
        mine[first] = mine[second] if row == TIED else int(GAP * int(mine[second])) + 1
        target[row, :ordinary], draft[row, :ordinary] = _apportion(mine), _apportion(theirs)
    target[doors] = _door_row(name, "target", size.vocab, (30, 20, 11, 7), 24)
    draft[doors] = _door_row(name, "draft", size.vocab, (24, 26, 13, 9), 18)
    return Chain(name=name, why=why, weights=target, draft_weights=draft, class_of=class_of)


def _door_row(name: str, which: str, vocab: int, doors: tuple[int, ...], end: int) -> Weights:
    """Doors and the end in percent of the mass; the rest goes to sixteen ordinary tokens."""
    shares = np.zeros(vocab, np.int64)
    shares[vocab - 1 - DOORS : vocab - 1] = np.array(doors) * 1000
    shares[-1] = end * 1000
    few = np.arange(16) * ((vocab - 1 - DOORS) // 16)
    shares[few] = _integers(f"{name}/doors/{which}", 16, 300, 700)
    return _apportion(shares)


def _shares(label: str, count: int) -> Weights:
    """Shares from 2^11 to 2^(11 + OCTAVES), evenly by their logarithm."""
    exponents = _integers(label, count, 0, OCTAVES << 16) / (1 << 16)
    return np.floor(2.0 ** (11 + exponents)).astype(np.int64)


def _apportion(shares: Weights) -> Weights:
    """Integers in proportion to shares [vocab] that sum to 2^24. What rounding leaves goes to tokens but the two
    likeliest, one each: equal ones stay equal."""
    weights: Weights = shares * ONE // int(shares.sum())
    rest = ONE - int(weights.sum())
    weights[np.argsort(-shares, kind="stable")[2 : 2 + rest]] += 1
    return weights


def _integers(label: str, count: int, low: int, high: int) -> Weights:
    """`count` integers in [low, high) from SHAKE-128 of the label."""
    stream = hashlib.shake_128(f"pp3/chain/{label}".encode()).digest(4 * count)
    return low + np.frombuffer(stream, "<u4").astype(np.int64) % (high - low)
