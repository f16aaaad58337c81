"""What a batch offers: each row is that of its request, the same in any batch, and no copy reaches the harness."""

import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from one_thread import one_thread
from scipy import stats

from pp3.harness.samplers.contract import INVALIDATED, WANTED, Batch, Carrier, Description, Kind
from pp3.harness.samplers.words import words
from pp3.harness.seeds import Seed
from pp3.harness.tally import pattern_of, start_of
from pp3.harness.trial import drafts
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import Problem
from pp3.harness.trial.run import batch_of
from pp3.targets import invalidated, pairs
from pp3.targets.target import ONE

SEED = Seed(bytes(range(32)))
FIRST = 1001  # no multiple of anything


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that spin on a shared machine cost more than they bring."""
    with one_thread():
        yield


def who(kind: Kind, **more: Any) -> Description:
    """A sampler that takes everything."""
    filters = ("temperature", "top_k", "top_p", "min_p") if kind is Kind.PLAIN else ()
    given = {"name": "it", "kind": kind, "filters": filters, "greedy": True, "target_carrier": Carrier.LOGITS}
    return Description(**given | {"draft_carrier": Carrier.LOGITS} | more)


def problem_of(d: Description, name: str) -> Problem:
    """One of its problems."""
    (found,) = make(TrialSpec(targets=[name]), d, "test").problems
    return found


def batch(d: Description, name: str, first: int = FIRST, last: int = FIRST + 157) -> Batch:
    """Some requests of one of its problems."""
    return batch_of(problem_of(d, name), d, SEED, first, last, "cpu")


VERIFIER = who(Kind.VERIFIER, ragged=True)
CARRIERS = ("target_probs", "target_logits", "draft_probs", "draft_logits", "scaled_draft_logits")


@pytest.mark.parametrize("name", [name for name in pairs.NAMES if name != "equal"])  # as logits it is left out
def test_every_carrier_is_the_row_of_its_drafts(name: str) -> None:
    """One request after the other, one position after the other."""
    b = batch(VERIFIER, name)
    pair, tables = pairs.build(name), b.target.tables
    for i, request in enumerate(b.requests.tolist()):
        context = request // len(pair.patterns) % pair.starts
        assert b.temperature[i] == np.float32(pair.temperatures[context])
        for j in range(b.depth + 1):
            row = pair.row_of[j, context]
            for carrier in CARRIERS:
                if j < b.depth or carrier.startswith("target"):
                    assert np.array_equal(getattr(b, carrier)[i, j].numpy(), getattr(tables, carrier)[row]), (i, j)
            if j < b.depth:
                context = pair.context_of[max(int(b.draft_ids[i, j]), 0)]
    assert np.array_equal(b.draft_ids.numpy(), np.maximum(b.given, INVALIDATED))  # absent ones too


@pytest.mark.parametrize("name", ["context", "mixed", "whole"])
def test_a_pipeline_asks_for_the_same_rows_as_its_drafts_unfold(name: str) -> None:
    pipeline = who(Kind.PIPELINE)
    own, given = batch(pipeline, name), batch(VERIFIER, name)
    chosen = given.draft_ids
    assert torch.equal(own.target_logits_after(chosen), given.target_logits)
    assert torch.equal(own.target_probs_after(chosen), given.target_probs)
    for j in range(own.depth):
        before = chosen[:, j - 1] if j else None
        assert torch.equal(own.draft_logits_after(j, before), given.draft_logits[:, j])
        assert torch.equal(own.draft_probs_after(j, before), given.draft_probs[:, j])


def test_a_pipeline_has_no_drafts_given() -> None:
    """What would come of a row after no draft is no law of anything."""
    own = batch(who(Kind.PIPELINE), "near")
    for name in ("draft_ids", "target_logits", "draft_probs"):
        with pytest.raises(ValueError, match=r"ask for target_logits_after\(drafts\)"):
            getattr(own, name)
    with pytest.raises(ValueError, match="position 2 needs the drafts before it"):
        own.draft_logits_after(2, None)
    wild = torch.tensor([-7, 10**6] * 80)[: len(own)]
    assert own.draft_logits_after(1, wild).shape == (len(own), 20)  # an illegal draft is a finding, not a crash


def test_a_plain_row_has_the_settings_of_its_case() -> None:
    plain = who(Kind.PLAIN)
    b = batch(plain, "rows-of-12")
    for i, request in enumerate(b.requests.tolist()):
        row = request % b.target.starts
        for name in ("logits", "probs", "temperature", "top_k", "top_p", "min_p"):
            assert np.array_equal(getattr(b, name)[i].numpy(), getattr(b.target.tables, name)[row]), (i, name)
    assert (b.sampled == (b.temperature.numpy() > 0)).all()
    assert not b.sampled.all()
    assert b.sampled.any()


def test_what_a_batch_does_not_have_is_said() -> None:
    b = batch(VERIFIER, "near")
    with pytest.raises(AttributeError, match="a batch has no 'draft_prob'; did you mean 'draft_probs'"):
        b.draft_prob  # noqa: B018  # it is looked up to fail
    with pytest.raises(ValueError, match="this batch has no logits; it is one of depth 4"):
        b.logits  # noqa: B018  # likewise
    assert b.top_k is None
    assert (b.vocab, b.num_slots) == (20, len(b) + len(b) // 8)


INTS = {
    "draft_ids": torch.int32,
    "num_drafts": torch.int32,
    "identities": torch.int64,
    "seeds": torch.int64,
    "pos": torch.int64,
    "slots": torch.int64,
    "generation": torch.int64,
}
NAMES = (*CARRIERS, *INTS, "temperature", "coins", "final_coins")


def test_the_types_of_the_contract() -> None:
    b = batch(VERIFIER, "near")
    for name in NAMES:
        tensor = getattr(b.tensors, name)
        assert tensor.dtype is INTS.get(name, torch.float32), name
        assert tensor.is_contiguous()
        assert getattr(b.tensors, name) is tensor  # made once
    assert set(b.tensors.given_out()) == set(NAMES)


def test_a_sampler_writes_to_copies() -> None:
    """What it does to a tensor reaches neither the numbers of the harness nor the next batch."""
    b, again = batch(VERIFIER, "near"), batch(VERIFIER, "near")
    before = {name: getattr(again.tensors, name).clone() for name in NAMES}
    for name in NAMES:
        getattr(b.tensors, name).zero_()
    fresh = batch(VERIFIER, "near")
    for name in NAMES:
        assert torch.equal(getattr(fresh.tensors, name), before[name]), name
    for array in (
        b.given,
        b.num_drafts,
        b.held.slots,
        b.requests,
        b.sampled,
        b.target.tables.draft_probs,
        b.target.weights[:0],
    ):
        assert array.size == 0 or not array.flags.writeable


def test_every_number_follows_the_request() -> None:
    """Alone, in any order and in any batch."""
    whole = batch(VERIFIER, "mixed")
    some = np.array([90, 3, 4, 117])
    other = whole.take(some, 2)
    for name in (*CARRIERS, "draft_ids", "temperature", "seeds", "coins", "final_coins"):
        assert torch.equal(getattr(other, name), getattr(whole, name)[torch.tensor(some)]), name
    parts = [batch(VERIFIER, "mixed", a, b) for a, b in ((FIRST, FIRST + 50), (FIRST + 50, FIRST + 157))]
    for name in ("draft_ids", "coins", "final_coins", "seeds"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name)), name


def test_batches_have_generators_slots_and_coins_of_their_own() -> None:
    one, other, elsewhere = (
        batch(VERIFIER, "near"),
        batch(VERIFIER, "near", FIRST + 157, FIRST + 314),
        batch(VERIFIER, "far"),
    )
    drawn = [torch.rand(4, generator=b.generator).tolist() for b in (one, other, elsewhere)]
    assert len({tuple(row) for row in drawn}) == 3
    assert not torch.equal(one.slots, other.slots)
    assert len({b.coins[0, 0].item() for b in (one, other, elsewhere)}) == 3
    assert not torch.equal(one.coins[:, 0], one.final_coins)
    for b in (one, other):
        assert len(set(b.slots.tolist())) == len(b)
        assert b.slots.min() >= 0
        assert b.slots.max() < b.num_slots
        assert (b.slots[1:] < b.slots[:-1]).any()
        assert (b.seeds - b.seeds[0]).tolist() == list(range(len(b)))


def test_coins_are_uniform_multiples_of_2_to_the_minus_24() -> None:
    coins = batch(VERIFIER, "near", 0, 50_000).coins.double()
    assert (coins * 2**24 == (coins * 2**24).round()).all()
    assert coins.min() >= 0
    assert coins.max() < 1
    for j in range(4):
        assert stats.chisquare(np.histogram(coins[:, j].numpy(), 256, (0, 1))[0]).pvalue > 1e-6
        assert stats.chisquare(((coins[:, j] * 2**24).long() & 255).bincount(minlength=256).numpy()).pvalue > 1e-6


def test_words_are_numpys_philox_at_the_counter_of_the_request() -> None:
    key = np.frombuffer(hashlib.shake_128(SEED.value + b"words/x").digest(16), "<u8")
    for request in (0, 1, 2**20, 2**40 + 5):
        expected = np.random.Philox(key=key, counter=[2 * request, 0, 0, 0]).random_raw(6)
        assert words(SEED, "x", np.array([request]), 6).tolist() == [expected.tolist()]
    assert words(SEED, "x", np.array([7, 3, 5]), 3).tolist() == words(SEED, "x", np.arange(3, 8), 3)[[4, 0, 2]].tolist()
    for empty in (words(SEED, "x", np.arange(0), 3), words(SEED, "x", np.arange(3), 0)):
        assert empty.size == 0


@pytest.mark.parametrize("name", ["near", "far", "context", "mixed", "mixed-greedy", "shared-noise"])
@pytest.mark.parametrize("carrier", [Carrier.PROBS, Carrier.LOGITS])
def test_drafts_have_the_proposals_law_in_their_context(name: str, carrier: Carrier) -> None:
    target = problem_of(who(Kind.VERIFIER, draft_carrier=carrier), name).target
    requests = np.arange(FIRST, FIRST + 60_000)
    drawn = drafts.drawn(target, target.pair.depth, SEED, requests)
    context, checks = start_of(target, requests), 0
    for j in range(target.pair.depth):
        row = target.row_of[j, context]
        for one in np.unique(row):
            seen = np.bincount(drawn[row == one, j], minlength=len(target.context_of))
            law = target.proposal[one] / target.total
            assert seen[law == 0].sum() == 0
            if seen.sum() > 2_000:
                assert stats.chisquare(seen[law > 0], seen.sum() * law[law > 0]).pvalue > 1e-6, (j, one)
                checks += 1
        context = target.context_of[drawn[:, j]]
    assert checks >= target.pair.depth


def test_a_draft_is_the_token_whose_share_holds_its_word() -> None:
    """One word after the other, by running sums of Python integers."""
    target = problem_of(who(Kind.VERIFIER, target_carrier=Carrier.PROBS, draft_carrier=Carrier.PROBS), "context").target
    assert target.total == ONE
    requests = np.arange(FIRST, FIRST + 300)
    drawn = words(SEED, "drafts/context", requests, 4)
    found = drafts.drawn(target, 4, SEED, requests)
    for i in range(300):
        context = 0
        for j in range(4):
            place, law = int(drawn[i, j]) >> 40, target.proposal[target.row_of[j, context]].tolist()
            token = next(t for t in range(len(law)) if place < sum(law[: t + 1]))
            assert found[i, j] == token
            context = int(target.context_of[token])


def test_every_place_goes_to_one_token() -> None:
    """A law over 8: each token has exactly its places, the first and the last of them included."""
    law = np.array([[1, 0, 4, 3], [0, 2, 6, 0]])
    target = SimpleNamespace(
        name="eighths",
        total=8,
        proposal_weights=lambda: law,
        row_of=np.array([[0, 0], [0, 1]]),
        context_of=np.array([0, 1, 0, 1]),
        patterns=("none",),
        starts=1,
    )
    requests = np.arange(400)
    places = words(SEED, "drafts/eighths", requests, 2) >> np.uint64(61)
    assert set(places.flatten().tolist()) == set(range(8))
    found = drafts.drawn(cast(Any, target), 2, SEED, requests)
    first = [0, 2, 2, 2, 2, 3, 3, 3]
    for i in range(400):
        assert found[i, 0] == first[places[i, 0]]
        second = first if found[i, 0] in (0, 2) else [1, 1, 2, 2, 2, 2, 2, 2]
        assert found[i, 1] == second[places[i, 1]]


def test_patterns_void_their_drafts() -> None:
    target = problem_of(VERIFIER, "void").target
    requests = np.arange(FIRST, FIRST + 400)
    for wanted in (False, True):
        given = drafts.given(target, 4, SEED, requests, wanted)
        assert given.dtype == np.int32
        for row, number in zip(given, pattern_of(target, requests), strict=True):
            void = invalidated(target.patterns[number], 4)
            assert (row == INVALIDATED).tolist() == list(void)
            assert wanted == all(value == WANTED for value, no in zip(row, void, strict=True) if not no) or all(void)
