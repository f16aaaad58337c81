"""Requests with fewer drafts than the batch's depth: their law, how they are dealt and counted, who ignores them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from one_thread import one_thread
from planted_samplers import Changed

from pp3 import Batch, Description, Emission, qualify
from pp3.harness.cells import Event, enumerate_cells
from pp3.harness.joint import joint_law, tokens_of
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import ABSENT, INVALIDATED, WANTED, Carrier, Kind
from pp3.harness.samplers.torch_controls import StandardRejection
from pp3.harness.samplers.torch_stateful import Stateful
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally, pattern_of
from pp3.harness.trial import guard, problems
from pp3.harness.trial.run import batch_of
from pp3.harness.trial.seen import seen
from pp3.harness.verdict import Verdict
from pp3.targets import drafts_of, pairs

SEED = Seed(bytes(range(32)))
REQUESTS = 4_000  # of each law
WHO = Description(name="it", kind=Kind.VERIFIER, target_carrier=Carrier.PROBS, ragged=True)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that spin on a shared machine cost more than they bring."""
    with one_thread():
        yield


def ragged(who: Description = WHO, count: int = 401) -> Batch:
    """Some requests of the pair."""
    found, left = problems.choose(who, ["ragged"])
    assert found, left
    return batch_of(found[0], who, SEED, 1001, 1001 + count, "cpu")


# The law


@pytest.mark.parametrize("block", [False, True])
def test_a_short_round_has_the_law_of_a_shallower_batch(block: bool) -> None:
    """Of whole rounds: what comes after the drafts that a request has changes nothing."""
    pair = pairs.build("whole")
    who = replace(WHO, rule="block" if block else "standard")
    whole = seen(pair, who)
    assert whole.block == block
    for count in range(pair.depth):
        less = replace(whole, pair=replace(pair, row_of=pair.row_of[: count + 1]))
        short = joint_law(Law(whole), pair.depth, f"short-{count}")
        assert short == joint_law(Law(less), count, "none")
        assert sum(short.values()) == 1
        lengths = [Fraction(0)] * (pair.depth + 1)
        for code, mass in short.items():
            lengths[len(tokens_of(code, pair.vocab)) - 1] += mass
        if not block:
            assert Law(whole).lengths(pair.depth, f"short-{count}") == lengths


def test_cells_of_the_bonus_lie_at_their_own_positions() -> None:
    law = Law(seen(pairs.build("ragged"), replace(WHO, kind=Kind.PIPELINE)))
    cells = enumerate_cells(law, 4)
    assert len({cell.id for cell in cells}) == len(cells)
    rates = {(cell.event, cell.position): cell.rate for cell in cells if cell.position >= 0}
    quarter = Fraction(1, 4)
    for j, drafts in enumerate((3, 2, 2, 1)):  # patterns with a draft at position j
        assert rates[Event.PROPOSAL, j] == drafts * quarter
        assert rates[Event.TOKEN, j] == drafts * quarter * law.reached(4, "none")[j, 0]
    bonus = {j: quarter * law.reached(4, "none")[j, 0] for j in (0, 1, 3, 4)}
    assert {j: rate for (event, j), rate in rates.items() if event is Event.BONUS} == bonus
    for cell in cells:
        if cell.event is Event.LENGTH:
            assert cell.atoms.tolist() == [*range(drafts_of(cell.pattern, 4) + 1)]


# What is dealt


@pytest.mark.parametrize("kind", [Kind.VERIFIER, Kind.PIPELINE])
def test_drafts_end_where_the_pattern_says(kind: Kind) -> None:
    batch = ragged(replace(WHO, kind=kind))
    counts = np.array([4, 3, 1, 0])[pattern_of(batch.target, batch.requests)]
    assert batch.num_drafts.dtype == np.int32
    assert batch.num_drafts.tolist() == batch.tensors.num_drafts.tolist() == counts.tolist()
    assert batch.tensors.num_drafts.dtype is torch.int32
    there = np.arange(4) < counts[:, None]
    assert (batch.given[~there] == ABSENT).all()
    assert batch.tensors.given.tolist() == batch.given.tolist()
    if kind is Kind.PIPELINE:
        assert (batch.given[there] == WANTED).all()
    else:
        assert (batch.given[there] >= 0).all()
        assert (batch.draft_ids.numpy() == np.where(there, batch.given, INVALIDATED)).all()
    with pytest.raises(ValueError, match="read-only"):
        batch.num_drafts[0] = 4
    assert batch.take(np.array([2, 0]), 2).num_drafts.tolist() == counts[[2, 0]].tolist()


