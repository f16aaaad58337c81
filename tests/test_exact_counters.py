"""The ledger of random words: against what the reference asks for, near keys, and a planted collision of each kind."""

import inspect
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pp3.harness.exact import counters
from pp3.harness.exact.enumeration import differences
from pp3.harness.run import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import addressing, reference
from pp3.kernels.addressing import Purpose, request_key
from pp3.targets import NAMES, build

FEW = 60
WORDS = addressing.words


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small campaign."""
    monkeypatch.setattr(counters, "REQUESTS", FEW)


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


def test_a_campaign_consumes_no_word_twice() -> None:
    found = counters.observe()
    expected = counters.expect()
    assert differences(found.values, expected) == []
    consumed = expected["consumed"][0]
    assert isinstance(consumed, int)
    # at least a proposal and an emission of two words for every draft and request
    assert consumed > counters.REQUESTS * len(NAMES) * (4 + 5 + 2 + 2)
    assert (found.id, found.claim, found.compared) == ("counters", counters.CLAIM, consumed + counters.NEAR)


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_ledger_is_what_the_reference_asks_for(name: str, depth: int) -> None:
    """Every consumed block is among those computed at the random source, and no emission is left out."""
    batch = sampled_batch(build(name), depth, 4, counters.SEED, 0, FEW)
    with counters.recorded() as blocks:
        emission = ReferenceSampler().run(batch)
    rows = counters._consumed(batch, emission)
    asked = {row for block in blocks for row in zip(*(part.tolist() for part in block), strict=True)}
    assert {tuple(row[:3]) for row in rows.tolist()} == asked
    assert {row[3] for row in rows.tolist()} == {0, 1, 2}


def test_a_ledger_counts_rounds_by_their_length() -> None:
    """Depth proposals, a word a judged draft, two an emission."""
    batch = sampled_batch(build("invalidated"), 5, 4, counters.SEED, 0, FEW)
    emission = ReferenceSampler().run(batch)
    void = (np.concatenate([batch.given == -1, np.ones((FEW, 1), np.bool_)], axis=1)).argmax(axis=1)
    judged = np.minimum(emission.num_sampled, void)
    assert len(counters._consumed(batch, emission)) == 5 * FEW + int(judged.sum()) + 2 * FEW


def test_the_source_is_given_back() -> None:
    """Also after an error."""

    def fail(seen: list[Any]) -> None:
        with counters.recorded() as blocks:
            zeros = np.zeros(3, np.uint64)
            addressing.words(zeros, zeros, zeros)
            seen += [len(block[0]) for block in blocks]
            raise ZeroDivisionError

    seen: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        fail(seen)
    assert (seen, addressing.words is WORDS) == ([3], True)


def test_temperature_0_reads_no_words() -> None:
    assert counters.greedy_blocks() == 0


@pytest.mark.parametrize(
    ("old", "new", "function"),
    [
        pytest.param(
            "        judged = np.flatnonzero(alive & sampled)",
            "        addressing.words(keys, rounds, positions)\n        judged = np.flatnonzero(alive & sampled)",
            "verify_rows",
            id="a-verifier-that-judges",
        ),
        pytest.param(
            "np.flatnonzero(sampled & ~failed)", "np.flatnonzero(~failed)", "verify_rows", id="a-verifier-that-emits"
        ),
        pytest.param(
            "drawn = sampled & ~failed & (tau > 0)", "drawn = ~failed & (tau > 0)", "propose_rows", id="a-proposal"
        ),
    ],
)
def test_temperature_0_that_reads_words_is_seen(
    old: str, new: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not the words change what is emitted."""
    monkeypatch.setattr(reference, function, getattr(mutant(old, new), function))
    assert counters.greedy_blocks() > 0


