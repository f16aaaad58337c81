"""The null, simulated: every method's p-values are as rare as they say, and so are families that hold a rejection.

Bands are exact binomial ones at BAND, both sides; where rates are compared at several levels or of several checks, at
BAND for all of them together. Groups expect 100 events or more (the default `pool`), where the tail of G is within 8 %
of chi-square at the levels tried here (1.00, 1.02 and 1.07 of it with eight equal groups and 400,000 draws); discrete
p-values are conservative, by amounts that are enumerated.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from null_checks import BAND, POOL, check_of, p_of, simulated, within
from scipy import stats

from pp3.harness import battery, campaign, dependence, neighbours
from pp3.harness.battery import Counts
from pp3.harness.cells import Cell, Event
from pp3.harness.design import Check, Method, checks, groups
from pp3.harness.neighbours import Neighbours
from pp3.harness.samplers.contract import Kind
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.seeds import Seed
from pp3.harness.tails import two_sided
from pp3.harness.tally import Tally
from pp3.harness.trial import guard, run
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.weights import DEFAULT

LEVELS = (0.1, 0.01, 0.001)
RATES = 1 - (1 - BAND) / 40  # of one of about forty rates
TAIL = 0.08  # what G's tail may differ from chi-square, relatively
DRAWS = 6000


def cell(law: Sequence[float], context: int = 0, **more: Any) -> Cell:
    """A cell with this law."""
    shares = [round(p * (1 << 24)) for p in law]
    said: dict[str, Any] = {"event": Event.TOKEN, "atoms": np.arange(len(shares)), "rate": Fraction(1)}
    return Cell(target="t", depth=4, position=0, context=context, pattern="", shares=tuple(shares), **said | more)


def zipf(n: int) -> list[float]:
    """1, 1/2, 1/3, ..."""
    law = 1 / np.arange(1, n + 1)
    return list(law / law.sum())


SHAPES: dict[str, tuple[list[Cell], int]] = {
    "two-groups-of-three": ([cell([0.6, 0.38, 0.02])], 5_000),
    "eight-of-a-hundred": ([cell([1 / 8] * 8)], 800),
    "zipf-32": ([cell(zipf(32))], 20_000),
    "zipf-64-pooled": ([cell(zipf(64))], 5_000),
    "several-cells": ([cell(zipf(8), context) for context in range(6)], 2_500),
    "strata": ([cell(zipf(24), strata=np.arange(24) % 5)], 20_000),
    "strata-that-decide-nothing": ([cell(zipf(40), strata=np.arange(40) // 4)], 4_000),
}


@pytest.mark.parametrize(("cells", "events"), SHAPES.values(), ids=SHAPES)
def test_rates_of_g(cells: list[Cell], events: int, rng: np.random.Generator) -> None:
    rates_of(Method.G, cells, events, DRAWS, rng)


def test_rates_of_the_fit(rng: np.random.Generator) -> None:
    """Of 30 laws together. Its G is 1 / (6 e) too large on average (e events a group), which adds to its upper tail
    what it takes from its lower one."""
    cells = [cell(zipf(16), context) for context in range(30)]
    rates_of(Method.FIT, cells, 8_000, DRAWS // 3, rng)


def rates_of(method: Method, cells: list[Cell], events: int, draws: int, rng: np.random.Generator) -> None:
    """P-values up to LEVELS are as rare as they say."""
    check = check_of(method, events, *cells)
    assert all((p.events * p.probabilities).max() >= POOL for p in check.cells)
    found = simulated(check, cells, events, draws, rng)
    for level in LEVELS:
        hits = int((found <= level).sum())
        assert within(hits, draws, level * (1 - TAIL), level * (1 + TAIL), RATES), level


@pytest.mark.parametrize("chance", [0.5, 0.25, 0.06, 0.01])
@pytest.mark.parametrize("events", [400, 10_000, 125_000])
def test_rates_of_a_coin(chance: float, events: int) -> None:
    """Enumerated: never above the level, and, but for two steps at its ends, not below it."""
    hits = np.arange(events + 1)
    mass = stats.binom.pmf(hits, events, chance)
    near = np.flatnonzero(mass > 1e-12)
    p = np.array([two_sided(int(n), events, chance) for n in near])
    for level in LEVELS:
        rate = float(mass[near][p <= level].sum())
        steps = sum(float(mass[near][np.flatnonzero(p > level)[end]]) for end in (0, -1))
        assert level - steps <= rate <= level * (1 + 1e-9) + 1e-10


@pytest.mark.parametrize(
    ("cells", "events"),
    [
        pytest.param([cell(zipf(64))], 2_000, id="zipf-64"),
        pytest.param([cell(zipf(1000))], 5_000, id="zipf-1000"),
        pytest.param([cell(zipf(8), context) for context in range(6)], 300, id="several-cells"),
        pytest.param([cell([0.999, 0.001])], 2_000, id="two-outcomes"),
    ],
)
def test_rates_of_single_outcomes(cells: list[Cell], events: int, rng: np.random.Generator) -> None:
    """Conservative: at most the sum of the exact chances that each outcome alone rejects, which is below the level."""
    check, draws = check_of(Method.RARE, events, *cells), DRAWS // 3
    found = simulated(check, cells, events, draws, rng)
    tried = sum(len(one.atoms) for one in cells)
    for level in LEVELS[:2]:
        laws = [one.probabilities() for one in cells]
        tested = [p for law in laws for p in (law[:1] if len(law) == 2 else law)]  # of two, one is the other
        most = math.fsum(alone_rejects(float(p), events, level / tried) for p in tested)
        assert most <= level * (1 + 1e-9)
        least = most - most * most  # of nearly independent ones, by Bonferroni's second inequality
        assert within(int((found <= level).sum()), draws, least, most, RATES), level


def alone_rejects(chance: float, events: int, level: float) -> float:
    """The exact chance that a two-sided test of one outcome rejects."""
    hits = np.arange(int(events * chance + 40 * math.sqrt(events * chance) + 60))
    hits = hits[hits <= events]
    p = 2 * np.minimum(stats.binom.sf(hits - 1, events, chance), stats.binom.cdf(hits, events, chance))
    return float(stats.binom.pmf(hits, events, chance)[p <= level].sum())


def test_rates_of_repeats(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stretches so short that they do repeat, of a law whose tokens are equally likely: Markov's bound holds."""
    rare, window, n, draws = 1 << 4, 1 << 10, 1 << 11, 600
    for module in (dependence, battery):
        monkeypatch.setattr(module, "RARE", rare)
    for module in (dependence, neighbours):
        monkeypatch.setattr(module, "WINDOW", window)
    length = dependence.stretch(np.ones(8, np.int64))
    assert length == math.ceil((4 + 10) / 3)
    one = cell([0.5, 0.5], event=Event.REPEAT)
    one = replace(one, pattern=f"stretches-of-{length}", shares=(rare - 1, 1))
    check = check_of(Method.REPEAT, n, one)
    found = []
    for _ in range(draws):
        taker, tokens = Neighbours([one], 1, 4), rng.integers(0, 8, n)
        codes = np.concatenate([code for _, _, code in taker.add(np, 0, tokens, tokens) + taker.rest(np)])
        found.append(p_of(check, {one.id: [int((codes == 0).sum()), int(codes.sum()), 0]}))
    assert min(found) < 1
    for level in LEVELS:
        assert within(int((np.array(found) <= level).sum()), draws, 0, level, RATES)