def test_a_batch_of_one_depth_is_not_ragged() -> None:
    for name in ("near", "void"):
        (problem,), _ = problems.choose(WHO, [name])
        batch = batch_of(problem, WHO, SEED, 0, 20, "cpu")
        assert batch.num_drafts.tolist() == [4] * 20
        assert not (batch.given == ABSENT).any()


# Who takes it


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        pytest.param(replace(WHO, ragged=False), "the sampler does not declare ragged", id="undeclared"),
        pytest.param(replace(WHO, kind=Kind.PROPOSAL), "which this kind (proposal) never meets", id="proposal"),
        pytest.param(replace(WHO, rule="block"), "whole rounds only", id="block"),
    ],
)
def test_it_is_left_out_with_a_reason(who: Description, reason: str) -> None:
    found, left = problems.choose(who, ["ragged"])
    assert not found
    assert reason in left["ragged"]
    assert "ragged" not in problems.required(who)


def test_one_that_takes_no_void_drafts_may_take_fewer() -> None:
    found, left = problems.choose(replace(WHO, void="unsupported"), ["void", "ragged"])
    assert ([problem.name for problem in found], [*left]) == (["ragged"], ["void"])


def test_it_is_needed_where_it_is_declared() -> None:
    for kind in (Kind.VERIFIER, Kind.PIPELINE):
        assert "ragged" in problems.required(replace(WHO, kind=kind))
        assert "ragged" not in problems.required(replace(WHO, kind=kind, ragged=False))
    assert "ragged" not in problems.required(Description(name="it", kind=Kind.PLAIN, ragged=True))


# What is counted


@pytest.mark.parametrize("on", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("kept", [0, 1, 3, 4])
def test_each_token_is_counted_for_what_it_is(on: Callable[[Any], Any], kept: int) -> None:
    """All requests keep so many drafts, or all that they have; what lies after that is not looked at."""
    batch = ragged(replace(WHO, kind=Kind.PIPELINE))
    counts = batch.num_drafts
    lengths = np.minimum(kept, counts)
    tokens = np.where(np.arange(5) <= lengths[:, None], np.arange(5), -7)
    drafts = np.where(np.arange(4) < counts[:, None], np.arange(4), -9)
    (problem,), _ = problems.choose(replace(WHO, kind=Kind.PIPELINE), ["ragged"])
    tally = Tally(problem.target, 4, problem.cells)
    parts = {"tokens": tokens, "num_sampled": lengths + 1, "drafts": drafts, "proposed": drafts, "status": counts * 0}
    tally.add(batch, Emission(**{name: on(value.astype(np.int64)) for name, value in parts.items()}))
    assert not any(tally.breaches.values()), tally.breaches
    found: dict[tuple[Event, int], int] = {}
    for cell, histogram in zip(tally.cells, tally.histograms(), strict=True):
        key = cell.event, cell.position
        found[key] = found.get(key, 0) + sum(histogram)
    for j in range(5):
        assert found.get((Event.BONUS, j), 0) == ((lengths == j) & (counts == j)).sum()
        if j < 4:
            assert found[Event.TOKEN, j] == ((lengths >= j) & (counts > j)).sum()
            assert found[Event.RESIDUAL, j] == ((lengths == j) & (counts > j)).sum()
            assert found[Event.PROPOSAL, j] == (counts > j).sum()
    assert found[Event.LENGTH, -1] == len(batch)


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        pytest.param({"num_sampled": 2}, "illegal-length", id="a token more than drafts and a bonus"),
        pytest.param({"proposed": -1}, "", id="no proposal where none is wanted"),
        pytest.param({"drafts": 20}, "", id="no draft where there is none"),
        pytest.param({"tokens": 20}, "illegal-token", id="a token that there is not"),
    ],
)
def test_a_request_without_drafts(change: dict[str, int], breach: str) -> None:
    who = replace(WHO, kind=Kind.PIPELINE)
    batch = ragged(who, 3).take(np.array([2]), 1)
    assert batch.num_drafts.tolist() == [0]
    (problem,), _ = problems.choose(who, ["ragged"])
    shapes = {"tokens": (1, 5), "num_sampled": (1,), "drafts": (1, 4), "proposed": (1, 4), "status": (1,)}
    given = {"tokens": 3, "num_sampled": 1, "drafts": -9, "proposed": -9, "status": 0} | change
    tally = Tally(problem.target, 4, problem.cells)
    tally.add(batch, Emission(**{name: np.full(shape, given[name]) for name, shape in shapes.items()}))
    assert {name for name, count in tally.breaches.items() if count} == ({breach} if breach else set())


