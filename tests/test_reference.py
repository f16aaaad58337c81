"""The reference and the kernels against semantics 2 and 3 read aloud: Python integers, loops and fractions.

`draft` and `judge` below share nothing with the reference: FP32 is rounded from fractions, the exponential comes from
decimal arithmetic, products have as many bits as they need. Draws on the edge of an interval are reached by inverting
Philox (semantics 1). `arithmetic` is the reference, then the kernels in the interpreter.
"""

import itertools
import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.harness import backends, conform
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.kernels import reference
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT, TAU

Array = npt.NDArray[Any]
VECTORS = Path(__file__).parent / "vectors"
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
WORD = 1 << 32
PADDING = list(range(SUPPORT))
EXACT = Context(prec=60)


def philox(key: int, number: int, position: int) -> list[int]:
    """The four words of one block."""
    c0, c1, c2, c3 = number % WORD, number >> 32, position % WORD, position >> 32 & 0xFFFFFFFF
    for r in range(10):
        k0, k1 = (key + WEYL[0] * r) % WORD, ((key >> 32) + WEYL[1] * r) % WORD
        high0, low0 = divmod(MULTIPLIERS[0] * c0, WORD)
        high1, low1 = divmod(MULTIPLIERS[1] * c2, WORD)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return [c0, c1, c2, c3]


def address_of(key: int, words: list[int]) -> tuple[int, int]:
    """The (round, position) whose block is `words`: Philox backwards."""
    c0, c1, c2, c3 = words
    for r in reversed(range(10)):
        k0, k1 = (key + WEYL[0] * r) % WORD, ((key >> 32) + WEYL[1] * r) % WORD
        was0, was2 = c3 * pow(MULTIPLIERS[0], -1, WORD) % WORD, c1 * pow(MULTIPLIERS[1], -1, WORD) % WORD
        was1, was3 = c0 ^ (MULTIPLIERS[1] * was2 >> 32) ^ k0, c2 ^ (MULTIPLIERS[0] * was0 >> 32) ^ k1
        c0, c1, c2, c3 = was0, was1, was2, was3
    return c0 | c1 << 32, c2 | c3 << 32


def rn32(x: Fraction) -> float:
    """Round to FP32, ties to even: 24 bits above 2^-126, a grid of 2^-149 below, infinity past the largest."""
    if x == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(x.numerator)) - math.log2(x.denominator))
    exponent += (abs(x) >= Fraction(2) ** (exponent + 1)) - (abs(x) < Fraction(2) ** exponent)
    ulp = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(x / ulp) * ulp  # Fraction rounds half to even
    return math.copysign(math.inf, x) if abs(rounded) >= 2**128 else float(rounded)


def exponential(y: float) -> float:
    """exp of a non-positive FP32, correctly rounded to FP32."""
    if y < -40:
        return 0.0  # below 2^-57, a zero on the 2^-47 grid
    return rn32(Fraction(EXACT.exp(Decimal(y))))


def draft(row: list[float], sampled: bool, key: int, number: int, position: int, tau: float) -> tuple[Any, ...]:
    """Semantics 2 for one row: status, token, ids, tickets."""
    if any(math.isnan(x) or x == math.inf for x in row) or all(x == -math.inf for x in row):
        return FAILED, -1, PADDING, [0] * SUPPORT
    support = sorted(range(len(row)), key=lambda token: (-row[token], token))[:SUPPORT]
    scale = rn32(Fraction(tau))
    if not sampled or scale == 0:
        return OK, support[0], PADDING, [0] * SUPPORT
    shares = {}
    for token in support:
        x = row[token]
        difference = -math.inf if x == -math.inf else rn32(Fraction(x) - Fraction(row[support[0]]))
        y = difference if math.isinf(difference) else rn32(Fraction(difference) / Fraction(scale))
        shares[token] = math.floor(Fraction(exponential(y)) * 2**47)
    total = sum(shares.values())
    tickets = {token: math.floor(Fraction(share / total) * ONE) for token, share in shares.items()}  # int / int is RN
    rest = ONE - sum(tickets.values())
    assert 0 <= rest < SUPPORT
    tickets[support[0]] += rest
    ids = sorted(support)
    draw = philox(key, number, position)[0] >> 8
    ends = itertools.accumulate(tickets[token] for token in ids)
    token = next(token for token, end in zip(ids, ends, strict=True) if end > draw)
    return OK, token, ids, [tickets[token] for token in ids]


