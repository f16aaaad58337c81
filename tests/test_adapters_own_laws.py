"""The laws that our own sampler is held to: its tickets, spread over a pair's tokens."""

from typing import Any

import numpy as np
import pytest
import torch
from own_pairs import OURS, law, problem

from pp3.harness.inversion import invert
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.trial.problems import choose
from pp3.harness.trial.seen import FINE, seen
from pp3.harness.trial.tickets import VOCAB, nearest_bf16, places, ticketed
from pp3.kernels import reference
from pp3.targets import pairs
from pp3.targets.pairs import build
from pp3.targets.target import ONE

DIGESTS = {
    "near": "751633cc85bf0032",
    "far": "2b06c5d89dd944d1",
    "equal": "5d001c7611be13c6",
    "void": "ac4c9eef82311e61",
    "context": "20e769a8097e1d77",
    "mixed": "af6d07a4929c0731",
    "peaked": "8129d85ad8da1f8f",
    "shared-noise": "3711dce06bf60541",
    "whole": "701c24e056b1040b",
    "greedy": "6ca1c3cd73919089",
    "mixed-greedy": "1b035ec371692946",
}


@pytest.mark.parametrize("name", OURS)
def test_the_laws_do_not_change_unnoticed(name: str) -> None:
    """A receipt names a law by this digest; it covers the tickets, and so the logits."""
    assert problem(name).law_sha256 == law(name).pair.digest()
    assert law(name).pair.digest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", OURS)
def test_tokens_lie_at_their_places_and_nothing_beside_them(name: str) -> None:
    pair, padded = build(name), law(name).pair
    at = places(name)
    assert sorted(at.tolist()) == list(range(VOCAB))
    assert set(at[: pair.vocab].tolist()) != set(range(pair.vocab))
    at, beside = at[: pair.vocab], at[pair.vocab :]
    assert (padded.context_of[at] == pair.context_of).all()
    assert (padded.row_of == pair.row_of).all()
    assert (padded.name, padded.patterns, padded.joint, padded.starts) == (
        name,
        pair.patterns,
        pair.joint,
        pair.starts,
    )
    if name != "equal":
        assert (padded.weights[:, at] == pair.weights).all()
    tables = law(name).tables
    assert (padded.weights[:, beside] == 0).all()
    assert (padded.draft_weights[:, beside] == 0).all()
    assert (tables.target_probs[:, beside] == 0).all()
    assert np.isneginf(tables.draft_logits[:, beside]).all()
    assert (np.isneginf(tables.draft_logits[:, at]) == (pair.draft_weights == 0)).all()


def test_pairs_are_spread_each_in_its_own_way() -> None:
    assert len({places(name).tobytes() for name in pairs.NAMES}) == len(pairs.NAMES)


@pytest.mark.parametrize("name", OURS)
def test_every_sampled_request_has_the_temperature_of_a_ticket(name: str) -> None:
    pair, padded = build(name), law(name).pair
    assert [heat > 0 for heat in padded.temperatures] == [heat > 0 for heat in pair.temperatures]
    assert set(padded.temperatures) <= {0.0, reference.TAU}


@pytest.mark.parametrize("name", OURS)
def test_draft_logits_are_the_nearest_bf16(name: str) -> None:
    """Of log-probabilities times tau; torch rounds them too."""
    pair = build(name)
    given = law(name).tables.draft_logits[:, places(name)[: pair.vocab]]
    with np.errstate(divide="ignore"):
        wide = np.log(pair.draft_weights / ONE) * float(np.float32(reference.TAU))
    rounded = torch.tensor(wide.astype(np.float32)).to(torch.bfloat16).float().numpy()
    assert given.tobytes() == rounded.tobytes()


def test_half_way_is_rounded_to_even() -> None:
    """1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6."""
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -np.inf, 0.0])
    assert nearest_bf16(values).tolist() == [1, 1 + 2.0**-6, -1, 1 + 2.0**-7, -np.inf, 0]


