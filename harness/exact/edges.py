"""Every edge of verification for the rows of every target: acceptance, residual, full target and bonus.

A round of depth 1 judges one draft; the address of its block is chosen by inverting Philox. The number of accepting w0
is located by bisection on the device, whatever formula it uses, which tests the edge and its neighbours. The first and
last w64 of each token are those of semantics section 3; the device must emit that token at both.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3 import targets
from pp3.harness.backends import Arithmetic
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.harness.inversion import invert
from pp3.kernels.addressing import U32, U64
from pp3.kernels.reference import OK, SUPPORT, allocate
from pp3.targets import Target

KEY = 0xA4093822299F31D0
CLAIM = "accepting w0 counted by bisection; residual, full-target and bonus tokens at the ends of every interval of w64"
KINDS = ("residual", "full-target", "bonus")
W32, W64 = 1 << 32, 1 << 64
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """One proposal row and the target row that judges its drafts."""

    id: str
    weights: Array  # [vocab] over 2^24
    ids: Array  # [32]
    tickets: Array  # [32]

    @property
    def drawable(self) -> Array:
        """Places in the support that can be drafted."""
        return np.flatnonzero(self.tickets)


def pairs(names: tuple[str, ...] = targets.NAMES) -> Iterator[Pair]:
    """Every (support, target row) of the named targets."""
    for name in names:
        target: Target = targets.build(name)
        supports = allocate(target.draft_logits)
        for row in range(len(target.weights)):
            yield Pair(
                id=f"{name}/row-{row}",
                weights=target.weights[row],
                ids=supports.ids[row].astype(np.int64),
                tickets=supports.tickets[row].astype(np.int64),
            )


def expect(names: tuple[str, ...] = targets.NAMES) -> Values:
    """The counts and tokens of the integer form."""
    values: Values = {}
    for pair in pairs(names):
        values[f"{pair.id}/accepting"] = accepting(pair)
        for kind in KINDS:
            tokens, _ = ends(pair, kind)
            values[f"{pair.id}/{kind}"] = digest(tokens)
    return values


def observe(backend: Arithmetic, names: tuple[str, ...] = targets.NAMES) -> Enumeration:
    """The same counts and tokens, from a device."""
    values: Values = {}
    compared = 0
    for pair in pairs(names):
        counts = _bisect(backend, pair)
        values[f"{pair.id}/accepting"] = counts
        compared += 33 * len(counts)
        for kind in KINDS:
            _, words = ends(pair, kind)
            values[f"{pair.id}/{kind}"] = digest(_emit(backend, pair, kind, words))
            compared += len(words)
    return Enumeration(id="edges", claim=CLAIM, compared=compared, values=values)


@functools.cache
def size(names: tuple[str, ...] = targets.NAMES) -> int:
    """Bisection steps and ends of intervals of the named targets."""
    found = list(pairs(names))
    steps = 33 * sum(len(pair.drawable) for pair in found)
    return steps + 2 * sum(int(np.count_nonzero(law(pair, kind))) for pair in found for kind in KINDS)


def accepting(pair: Pair) -> list[int]:
    """How many of the 2^32 values of w0 accept each drawable draft: min(2^32, ceil(P 2^8 / t)), P = weight 2^24."""
    weights = pair.weights[pair.ids[pair.drawable]].tolist()
    return [min(W32, -(-(w << 32) // t)) for w, t in zip(weights, pair.tickets[pair.drawable].tolist(), strict=True)]


def law(pair: Pair, kind: str) -> Array:
    """Weights [vocab] of the tokens that a kind of emission draws from; none where no w0 rejects."""
    if kind != "residual":
        return pair.weights
    if _rejectable(pair) is None:
        return np.zeros_like(pair.weights)
    held = np.zeros(len(pair.weights), np.int64)
    held[pair.ids] = pair.tickets
    left = np.maximum(pair.weights - held, 0)
    return left if left.any() else pair.weights


def ends(pair: Pair, kind: str) -> tuple[Array, list[int]]:
    """The first and last w64 of every token that can be emitted, after the token each must give."""
    weights = law(pair, kind)
    tokens, words = [], []
    total, before = int(weights.sum()), 0
    for token in np.flatnonzero(weights).tolist():
        after = before + int(weights[token])
        first, last = -(-before * W64 // total), -(-after * W64 // total) - 1
        tokens += [token, token]
        words += [first, last]
        before = after
    return np.array(tokens, np.int64), words


def _rejectable(pair: Pair) -> int | None:
    """Place in the support of the draft that most values of w0 reject; None if all accept all."""
    counts = accepting(pair)
    best = int(np.argmin(np.array(counts, object)))
    return int(pair.drawable[best]) if counts[best] < W32 else None


def _bisect(backend: Arithmetic, pair: Pair) -> list[int]:
    """Accepting values of w0 for each drawable draft: the least w0 that rejects, by 33 halvings of [0, 2^32].

    -1 for a draft some of whose rounds neither accepted nor rejected.
    """
    places = pair.drawable
    low, high = np.zeros(len(places), np.int64), np.full(len(places), W32)
    judged = np.ones(len(places), np.bool_)
    for _ in range(33):
        middle = (low + high) // 2
        lengths = _rounds(backend, pair, pair.ids[places], np.minimum(middle, W32 - 1), [0] * len(places))
        judged &= np.isin(lengths, (1, 2))
        beyond = (middle >= W32) | (lengths == 1)  # 2^32 stands for "none rejects"
        low, high = np.where(beyond, low, np.minimum(middle + 1, W32)), np.where(beyond, middle, high)
    return [int(edge) for edge in np.where(judged, high, -1)]


def _emit(backend: Arithmetic, pair: Pair, kind: str, words: list[int]) -> Array:
    """The token emitted at each w64."""
    n = len(words)
    if not n:
        return np.zeros(0, np.int64)
    if kind == "full-target":
        drafts, w0 = np.full(n, -1), np.zeros(n, np.int64)
    elif kind == "residual":
        place = _rejectable(pair)
        drafts, w0 = np.full(n, pair.ids[place]), np.full(n, W32 - 1)
    else:
        return _bonus(backend, pair, words)
    tokens, lengths = _verify(backend, pair, drafts, *_blocks(w0, words))
    return np.where(lengths == 1, tokens[:, 0], -1)


def _rounds(backend: Arithmetic, pair: Pair, drafts: Array, w0: Array, w64: list[int]) -> Array:
    """num_sampled of one-draft rounds with the given words."""
    return _verify(backend, pair, drafts, *_blocks(w0, w64))[1]


def _bonus(backend: Arithmetic, pair: Pair, words: list[int]) -> Array:
    """Bonus tokens: row 0 is a point mass at the draft, so any w0 accepts; the bonus position is the addressed one."""
    rounds, positions = _blocks(np.zeros(len(words), np.int64), words)
    draft = int(pair.ids[pair.drawable[0]])
    certain = np.zeros(len(pair.weights), np.float32)
    certain[draft] = 1
    drafts = np.full(len(words), draft)
    tokens, lengths = _verify(backend, pair, drafts, rounds, positions - np.uint64(1), certain)
    return np.where(lengths == 2, tokens[:, 1], -1)


def _blocks(w0: Array, w64: list[int]) -> tuple[U64, U64]:
    words: U32 = np.zeros((len(w64), 4), np.uint32)
    words[:, 0] = w0.astype(np.uint64)
    words[:, 1] = [word & 0xFFFFFFFF for word in w64]
    words[:, 2] = [word >> 32 for word in w64]
    return invert(words, KEY)


def _verify(
    backend: Arithmetic,
    pair: Pair,
    drafts: Array,
    rounds: U64,
    positions: U64,
    first: npt.NDArray[np.float32] | None = None,
) -> tuple[Array, Array]:
    """Tokens [n, 2] and lengths [n] of rounds of depth 1, length -1 if failed: `first` or the pair's row judges."""
    n = len(drafts)
    row = (pair.weights / 2.0**24).astype(np.float32)
    columns = [row if first is None else first, row]
    verified = backend.verify(
        np.broadcast_to(np.stack(columns), (n, 2, len(row))),
        drafts[:, None].astype(np.int32),
        np.broadcast_to(pair.ids, (n, 1, SUPPORT)).astype(np.int32),
        np.broadcast_to(pair.tickets, (n, 1, SUPPORT)).astype(np.int32),
        np.ones(n, np.bool_),
        np.full(n, KEY, np.uint64),
        rounds,
        positions,
    )
    lengths = np.where(verified.status == OK, verified.num_sampled, -1)
    return verified.tokens.astype(np.int64), lengths.astype(np.int64)
