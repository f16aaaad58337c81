"""Proposals of the reference and the kernels against semantics 2 read aloud, and what both refuse.

`arithmetic` is the reference, then the kernels in the interpreter.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from random_words import u64
from semantics_text import PADDING, draft

from pp3.harness import backends, conform
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.kernels import reference
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT, TAU

Array = npt.NDArray[Any]
VECTORS = Path(__file__).parent / "vectors"


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
