"""The ledger of random words: against what a walk counts, and a planted fault of each kind."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mutant_reference import mutant

from pp3.harness import campaign, requests
from pp3.harness.exact import counters
from pp3.harness.exact.counters import Ledger
from pp3.harness.exact.enumeration import Values, differences
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import INVALIDATED, Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import addressing, reference
from pp3.kernels.addressing import Purpose
from pp3.targets import NAMES, Target, build

FEW = 60
WORDS = addressing.words
UNREAD = "emitted = rows.argmax[row[request, emit_at]].copy()"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Values:
    """A small campaign of 30 pairs and 30 sampled requests a cell, and what it must show; near keys are not made."""
    monkeypatch.setattr(counters, "DOCUMENT", {"requests": 240, "paired": 300})
    monkeypatch.setattr(counters, "near_keys", lambda: iter(range(counters.NEAR)))
    return counters.expect()


def wrong(expected: Values) -> list[str]:
    """The keys in which the campaign differs from what it must show, with the place."""
    return [line.partition(" ")[0] for line in differences(counters.observe().values, expected)]


def test_the_default_campaign_consumes_no_word_twice() -> None:
    """Every request of it: 20,000 of each target, and 100,000 pairs with the 33,350 sampled rows among them, twice."""
    found = counters.observe()
    expected = counters.expect()
    assert differences(found.values, expected) == []
    plan = campaign.of_document({}, "default").spec
    assert expected["sampled-rows"] == [plan.requests * len(NAMES) + 33_350]
    assert expected["greedy-rows"] == [2 * plan.paired]
    assert expected["consumed"] == expected["distinct"] == [1_214_924]
    assert expected["consumed/proposal"] == [600_075, 0, 0, 0]
    assert expected["consumed/verify"] == [348_149, 133_350, 133_350, 0]
    assert (found.id, found.claim, found.compared) == ("counters", counters.CLAIM, 1_214_924 + counters.NEAR)


class Kept(Ledger):
    """A ledger that keeps the batches it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[Batch, Emission]] = []

    def run(self, batch: Batch) -> Emission:
        """See the contract."""
        self.batches.append((batch, super().run(batch)))
        return self.batches[-1][1]


@pytest.fixture
def kept(few: Values, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Batch, Emission]]:
    """The small campaign's batches."""
    monkeypatch.setattr(counters, "Ledger", Kept)
    ledger = counters.record()
    assert isinstance(ledger, Kept)
    return ledger.batches


def test_the_batches_are_those_of_a_campaign(kept: list[tuple[Batch, Emission]]) -> None:
    """Ten pairs of launches at temperature 0, mixed and as point masses, then every target, depth and batch size."""
    pairs, sampled = kept[:20], [batch for batch, _ in kept[20:]]
    assert [bool(batch.sampled.any()) for batch, _ in pairs] == [True, False] * 10
    assert [batch.carrier for batch, _ in pairs] == [True, False] * 10
    sizes = [(name, depth, size) for name in NAMES for depth in (4, 5) for size in (1, 2, 3, 4)]
    cells = [cell for cell in sizes for half in range(2)]
    assert [(batch.target.name, batch.depth, batch.rows_per_launch) for batch in sampled] == cells
    assert all(batch.sampled.all() for batch in sampled)


def test_the_walk_numbers_requests_as_the_campaign_does(kept: list[tuple[Batch, Emission]]) -> None:
    """And invalidates the same drafts."""
    some = [batch for batch, _ in kept if batch.sampled.any()]
    ran = [[batch] for batch in some[:10]] + [some[at : at + 2] for at in range(10, len(some), 2)]  # by halves
    walked = list(counters.sampled_requests(campaign.of_document(counters.DOCUMENT, "few")))
    assert [(b[0].target.name, b[0].depth) for b in ran] == [(target.name, depth) for target, depth, *_ in walked]
    for batches, (_, _, asked, void) in zip(ran, walked, strict=True):
        assert np.concatenate([b.requests[b.sampled] for b in batches]).tolist() == asked.tolist()
        assert (np.concatenate([b.given[b.sampled] == INVALIDATED for b in batches]) == void).all()


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_walk_judges_as_many_drafts_as_are_reached(name: str, depth: int) -> None:
    """One at each column up to the emitted one that is neither the bonus nor void."""
    batch = sampled_batch(build(name), depth, 4, counters.SEED, 0, FEW)
    emission = ReferenceSampler().run(batch)
    void = batch.given == INVALIDATED
    first_void = np.concatenate([void, np.ones((FEW, 1), np.bool_)], axis=1).argmax(axis=1)
    reached = np.minimum(emission.num_sampled, first_void)
    assert counters.judgements(batch.target, depth, batch.requests, void) == int(reached.sum())


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_emissions_call_for(name: str, depth: int) -> None:
    """Word for word: four of them are neither."""
    batch = sampled_batch(build(name), depth, 4, counters.SEED, 0, FEW)
    with counters.recorded() as blocks:
        emission = ReferenceSampler().run(batch)
    read = {tuple(row) for row in counters._read(blocks).tolist()}
    assert read == {tuple(row) for row in counters.consumed_by(batch, emission).tolist()}
    assert {row[3] for row in read} == {0, 1, 2}


