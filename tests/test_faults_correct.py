"""The sampler that faults are planted in: right on every problem, in every decision, in any batch."""

import hashlib
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.faults import CONTROLS
from pp3.harness.faults.correct import CERTAIN, Correct
from pp3.harness.faults.fault import Control
from pp3.harness.faults.running import Running, high
from pp3.harness.samplers.contract import Batch, Emission, Kind
from pp3.harness.seeds import Seed
from pp3.harness.trial.api import describe, plan
from pp3.harness.trial.judge import TrialJudgement, conclude
from pp3.harness.trial.plan import Trial, TrialSpec
from pp3.harness.trial.problems import names
from pp3.harness.trial.run import batch_of, run
from pp3.harness.verdict import Verdict


def trial_of(sampler: Any, targets: list[str], requests: int) -> Trial:
    """A plan of one sampler."""
    who = describe(sampler)
    return plan(TrialSpec(sampler=who.name, targets=targets, requests=requests), who, "test", given=True)


def judged(sampler: Any, targets: list[str], requests: int, label: str) -> TrialJudgement:
    """What the battery says of a sampler; the seed follows from the label."""
    trial = trial_of(sampler, targets, requests)
    seed = Seed(hashlib.sha256(label.encode()).digest())
    return conclude(trial, run(trial, sampler, seed, "cpu", lambda stage, done, total: None), "cpu")


def rng_of(label: str) -> np.random.Generator:
    """A generator that follows from a test's id."""
    return np.random.default_rng(list(hashlib.sha256(label.encode()).digest()))


@pytest.mark.parametrize(("word", "factor"), [(0, 0), (0, 7), (2**64 - 1, 1), (2**64 - 1, 2**62 - 1), (2**63, 2**50)])
def test_the_high_half_of_a_product_at_its_ends(word: int, factor: int) -> None:
    found = high(np.array([word], np.uint64), np.array([factor]))
    assert found.tolist() == [word * factor >> 64]


def test_the_high_half_of_any_product() -> None:
    rng = rng_of("high")
    word = rng.integers(0, 2**64, 5_000, np.uint64, endpoint=False)
    factor = rng.integers(0, 2**62, 5_000) >> rng.integers(0, 61, 5_000)
    assert high(word, factor).tolist() == [w * f >> 64 for w, f in zip(word.tolist(), factor.tolist(), strict=True)]


def test_a_draw_falls_where_exact_sums_say() -> None:
    rng = rng_of("draw")
    weights = rng.integers(0, 5, (6, 9)) * rng.integers(1, 2**40, (6, 1))
    weights[:, 4] += 1
    rows, words = rng.integers(0, 6, 3_000), rng.integers(0, 2**64, 3_000, np.uint64, endpoint=False)
    words[:4] = 0, 2**64 - 1, 2**63, 1
    for row, word, token in zip(
        rows.tolist(), words.tolist(), Running(weights).draw(rows, words).tolist(), strict=True
    ):
        share, sums = Fraction(word, 2**64) * int(weights[row].sum()), np.cumsum(weights[row]).tolist()
        assert token == next(x for x, end in enumerate(sums) if share // 1 < end)
        assert weights[row, token] > 0


@pytest.mark.parametrize("name", [name for name in names(Kind.VERIFIER) if name != "ragged"])
def test_acceptance_is_the_rational_one_to_one_word(name: str) -> None:
    """Every pair of rows and every token: the words that keep it are ceil(2^63 min(1, P / Q))."""
    sampler = Correct()
    (problem,) = trial_of(sampler, [name], 100).problems
    target, edges = problem.target, sampler.tables(problem.target).edges
    count = len(target.weights)
    for pair in range(count * count):
        p, q = target.weights[pair // count].tolist(), target.proposal_weights()[pair % count].tolist()
        for token, edge in enumerate(edges[pair].tolist()):
            if q[token]:
                chance = min(Fraction(1), Fraction(p[token], q[token]))
                assert edge == -(-chance.numerator * CERTAIN // chance.denominator)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.id)
@pytest.mark.parametrize("counter", [1, 2])
def test_what_is_right_passes_every_problem(control: Control, counter: int) -> None:
    sampler = control.sampler()
    found = judged(sampler, list(control.targets), control.requests, f"{control.id}/{counter}")
    assert found.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE), found.reasons
    assert [reason for reason in found.reasons if "a PASS needs it" not in reason] == []


@pytest.mark.parametrize("kind", [Kind.PROPOSAL, Kind.VERIFIER, Kind.PIPELINE])
@pytest.mark.parametrize("name", ["context", "mixed-greedy"])
def test_nothing_depends_on_the_batch(kind: Kind, name: str) -> None:
    """A batch, its halves, one request alone and another order: the same tokens for the same request."""
    sampler = Correct(kind)
    trial = trial_of(sampler, [name], 600)
    seed = Seed(hashlib.sha256(f"{kind}/{name}".encode()).digest())

    def emitted(which: np.ndarray[Any, Any]) -> dict[int, list[int]]:
        batch = batch_of(trial.problems[0], trial.who, seed, 0, 600, "cpu")
        one: Batch = batch.take(which, len(which))
        found: Emission = sampler.run(one)
        tokens = found.drafts if kind is Kind.PROPOSAL else found.tokens
        return {int(request): tokens[row].tolist() for row, request in enumerate(one.requests)}

    whole = emitted(np.arange(600))
    order = rng_of(f"order/{kind}/{name}").permutation(600)
    for part in (np.arange(300), np.arange(300, 600), np.array([599]), order):
        assert all(whole[request] == tokens for request, tokens in emitted(part).items())


def test_planted_faults_load_no_torch() -> None:
    """A runner may list them anywhere."""
    code = "import sys, pp3.harness.faults, pp3.harness.faults.laws; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
