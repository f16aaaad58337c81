"""What the overlays are tried on: six targets as they see them, a grammar among them, and how pairs are shared out."""

import numpy as np
import pytest

from pp3.harness.cells import Event
from pp3.harness.errors import CampaignError
from pp3.harness.overlay import judge, problems
from pp3.harness.samplers.contract import Carrier, Description, Kind, Randomness, Void
from pp3.harness.trial.plan import Trial, TrialSpec
from pp3.targets import NAMES as TOY
from pp3.targets.target import ONE

WHO = Description(
    name="vllm-overlay",
    kind=Kind.PIPELINE,
    target_carrier=Carrier.LOGITS,
    draft_carrier=Carrier.TICKETS,
    randomness=Randomness.KEYED,
    void=Void.FULL_TARGET,
    greedy=True,
    min_vocab=32,
    max_vocab=1 << 18,
)


def trial_of(*targets: str) -> Trial:
    """A plan of these targets."""
    return problems.trial(TrialSpec(sampler="vllm-overlay", requests=10, targets=[*targets]), WHO)


def test_the_six_at_two_depths() -> None:
    trial = trial_of()
    laws = (*TOY, problems.GRAMMAR)
    assert tuple(problem.name for problem in trial.problems) == (*laws, *(f"{law}-depth-4" for law in laws))
    assert [problem.depth for problem in trial.problems] == [problems.depth_of(p.name) for p in trial.problems]
    assert [problem.depth for problem in trial.problems] == [5] * 6 + [4] * 6
    assert [problem.name for problem in trial.problems if problem.slack] == ["equal-q", "equal-q-depth-4"]
    assert len({problem.law_sha256 for problem in trial.problems}) == len(trial.problems)


@pytest.mark.parametrize("law", problems.LAWS)
def test_a_shorter_round_has_the_same_rows(law: str) -> None:
    """Position by position, less the last one, whose row becomes the bonus."""
    long, short = trial_of(law, f"{law}{problems.SHORTER}").problems
    assert (short.target.row_of == long.target.row_of[:5]).all()
    assert (short.target.weights == long.target.weights).all()
    assert (short.target.proposal_weights() == long.target.proposal_weights()).all()
    assert {cell.depth for cell in short.cells} == {4}
    assert max(cell.position for cell in short.cells) <= 4


def test_another_target_is_refused() -> None:
    with pytest.raises(CampaignError, match=r"unknown target .*near.*; the overlays have sparse-tail, .*, grammar-d"):
        trial_of("near")


def test_the_grammar_forbids_what_is_drafted_often() -> None:
    """In every state a third of all tokens, other ones in each; at least a tenth of the drafts are impossible."""
    mine, base = problems.target(problems.GRAMMAR), problems.target(problems.BASE)
    mask = problems.forbidden(mine.weights.shape)
    assert np.abs(mask.mean(axis=1) - 1 / 3).max() < 0.001
    assert len(np.unique(mask, axis=0)) == problems.EVERY
    assert not mine.weights[mask].any()
    assert (mine.weights.sum(axis=1) == ONE).all()
    assert ((mine.weights > 0) == ((base.weights > 0) & ~mask)).all()
    drafted = np.where(mask, mine.proposal_weights(), 0).sum(axis=1) / ONE
    assert drafted.min() > 0.1


def test_a_forbidden_token_is_an_outcome_of_no_cell() -> None:
    """So that one that is emitted is counted apart, which fails whatever the numbers are."""
    [problem] = trial_of(problems.GRAMMAR).problems
    mask = problems.forbidden(problems.target(problems.GRAMMAR).weights.shape)
    emitting = (Event.TOKEN, Event.RESIDUAL, Event.BONUS, Event.KEPT)
    cells = [cell for cell in problem.cells if cell.event in emitting]
    assert len(cells) > 15
    for cell in cells:
        row = problem.target.row_of[cell.position, cell.context]
        assert not mask[row][cell.atoms].any()


def test_the_law_is_what_travels() -> None:
    """The softmax of FP32 logits: no token is further from its weight than the rounding of its logit explains."""
    for problem in trial_of().problems:
        weights = problems.target(problem.name).weights
        seen = problem.target.weights / problem.target.total
        assert ((seen > 0) == (weights > 0)).all()
        there = weights > 0
        # A logit of at least -17 is rounded by 2^-20 at most, its exponential by as much, and the sum too.
        assert np.abs(seen[there] * ONE / weights[there] - 1).max() < 3 * 2.0**-20


@pytest.mark.parametrize(
    ("pairs", "want"), [(0, [0] * 12), (14, [2, 2] + [1] * 10), (100_000, [8_334] * 4 + [8_333] * 8)]
)
def test_pairs_are_shared_out(pairs: int, want: list[int]) -> None:
    assert [count for _, count in judge.shares(trial_of(), pairs)] == want