def test_a_row_that_fails_at_temperature_0_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails reads no words, and would show nothing otherwise."""
    run = ReferenceSampler.run

    def fails(self: ReferenceSampler, batch: Batch) -> Emission:
        emission = run(self, batch)
        status = emission.status.copy()
        status[[3, 5]] = reference.FAILED
        return replace(emission, status=status)

    monkeypatch.setattr(ReferenceSampler, "run", fails)
    assert counters.greedy_blocks() == 2


def one_purpose(batch: Batch, purpose: Purpose) -> Any:
    """Keys that forget what they are for: a proposal and an acceptance share word 0."""
    return batch.seed.keys(batch.requests, Purpose.VERIFY)


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        pytest.param(Batch, "keys", one_purpose, id="one-key-for-both-purposes"),
        pytest.param(
            Seed, "rounds", lambda seed, requests: (requests // 2 % (1 << 20)).astype(np.uint64), id="two-share-a-round"
        ),
    ],
)
@pytest.mark.usefixtures("few")
def test_a_word_that_is_consumed_twice_is_counted(
    owner: Any, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    consumed, distinct, _ = counters.ledger()
    assert distinct < consumed


@pytest.mark.usefixtures("few")
def test_a_word_shared_by_acceptance_and_residual_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger in which an emission consumes the word that judged its draft."""
    entries = counters._consumed

    def shared(batch: Batch, emission: Emission) -> Any:
        rows = entries(batch, emission)
        rows[rows[:, 3] == 1, 3] = 0
        return rows

    monkeypatch.setattr(counters, "_consumed", shared)
    consumed, distinct, _ = counters.ledger()
    assert distinct < consumed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("positions[judged] + np.uint64(j))", "positions[judged])", id="one-counter-for-all-acceptances"),
        pytest.param(
            "positions[who] + emit_at[who].astype(np.uint64))",
            "positions[who] + np.minimum(emit_at[who], depth - 1).astype(np.uint64))",
            id="a-counter-shared-by-the-last-draft-and-the-bonus",
        ),
        pytest.param(
            "emitted = rows.argmax[row[request, emit_at]].copy()",
            "emitted = rows.argmax[row[request, emit_at]].copy(); addressing.words(keys, rounds, positions + 9)",
            id="a-block-that-decides-nothing",
        ),
    ],
)
@pytest.mark.usefixtures("few")
def test_a_block_read_elsewhere_is_counted(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference must read the blocks of its ledger, and no other."""
    assert counters.ledger()[2] == 0
    monkeypatch.setattr(reference, "verify_rows", mutant(old, new).verify_rows)
    assert counters.ledger()[2] > 0


@pytest.mark.usefixtures("few")
def test_a_block_read_elsewhere_fails_the_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own integer, which is expected to be 0 whatever the reference does."""
    old = "emitted = rows.argmax[row[request, emit_at]].copy()"
    read = mutant(old, f"{old}; addressing.words(keys, rounds, positions + 9)").verify_rows
    monkeypatch.setattr(reference, "verify_rows", read)
    monkeypatch.setattr(counters, "near_keys", lambda: iter(range(counters.NEAR)))
    expected = counters.expect()
    assert expected["elsewhere"] == [0]
    wrong = differences(counters.observe().values, expected)
    assert [line.partition(" ")[0] for line in wrong] == ["elsewhere[0]", "greedy[0]"]


@pytest.mark.usefixtures("few")
def test_a_collision_fails_the_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the integers, not only in a sentence."""
    monkeypatch.setattr(Batch, "keys", one_purpose)
    monkeypatch.setattr(counters, "near_keys", lambda: iter(range(counters.NEAR)))
    wrong = differences(counters.observe().values, counters.expect())
    assert [line.partition(" ")[0] for line in wrong] == ["distinct[0]"]


def fields() -> Iterator[tuple[Any, ...]]:
    """What the million keys are made of."""
    made: list[tuple[Any, ...]] = []

    def note(*identity: Any) -> int:
        made.append(identity)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "request_key", note)
        for _ in counters.near_keys():
            yield made.pop()


@pytest.fixture(scope="module")
def million() -> list[tuple[Any, ...]]:
    """The fields of the million keys."""
    return list(fields())


def test_the_near_keys_are_a_million_neighbours(million: list[tuple[Any, ...]]) -> None:
    """With the extremes of a seed, and generations on both sides of 0."""
    assert len(million) == len(set(million)) == counters.NEAR
    sessions, slots, generations, seeds, purposes = (set(column) for column in zip(*million, strict=True))
    assert {0, -1, (1 << 63) - 1, -(1 << 63)} < seeds
    assert {0, 1, (1 << 32) - 1} < generations
    assert (len(sessions), slots, purposes) == (10, {0, 1, 2, 3}, set(Purpose))
    assert len(request_key(*million[0]).to_bytes(8, "little")) == 8


@pytest.mark.parametrize(
    "blind",
    [
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, seed), id="the-purpose"),
        pytest.param(lambda s, slot, g, seed, p: (s, g, seed, p), id="the-slot"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, seed, p), id="the-generation"),
        pytest.param(lambda s, slot, g, seed, p: (slot, g, seed, p), id="the-session"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, abs(seed), p), id="the-sign-of-the-seed"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, seed % (1 << 32), p), id="half-of-the-seed"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, float(seed), p), id="a-seed-as-a-double"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot + g, seed, p), id="which-of-two-fields"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g % 32, seed, p), id="high-bits-of-the-generation"),
    ],
)
def test_a_key_that_is_blind_to_something_collides(blind: Any, million: list[tuple[Any, ...]]) -> None:
    """Among the keys of the first two sessions."""
    some = million[: counters.NEAR // 5]
    assert len({blind(*identity) for identity in some}) < len(some)