@pytest.mark.parametrize("name", OURS)
def test_each_end_of_a_tokens_tickets_draws_it(name: str) -> None:
    """The law is what the reference draws: first and last draw value of every token of every sampled row.

    The words are reached by the counter (harness/inversion.py): draw value d is w0 >> 8.
    """
    judged = law(name)
    for row in np.flatnonzero(judged.pair.heats > 0):
        tickets = judged.proposal[row]
        ends = np.cumsum(tickets)
        has = np.flatnonzero(tickets)
        wanted = np.concatenate([has, has])
        draws = np.concatenate([(ends - tickets)[has], ends[has] - 1])
        words = np.zeros((len(draws), 4), np.uint32)
        words[:, 0] = draws << 8
        rounds, positions = invert(words, 0)
        logits = np.repeat(judged.tables.draft_logits[row][None], len(draws), axis=0)
        sampled, keys = np.ones(len(draws), np.bool_), np.zeros(len(draws), np.uint64)
        drawn = reference.propose(logits, sampled, keys, rounds, positions)
        assert drawn.token.tolist() == wanted.tolist()
        assert ends[-1] == ONE


@pytest.mark.parametrize("name", OURS)
def test_temperature_0_drafts_the_first_of_the_ranks(name: str) -> None:
    judged = law(name)
    first = reference.allocate(judged.tables.draft_logits).first
    for row in np.flatnonzero(judged.pair.heats == 0):
        assert np.flatnonzero(judged.proposal[row]).tolist() == [first[row]]
        assert np.flatnonzero(judged.weights[row]).tolist() == [judged.pair.weights[row].argmax()]


@pytest.mark.parametrize("name", OURS)
def test_laws_are_integers_over_the_tickets_total(name: str) -> None:
    judged = law(name)
    assert judged.total == ONE
    for rows in (judged.weights, judged.proposal):
        assert (rows.sum(axis=1) == ONE).all()
    assert (judged.tables.target_probs.astype(np.float64) * ONE == judged.weights).all()
    assert (judged.kept == np.minimum(judged.weights, judged.proposal)).all()
    assert (judged.void == judged.weights).all()


def test_equal_laws_are_the_tickets_themselves() -> None:
    judged = law("equal")
    assert (judged.weights == judged.proposal).all()
    assert (judged.weights > 0).sum() == (build("equal").weights > 0).sum()


def test_a_pair_too_wide_is_refused() -> None:
    wide = np.full((2, VOCAB + 1), ONE // (VOCAB + 1), np.int64)
    wide[:, 0] += ONE - wide.sum(axis=1)
    pair = pairs.Pair(
        name="wide",
        why="",
        weights=wide,
        draft_weights=wide.copy(),
        row_of=np.arange(2)[:, None],
        context_of=np.zeros(VOCAB + 1, np.int64),
    )
    with pytest.raises(ValueError, match="wide: 41 tokens; want at most 40"):
        ticketed(pair)


def declared(**fields: Any) -> Description:
    """A sampler of tickets that declares more."""
    given: dict[str, Any] = {
        "name": "it",
        "kind": Kind.PIPELINE,
        "target_carrier": Carrier.PROBS,
        "draft_carrier": Carrier.TICKETS,
        "min_vocab": 32,
        "greedy": True,
    }
    return Description(**given | fields)


def test_who_else_may_draft_tickets() -> None:
    """A proposal can; a verifier is given none; logits of the target make `equal` a matter of rounding."""
    found, left = choose(declared(kind=Kind.PROPOSAL), pairs.NAMES)
    assert {problem.name for problem in found} == set(OURS) - {"void"}
    found, left = choose(declared(kind=Kind.VERIFIER), pairs.NAMES)
    assert not found
    assert left["near"] == "a batch has no tickets of given drafts: they are those that a proposal makes"
    found, left = choose(declared(target_carrier=Carrier.LOGITS), pairs.NAMES)
    assert set(left) == {"ragged"}
    assert {problem.target.total for problem in found} == {FINE}
    _, left = choose(declared(max_vocab=39), ["near"])
    assert left == {"near": "vocabulary 40; the sampler declares 32 to 39"}


def test_laws_of_logits_and_tickets_are_the_tickets_on_a_finer_grid() -> None:
    fine, own = seen(build("near"), declared(target_carrier=Carrier.LOGITS)), law("near")
    assert (fine.proposal == own.proposal * (FINE // ONE)).all()
