"""From a plan to every draw: the seed, the address of each request, and that no sharding changes either."""

import hashlib
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.harness import campaign, requests, run
from pp3.harness.campaign import plan_sha256
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import BASE_POSITION, ROUND_BITS, RULE, SLOTS, Seed, integers
from pp3.kernels.addressing import Purpose, request_key
from pp3.targets import build

PLAN = "00112233445566778899aabbccddeeff" * 2
SEED = Seed(bytes(range(32)))
EDGES = np.array([0, 1, 2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20 + 7, 2**30 - 1, 2**40 - 1], np.int64)


@pytest.mark.parametrize("counter", [0, 1, 2**32, 2**64 - 1])
def test_seed_is_sha256_of_plan_and_counter(counter: int) -> None:
    expected = hashlib.sha256(bytes.fromhex(PLAN) + bytes(counter >> 8 * i & 255 for i in range(8))).digest()
    assert Seed.of(PLAN, counter) == Seed(expected)
    assert Seed(expected).session == expected[:16]
    assert "sha256(planSha256 bytes || counter u64 little-endian)" in RULE


def test_known_seed() -> None:
    assert Seed.of("00" * 32, 0).value.hex() == hashlib.sha256(bytes(40)).hexdigest()
    assert Seed.of("00" * 32, 0) != Seed.of("00" * 32, 1)


@pytest.mark.parametrize("counter", [-1, 2**64])
def test_counter_out_of_range(counter: int) -> None:
    with pytest.raises(OverflowError):
        Seed.of(PLAN, counter)


@pytest.mark.parametrize("purpose", list(Purpose))
def test_request_addresses(purpose: Purpose) -> None:
    """Request r: key index r >> 20 selects slot, generation and seed; round r mod 2^20 (semantics 1)."""
    keys, rounds = SEED.keys(EDGES, purpose), SEED.rounds(EDGES)
    assert keys.dtype == rounds.dtype == np.uint64
    for r, key, number in zip(EDGES.tolist(), keys.tolist(), rounds.tolist(), strict=True):
        index = r // 2**20
        digest = hashlib.sha256(SEED.value + index.to_bytes(8, "little")).digest()
        seed = int(np.frombuffer(digest[:8], "<i8")[0])
        assert SEED.request(index) == (index % 4, index, seed)
        assert key == request_key(SEED.value[:16], index % 4, index, seed, purpose)
        assert number == r % 2**20
    assert (ROUND_BITS, SLOTS) == (20, 4)


def test_no_two_requests_share_an_address() -> None:
    keys = {purpose: SEED.keys(EDGES, purpose).tolist() for purpose in Purpose}
    rounds = SEED.rounds(EDGES).tolist()
    assert len({*zip(keys[Purpose.PROPOSAL], rounds, strict=True)}) == len(EDGES)
    assert not set(keys[Purpose.PROPOSAL]) & set(keys[Purpose.VERIFY])


def test_no_requests_have_no_keys() -> None:
    assert SEED.keys(EDGES[:0], Purpose.VERIFY).shape == (0,)


def test_positions_carry_into_the_high_word() -> None:
    """Draft 3 of every round lies past 2^32: no campaign leaves the carry untouched."""
    assert BASE_POSITION < 2**32 <= BASE_POSITION + 3


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param([0, 40], id="whole"),
        pytest.param([0, 19, 20, 21, 40], id="around-a-change-of-key"),
        pytest.param(range(41), id="one-by-one"),
        pytest.param([0, 7, 7, 40], id="an-empty-shard"),
    ],
)
def test_any_sharding_has_the_same_keys(edges: list[int]) -> None:
    requests = 2**20 - 20 + np.arange(40)
    for purpose in Purpose:
        whole = SEED.keys(requests, purpose)
        parts = [SEED.keys(requests[first:last], purpose) for first, last in itertools.pairwise(edges)]
        assert (np.concatenate(parts) == whole).all()
        assert len(set(whole.tolist())) == 2
    order = np.random.default_rng(0).permutation(40)
    assert (SEED.keys(requests[order], Purpose.VERIFY) == SEED.keys(requests, Purpose.VERIFY)[order]).all()


def emitted(edges: list[int], size: int) -> list[npt.NDArray[Any]]:
    """Tokens, lengths and proposals of requests around a change of key, run in parts."""
    parts = [
        ReferenceSampler().run(sampled_batch(build("context"), 5, size, SEED, first, last))
        for first, last in itertools.pairwise(edges)
    ]
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "num_sampled", "proposed")]


def test_any_sharding_emits_the_same_tokens() -> None:
    base = 2**20 - 50
    whole = emitted([base, base + 100], 4)
    for edges, size in (([0, 1, 50, 51, 100], 4), ([0, 33, 100], 1)):
        parts = emitted([base + edge for edge in edges], size)
        assert all((one == other).all() for one, other in zip(whole, parts, strict=True))


@pytest.mark.parametrize("shard", [97, 1000])
def test_a_campaign_counts_the_same_in_any_shards(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = campaign.of_document({"requests": 1600, "paired": 0}, "a test")
    seed = Seed.of(plan_sha256(chosen), 3)
    found = []
    for size in (campaign.SHARD, shard):
        monkeypatch.setattr(requests, "SHARD", size)
        sampler = ReferenceSampler()
        measured = run.Measured(sampler=sampler.describe())
        run._campaign(chosen, seed, sampler, measured, lambda stage, done, total: None)
        assert measured.requests == 1600 * len(chosen.targets)
        found.append((measured.counts, measured.breaches, measured.strays))
    assert found[0] == found[1]


def test_another_counter_draws_other_tokens() -> None:
    one, other = Seed.of(PLAN, 1), Seed.of(PLAN, 2)
    batches = [sampled_batch(build("context"), 4, 4, seed, 0, 50) for seed in (one, other)]
    tokens = [ReferenceSampler().run(batch).tokens for batch in batches]
    assert (tokens[0] != tokens[1]).any(axis=1).mean() > 0.5


def test_integers_are_shake_128() -> None:
    stream = hashlib.shake_128(SEED.value + b"paired/x").digest(24)
    expected = [int.from_bytes(stream[i : i + 8], "little") for i in (0, 8, 16)]
    found = integers(SEED, "paired/x", 3)
    assert found.dtype == np.uint64
    assert found.tolist() == expected
    assert integers(SEED, "paired/x", 2).tolist() == expected[:2]
    assert integers(SEED, "paired/y", 3).tolist() != expected
    assert integers(SEED, "", 0).tolist() == []
