"""Known answers of Philox4x32-10, then every word and key against an independent computation in Python integers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pp3.kernels import addressing
from pp3.kernels.addressing import Purpose, request_key

VECTORS = Path(__file__).parent / "vectors"
ONES = 0xFFFFFFFF
SESSION = bytes(range(16))


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 as printed in Salmon et al. (2011), in Python integers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % (1 << 32), (k1 + 0xBB67AE85) % (1 << 32)
    return [c0, c1, c2, c3]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        pytest.param([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], id="zeros"),
        pytest.param([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], id="ones"),
        pytest.param(
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
            id="pi",
        ),
    ],
)
def test_known_answers(counter: list[int], key: list[int], expected: list[int]) -> None:
    got = addressing.philox4x32(np.array(counter, np.uint32), np.array(key, np.uint32))
    assert got.tolist() == expected == philox(counter, key)


def test_words_equal_python_integers(rng: np.random.Generator) -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    columns = [np.concatenate([rng.permutation(np.array(edges * 8, np.uint64)), _u64(rng, 436)]) for _ in range(3)]
    got = addressing.words(*columns)
    assert got.dtype == np.uint32
    for (key, number, position), row in zip(np.stack(columns, axis=1).tolist(), got.tolist(), strict=True):
        counter = [number % 2**32, number >> 32, position % 2**32, position >> 32]
        assert row == philox(counter, [key % 2**32, key >> 32])


@pytest.mark.parametrize(
    ("base", "step", "wrapped"),
    [
        pytest.param(2**32 - 1, 1, 2**32, id="carry-into-the-high-word"),
        pytest.param(2**32 - 3, 5, 2**32 + 2, id="base-position-of-a-campaign"),
        pytest.param(2**64 - 1, 1, 0, id="wrap-at-2^64"),
        pytest.param(2**64 - 2, 5, 3, id="wrap-inside-a-round"),
    ],
)
def test_positions_carry_and_wrap(base: int, step: int, wrapped: int) -> None:
    key, number = np.array([0x0123456789ABCDEF], np.uint64), np.array([2**32 - 1], np.uint64)
    got = addressing.words(key, number, np.array([base], np.uint64) + np.uint64(step))[0].tolist()
    assert got == philox([ONES, 0, wrapped % 2**32, wrapped >> 32], [0x89ABCDEF, 0x01234567])


def test_every_argument_changes_the_words() -> None:
    blocks = {
        tuple(addressing.words(*(np.array([v], np.uint64) for v in address))[0].tolist())
        for address in [(7, 7, 7), (7 + 2**32, 7, 7), (7, 7 + 2**32, 7), (7, 7, 7 + 2**32), (8, 7, 7), (7, 8, 7)]
    }
    assert len(blocks) == 6


def test_no_words() -> None:
    none = np.zeros(0, np.uint64)
    assert addressing.words(none, none, none).shape == (0, 4)


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize(
    ("slot", "generation", "seed"),
    [
        pytest.param(0, 0, 0, id="zeros"),
        pytest.param(3, 2**32 - 1, -1, id="negative-seed"),
        pytest.param(2**32 - 1, 1, 2**63 - 1, id="largest-seed"),
        pytest.param(1, 2, -(2**63), id="smallest-seed"),
    ],
)
def test_request_key_is_blake2b(purpose: Purpose, slot: int, generation: int, seed: int) -> None:
    message = b"".join(
        [
            SESSION,
            np.array([slot, generation], "<u4").tobytes(),
            np.array([seed], "<i8").tobytes(),
        ]
    )
    name = {"PROPOSAL": b"pp3/proposal\0\0\0\0", "VERIFY": b"pp3/verify\0\0\0\0\0\0"}[purpose.name]
    digest = hashlib.blake2b(message, digest_size=8, person=name).digest()
    assert request_key(SESSION, slot, generation, seed, purpose) == sum(b << 8 * i for i, b in enumerate(digest))


def test_purposes_never_share_a_key() -> None:
    assert request_key(SESSION, 1, 2, 3, Purpose.PROPOSAL) != request_key(SESSION, 1, 2, 3, Purpose.VERIFY)


def test_keys_of_the_vectors() -> None:
    cases: list[dict[str, Any]] = json.loads((VECTORS / "propose.json").read_text("utf-8"))
    assert len(cases) == 78
    for case in cases:
        session = bytes.fromhex(case["session"])
        key = request_key(session, case["slot"], case["generation"], int(case["seed"]), Purpose.PROPOSAL)
        assert f"{key:016x}" == case["key"], case["name"]


@pytest.mark.parametrize("length", [0, 15, 17, 32])
def test_session_is_16_bytes(length: int) -> None:
    with pytest.raises(ValueError, match=f"session has {length} bytes; a session is 16 bytes"):
        request_key(bytes(length), 0, 0, 0, Purpose.VERIFY)


@pytest.mark.parametrize(
    ("slot", "generation", "seed"),
    [
        pytest.param(-1, 0, 0, id="slot-negative"),
        pytest.param(2**32, 0, 0, id="slot-above-u32"),
        pytest.param(0, -1, 0, id="generation-negative"),
        pytest.param(0, 2**32, 0, id="generation-above-u32"),
        pytest.param(0, 0, 2**63, id="seed-above-i64"),
        pytest.param(0, 0, -(2**63) - 1, id="seed-below-i64"),
    ],
)
def test_fields_out_of_range(slot: int, generation: int, seed: int) -> None:
    with pytest.raises(OverflowError):
        request_key(SESSION, slot, generation, seed, Purpose.PROPOSAL)


def _u64(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 1 << 64, n, np.uint64)