def families(
    found: list[Check], draw: Any, families_: int, levels: Sequence[float] = (0.05, 0.01)
) -> tuple[dict[float, int], np.ndarray]:
    """How many of the families hold a rejection at each alpha, and all p-values [families, checks]."""
    deciding = [check for check in found if check.decides]
    shares = np.array([check.alpha for check in deciding])
    assert math.fsum(shares) <= 1 + 1e-9
    p = np.array([[p_of(check, counts) for check in deciding] for counts in (draw(i) for i in range(families_))])
    return {level: int((p <= level * shares).any(axis=1).sum()) for level in levels}, p


def independent(families_: int, rng: np.random.Generator) -> None:
    """Cells drawn each by itself at its planned size: checks of the first cells of laws, of the default weights.

    Those of G and coins are independent, so that families hold a rejection with 1 - prod(1 - share alpha).
    """
    chosen = campaign.of_document({"targets": ["context", "invalidated"], "requests": 40_000}, "a test")
    whole = [
        replace(check, alpha=0.0) if check.method in (Method.RARE, Method.FIT, Method.REPEAT) else check
        for check in checks(groups(chosen), 1.0, POOL, DEFAULT)
    ]
    used = math.fsum(check.alpha for check in whole)
    whole = [replace(check, alpha=check.alpha / used) for check in whole]
    cells = {p.cell.id: p.cell for check in whole if check.decides for p in check.cells}
    sizes = {
        p.cell.id: round(p.events / math.fsum(p.cell.probabilities()[p.groups >= 0]))
        for check in whole
        if check.decides
        for p in check.cells
    }
    laws = {name: one.probabilities() for name, one in cells.items()}

    def draw(_: int) -> Counts:
        return {name: [*rng.multinomial(sizes[name], law).tolist(), 0] for name, law in laws.items()}

    rejected, p = families(whole, draw, families_)
    shares = np.array([check.alpha for check in whole if check.decides])
    coins = np.array([check.method is Method.BINOMIAL for check in whole if check.decides])
    for level, hits in rejected.items():
        most = 1 - math.exp(np.log1p(-level * shares * (1 + TAIL)).sum())
        least = 1 - math.exp(np.log1p(-level * (shares * (1 - TAIL))[~coins]).sum())  # a coin may be conservative
        assert within(hits, families_, least, most), (level, hits)
    for level in LEVELS[:2]:
        hits = int((p[:, ~coins] <= level).sum())
        assert within(hits, p[:, ~coins].size, level * (1 - TAIL), level * (1 + TAIL), RATES), level
        assert within(int((p[:, coins] <= level).sum()), p[:, coins].size, 0, level, RATES), level


