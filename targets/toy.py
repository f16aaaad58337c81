"""The customer's five targets, each built from a hash of its own name so that no library can change it.

Three have a vocabulary of 12,301 (three tiles of 4,096 and a remainder) with the support spread across tiles. Rows of
one target differ by a total variation of 0.2 or more, or a mix-up of rows would be invisible (tests/test_targets.py).
"""

import hashlib
import itertools
from collections.abc import Iterator
from functools import cache
from itertools import islice
from struct import Struct

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import SUPPORT, allocate
from pp3.targets.target import ONE, POSITIONS, Target

WIDE, NARROW = 12_301, 97
BACKGROUND = -30.0  # logit of every token outside the support
CONTEXTS = 4
WORDS = Struct("<8I")  # of one digest

WHY = {
    "sparse-tail": "a third of the target's mass lies on 40 tokens that the proposal never drafts",
    "disjoint": "the target and the proposal share no token: every first draft is rejected",
    "equal-q": "the target is the proposal's own tickets: every draft is accepted and the residual is empty",
    "invalidated": "drafts of -1 at the first, a middle, the last and every position: the full target, then stop",
    "context": "Markov: each row depends on the previous token, so a row judged in the wrong context shows",
}
NAMES = tuple(WHY)


@cache
def build(name: str) -> Target:
    """The target of this name. Raises KeyError for a name not in NAMES."""
    why = WHY[name]
    vocab = WIDE if name in ("sparse-tail", "equal-q", "context") else NARROW
    rows = CONTEXTS if name == "context" else POSITIONS
    logits = np.full((rows, vocab), BACKGROUND, np.float32)
    for row in range(rows):
        support = _distinct(f"{name}/{row}/support", SUPPORT, vocab)
        logits[row, support] = [value % 25 / 8 for value in _integers(f"{name}/{row}/logits", SUPPORT)]
    supports = allocate(logits)
    weights = np.zeros((rows, vocab), np.int64)
    for row in range(rows):
        weights[row] = _weights(name, row, vocab, supports.ids[row].tolist(), supports.tickets[row].tolist())
    by_context = np.tile(np.arange(CONTEXTS), (POSITIONS, 1))
    return Target(
        name=name,
        why=why,
        weights=weights,
        draft_logits=logits,
        row_of=by_context if name == "context" else np.arange(POSITIONS)[:, None],
        context_of=np.arange(vocab) % CONTEXTS if name == "context" else np.zeros(vocab, np.int64),
        patterns=("first", "middle", "last", "every") if name == "invalidated" else ("none",),
    )


def _weights(name: str, row: int, vocab: int, ids: list[int], tickets: list[int]) -> npt.NDArray[np.int64]:
    """The target row beside a proposal row."""
    label = f"{name}/{row}"
    if name == "equal-q":
        return _apportion(vocab, dict(zip(ids, tickets, strict=True)), ONE)
    outside = [token for token in _distinct(f"{label}/outside", SUPPORT + 40, vocab) if token not in ids]
    if name == "disjoint":
        return _apportion(vocab, dict(zip(outside[:24], _integers(f"{label}/mass", 24, 1, 16), strict=True)), ONE)
    tilt = _integers(f"{label}/tilt", SUPPORT, 6, 18)
    near = {token: share * factor for token, share, factor in zip(ids, tickets, tilt, strict=True)}
    tail_tokens = 40 if name == "sparse-tail" else 8
    tail_mass = ONE // 3 if name == "sparse-tail" else ONE // 12
    tail = dict(zip(outside[:tail_tokens], _integers(f"{label}/mass", tail_tokens, 4, 16), strict=True))
    return _apportion(vocab, near, ONE - tail_mass) + _apportion(vocab, tail, tail_mass)


def _apportion(vocab: int, shares: dict[int, int], total: int) -> npt.NDArray[np.int64]:
    """Integers in proportion to shares that sum to total; the rest goes to the largest share."""
    weights = np.zeros(vocab, np.int64)
    whole = sum(shares.values())
    for token, share in shares.items():
        weights[token] = share * total // whole
    weights[max(shares, key=lambda token: shares[token])] += total - int(weights.sum())
    return weights


def _integers(label: str, count: int, low: int = 0, high: int = 1 << 32) -> list[int]:
    """`count` integers in [low, high) from SHA-256 of the label."""
    return [low + word % (high - low) for word in islice(_words(label), count)]


def _distinct(label: str, count: int, vocab: int) -> list[int]:
    """`count` distinct tokens in the order a hash meets them, of its first 40 a token."""
    found: dict[int, None] = {}
    for word in islice(_words(label), 40 * count):
        found[word % vocab] = None
        if len(found) == count:
            break
    return list(found)


def _words(label: str) -> Iterator[int]:
    """Words of 32 bits from SHA-256 of the label, without end."""
    for block in itertools.count():
        yield from WORDS.unpack(hashlib.sha256(f"pp3/{label}/{block}".encode()).digest())
