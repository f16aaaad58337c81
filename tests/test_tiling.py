"""What counts must add up to: honest ones do, of every sampler kind, and one event more or fewer does not."""

import copy
from typing import Any

import pytest
import torch

from pp3.harness.cells import Event
from pp3.harness.design import cells_of
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import tiling
from pp3.harness.places import first_part
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.harness.trial import run as trials
from pp3.harness.trial.plan import TrialSpec, make
from pp3.targets import NAMES, build

DEPTH, PARTS = 4, (311, 312)
Found = dict[str, list[int]]


@pytest.fixture(scope="module")
def counted() -> dict[str, Found]:
    """Counts of our own sampler in two parts, by target."""
    found = {}
    for name in NAMES:
        target = build(name)
        tally = Tally(target, DEPTH, cells_of(target, DEPTH))
        first = 5
        for part in PARTS:
            batch = sampled_batch(target, DEPTH, 4, Seed(bytes(range(32))), first, first + part)
            tally.add(batch, ReferenceSampler().run(batch))
            tally.flush()
            first += part
        found[name] = {cell.id: counts for cell, counts in zip(tally.cells, tally.histograms(), strict=True)}
    return found


def broken(name: str, found: Found, parts: tuple[int, ...] = PARTS) -> list[str]:
    """Which sums are not what they must be."""
    return [what for what, got, wanted in tiling.of(cells_of(build(name), DEPTH), found, DEPTH, parts) if got != wanted]


@pytest.mark.parametrize("name", NAMES)
def test_honest_counts_add_up(name: str, counted: dict[str, Found]) -> None:
    """And to nothing else: neither of one part nor of other parts of the same sum."""
    assert broken(name, counted[name]) == []
    assert len(tiling.of(cells_of(build(name), DEPTH), counted[name], DEPTH, PARTS)) > 20
    assert broken(name, counted[name], (sum(PARTS) - 1,))
    assert broken(name, counted[name], (sum(PARTS),))  # a pair across the border between the parts


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_held_by_a_sum(name: str, counted: dict[str, Found]) -> None:
    """One event more, in any atom of any cell; one fewer where there is one; none that a law forbids is left out."""
    for cell in cells_of(build(name), DEPTH):
        for change in (1, -1):
            found = copy.deepcopy(counted[name])
            inside = found[cell.id][:-1]
            at = inside.index(max(inside))
            found[cell.id][at] += change
            if found[cell.id][at] >= 0:
                assert broken(name, found), (cell.id, change)


@pytest.mark.parametrize("name", ["context", "invalidated"])
def test_a_forbidden_outcome_is_an_event_too(name: str, counted: dict[str, Found]) -> None:
    """Of a length none tells how many tokens it had, so that tokens are left alone then."""
    for cell in cells_of(build(name), DEPTH):
        found = copy.deepcopy(counted[name])
        found[cell.id][-1] += 1
        assert broken(name, found), cell.id


def test_an_event_between_two_lengths_moves_tokens(counted: dict[str, Found]) -> None:
    """Of the same sum, and yet one position more or fewer was reached."""
    found = copy.deepcopy(counted["context"])
    (lengths,) = [cell.id for cell in cells_of(build("context"), DEPTH) if cell.event is Event.LENGTH]
    found[lengths][1] -= 1
    found[lengths][2] += 1
    assert broken("context", found)


@pytest.mark.parametrize(
    "half",
    [
        pytest.param([1, 2, 4], id="larger"),
        pytest.param([1, 2], id="too-short"),
        pytest.param([1, 2, 3, 0], id="too-long"),
        pytest.param([], id="none"),
    ],
)
def test_a_half_that_is_no_part(half: list[int]) -> None:
    with pytest.raises(VerificationError, match=r"^a step: a/cell: its first half is no part of its counts$"):
        tiling.check_halves({"a/cell": [1, 2, 3]}, {"a/cell": half}, "a step")


@pytest.mark.parametrize("half", [[0, 0, 0], [1, 2, 3], [0, 2, 1]])
def test_a_half_that_is_one(half: list[int]) -> None:
    tiling.check_halves({"a/cell": [1, 2, 3]}, {"a/cell": half}, "a step")


@pytest.mark.parametrize("sampler", [Multinomial(), StandardRejection()], ids=["plain", "verifier"])
def test_counts_of_a_trial_add_up(sampler: Any) -> None:
    """Every problem, its halves and its first half alone; and one event more in any cell that a sum holds does not."""
    torch.set_num_threads(1)
    trial = make(TrialSpec(sampler="it", requests=301), sampler.describe(), "it")
    measured = trials.run(trial, sampler, Seed.of(trial.plan_sha256, 1), "cpu", lambda *_: None)
    assert not measured.broken
    for problem in trial.problems:
        n = trial.requests_of(problem)
        half = first_part(problem.cells, measured.first)
        halves = [half, n - half]
        for counts, parts in ((measured.counts, halves), (measured.first, halves[:1])):
            assert all(got == want for _, got, want in tiling.of(problem.cells, counts, problem.depth, parts))
        free = set()
        for cell in problem.cells:
            more = dict(measured.counts) | {cell.id: [measured.counts[cell.id][0] + 1, *measured.counts[cell.id][1:]]}
            if all(got == want for _, got, want in tiling.of(problem.cells, more, problem.depth, halves)):
                free.add(cell.event)
        assert free <= {Event.ROUND, Event.JOINT, Event.TOKEN}  # launches; and those whose requests have equal shares
        assert Event.TOKEN not in free or trial.who.kind == "plain"
