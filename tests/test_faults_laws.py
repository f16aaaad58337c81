"""The exact laws of planted faults: against enumeration, against what they emit, and as the measure of their size."""

import functools
import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from pp3.harness.cells import Event
from pp3.harness.faults import FAULTS, acceptance, alone, laws, positions, residual
from pp3.harness.faults.correct import ACCEPT, BONUS, DRAFT, REPLACE, Correct
from pp3.harness.faults.fault import Fault, Shows
from pp3.harness.faults.round_law import RoundLaw
from pp3.harness.joint import joint_law
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import WANTED, Batch, Kind
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.harness.trial.guard import count, reset
from pp3.harness.trial.guard import run as guarded
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import Problem, choose
from pp3.harness.trial.run import batch_of
from pp3.harness.trial.seen import seen
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

EIGHTH = ONE // 8
POINTS = 8  # of the grid that words are enumerated on
OF_LAW = [fault for fault in FAULTS if fault.shows is Shows.LAW]
witnesses = functools.cache(laws.by_witness)


def small() -> Problem:
    """Two drafts of four tokens in eighths: acceptances and residuals too, so that eight words a choice are exact."""
    target = np.array([[1, 1, 4, 2], [4, 2, 1, 1], [2, 2, 2, 2]]) * EIGHTH
    draft = np.array([[2, 4, 1, 1], [1, 1, 2, 4], [4, 2, 1, 1]]) * EIGHTH
    pair = Pair(
        name="small",
        why="words can be enumerated",
        weights=target,
        draft_weights=draft,
        row_of=np.arange(3)[:, None],
        context_of=np.zeros(4, np.int64),
        joint=True,
    )
    who = Correct(Kind.PIPELINE).describe()
    return Problem(target=seen(pair, who), depth=2, events=frozenset({Event.JOINT}), law_sha256=pair.digest())


def enumerated(sampler: Correct, problem: Problem) -> npt.NDArray[np.int64]:
    """How many of the 8^6 words of a round give each code of joint.py."""
    choices = 2 * problem.depth + 2
    n = POINTS**choices
    digits = np.arange(n)[:, None] // POINTS ** np.arange(choices) % POINTS
    words = digits.astype(np.uint64) << np.uint64(61)
    columns = {DRAFT: words[:, :2], ACCEPT: words[:, 2:4], REPLACE: words[:, 4:5], BONUS: words[:, 5:6]}
    sampler.words = lambda batch, purpose, count: columns[purpose]  # type: ignore[method-assign]  # chosen words
    batch = Batch(
        target=problem.target,
        depth=problem.depth,
        seed=Seed(bytes(32)),
        requests=np.arange(n),
        sampled=np.ones(n, np.bool_),
        given=np.full((n, problem.depth), WANTED, np.int32),
        rows_per_launch=n,
    )
    found = sampler.run(batch)
    code = np.full(n, -1)
    for j in range(problem.depth + 1):
        code = np.where(found.num_sampled > j, (code + 1) * problem.vocab + found.tokens[:, j], code)
    return np.bincount(code, minlength=4 + 16 + 64)


ENUMERABLE: list[type[Correct]] = [
    Correct,
    acceptance.AcceptsAll,
    acceptance.ArgmaxDraft,
    acceptance.ProbabilityCompared,
    acceptance.Swapped,
    residual.Argmax,
    residual.Reversed,
    residual.SharedCoin,
    residual.Unclamped,
    residual.Unnormalised,
    residual.WholeTarget,
    positions.BonusOfDraft,
    positions.BonusOfFirst,
    positions.BonusOfLastDraft,
    positions.DraftOneLate,
    positions.RatioOneLate,
]


@pytest.mark.parametrize("kind", ENUMERABLE, ids=lambda kind: kind.__name__)
def test_the_law_of_a_round_is_that_of_all_its_words(kind: type[Correct]) -> None:
    """Equality of integers: every choice on a grid of eight words, on which the law is exact."""
    problem, sampler = small(), kind(Kind.PIPELINE)
    (cell,) = problem.cells
    law = RoundLaw(sampler, problem).of(cell)
    counts = enumerated(kind(Kind.PIPELINE), problem)
    scale = POINTS ** (2 * problem.depth + 2)
    assert {code: Fraction(int(seen), scale) for code, seen in enumerate(counts) if seen} == {
        code: mass for code, mass in law.items() if mass
    }