# Who ignores it


@dataclass
class Ignores(StandardRejection):
    """Standard rejection of a batch in which a bug changed some tensors, and of what it came to."""

    change: Callable[[Batch], dict[str, Any]]
    after: Callable[[Batch, Emission], Emission] = lambda batch, emission: emission

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        return self.after(batch, super().run(Changed(batch, **self.change(batch))))  # type: ignore[arg-type]


def packed(batch: Batch) -> dict[str, Any]:
    """Drafts and their laws one after the other, cut as if every request had the same number."""
    there = batch.draft_ids >= 0
    order = (~there).flatten().long().argsort(stable=True)
    ids, laws = batch.draft_ids.flatten()[order], batch.draft_probs.flatten(0, 1)[order]
    return {"draft_ids": ids.view_as(batch.draft_ids), "draft_probs": laws.view_as(batch.draft_probs)}


def last_row(batch: Batch) -> dict[str, Any]:
    """The row of each request's bonus is that of the deepest one."""
    rows, target = torch.arange(len(batch)), batch.target_probs.clone()
    target[rows, batch.tensors.num_drafts.long()] = batch.target_probs[:, -1]
    return {"target_probs": target}


IGNORANT: dict[str, Ignores] = {
    "absent drafts are judged as token 0": Ignores(lambda b: {"draft_ids": b.draft_ids.clamp(min=0)}),
    "absent drafts are kept": Ignores(
        lambda b: {},
        lambda b, e: replace(e, num_sampled=torch.where(e.num_sampled > b.tensors.num_drafts, 5, e.num_sampled)),
    ),
    "drafts of requests run together": Ignores(packed),
    "every bonus from the last row": Ignores(last_row),
    "no bonus after fewer drafts": Ignores(
        lambda b: {},
        lambda b, e: replace(
            e,
            num_sampled=torch.where(b.tensors.num_drafts < b.depth, e.num_sampled.clamp(max=3), e.num_sampled),
        ),
    ),
    "a request without drafts emits nothing": Ignores(
        lambda b: {}, lambda b, e: replace(e, num_sampled=e.num_sampled * (b.tensors.num_drafts > 0))
    ),
}


@pytest.mark.parametrize("planted", IGNORANT.values(), ids=IGNORANT)
def test_a_sampler_that_ignores_it_is_found(planted: Ignores) -> None:
    report = qualify(planted, targets=["ragged"], requests=REQUESTS, device="cpu")
    assert report.verdict in (Verdict.FAIL, Verdict.INVALID), str(report)
    assert all("ragged" in reason or "the fit of all laws" in reason for reason in report.reasons)


@pytest.mark.parametrize("sampler", [StandardRejection(), Stateful()], ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("counter", [1, 2])
def test_what_takes_it_passes(sampler: Any, counter: int) -> None:
    problem = problems.choose(sampler.describe(), ["ragged"])[0]
    assert problem
    report = qualify(sampler, device="cpu", targets=["ragged"], counter=counter)
    assert report.verdict is Verdict.PASS, str(report)


def test_the_guard_takes_it() -> None:
    """A verifier's drafts are those that it was given, absent ones included."""
    batch = ragged()
    found = guard.run(StandardRejection(), batch, Kind.VERIFIER)
    assert found.drafts.tolist() == batch.given.tolist()
    assert (found.num_sampled.numpy() <= batch.num_drafts + 1).all()