def test_families_of_independent_cells(rng: np.random.Generator) -> None:
    independent(250, rng)


@pytest.mark.soak
def test_thousands_of_families_of_independent_cells(rng: np.random.Generator) -> None:
    independent(5_000, rng)


TRIALS: dict[str, tuple[Any, list[str], int]] = {
    "verifier": (StandardRejection(), ["whole", "near"], 2_500),
    "several-classes": (StandardRejection(), ["mixed-greedy"], 2_000),
    "plain": (Multinomial(), ["rows-of-12"], 1_500),
}


def emitted(sampler: Any, targets: list[str], requests: int, trials: int) -> None:
    """Whole trials of a right sampler, with all the dependence there is between checks.

    Then a family holds a rejection no more often than alpha. Each check's own p-values, over trials, are independent.
    """
    torch.set_num_threads(1)
    trial = make(TrialSpec(sampler="it", targets=targets, requests=requests), sampler.describe(), "it")
    found = checks(
        trial.groups,
        1.0,
        POOL,
        DEFAULT,
    )
    rejected, p = families(found, lambda i: counted(trial, sampler, i), trials, (0.2, 0.05, 0.01))
    for level, hits in rejected.items():
        assert within(hits, trials, 0, level), (level, hits)
    deciding = [check for check in found if check.decides]
    band = 1 - (1 - BAND) / len(deciding) / len(LEVELS)
    for check, mine in zip(deciding, p.T, strict=True):
        for level in LEVELS:
            least = level * (1 - TAIL) if check.method is Method.G and len(check.cells) == 1 else 0.0
            hits = int((mine <= level).sum())
            assert within(hits, trials, least, level * (1 + TAIL), band), (check.id, level, hits)


def counted(trial: Trial, sampler: Any, counter: int) -> Counts:
    """Counts of one trial, none of which is impossible."""
    found: Counts = {}
    for problem in trial.problems:
        tally = Tally(problem.target, problem.depth, problem.cells)
        first, end = trial.span_of(problem)
        middle = first + (end - first) // 2
        for low, high in ((first, middle), (middle, end)):  # two launches, so that rows and slots have pairs
            seed = Seed.of(trial.plan_sha256, counter)
            batch = run.batch_of(problem, trial.who, seed, low, high, "cpu")
            tally.add(batch, guard.run(sampler, batch, Kind(trial.who.kind)))
        assert not any(tally.breaches.values())
        found |= {one.id: counts for one, counts in zip(problem.cells, tally.histograms(), strict=True)}
    assert not any(counts[-1] for counts in found.values())
    return found


@pytest.mark.parametrize(("sampler", "targets", "requests"), TRIALS.values(), ids=TRIALS)
def test_families_of_a_right_sampler(sampler: Any, targets: list[str], requests: int) -> None:
    emitted(sampler, targets, requests, 60)


@pytest.mark.soak
@pytest.mark.parametrize(("sampler", "targets", "requests"), TRIALS.values(), ids=TRIALS)
def test_thousands_of_families_of_a_right_sampler(sampler: Any, targets: list[str], requests: int) -> None:
    emitted(sampler, targets, requests, 2_000)