@pytest.mark.parametrize("name", ["whole", "shared-noise"])
def test_without_a_fault_the_law_is_the_oracles(name: str) -> None:
    sampler = Correct(Kind.PIPELINE)
    problem = laws.problem_of(sampler, name)
    law = RoundLaw(sampler, problem)
    (cell,) = [cell for cell in problem.cells if cell.event is Event.JOINT]
    assert {x: m for x, m in law.of(cell).items() if m} == joint_law(Law(problem.target), problem.depth, "none")


@pytest.mark.parametrize("kind", [Kind.PROPOSAL, Kind.VERIFIER, Kind.PIPELINE])
@pytest.mark.parametrize("name", ["near", "void", "context", "mixed"])
def test_without_a_fault_no_cell_differs(kind: Kind, name: str) -> None:
    if kind is Kind.PROPOSAL and name == "void":
        name = "far"
    problem = laws.problem_of(Correct(kind), name)
    for one in laws.differences(Correct(kind), problem):
        assert one.forbidden == one.tv == one.effect == 0
        assert one.rate == one.cell.rate


def frequencies(fault: Fault) -> list[tuple[laws.Difference, list[int]]]:
    """Each cell's difference and counts, of 20,000 requests of the fault's first target."""
    sampler = fault.sampler()
    assert isinstance(sampler, Correct)
    problem = laws.problem_of(sampler, fault.targets[0])
    seed = Seed(hashlib.sha256(fault.id.encode()).digest())
    tally, end = Tally(problem.target, problem.depth, problem.cells), 20_000 * problem.share
    reset(sampler)
    for low in range(0, end, 8_192):
        batch = batch_of(problem, sampler.describe(), seed, low, min(low + 8_192, end), "cpu")
        count(tally, batch, guarded(sampler, batch, Kind(sampler.kind)))
    by_cell = {one.cell.id: one for one in laws.differences(sampler, problem) if one.event not in ("accept", "kept")}
    counted = zip(tally.cells, tally.histograms(), strict=True)
    return [(by_cell[cell.id], counts) for cell, counts in counted if cell.event in laws.KNOWN]


