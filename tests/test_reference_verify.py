"""Verification by the reference and the kernels against semantics 3 read aloud, and a mutated reference.

`arithmetic` is the reference, then the kernels in the interpreter.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from random_words import u64
from semantics_text import judge

from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend
from pp3.kernels import reference
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT

Array = npt.NDArray[Any]


@pytest.fixture(scope="module", params=[Backend.REFERENCE, Backend.INTERPRETER])
def arithmetic(request: pytest.FixtureRequest) -> Arithmetic:
    """Both forms of the arithmetic."""
    return backends.start(request.param)


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
