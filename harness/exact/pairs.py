"""Temperature 0, enumerated: the argmax proposed, every accept/reject pattern verified, against a walk in plain Python.

Rows of logits tie within a tile and across tiles (4,096 tokens in the proposal, 1,024 in verification), hold signed
zeros, masks or one finite logit, or are so near each other that only their softmax ties. Each is judged as callers
give it, one-hot at the logits' argmax, and as its softmax, where the lower id of equal probabilities is the argmax
(semantics section 3, rule 7). A round's rows follow each other in that order from every start, so that each row is met
at every position; on wide vocabularies from every fifth start. Carriers hold arbitrary ids and tickets: none may be
read.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.backends import Arithmetic, Dtype
from pp3.harness.exact.draws import hashed
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.harness.seeds import Seed, integers
from pp3.kernels.reference import OK, SUPPORT, TAU, Verification

VOCABS = (33, 97, 1025, 4097, 8300)
MODEL = 151_936
DEPTHS = (4, 5)
TILES = (1024, 4096)
WIDE, STRIDE = 4096, 5  # above WIDE tokens a round starts at every STRIDE-th row: it has 5 or 6, so all are met
KEY = 0xC0AC29B7C97C50DD
SHARED = Seed(b"pp3 pairs at temperature 0")
PATHS = ("carrier", "point-mass")
CLAIM = "temperature 0: the argmax proposed, every accept/reject pattern and invalidated draft as the plain walk emits"
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judge:
    """A target row at temperature 0."""

    id: str
    probs: F32  # [vocab]
    best: int
    rival: int  # the first token that ties with the best in the softmax, or the next token if none does


def vocabularies(gpu: bool) -> tuple[int, ...]:
    """Sizes met on a device: a model's too on a GPU."""
    return (*VOCABS, MODEL) if gpu else VOCABS