@pytest.mark.parametrize("fault", OF_LAW, ids=lambda fault: fault.id)
def test_what_a_fault_emits_has_the_law_that_is_computed(fault: Fault) -> None:
    """G at 1e-6 in every cell, groups of at least 20 expected; what the fault cannot do never occurs."""
    checked = 0
    for one, counts in frequencies(fault):
        masses = [float(one.masses.get(x, Fraction(0))) for x in one.cell.atoms.tolist()] + [float(one.forbidden)]
        whole, total = sum(masses), sum(counts)
        assert all(mass > 0 or not seen for mass, seen in zip(masses, counts, strict=True)), one.cell.id
        if not total:
            continue
        law, seen = np.array(masses) / whole, np.array(counts)
        order = np.argsort(law, kind="stable")
        ends = np.searchsorted(np.cumsum(law[order]) * total, np.arange(1, total // 20 + 1) * 20 - 1e-6)
        group = np.searchsorted(np.unique(np.minimum(ends, len(order) - 1))[:-1], np.arange(len(order)), side="left")
        expected = np.bincount(group, weights=law[order] * total)
        observed = np.bincount(group, weights=seen[order])
        g = 2 * special.xlogy(observed, observed / np.maximum(expected, 1e-300)).sum()
        df = len(expected) - 1
        checked += df > 0
        assert df == 0 or stats.chi2.sf(g, df) > 1e-6, f"{one.cell.id}: G = {g:.1f} on {df}"
    assert checked or all(len(one.cell.atoms) == 1 for one, _ in frequencies(fault))


@pytest.mark.parametrize("fault", [fault for fault in OF_LAW if fault not in alone.FAULTS], ids=lambda fault: fault.id)
def test_enough_requests_are_planned_for_the_witness(fault: Fault) -> None:
    """Also: no fault of the law is equal to what it is planted in."""
    found = witnesses(fault)
    assert not laws.equivalent(fault)
    assert found[fault.witness] <= fault.requests, found


@pytest.mark.parametrize("fault", [fault for fault in OF_LAW if fault.sole], ids=lambda fault: fault.id)
def test_a_sole_witness_is_far_ahead_of_every_other(fault: Fault) -> None:
    """Others need more than one and a half times the requests planned: noncentralities go with them."""
    found = {event: n for event, n in witnesses(fault).items() if event != fault.witness and event not in fault.others}
    assert min(found.values(), default=1 << 40) > 1.5 * fault.requests, found


@pytest.mark.parametrize("fault", [fault for fault in alone.FAULTS if fault in OF_LAW], ids=lambda fault: fault.id)
def test_a_fault_made_for_one_check_is_seen_by_it_at_the_level_of_its_trial(fault: Fault) -> None:
    """With power 0.999; lengths with 0.93 and a token with 0.98: more of it shows in single outcomes as well."""
    sampler = fault.sampler()
    assert isinstance(sampler, Correct)
    spec = TrialSpec(targets=list(fault.targets), requests=fault.requests)
    powers = []
    for check in make(spec, sampler.describe(), fault.id).checks:
        if check.event.value == fault.witness and check.alpha > 0:
            problem, cells = laws.problem_of(sampler, check.target), {pooled.cell.id for pooled in check.cells}
            found = [one for one in laws.differences(sampler, problem) if one.cell.id in cells]
            df, size = laws.strength(found, fault.requests, problem.share)
            powers.append(float(stats.ncx2.sf(stats.chi2.isf(check.alpha, df), df, size)) if size > 1e-6 else 0.0)
    assert max(powers) >= {"length": 0.93, "token": 0.98}.get(fault.witness, 0.999)
    assert sum(power > 0.001 for power in powers) == 1  # one check of one target sees it


@pytest.mark.parametrize("fault", acceptance.ENGINE_FAULTS, ids=lambda fault: fault.id)
def test_faults_of_an_engine_are_seen_by_their_witness(fault: Fault) -> None:
    assert laws.by_witness(fault)[fault.witness] <= fault.requests


class Doubled(Correct):
    """An equivalent mutant: both sides of the ratio are doubled."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """2 P / 2 Q."""
        return 2 * p, 2 * q


def test_an_equivalent_mutant_is_refused() -> None:
    planted = replace(OF_LAW[0], sampler=Doubled, targets=("near", "context"))
    assert laws.equivalent(planted)
    assert not laws.equivalent(replace(planted, sampler=acceptance.AcceptsAll))


def test_a_fault_that_shows_nowhere_on_its_target_is_refused() -> None:
    """Q of the position after is Q where both have one row, and the first context that of all where there is one."""
    assert laws.equivalent(replace(OF_LAW[0], sampler=positions.RatioOneLate, targets=("shared-noise",)))
    assert laws.equivalent(replace(OF_LAW[0], sampler=positions.FirstContext, targets=("near",)))


def test_the_requests_of_copies_are_those_of_a_match_count() -> None:
    """Simulated: the exact binomial test of disjoint pairs sees it in at least 195 of 200 runs at that number."""
    law, rho = np.array([5, 4, 3, 2, 1, 1]), 0.05
    pairs = laws.matching(law, rho) // 2
    equal = float(((law / 16) ** 2).sum())
    rng = np.random.default_rng(list(hashlib.sha256(b"copies").digest()))
    seen = rng.binomial(pairs, equal + rho * (1 - equal), 200)
    assert (stats.binom.sf(seen - 1, pairs, equal) <= laws.ALPHA / 2).sum() >= 195


@pytest.mark.parametrize("rho", [0.01, 0.05])
def test_a_dose_of_copies_has_the_requests_it_needs(rho: float) -> None:
    (fault,) = [fault for fault in FAULTS if fault.id == f"dose-copy-{rho:g}"]
    problem = laws.problem_of(Correct(Kind.PIPELINE), fault.targets[0])
    assert laws.matching(problem.target.weights[problem.target.row_of[0, 0]], rho) <= fault.requests


def test_choose_knows_every_target() -> None:
    for fault in FAULTS:
        who = fault.sampler().describe()
        found, left_out = choose(who, fault.targets)
        assert [problem.name for problem in found] == list(fault.targets), (fault.id, left_out)