def judge(
    rows: list[list[float]],
    drafts: list[int],
    law: list[dict[int, int]] | None,
    sampled: bool,
    key: int,
    number: int,
    base: int,
) -> tuple[int, list[int], int]:
    """Semantics 3 for one request: status, tokens, num_sampled. `law` is the tickets of each position."""
    depth, vocab = len(drafts), len(rows[0])
    failure = FAILED, [-1] * (depth + 1), 0
    legal = all(math.isfinite(p) and 0 <= p <= 1 + 2**-16 for row in rows for p in row)
    if not legal or not all(-1 <= d < vocab for d in drafts):
        return failure
    quanta = [[math.floor(Fraction(p) * 2**48) for p in row] for row in rows]
    if any(abs(sum(row) - 2**48) > 2**32 for row in quanta):
        return failure
    emitted: list[int] = []
    for j in range(depth + 1):
        best = max(range(vocab), key=lambda token: (rows[j][token], -token))
        w0, w1, w2, _ = philox(key, number, (base + j) % 2**64)
        w64 = w1 + (w2 << 32)
        d = drafts[j] if j < depth else -1
        if d == -1:
            emitted.append(pick(quanta[j], w64) if sampled else best)
            break
        if not sampled:
            emitted.append(best)
            if d != best:
                break
            continue
        tickets = {d: ONE} if law is None else law[j]
        share = tickets.get(d, 0)
        if share == 0:
            return failure
        if w0 * share < quanta[j][d] * 2**8:
            emitted.append(d)
            continue
        residual = [max(p - tickets.get(token, 0) * 2**24, 0) for token, p in enumerate(quanta[j])]
        emitted.append(pick(residual if sum(residual) else quanta[j], w64))
        break
    return OK, emitted + [-1] * (depth + 1 - len(emitted)), len(emitted)


def pick(weights: list[int], w64: int) -> int:
    """The first id whose running sum exceeds the high 64 bits of w64 * total."""
    wanted, running = w64 * sum(weights) >> 64, 0
    for token, weight in enumerate(weights):
        running += weight
        if running > wanted:
            return token
    raise AssertionError("no running sum exceeds the draw")


def u64(rng: np.random.Generator, n: int) -> Array:
    """Random words, one in four near a carry."""
    words = rng.integers(0, 1 << 64, n, np.uint64)
    edges = np.array([0, 2**32 - 1, 2**32 - 3, 2**64 - 1, 2**64 - 3], np.uint64)
    return np.where(rng.random(n) < 0.25, rng.choice(edges, n), words)