def logits(vocab: int) -> dict[str, F32]:
    """Rows of logits by what they hold; bell-shaped below -1 where nothing else is said."""
    low = np.minimum(hashed(f"pairs-{vocab}", vocab, 2.0), np.float32(0)) - np.float32(1)
    borders = [token for tile in TILES for token in (tile - 1, tile) if token < vocab] or [vocab - 3, vocab - 2]
    near = low - np.float32(16)
    near[vocab // 4] = 0.1
    near[vocab // 2] = np.nextafter(near[vocab // 4], np.float32(1))
    masked = np.full(vocab, -np.inf, np.float32)
    one = masked.copy()
    one[vocab - 2] = -3.0
    masked[[vocab // 3, vocab - 1]] = 0.5
    zeros = low.copy()
    zeros[[vocab // 4, vocab // 2, vocab - 1]] = (-0.0, 0.0, -0.0)
    return {
        "tie-within-a-tile": _put(low, [7, 20], 3.0),
        "tie-across-tiles": _put(low, [vocab // 2, vocab - 1], 3.0),
        "tie-at-tile-borders": _put(low, borders, 3.0),
        "all-equal": np.full(vocab, 0.25, np.float32),
        "masked": masked,
        "signed-zeros": zeros,
        "one-finite": one,
        "softmax-tie": near,
        "bell": hashed(f"pairs-{vocab}", vocab, 2.0),
    }


def judges(vocab: int) -> list[Judge]:
    """Every row of logits one-hot, then as its softmax."""
    found = []
    for name, row in logits(vocab).items():
        exps = np.exp(row.astype(np.float64) - float(row.max()))
        softmax = (exps / exps.sum()).astype(np.float32)
        for how, best in (("one-hot", argmax(row.tolist())), ("softmax", argmax(softmax.tolist()))):
            ties = [token for token in np.flatnonzero(softmax == softmax.max()).tolist() if token != best]
            probs = _put(np.zeros(vocab, np.float32), [best], 1.0) if how == "one-hot" else softmax
            rival = ties[0] if ties else (best + 1) % vocab
            found.append(Judge(id=f"{name}/{how}", probs=probs, best=best, rival=rival))
    return found


def argmax(row: Sequence[float]) -> int:
    """The first of the largest values; -0.0 equals +0.0."""
    best = 0
    for token, value in enumerate(row):
        if value > row[best]:
            best = token
    return best


def walk(best: Sequence[int], drafts: Sequence[int]) -> list[int]:
    """Tokens of a round whose rows have these argmaxes, one more than there are drafts."""
    kept = 0
    while kept < len(drafts) and drafts[kept] == best[kept]:
        kept += 1
    return [*drafts[:kept], best[kept]]


def patterns(depth: int) -> list[tuple[str, ...]]:
    """What each draft is: the best or the rival in every combination, then a first void one at every position."""
    whole = list(itertools.product(("best", "rival"), repeat=depth))
    return whole + [(*("best",) * at, "void", *("best", "rival") * depth)[:depth] for at in range(depth)]


class Rounds:
    """All rounds of one vocabulary and depth: which judges sit at each position, the drafts, and what is emitted."""

    def __init__(self, vocab: int, depth: int) -> None:
        self.judges = judges(vocab)
        places = len(self.judges)
        starts = range(0, places, STRIDE if vocab > WIDE else 1)
        rows, drafts, emitted = [], [], []
        for start, pattern in itertools.product(starts, patterns(depth)):
            row = [(start + j) % places for j in range(depth + 1)]
            chosen = [self.judges[at] for at in row]
            draft = [
                {"best": judge.best, "rival": judge.rival, "void": -1}[what]
                for judge, what in zip(chosen, pattern, strict=False)
            ]
            rows.append(row)
            drafts.append(draft)
            emitted.append(walk([judge.best for judge in chosen], draft))
        self.rows = np.array(rows)  # [n, depth + 1]
        self.drafts = np.array(drafts, np.int32)  # [n, depth]
        self.lengths = np.array([len(tokens) for tokens in emitted])
        self.tokens = np.array([tokens + [-1] * (depth + 1 - len(tokens)) for tokens in emitted])

    def verify(self, backend: Arithmetic, path: str) -> Verification:
        """Every round on a backend, by one of PATHS."""
        n, depth = self.drafts.shape
        probs = np.stack([judge.probs for judge in self.judges])
        held = integers(SHARED, f"carrier-{depth}", n * depth * SUPPORT).reshape(n, depth, SUPPORT)
        ids, tickets = (held >> np.uint64(32)).astype(np.uint32), (held & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        tickets[::2] = 0  # a sampled request would fail
        carried = path == "carrier"
        at = np.arange(n, dtype=np.uint64)
        return backend.verify(
            probs[self.rows],
            self.drafts,
            (ids % np.uint32(probs.shape[1])).astype(np.int32) if carried else None,
            tickets.view(np.int32) if carried else None,
            np.zeros(n, np.bool_),
            np.full(n, KEY, np.uint64),
            at,
            at,
        )


def expect(gpu: bool, vocabs: Sequence[int] | None = None) -> Values:
    """Digests of what the walk emits, and no mismatch; `vocabs` is a slice of the vocabularies."""
    values: Values = {}
    pairs = 0
    for vocab in vocabularies(gpu) if vocabs is None else vocabs:
        rows = logits(vocab)
        wanted = _greedy([argmax(row.tolist()) for row in rows.values()])
        values[f"vocab-{vocab}/proposal"] = digest(*wanted, *wanted)
        pairs += 2 * len(rows)
        for depth in DEPTHS:
            rounds = Rounds(vocab, depth)
            for path in PATHS:
                values[f"vocab-{vocab}/depth-{depth}/{path}"] = digest(rounds.tokens, rounds.lengths)
            pairs += len(PATHS) * len(rounds.rows)
    values["mismatches"], values["pairs"] = [0], [pairs]
    return values


def observe(backend: Arithmetic, gpu: bool, vocabs: Sequence[int] | None = None) -> Enumeration:
    """The same digests from a device, the rows of proposals and rounds that differ, and how many were compared."""
    values: Values = {}
    pairs = mismatches = 0
    for vocab in vocabularies(gpu) if vocabs is None else vocabs:
        rows = logits(vocab)
        wanted = _greedy([argmax(row.tolist()) for row in rows.values()])
        stacked = np.stack([*rows.values()])
        # Either makes a row greedy: semantics section 2, step 3.
        found = [_propose(backend, stacked, False, TAU), _propose(backend, stacked, True, 0.0)]
        values[f"vocab-{vocab}/proposal"] = digest(*found[0], *found[1])
        mismatches += sum(_differ(one, wanted) for one in found)
        pairs += 2 * len(rows)
        for depth in DEPTHS:
            rounds = Rounds(vocab, depth)
            for path in PATHS:
                verified = rounds.verify(backend, path)
                values[f"vocab-{vocab}/depth-{depth}/{path}"] = digest(verified.tokens, verified.num_sampled)
                mismatches += _differ((verified.tokens, verified.num_sampled), (rounds.tokens, rounds.lengths))
                pairs += len(rounds.rows)
    values["mismatches"], values["pairs"] = [mismatches], [pairs]
    return Enumeration(id="pairs", claim=CLAIM, compared=pairs, values=values)


def excluded_rate(n: int, delta: float = 1e-5) -> float:
    """The least rate of mismatches that none in n excludes at level delta, 1 - delta^(1/n): P(none) = (1 - rate)^n.

    It speaks of pairs drawn as these were, and is 1 for n = 0. ValueError unless n >= 0 and 0 < delta < 1.
    """
    if n < 0 or not 0 < delta < 1:
        raise ValueError(f"n = {n}, delta = {delta!r}; want n >= 0 and delta between 0 and 1, exclusive")
    return -math.expm1(math.log(delta) / n) if n else 1.0


def _put(row: F32, tokens: list[int], value: float) -> F32:
    changed = row.copy()
    changed[tokens] = value
    return changed


def _propose(backend: Arithmetic, rows: F32, sampled: bool, tau: float) -> tuple[I64, ...]:
    """Token, status, ids and tickets of each row [n, vocab]."""
    n = len(rows)
    at = np.arange(n, dtype=np.uint64)
    made = backend.propose(rows, Dtype.FP32, np.full(n, sampled), np.full(n, KEY, np.uint64), at, at, tau)
    return tuple(field.astype(np.int64) for field in (made.token, made.status, made.ids, made.tickets))


def _greedy(best: list[int]) -> tuple[I64, ...]:
    """What a proposal at temperature 0 must give: its token, OK, ids 0..31 and no tickets."""
    n = len(best)
    ids = np.tile(np.arange(SUPPORT), (n, 1))
    return np.array(best), np.full(n, OK), ids, np.zeros((n, SUPPORT), np.int64)


def _differ(got: Sequence[npt.NDArray[np.integer[Any]]], want: Sequence[I64]) -> int:
    """Rows that differ in any field, fields [n] or [n, k]."""
    wrong = [(one != other).reshape(len(one), -1).any(axis=1) for one, other in zip(got, want, strict=True)]
    return int(np.logical_or.reduce(wrong).sum())
