"""The rounds of a stream: who comes back where, what never comes twice, and that a sampler's state by slot shows."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from one_thread import one_thread

from pp3 import Batch, Report, qualify
from pp3.harness.samplers.contract import Description, Kind
from pp3.harness.samplers.stream import ROUNDS, Stream, Turn, alone, cycle, slots_for
from pp3.harness.samplers.tensors import BASE_POS
from pp3.harness.samplers.torch_stateful import State, Stateful, Use, chosen, mixed, uniform
from pp3.harness.seeds import Seed
from pp3.harness.tally import start_of
from pp3.harness.trial import launches, run
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.verdict import Verdict

SEED = Seed(bytes(range(32)))
FIRST = 1001  # no multiple of anything
REQUESTS = 4_000  # of each law: two epochs and more
WHO = Description(name="it", kind=Kind.VERIFIER, draft_carrier="logits", greedy=True, ragged=True)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that spin on a shared machine cost more than they bring."""
    with one_thread():
        yield


def turns(stream: Stream, requests: int) -> list[Turn]:
    """The batches of a stream of so many requests, the last one smaller."""
    end = stream.first + requests
    lows = range(stream.first, end, stream.rows)
    return [stream.turn(low, min(stream.rows, end - low)) for low in lows]


# Patterns, starts and rows a batch: rows keep their class, change it, or one cut leaves a single round.
STREAMS = {
    "one class": Stream(seed=SEED, name="x", first=FIRST, rows=31),
    "patterns": Stream(seed=SEED, name="x", first=FIRST, rows=50, patterns=4),
    "classes that stay": Stream(seed=SEED, name="x", first=FIRST, rows=48, starts=3),
    "classes that move": Stream(seed=SEED, name="x", first=FIRST, rows=49, starts=3),
    "classes that move, patterns": Stream(seed=SEED, name="x", first=FIRST, rows=98, patterns=2, starts=3),
    "eight rows": Stream(seed=SEED, name="x", first=FIRST, rows=8),
    "one row": Stream(seed=SEED, name="x", first=FIRST, rows=1),
    "too few rows": Stream(seed=SEED, name="x", first=FIRST, rows=23, starts=3),
    "patterns that are cut": Stream(seed=SEED, name="x", first=FIRST, rows=99, patterns=2, starts=3),
}
BACK = {name: stream for name, stream in STREAMS.items() if stream.rounds > 1}


def test_which_streams_have_rounds() -> None:
    assert set(STREAMS) - set(BACK) == {"one row", "too few rows", "patterns that are cut"}
    assert {stream.rounds for stream in BACK.values()} == {ROUNDS} == {4}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("last", [0, 1])