def logits_of_every_kind(vocab: int, rng: np.random.Generator) -> list[Array]:
    """Rows with ties, masks, signed zeros, subnormals, overflow and what must fail."""
    normal = rng.normal(0, 3, vocab).astype(np.float32)
    masked = np.where(rng.random(vocab) < 0.6, np.float32(-np.inf), normal)
    masked[rng.integers(vocab)] = 1.0
    one = np.full(vocab, -np.inf, np.float32)
    one[rng.integers(vocab)] = -7.0
    zeros = rng.choice(np.array([0.0, -0.0], np.float32), vocab)
    tiny = rng.integers(-(2**22), 2**22, vocab).astype(np.float32) * np.float32(2.0**-149)
    nearly = np.where(rng.random(vocab) < 0.5, zeros, tiny)
    huge = np.where(normal > 0, np.float32(3e38), np.float32(-3e38))
    bfloat = (normal.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    nan, plus = normal.copy(), normal.copy()
    nan[rng.integers(vocab)], plus[rng.integers(vocab)] = np.nan, np.inf
    border = np.full(vocab, 0.5, np.float32)
    border[rng.permutation(vocab)[: SUPPORT // 2]] = 2.0
    far = np.linspace(0, -23.2, vocab, dtype=np.float32)[rng.permutation(vocab)]  # past the 2^-47 grid at tau 0.7
    kinds = [normal, np.round(normal), border, masked, one, zeros, tiny, nearly, huge, bfloat, normal * 30, far]
    return [*kinds, np.full(vocab, 1.25, np.float32), nan, plus, np.full(vocab, -np.inf, np.float32)]


@pytest.fixture(scope="module", params=[Backend.REFERENCE, Backend.INTERPRETER])
def arithmetic(request: pytest.FixtureRequest) -> Arithmetic:
    """Both forms of the arithmetic."""
    return backends.start(request.param)


@pytest.mark.parametrize("name", ["propose.json", "verify.json"])
def test_vectors(name: str) -> None:
    found = conform.run(VECTORS / name, backends.start(Backend.REFERENCE))
    assert found.first_difference is None
    assert (found.passed, found.total) == ({"propose.json": 78, "verify.json": 90}[name],) * 2


@pytest.mark.parametrize("tau", [pytest.param(TAU, id="declared"), 1.0, 0.3, 5.0, 0.0, 1e-44])
@pytest.mark.parametrize("vocab", [32, 33, 40, 97])
def test_propose_equals_the_semantics_read_aloud(
    vocab: int, tau: float, arithmetic: Arithmetic, rng: np.random.Generator
) -> None:
    rows = [row for _ in range(2 if tau == TAU else 1) for row in logits_of_every_kind(vocab, rng)]
    n = len(rows)
    sampled = np.arange(n) % 7 != 6
    keys, rounds, positions = (u64(rng, n) for _ in range(3))
    got = arithmetic.propose(np.stack(rows), Dtype.FP32, sampled, keys, rounds, positions, tau)
    assert [field.dtype for field in got] == [np.int32] * 4
    statuses = set()
    for i, row in enumerate(rows):
        expected = draft(row.tolist(), bool(sampled[i]), int(keys[i]), int(rounds[i]), int(positions[i]), tau)
        assert (got.status[i], got.token[i], got.ids[i].tolist(), got.tickets[i].tolist()) == expected, i
        statuses.add(int(got.status[i]))
    assert statuses == {OK, FAILED}


def test_rows_are_independent(rng: np.random.Generator) -> None:
    rows = np.stack(logits_of_every_kind(40, rng))
    sampled = np.ones(len(rows), np.bool_)
    keys, rounds, positions = (u64(rng, len(rows)) for _ in range(3))
    whole = reference.propose(rows, sampled, keys, rounds, positions)
    order = rng.permutation(len(rows))
    permuted = reference.propose(rows[order], sampled, keys[order], rounds[order], positions[order])
    for one, other in zip(whole, permuted, strict=True):
        assert (one[order] == other).all()


@pytest.mark.parametrize(
    ("row", "first"),
    [
        pytest.param([0.0] * 40, 0, id="all-equal-lowest-id"),
        pytest.param([-0.0] + [0.0] * 39, 0, id="minus-zero-first-equals-zero"),
        pytest.param([0.0, -0.0] * 20, 0, id="signed-zeros-tie"),
        pytest.param([-1.0] * 39 + [0.0], 39, id="value-before-id"),
        pytest.param([0.0] * 39 + [2.0**-149], 39, id="smallest-subnormal-beats-zero"),
        pytest.param([-(2.0**-149)] * 39 + [-0.0], 39, id="minus-zero-beats-a-negative-subnormal"),
        pytest.param([-math.inf] * 39 + [-3e38], 39, id="one-finite"),
    ],
)
def test_ranks(row: list[float], first: int) -> None:
    found = reference.allocate(np.array([row], np.float32))
    ranked = sorted(range(40), key=lambda token: (-row[token], token))[:SUPPORT]
    assert (found.first[0], found.ids[0].tolist(), int(found.tickets.sum())) == (first, sorted(ranked), ONE)


def test_tickets_are_exact_where_the_law_is_dyadic() -> None:
    """Two equal logits above thirty that vanish share all tickets; the rest of a division goes to rank 0."""
    two = np.array([[-200.0] * 5 + [3.0, 3.0] + [-200.0] * 33], np.float32)
    found = reference.allocate(two)
    assert found.tickets[0][found.ids[0] == 5] == found.tickets[0][found.ids[0] == 6] == ONE // 2
    three = np.array([[-200.0] * 37 + [3.0] * 3], np.float32)
    found = reference.allocate(three)
    tickets = {int(i): int(t) for i, t in zip(found.ids[0], found.tickets[0], strict=True) if t}
    assert tickets == {37: ONE // 3 + 1, 38: ONE // 3, 39: ONE // 3}


@pytest.mark.parametrize("vocab", [31, (1 << 18) + 1])
def test_vocabulary_refused(vocab: int) -> None:
    with pytest.raises(ValueError, match=rf"vocabulary {vocab} is outside \[32, 262144\]"):
        reference.allocate(np.zeros((1, vocab), np.float32))


@pytest.mark.parametrize("vocab", [32, 1 << 18])
def test_vocabulary_taken(vocab: int) -> None:
    assert reference.allocate(np.zeros((1, vocab), np.float32)).ids.tolist() == [PADDING]


@pytest.mark.parametrize("tau", [math.nan, math.inf, -math.inf, -1e-9])
def test_tau_refused(tau: float) -> None:
    none = np.zeros(0, np.uint64)
    with pytest.raises(ValueError, match=rf"tau {tau!r} must be finite and >= 0"):
        reference.propose(np.zeros((0, 32), np.float32), np.zeros(0, np.bool_), none, none, none, tau)


def test_no_rows() -> None:
    none, off = np.zeros(0, np.uint64), np.zeros(0, np.bool_)
    drafted = reference.propose(np.zeros((0, 40), np.float32), off, none, none, none)
    assert [field.shape for field in drafted] == [(0,), (0,), (0, SUPPORT), (0, SUPPORT)]
    laws: list[Array | None] = [None, np.zeros((0, 4, SUPPORT), np.int32)]
    for law in laws:
        probs, drafts = np.zeros((0, 5, 40), np.float32), np.zeros((0, 4), np.int32)
        judged = reference.verify(probs, drafts, law, law, off, none, none, none)
        assert [field.shape for field in judged] == [(0,), (0, 5), (0,)]


def test_seal_fails_the_whole_request() -> None:
    status = np.array([[OK, FAILED, OK], [OK, OK, OK]], np.int32)
    token = np.array([[4, -1, 6], [7, 8, 9]], np.int32)
    ids = np.arange(2 * 3 * SUPPORT, dtype=np.int32).reshape(2, 3, SUPPORT)
    sealed = reference.seal(reference.Proposal(status, token, ids, ids + 1))
    assert sealed.status.tolist() == [[FAILED] * 3, [OK] * 3]
    assert sealed.token.tolist() == [[-1] * 3, [7, 8, 9]]
    assert sealed.ids[0].tolist() == [PADDING] * 3
    assert not sealed.tickets[0].any()
    assert (sealed.ids[1] == ids[1]).all()
    assert (sealed.tickets[1] == ids[1] + 1).all()


class Rounds:
    """Random requests to verify, each with a reason to be there."""

    def __init__(self, n: int, depth: int, vocab: int, rng: np.random.Generator) -> None:
        logits = rng.normal(0, 1.5, (n, depth + 1, vocab))
        logits[rng.random(logits.shape) < 0.4] = -40
        probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
        self.probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(np.float32)  # off the grid of 2^-24
        chosen = np.argsort(rng.random((n, depth, vocab)), axis=-1)[..., :SUPPORT]
        self.ids: Array = np.sort(chosen, axis=-1).astype(np.int32)
        shares = rng.integers(0, 100, (n, depth, SUPPORT)) * (rng.random((n, depth, SUPPORT)) < 0.5)
        shares[..., 3] += 1
        self.tickets: Array = (shares * ONE // shares.sum(axis=-1, keepdims=True)).astype(np.int32)
        self.tickets[..., 3] += ONE - self.tickets.sum(axis=-1, dtype=np.int32)
        likely = self.tickets.argmax(axis=-1, keepdims=True)
        pick = np.where(rng.random((n, depth, 1)) < 0.7, likely, rng.integers(0, SUPPORT, (n, depth, 1)))
        self.drafts = np.take_along_axis(self.ids, pick, axis=-1)[..., 0]
        best = self.probs[:, :depth].argmax(axis=-1).astype(np.int32)
        self.drafts = np.where(rng.random((n, depth)) < 0.2, best, self.drafts)
        self.drafts[rng.random((n, depth)) < 0.08] = -1
        self.sampled = rng.random(n) < 0.8
        self.keys, self.rounds, self.positions = (u64(rng, n) for _ in range(3))
        for i in range(n):
            self._shape(i, i % 12, depth, vocab, rng)

    def _shape(self, i: int, kind: int, depth: int, vocab: int, rng: np.random.Generator) -> None:
        j = int(rng.integers(depth))
        if kind in (1, 2, 3):  # a target that is the tickets, or a hair less: an empty residual
            if kind == 3:
                self.tickets[i] = 0
                self.tickets[i, :, 7], self.tickets[i, :, 20] = 256, ONE - 256
            drawable = [int(np.flatnonzero(tickets)[0]) for tickets in self.tickets[i]]
            self.drafts[i] = self.ids[i, np.arange(depth), drawable]
            self.probs[i, :depth] = 0
            law = (self.tickets[i] / ONE).astype(np.float32)
            np.put_along_axis(self.probs[i, :depth], self.ids[i].astype(np.int64), law, axis=-1)
            if kind == 3:
                self.probs[i, np.arange(depth), self.drafts[i]] -= np.float32(2.0**-17)  # of 2^-16: rejected half
        elif kind == 4:  # greedy rows: one-hot, with signed zeros
            self.probs[i] = np.where(rng.random((depth + 1, vocab)) < 0.5, np.float32(0.0), np.float32(-0.0))
            self.probs[i, np.arange(depth + 1), rng.integers(0, vocab, depth + 1)] = 1.0
            j = depth if i % 24 == 4 else j
            self.drafts[i, :j] = self.probs[i, :j].argmax(axis=-1)
        elif kind == 5:  # ties of the argmax
            self.probs[i] = np.float32(1 / vocab)
            self.drafts[i, :j] = 0
            self.sampled[i] = False
        elif kind == 6:  # out of range, even behind a void draft
            self.drafts[i, 0] = -1
            self.drafts[i, j] = [vocab, -2, vocab + 5][i // 12 % 3]
        elif kind == 7:
            self.probs[i, j, 2] = [np.nan, np.inf, -0.001, 1.01, -np.inf][i // 12 % 5]
        elif kind == 8:  # off the mass by as much as is borne, or by a little more
            total = float(sum(Fraction(float(p)) for p in self.probs[i, j]))
            top = int(self.probs[i, j].argmax())
            self.probs[i, j, top] += np.float32((1 - total) + [1, -1, 1.01, -1.01][i // 12 % 4] * 2.0**-16)
        elif kind == 9:  # the first draft has no ticket
            self.tickets[i, 0] = 0
            self.tickets[i, 0, 3] = ONE
            self.drafts[i, 0] = self.ids[i, 0, 5]
            self.sampled[i] = True
        elif kind == 10:  # a first rejection hides what comes after it
            self.drafts[i, 0] = self.ids[i, 0, self.tickets[i, 0].argmax()]
            self.probs[i, 0, self.drafts[i, 0]] = 0
            self.probs[i, 0] /= self.probs[i, 0].sum()
            self.drafts[i, 1:] = self.ids[i, 1:, 9]
            self.tickets[i, 1:] = 0
            self.tickets[i, 1:, 3] = ONE

    def expected(self, i: int, carrier: bool) -> tuple[int, list[int], int]:
        """What `judge` says of request i."""
        pairs = zip(self.ids[i].tolist(), self.tickets[i].tolist(), strict=True)
        law = [dict(zip(ids, tickets, strict=True)) for ids, tickets in pairs]
        return judge(
            self.probs[i].tolist(),
            self.drafts[i].tolist(),
            law if carrier else None,
            bool(self.sampled[i]),
            int(self.keys[i]),
            int(self.rounds[i]),
            int(self.positions[i]),
        )

    def run(self, arithmetic: Arithmetic, carrier: bool) -> reference.Verification:
        """All of them through a backend."""
        ids, tickets = (self.ids, self.tickets) if carrier else (None, None)
        return arithmetic.verify(
            self.probs, self.drafts, ids, tickets, self.sampled, self.keys, self.rounds, self.positions
        )


@pytest.mark.parametrize("carrier", [pytest.param(True, id="carrier"), pytest.param(False, id="point-mass")])
@pytest.mark.parametrize(("depth", "vocab"), [(4, 32), (5, 40), (4, 97)])
def test_verify_equals_the_semantics_read_aloud(
    depth: int, vocab: int, carrier: bool, arithmetic: Arithmetic, rng: np.random.Generator
) -> None:
    rounds = Rounds(240, depth, vocab, rng)
    got = rounds.run(arithmetic, carrier)
    assert [field.dtype for field in got] == [np.int32] * 3
    for i in range(240):
        expected = rounds.expected(i, carrier)
        assert (got.status[i], got.tokens[i].tolist(), got.num_sampled[i]) == expected, f"request {i}, kind {i % 12}"
    assert set(got.num_sampled.tolist()) == set(range(depth + 2))


def test_the_random_requests_meet_what_they_are_for(rng: np.random.Generator) -> None:
    rounds = Rounds(240, 4, 40, rng)
    got = rounds.run(backends.start(Backend.REFERENCE), True)
    kind = np.arange(240) % 12
    assert (got.status[np.isin(kind, (6, 7))] == FAILED).all()
    assert set(got.status[kind == 8].tolist()) == {OK, FAILED}
    assert (got.status[kind == 9] == FAILED).all()
    sampled = (kind == 10) & rounds.sampled
    assert sampled.any()
    assert (got.num_sampled[sampled] == 1).all()
    empty = (kind == 3) & rounds.sampled & (got.num_sampled > 0) & (got.num_sampled < 5)
    assert empty.any()  # rejected although no residual is left: the full target in its place


@pytest.mark.parametrize("fault", ["one-token", "residual-from-the-full-target"])
def test_a_wrong_reference_is_caught(fault: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = reference._emit

    def wrong(
        rows: reference.TargetRows, row: Any, support: Array, tickets: Array, rejected: Array, block: Array
    ) -> Any:
        if fault == "residual-from-the-full-target":
            return emit(rows, row, support, tickets, np.zeros_like(rejected), block)
        tokens = emit(rows, row, support, tickets, rejected, block)
        tokens[-1] ^= 1
        return tokens

    monkeypatch.setattr(reference, "_emit", wrong)
    rounds = Rounds(48, 4, 40, rng)
    got = rounds.run(backends.start(Backend.REFERENCE), True)
    assert any(got.tokens[i].tolist() != rounds.expected(i, True)[1] for i in range(48))


def test_point_mass_equals_an_explicit_carrier(rng: np.random.Generator) -> None:
    rounds = Rounds(240, 5, 40, rng)
    arithmetic = backends.start(Backend.REFERENCE)
    bare = rounds.run(arithmetic, False)
    legal = np.clip(rounds.drafts, 0, 39)
    rounds.ids = (legal[..., None] + np.arange(SUPPORT, dtype=np.int32)) % np.int32(40)
    rounds.tickets = np.zeros_like(rounds.ids)
    rounds.tickets[..., 0] = ONE
    order = np.argsort(rounds.ids, axis=-1)
    rounds.ids = np.take_along_axis(rounds.ids, order, axis=-1)
    rounds.tickets = np.take_along_axis(rounds.tickets, order, axis=-1)
    explicit = rounds.run(arithmetic, True)
    for one, other in zip(bare, explicit, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize(
    ("vocab", "value", "status"),
    [
        pytest.param(65_537, 1.0, FAILED, id="65537-ones-wrap-to-one"),
        pytest.param(65_536, 2.0**-16, OK, id="65536-equal-shares"),
        pytest.param(32, 65_537.0, FAILED, id="an-entry-whose-quanta-wrap"),
        pytest.param(32, 3e38, FAILED, id="an-entry-past-int64"),
    ],
)
def test_sums_do_not_wrap(vocab: int, value: float, status: int, sampled: bool, arithmetic: Arithmetic) -> None:
    """65,537 quanta of 2^48 are 2^48 modulo 2^64: an int64 sum would take the row for a law."""
    assert vocab != 65_537 or vocab * 2**48 % 2**64 == 2**48
    rows = np.full((1, 2, vocab), value, np.float32)
    word = np.array([1], np.uint64)
    if value > 1:
        rows[..., 1:] = 0
    got = arithmetic.verify(rows, np.array([[0]], np.int32), None, None, np.array([sampled]), word, word, word)
    assert got.status.tolist() == [status]


@pytest.mark.parametrize(
    ("excess", "status"),
    [
        pytest.param(2**32, OK, id="most"),
        pytest.param(-(2**32), OK, id="least"),
        pytest.param(2**32 + 2**24, FAILED, id="one-step-too-much"),
        pytest.param(-(2**32) - 2**24, FAILED, id="one-step-too-little"),
    ],
)
@pytest.mark.parametrize("row", [0, 2, 4])
def test_mass_within_slack(excess: int, status: int, row: int, arithmetic: Arithmetic) -> None:
    probs = np.zeros((1, 5, 32), np.float32)
    probs[..., [3, 9]] = 0.5
    probs[0, row, 9] = np.float32((2**47 + excess) / 2**48)
    assert Fraction(float(probs[0, row, 9])) * 2**48 == 2**47 + excess  # the step is exact in FP32
    word = np.array([1], np.uint64)
    drafts = np.full((1, 4), 3, np.int32)
    for sampled in (True, False):
        got = arithmetic.verify(probs, drafts, None, None, np.array([sampled]), word, word, word)
        assert got.status.tolist() == [status]


Reached = Callable[[list[list[int]]], tuple[Array, Array, Array]]


@pytest.fixture
def reached(rng: np.random.Generator) -> Reached:
    """Keys, rounds and positions at which the blocks are the wanted words."""

    def find(blocks: list[list[int]]) -> tuple[Array, Array, Array]:
        keys = u64(rng, len(blocks))
        found = [address_of(int(key), words) for key, words in zip(keys, blocks, strict=True)]
        for key, (number, position), words in zip(keys, found, blocks, strict=True):
            assert philox(int(key), number, position) == words
        rounds, positions = (np.array(column, np.uint64) for column in zip(*found, strict=True))
        return keys, rounds, positions

    return find


def test_ticket_draw_at_every_boundary(arithmetic: Arithmetic, reached: Reached, rng: np.random.Generator) -> None:
    """Token i is drawn by exactly t_i of the 2^24 draws: both sides of every boundary of the running total."""
    row = rng.normal(0, 2, 40).astype(np.float32)
    supports = reference.allocate(row[None])
    ends = np.cumsum(supports.tickets[0]).tolist()
    draws = [0, *itertools.chain.from_iterable((end - 1, end) for end in ends if end < ONE), ONE - 1]
    expected = [int(supports.ids[0][sum(end <= draw for end in ends)]) for draw in draws]
    blocks = [
        [draw << 8 | int(low), 1, 2, 3] for draw, low in zip(draws, rng.integers(0, 256, len(draws)), strict=True)
    ]
    rows, sampled = np.tile(row, (len(draws), 1)), np.ones(len(draws), np.bool_)
    got = arithmetic.propose(rows, Dtype.FP32, sampled, *reached(blocks), TAU)
    assert got.token.tolist() == expected
    assert len(set(expected)) == int((supports.tickets[0] > 0).sum())


def test_acceptance_at_its_boundary(arithmetic: Arithmetic, reached: Reached) -> None:
    """x is accepted by min(2^32, ceil(P * 2^8 / t)) of the values of w0."""
    cases: list[tuple[float, int, int, bool]] = []  # probability, tickets, w0, accepted
    for p, t in [(0.25, ONE // 2), (0.1, ONE), (1e-7, 3), (0.3, ONE // 3), (2.0**-40, 1), (2.0**-50, 1), (0.5, 7)]:
        probability = float(np.float32(p))
        quanta = math.floor(Fraction(probability) * 2**48)
        accepted = min(WORD, -(-quanta * 2**8 // t))
        edges = [w0 for w0 in (0, accepted - 1, accepted, WORD - 1) if 0 <= w0 < WORD]
        cases += [(probability, t, w0, w0 < accepted) for w0 in edges]
    n, draft_id, other = len(cases), 5, 20
    probs = np.zeros((n, 5, 32), np.float32)
    probs[:, 1:, 7] = 1
    probs[:, 0, draft_id] = [p for p, *_ in cases]
    probs[:, 0, other] = 1 - probs[:, 0, draft_id]
    ids = np.tile(np.arange(SUPPORT, dtype=np.int32), (n, 4, 1))
    tickets = np.zeros((n, 4, SUPPORT), np.int32)
    tickets[:, 0, draft_id] = [t for _, t, *_ in cases]
    tickets[:, 0, 31] = ONE - tickets[:, 0, draft_id]
    tickets[:, 1:, 9] = ONE
    drafts = np.tile(np.array([draft_id, -1, -1, -1], np.int32), (n, 1))
    words = reached([[w0, 0, 0, 0] for *_, w0, _ in cases])
    got = arithmetic.verify(probs, drafts, ids, tickets, np.ones(n, np.bool_), *words)
    assert got.num_sampled.tolist() == [2 if accepted else 1 for *_, accepted in cases]
    assert {accepted for *_, accepted in cases} == {True, False}


@pytest.mark.parametrize("where", ["residual", "full-target", "bonus"])
def test_emission_at_every_boundary(
    where: str, arithmetic: Arithmetic, reached: Reached, rng: np.random.Generator
) -> None:
    """An interval [lo, hi) of the running sum starts at w64 = ceil(lo * 2^64 / total): that draw and the one before."""
    vocab, depth = 40, 4
    row = np.where(rng.random(vocab) < 0.3, 0, rng.random(vocab))
    row[0] = 0  # the first id is not the first atom
    row = (row / row.sum()).astype(np.float32)
    ids = np.sort(rng.permutation(vocab)[:SUPPORT]).astype(np.int32)
    law = rng.multinomial(ONE, np.full(SUPPORT, 1 / SUPPORT)).astype(np.int32)
    quanta = [math.floor(Fraction(p) * 2**48) for p in row.tolist()]
    draft_id = int(ids[0])
    row[draft_id], quanta[draft_id] = 0, 0  # rejected whatever is drawn; the mass is mended below
    top = int(row.argmax())
    row[top] = np.float32(float(row[top]) + 1 - float(row.astype(np.float64).sum()))
    quanta[top] = math.floor(Fraction(float(row[top])) * 2**48)
    weights = list(quanta)
    if where == "residual":
        for token, tickets in zip(ids.tolist(), law.tolist(), strict=True):
            weights[token] = max(quanta[token] - tickets * 2**24, 0)
    total = sum(weights)
    cases = {0: next(token for token, weight in enumerate(weights) if weight)}
    running, before = 0, -1
    for token, weight in enumerate(weights):
        if not weight:
            continue
        start = -(-running * 2**64 // total)
        cases[start] = token
        if start:
            cases[start - 1] = before
        running, before = running + weight, token
    cases[2**64 - 1] = before
    n = len(cases)
    probs = np.zeros((n, depth + 1, vocab), np.float32)
    probs[:, :, draft_id] = 1
    probs[:, depth if where == "bonus" else 0] = row
    drafts = np.full((n, depth), -1 if where == "full-target" else draft_id, np.int32)
    tickets = np.zeros((n, depth, SUPPORT), np.int32)
    tickets[..., 0] = ONE
    if where == "residual":
        tickets[:, 0] = law
    keys, rounds, positions = reached([[WORD - 1, w64 % WORD, w64 >> 32, 9] for w64 in cases])
    base = positions - np.uint64(depth if where == "bonus" else 0)
    support = np.broadcast_to(ids, tickets.shape).copy()
    got = arithmetic.verify(probs, drafts, support, tickets, np.ones(n, np.bool_), keys, rounds, base)
    at = depth if where == "bonus" else 0
    assert got.num_sampled.tolist() == [at + 1] * n
    assert got.tokens[:, at].tolist() == list(cases.values())
