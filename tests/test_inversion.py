"""The inverse of Philox: published blocks, both ways round, and words that no hash would find."""

from typing import Any

import numpy as np
import pytest

from pp3.harness.inversion import INVERSES, invert
from pp3.kernels.addressing import MULTIPLIERS, words
from pp3.kernels.reference import ONE, SUPPORT, TAU, Supports, propose_rows

EDGES = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize(
    ("block", "key", "at"),
    [
        pytest.param("6627e8d5 e169c58d bc57ac4c 9b00dbd8", 0, (0, 0), id="zeros"),
        pytest.param("408f276d 41c83b0e a20bc7c6 6d5451fd", 2**64 - 1, (2**64 - 1, 2**64 - 1), id="ones"),
        pytest.param(
            "d16cfe09 94fdcceb 5001e420 24126ea1",
            0x299F31D0A4093822,
            (0x85A308D3243F6A88, 0x0370734413198A2E),
            id="pi",
        ),
    ],
)
def test_known_answers(block: str, key: int, at: tuple[int, int]) -> None:
    """Salmon et al., the three blocks of Random123's kat_vectors."""
    rounds, positions = invert(np.array([[int(word, 16) for word in block.split()]], np.uint32), key)
    assert (int(rounds[0]), int(positions[0])) == at


def test_multipliers_are_inverted() -> None:
    assert [m * i % 2**32 for m, i in zip(MULTIPLIERS, INVERSES, strict=True)] == [1, 1]


@pytest.mark.parametrize("n", [0, 1, 1021])
def test_words_and_back(n: int, rng: np.random.Generator) -> None:
    keys, rounds, positions = (
        rng.permutation(np.array((EDGES * n)[:n], np.uint64)) ^ _u64(rng, n) * (rng.random(n) < 0.9) for _ in range(3)
    )
    got = invert(words(keys, rounds, positions), keys)
    assert [part.dtype for part in got] == [np.uint64, np.uint64]
    assert (got[0] == rounds).all()
    assert (got[1] == positions).all()


@pytest.mark.parametrize("key", EDGES)
def test_any_block_is_reached(key: int, rng: np.random.Generator) -> None:
    """Extreme words in every lane: one key for all."""
    wanted = np.array([[0, 0, 0, 0], [2**32 - 1] * 4, [0, 2**32 - 1, 0, 1], [1, 0, 2**31, 0]], np.uint32)
    wanted = np.concatenate([wanted, rng.integers(0, 2**32, (500, 4), np.uint32)])
    rounds, positions = invert(wanted, key)
    assert (words(np.full(len(wanted), key, np.uint64), rounds, positions) == wanted).all()


def test_a_draw_is_chosen_by_its_address() -> None:
    """The proposal gives each side of every ticket edge when asked for it."""
    tickets = np.full((1, SUPPORT), 3, np.int32)
    tickets[0, 0] = ONE - 3 * (SUPPORT - 1)
    ids = np.arange(SUPPORT, dtype=np.int32)[None] * 2
    supports = Supports(np.array([False]), ids[:, 0], ids, tickets)
    edges = np.cumsum(tickets[0], dtype=np.int64)
    draws = np.concatenate([edges - 1, edges[:-1]])
    block = np.zeros((len(draws), 4), np.uint32)
    block[:, 0] = draws << 8
    rounds, positions = invert(block, 99)
    row, sampled = np.zeros(len(draws), np.int64), np.ones(len(draws), np.bool_)
    got = propose_rows(supports, row, sampled, np.full(len(draws), 99, np.uint64), rounds, positions, TAU)
    assert got.token.tolist() == [*ids[0].tolist(), *ids[0, 1:].tolist()]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(np.zeros((2, 4), np.int64), id="int64"),
        pytest.param(np.zeros((2, 3), np.uint32), id="three-words"),
        pytest.param(np.zeros(4, np.uint32), id="no-axis-of-blocks"),
    ],
)
def test_what_is_no_block_is_refused(block: Any) -> None:
    with pytest.raises(ValueError, match=r"want uint32 \[n, 4\]"):
        invert(block, 0)


def _u64(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 1 << 64, n, np.uint64)