def test_the_source_is_given_back() -> None:
    """Also after an error."""

    def fail(seen: list[Any]) -> None:
        with counters.recorded() as blocks:
            zeros = np.zeros(3, np.uint64)
            addressing.words(zeros, zeros, zeros)
            seen += [len(block.words) for block in blocks]
            raise ZeroDivisionError

    seen: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        fail(seen)
    assert (seen, addressing.words is WORDS) == ([3], True)


def test_words_are_taken_whole() -> None:
    """A part of the rows is refused; a block of which nothing is taken counts as four words."""
    zeros = np.zeros(3, np.uint64)
    with counters.recorded() as blocks:
        block = addressing.words(zeros, zeros, zeros)
        assert (block[:, 2] == WORDS(zeros, zeros, zeros)[:, 2]).all()
        addressing.words(zeros, zeros, zeros)
    with pytest.raises(ValueError, match=r"the ledger follows only block\[:, word\]"):
        block[1:, 2]
    assert counters._read(blocks)[:, 3].tolist() == [2] * 3 + [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_distinct_entries_are_counted() -> None:
    rows = np.array([[1, 2, 3, 0], [1, 2, 3, 1], [1, 2, 3, 0], [2, 1, 3, 0], [0, 0, 0, 0]], np.uint64)
    assert [counters.distinct(rows[:n]) for n in range(6)] == [0, 1, 2, 2, 3, 4]
    assert counters.distinct(rows + np.uint64((1 << 64) - 3)) == 4


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
    old: str, new: str, function: str, few: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not the words change what is emitted."""
    monkeypatch.setattr(reference, function, getattr(mutant(old, new), function))
    assert "greedy[0]" in wrong(few)


def test_a_row_that_fails_at_temperature_0_is_counted(few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails reads no words, and would show nothing otherwise."""
    before = ReferenceSampler.run

    def fails(self: ReferenceSampler, batch: Batch) -> Emission:
        emission = before(self, batch)
        status = np.where(batch.sampled | batch.carrier | (np.arange(len(batch)) > 1), emission.status, 1)
        return replace(emission, status=status)

    monkeypatch.setattr(ReferenceSampler, "run", fails)
    assert differences(counters.observe().values, few) == ["greedy[0] is 20, must be 0"]


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
def test_a_word_that_is_consumed_twice_is_counted(
    owner: Any, name: str, fault: Any, few: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the integers of the enumeration, and as fewer distinct words than were consumed."""
    monkeypatch.setattr(owner, name, fault)
    found = counters.observe().values
    assert int(found["distinct"][0]) < int(found["consumed"][0])
    assert "distinct[0]" in [line.partition(" ")[0] for line in differences(found, few)]


def test_a_word_shared_by_acceptance_and_residual_is_counted(few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual drawn by the word that judged its draft."""
    monkeypatch.setattr(reference, "_emit", mutant("block[:, 1].astype", "block[:, 0].astype")._emit)
    assert {"consumed/verify[0]", "distinct[0]", "elsewhere[0]"} <= set(wrong(few))


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
            UNREAD, f"{UNREAD}; addressing.words(keys, rounds, positions + 9)", id="a-block-that-decides-nothing"
        ),
    ],
)
def test_a_block_read_elsewhere_is_counted(old: str, new: str, few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference must read the words of its ledger, and no other."""
    monkeypatch.setattr(reference, "verify_rows", mutant(old, new).verify_rows)
    assert "elsewhere[0]" in wrong(few)


def test_a_round_that_is_longer_is_counted(few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be consumed does not follow what the reference emits."""
    old = "keep[judged] = w0.astype(np.int64) * mass < quanta << 8"
    monkeypatch.setattr(reference, "verify_rows", mutant(old, f"{old}; keep[judged] = True").verify_rows)
    assert counters.expect() == few
    assert wrong(few) == ["consumed[0]", "consumed/verify[0]", "distinct[0]"]


def test_a_launch_left_out_is_counted(few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that the campaign does not run."""

    def shorter(target: Target, depth: int, size: int, seed: Seed, first: int, last: int) -> Batch:
        return sampled_batch(target, depth, size, seed, first, last - 1)

    monkeypatch.setattr(requests, "sampled_batch", shorter)
    assert {"consumed[0]", "sampled-rows[0]"} <= set(wrong(few))


def test_keys_that_collide_fail_the_enumeration(few: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "near_keys", lambda: iter(range(counters.NEAR - 1)))
    assert differences(counters.observe().values, few) == ["near-keys[1] is 999999, must be 1000000"]
