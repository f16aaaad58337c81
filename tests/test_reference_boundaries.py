"""Draws, acceptance and emission by the reference and the kernels on both sides of every boundary.

Draws on the edge of an interval are reached by inverting Philox (semantics 1). `arithmetic` is the reference, then the
kernels in the interpreter.
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from random_words import u64
from semantics_text import WORD, address_of, philox

from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.kernels import reference
from pp3.kernels.reference import ONE, SUPPORT, TAU

Array = npt.NDArray[Any]


@pytest.fixture(scope="module", params=[Backend.REFERENCE, Backend.INTERPRETER])
def arithmetic(request: pytest.FixtureRequest) -> Arithmetic:
    """Both forms of the arithmetic."""
    return backends.start(request.param)


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
