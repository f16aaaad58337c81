"""The controls in torch: what they say of themselves, and that they are reproducible and right in small things."""

import numpy as np
import pytest
import torch

from pp3 import Batch, Description, Emission, Sampler
from pp3.harness.samplers import registry
from pp3.harness.samplers.contract import Kind
from pp3.harness.samplers.torch_controls import ExponentialRace, Multinomial, StandardRejection
from pp3.harness.seeds import Seed
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import batch_of

SEED = Seed(bytes(range(32)))
CONTROLS: list[Sampler] = [Multinomial(), ExponentialRace(), StandardRejection()]


def batch(who: Description, target: str, first: int = 0, last: int = 4_000) -> Batch:
    """Some requests of a target."""
    (problem,) = make(TrialSpec(targets=[target]), who, "test").problems
    return batch_of(problem, who, SEED, first, last, "cpu")


def verified(target: str) -> tuple[Batch, Emission]:
    """A round of the verifier."""
    sampler = StandardRejection()
    given = batch(sampler.describe(), target)
    return given, sampler.run(given)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: type(control).__name__)
def test_the_catalogue_names_them(control: Sampler) -> None:
    who = control.describe()
    assert registry.find(who.name).target.endswith(f":{type(control).__name__}")
    assert who.version == torch.__version__


@pytest.mark.parametrize("control", [Multinomial(), ExponentialRace()], ids=lambda control: type(control).__name__)
def test_a_plain_control_repeats_itself_and_emits_what_is_possible(control: Multinomial) -> None:
    who = control.describe()
    one, again = (control.run(batch(who, "rows-of-12")) for _ in range(2))
    assert torch.equal(one, again)
    other = control.run(batch(who, "rows-of-12", 4_000, 8_000))
    assert not torch.equal(one, other)
    given = batch(who, "rows-of-24")
    tokens = control.run(given).flatten()
    assert torch.isfinite(given.logits.gather(1, tokens[:, None])).all()


def test_a_round_ends_where_it_must() -> None:
    """Kept tokens are the drafts; a void draft ends the round, whatever comes after it."""
    for target in ("near", "far", "void", "context"):
        given, e = verified(target)
        rows = torch.arange(len(given))
        assert (e.num_sampled >= 1).all()
        assert (e.num_sampled <= given.depth + 1).all()
        for j in range(given.depth):
            kept = e.num_sampled > j + 1
            assert torch.equal(e.tokens[kept, j], given.draft_ids[kept, j].long())
            assert not (kept & (given.draft_ids[:, j] < 0)).any()
        last = e.tokens[rows, e.num_sampled - 1]
        law = given.target_probs[rows, e.num_sampled - 1].gather(1, last[:, None])
        assert (law > 0).all()


def test_a_replaced_token_is_never_one_that_the_proposal_has_enough_of() -> None:
    given, e = verified("far")
    rows, last = torch.arange(len(given)), e.num_sampled - 1
    stopped = last < given.depth
    at = last.clamp(max=given.depth - 1)
    token = e.tokens[rows, last][:, None]
    gap = given.target_probs[rows, last].gather(1, token) - given.draft_probs[rows, at].gather(1, token)
    assert (gap[stopped] > 0).all()


def test_equal_laws_keep_every_draft() -> None:
    given, e = verified("equal")
    assert (e.num_sampled == given.depth + 1).all()


def test_temperature_0_is_the_argmax() -> None:
    given, e = verified("greedy")
    best = given.target_probs.argmax(dim=-1)
    for j in range(given.depth + 1):
        reached = e.num_sampled > j
        assert torch.equal(e.tokens[reached, j], best[reached, j])
    assert len(np.unique(e.num_sampled.numpy())) > 2


def test_they_are_of_the_kinds_that_they_say() -> None:
    assert [Kind(control.describe().kind) for control in CONTROLS] == [Kind.PLAIN, Kind.PLAIN, Kind.VERIFIER]