def test_identities_and_slots(stream: Stream, last: int) -> None:
    """Rounds in order; in an epoch an identity keeps its slot and its class; nobody comes twice to one round."""
    dealt = turns(stream, 11 * stream.rows + last * (stream.rows // 2))
    places: dict[tuple[int, int], int] = {}
    classes: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    for number, turn in enumerate(dealt):
        n, low = len(turn.identities), stream.first + number * stream.rows
        whole = n == stream.rows
        epoch = number // stream.rounds if whole else -(-number // stream.rounds)
        assert turn.round_number == (number % stream.rounds if whole else 0)
        assert turn.generation.tolist() == [epoch] * n
        assert turn.num_slots == slots_for(stream.rows)
        assert len(set(turn.identities.tolist())) == len(set(turn.slots.tolist())) == n
        assert 0 <= turn.slots.min() <= turn.slots.max() < turn.num_slots
        rows = np.arange(low, low + n) // stream.patterns % stream.starts
        for identity, slot, row in zip(turn.identities.tolist(), turn.slots.tolist(), rows.tolist(), strict=True):
            assert places.setdefault((epoch, identity), slot) == slot
            assert classes.setdefault(identity, row) == row or stream.rounds == 1
            assert (identity, turn.round_number) not in seen
            seen.add((identity, turn.round_number))
    epochs = [{i for e, i in places if e == epoch} for epoch in range(len(dealt) // stream.rounds + 1)]
    assert sum(map(len, epochs)) == len(set.union(*epochs)) == len(places)  # no identity of one epoch in another
    assert max(map(max, filter(None, epochs))) < stream.first + 12 * stream.rows  # nor of the problem that follows


@pytest.mark.parametrize("stream", BACK.values(), ids=BACK)
def test_rows_change_hands_and_slots_too(stream: Stream) -> None:
    dealt = turns(stream, 2 * ROUNDS * stream.rows)
    for one, after in pairwise(dealt):
        assert (one.identities != after.identities).all()
    first, second = dealt[:ROUNDS], dealt[ROUNDS:]
    back = np.intersect1d(first[0].identities, first[1].identities)
    assert len(back) >= stream.rows - stream.period  # nearly everybody comes back at once
    held = [set(np.concatenate([turn.slots for turn in epoch]).tolist()) for epoch in (first, second)]
    assert len(held[0] & held[1]) >= stream.rows  # the same slots, for others
    assert any(turn.slots.tolist() != sorted(turn.slots.tolist()) for turn in dealt)
    moving = stream.starts > 1 and stream.rows % stream.period > 0
    rows = np.arange(stream.first, stream.first + stream.rows) // stream.patterns % stream.starts
    later = np.arange(stream.rows + stream.first, stream.first + 2 * stream.rows) // stream.patterns % stream.starts
    assert (rows != later).all() == moving


def test_a_turn_follows_from_its_own_batch() -> None:
    """Whatever came before, and not from the order in which it is asked for; another seed or name is another deal."""
    stream = STREAMS["classes that move"]
    one, again = stream.turn(FIRST + 6 * 49, 49), turns(stream, 8 * 49)[6]
    for name in ("identities", "slots", "generation"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, name)[0] = 1
    for other in (replace(stream, name="y"), replace(stream, seed=Seed(bytes(32)))):
        assert not np.array_equal(other.turn(FIRST + 6 * 49, 49).slots, one.slots)
    part = one.take(np.array([3, 1]))
    assert part.identities.tolist() == one.identities[[3, 1]].tolist()
    assert (part.round_number, part.num_slots) == (one.round_number, one.num_slots)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_a_batch_of_no_stream(size: int) -> None:
    turn = alone(SEED, "x", np.arange(FIRST, FIRST + size))
    assert turn.identities.tolist() == [*range(FIRST, FIRST + size)]
    assert (turn.round_number, turn.num_slots, turn.generation.sum()) == (0, 16, 0)
    assert len(set(turn.slots.tolist())) == size


def test_a_cycle_leaves_nobody_and_no_class() -> None:
    classes = np.arange(3000) % 7 % 3
    source = cycle(classes, np.random.default_rng(1))
    assert sorted(source.tolist()) == [*range(3000)]
    assert (source != np.arange(3000)).all()
    assert (classes[source] == classes).all()


# What a trial deals


def dealt(trial: Trial) -> dict[str, list[Batch]]:
    """The batches of every problem, as its sampler is given them."""
    found: dict[str, list[Batch]] = {problem.name: [] for problem in trial.problems}

    class Notes:
        def describe(self) -> Description:
            return trial.who

        def run(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
            found[batch.target.name].append(batch)
            return torch.zeros(len(batch), batch.depth + 1, dtype=torch.int64), torch.ones(len(batch)).long()

    run.run(trial, Notes(), SEED, "cpu", lambda stage, done, total: None)
    return found


def test_a_trial_is_dealt_as_streams() -> None:
    """Requests in order; no seed is at a position twice, in one problem or in two; temperatures stay."""
    trial = make(TrialSpec(requests=900), WHO, "test")
    taken: set[tuple[int, int]] = set()
    count = 0
    for name, batches in dealt(trial).items():
        heats: dict[int, float] = {}
        problem = next(problem for problem in trial.problems if problem.name == name)
        first, end = trial.span_of(problem)
        assert np.concatenate([batch.requests for batch in batches]).tolist() == [*range(first, end)]
        assert max(int(batch.generation.max()) for batch in batches) >= 1, name
        assert {batch.round_number for batch in batches} == {0, 1, 2, 3}, name
        for batch in batches:
            assert (batch.pos == BASE_POS + batch.round_number * (batch.depth + 1)).all()
            assert batch.slots.tolist() == batch.held.slots.tolist()
            assert batch.generation.tolist() == batch.held.generation.tolist()
            assert (batch.seeds - batch.identities).unique().numel() == 1
            starts = start_of(batch.target, batch.requests)
            classes = batch.held.identities // len(batch.target.patterns) % batch.target.starts
            assert (starts == classes).all()
            for identity, heat in zip(batch.identities.tolist(), batch.temperature.tolist(), strict=True):
                assert heats.setdefault(identity, heat) == heat
            for seed, pos in zip(batch.seeds.tolist(), batch.pos.tolist(), strict=True):
                taken |= {(seed, pos + j) for j in range(batch.depth + 1)}
            count += len(batch) * (batch.depth + 1)
    assert len(taken) == count


def test_what_the_harness_draws_does_not_depend_on_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts and coins are a request's, whoever holds it."""
    trial = make(TrialSpec(targets=["mixed", "ragged"], requests=500), WHO, "test")
    one = dealt(trial)
    monkeypatch.setitem(launches.ROWS, "cpu", 41)
    other = dealt(trial)
    for name in one:
        assert len(one[name]) != len(other[name])
        for what in ("draft_ids", "coins", "final_coins", "temperature"):
            parts = [torch.cat([getattr(batch, what) for batch in found[name]]) for found in (one, other)]
            assert torch.equal(*parts), what


# State


class Stale(Stateful):
    """The first request of a slot leaves its state to all that follow."""

    def news(self, state: State, slots: torch.Tensor, batch: Batch) -> torch.Tensor:
        return state.generation[slots] < 0


class ByRow(Stateful):
    """State of a row, whoever stands there."""

    def places(self, batch: Batch) -> torch.Tensor:
        return torch.arange(len(batch))


class Standing(Stateful):
    """Every round begins at the same position, with the same random numbers."""

    def advance(self, state: State, slots: torch.Tensor, positions: int) -> None:
        pass


class Creeping(Stateful):
    """A round goes on by one position, so that four of its five random numbers come again one place before."""

    def advance(self, state: State, slots: torch.Tensor, positions: int) -> None:
        state.position[slots] += 1


def judged(sampler: Stateful, *targets: str) -> Report:
    """What becomes of it."""
    return qualify(sampler, targets=targets, requests=REQUESTS, device="cpu")


@pytest.mark.parametrize("counter", [1, 2])
def test_state_that_is_kept_as_it_should_be_passes(counter: int) -> None:
    report = qualify(Stateful(), device="cpu", counter=counter)
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("target", ["mixed", "mixed-greedy"])
@pytest.mark.parametrize("planted", [Stale(), ByRow()], ids=["of who had the slot before", "by row"])
def test_state_of_another_is_found(planted: Stateful, target: str) -> None:
    report = judged(planted, target)
    assert report.verdict is Verdict.FAIL, str(report)
    assert any(": " in reason and target in reason for reason in report.reasons), str(report)


def test_random_numbers_of_the_round_before_are_found() -> None:
    """Four equal rounds are one, counted four times: too far from the law for as many."""
    report = judged(Standing(), "near")
    assert report.verdict is Verdict.FAIL, str(report)


def test_random_numbers_that_come_again_at_another_position_are_found() -> None:
    report = judged(Creeping(), "far")
    assert report.verdict is Verdict.FAIL, str(report)
    assert "a slot's first token equal to its second of the launch before" in report.reasons[0]


def test_a_problem_begins_with_a_reset() -> None:
    """Or else the state is that of a problem of another size."""

    class Never(Stateful):
        def reset(self) -> None:
            pass

    assert judged(Stateful(), "mixed", "mixed-greedy").verdict is not Verdict.FAIL
    report = judged(Never(), "mixed", "mixed-greedy")
    assert report.verdict is Verdict.INVALID, str(report)
    assert "mixed-greedy: raised IndexError at torch_stateful.py" in report.reasons[0]


# The control's own parts


def test_the_mixing_is_splitmix64() -> None:
    """Its first outputs from state 0, as published with the algorithm."""
    golden = 0x9E3779B97F4A7C15
    states = [(step * golden + (1 << 63)) % (1 << 64) - (1 << 63) for step in range(3)]
    found = [int(value) % (1 << 64) for value in mixed(torch.tensor(states))]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_a_uniform_number_is_a_seeds_at_a_position() -> None:
    seeds, positions = torch.arange(300)[:, None], torch.arange(64, 84)[None, :]
    drawn = torch.stack([uniform(seeds, positions, use) for use in Use])
    assert len(set(drawn.flatten().tolist())) > drawn.numel() - 3  # 18,000 of 2^32 numbers: 0.04 pairs expected
    assert 0 <= drawn.min() <= drawn.max() < 1
    assert abs(float(drawn.mean()) - 0.5) < 6 / (12 * drawn.numel()) ** 0.5  # six sigma


def test_a_choice_is_the_token_whose_share_holds_the_number() -> None:
    law = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]]).double()
    places = torch.tensor([0, 0.25 - 2**-32, 0.25, 0.75 - 2**-32, 0.75, 1 - 2**-32], dtype=torch.float64)
    assert chosen(law.expand(6, 6), places).tolist() == [1, 1, 3, 3, 4, 4]
