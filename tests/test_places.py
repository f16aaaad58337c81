"""Where pairs lie: numbers of each class are those that a tally of so many requests counts, whatever their tokens."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import msgspec
import numpy as np
import pytest

from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.campaign import LARGEST_REQUESTS, parts_of
from pp3.harness.cells import Event
from pp3.harness.dependence import LAGS, WINDOW, dependence_cells
from pp3.harness.design import FAMILY, Check, Method, design, families, groups, lags_of
from pp3.harness.edition import Edition
from pp3.harness.errors import CampaignError
from pp3.harness.neighbours import Neighbours, pairs_in
from pp3.harness.oracle import Law
from pp3.harness.paired import rows_for
from pp3.harness.places import Part, halves, pairs_by_class, placed
from pp3.harness.power import detectable
from pp3.harness.run import run_parts
from pp3.harness.samplers.contract import Kind
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.seeds import Seed
from pp3.harness.trial import run
from pp3.harness.trial.api import plan
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.trial.problems import EVENTS, choose
from pp3.harness.verdict import all_cells
from pp3.harness.weights import DEFAULT
from pp3.targets import Target, pairs

SIZES = (0, 1, 2, 5, 127, 129, 1000, 4999, WINDOW - 1, WINDOW, WINDOW + 77, 3 * WINDOW + 12_345)
CLASSES = (1, 2, 3, 4, 6, 7, 8, 12)
BETWEEN = (Event.MATCH, Event.PAIR, Event.LENGTH_PAIR)


def by_hand(first: int, requests: int, lag: int, classes: int) -> list[int]:
    """Every pair of every window, one by one."""
    found = [0] * classes
    for window in range(first, first + requests, WINDOW):
        size = min(WINDOW, first + requests - window)
        for place in range(size - lag):
            if place // lag % 2 == 0:
                found[(window + place) % classes] += 1
    return found


@pytest.mark.parametrize("classes", CLASSES)
def test_every_pair_is_of_its_class(classes: int) -> None:
    """At every lag, first number and size; those of all classes are all pairs."""
    for lag, requests, first in product(LAGS, SIZES[:-2], (0, 1, 13)):
        found = pairs_by_class(Part(first=first, requests=requests), lag, classes)
        assert sum(found) == pairs_in(requests, lag)
        if requests < 5000:
            assert found == by_hand(first, requests, lag, classes)


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_windows_follow_one_another(classes: int) -> None:
    for lag, requests in product((1, 3, 128), SIZES[-2:]):
        assert pairs_by_class(Part(first=5, requests=requests), lag, classes) == by_hand(5, requests, lag, classes)


def test_a_part_that_begins_anywhere_has_the_mean() -> None:
    """Over every class that its first request can be of."""
    for lag, classes in product(LAGS, CLASSES):
        every = [pairs_by_class(Part(first=first, requests=4999), lag, classes) for first in range(classes)]
        mean = [sum(one) / Fraction(classes) for one in zip(*every, strict=True)]
        assert pairs_by_class(Part(first=None, requests=4999), lag, classes) == mean


def test_neighbours_at_odd_lags_are_of_half_the_classes() -> None:
    """Where there is an even number of them: what a plan must know."""
    for classes in (2, 4, 6):
        found = pairs_by_class(Part(first=0, requests=1200), 1, classes)
        assert found == [1200 / classes, 0] * (classes // 2)
    assert 0 not in pairs_by_class(Part(first=0, requests=1200), 4, 4)


def pairs_of(found: list[Check]) -> Iterator[Check]:
    """Those of neighbouring requests."""
    return (check for check in found if check.event in BETWEEN and "/requests-" in check.id)


def counted(chosen: campaigns.Campaign) -> dict[str, int]:
    """Pairs of each cell that a tally has of a campaign's requests, whatever their tokens are."""
    found: dict[str, int] = {}
    for group in groups(chosen):
        target: Target = next(t for t in chosen.targets if t.name == group.cells[0].target)
        for part in group.parts:
            assert part.first is not None
            tally = Neighbours(group.cells, len(target.patterns) * target.starts, group.depth)
            tokens = np.zeros(part.requests, np.int64)
            events = tally.add(np, part.first, tokens, tokens) + tally.rest(np)
            for mask, cell, _ in events:
                for number in np.broadcast_to(cell, mask.shape)[mask].tolist():
                    found[group.cells[number].id] = found.get(group.cells[number].id, 0) + 1
    return found


@pytest.mark.parametrize("requests", [8, 4_000, 20_000, 20_003])
def test_a_campaign_expects_what_it_counts(requests: int) -> None:
    """Exactly, cell by cell; a cell that gets no pair is in no check, and a check of one coin that is left is exact."""
    chosen = campaigns.of_document({"targets": ["invalidated", "context"], "requests": requests, "paired": 7}, "a test")
    seen = counted(chosen)
    for group in groups(chosen):
        for cell in placed(group.cells, group.parts):
            if cell.event in BETWEEN and "requests-" in cell.pattern:
                assert cell.rate * group.requests == seen.get(cell.id, 0), cell.id
    for check in pairs_of(design(chosen)):
        assert all(seen[pooled.cell.id] for pooled in check.cells)
        if check.method is Method.BINOMIAL:
            assert check.events == seen[check.cells[0].cell.id]


def test_the_first_number_of_a_part_is_that_of_its_requests() -> None:
    """After the paired ones, target by target, depth by depth, size by size, half by half, without a gap."""
    chosen = campaigns.of_document({"targets": ["context", "invalidated"], "requests": 1003, "paired": 50}, "a test")
    parts = [part for group in groups(chosen) for part in group.parts]
    shards = campaigns.pair_shards(chosen)
    assert parts[0].first == sum(rows_for(count) for _, _, count in shards) > 0
    for one, other in pairwise(parts):
        assert one.first is not None
        assert other.first == one.first + one.requests
    assert sum(part.requests for part in parts) == 2 * 1003
    assert halves(7, 12) == ((7, 9), (9, 12))


def of_trial(requests: int, names: tuple[str, ...] = ("mixed-greedy", "void", "near")) -> Trial:
    """A trial of a right verifier."""
    return make(TrialSpec(sampler="it", targets=list(names), requests=requests), StandardRejection().describe(), "it")


@pytest.mark.parametrize(("rows", "every"), [(0, True), (64, False), (1_999, False), (20_000, False)])
def test_a_trial_expects_what_it_counted(rows: int, every: bool) -> None:
    """Exactly, once it is known where its second part began; on the mean over that before."""
    trial = of_trial(2_000)
    trial = replace(trial, who=replace(trial.who, rows_per_launch=rows))
    sampler, seed = StandardRejection(), Seed.of(trial.plan_sha256, 1)
    found = Measured()
    for problem in trial.problems:
        found.add(run.run_problem(trial, problem, sampler, seed, "cpu", lambda *_: None))
    split, unmet = trial.split(found.first), 0
    for group in split.groups:
        for cell in placed(group.cells, group.parts):
            if cell.event in BETWEEN and "requests-" in cell.pattern:
                assert cell.rate * group.requests == sum(found.counts[cell.id]), cell.id
    tests = {test.id: test for test in conclude(trial, found, "a CPU").tests}
    rates = {
        group.cells[0].target: {c.id: c.rate * group.requests for c in placed(group.cells, group.parts)}
        for group in trial.groups
    }
    for check, nominal in zip(pairs_of(split.checks), pairs_of(trial.checks), strict=True):
        lag = int(check.id.rpartition("-")[2])
        whole = sum(sum(found.counts[name]) for name in check.counted)
        assert all(sum(found.counts[pooled.cell.id]) for pooled in check.cells)
        near = sum(float(rates[nominal.target][name]) for name in nominal.counted)
        assert abs(near - whole) <= 3 * lag
        assert (tests[check.id].df, tests[check.id].alpha) == (check.df, check.alpha)
        assert tests[check.id].detectable == detectable(check, trial.spec.power)
        unmet += check.target == "mixed-greedy" and not all(sum(found.counts[name]) for name in check.counted)
    assert bool(unmet) is not every


def test_older_plans_spread_pairs_evenly() -> None:
    """Rules, events and degrees of freedom of receipts whose plan has no edition."""
    new = campaigns.load(None, {"requests": 400_000})
    old = campaigns.of_plan({key: value for key, value in new.plan.items() if key != "battery"})
    assert old.edition is Edition.SPREAD
    assert "battery" not in old.plan
    assert campaigns.of_plan(old.plan).plan == old.plan
    some = [check for check in pairs_of(design(old)) if check.target == "invalidated" and check.event is Event.MATCH]
    assert len(some) == len(LAGS) * len(old.spec.depths)
    for check in some:
        assert len(check.cells) == len(check.counted) > 1
        for pooled in check.cells:
            assert pooled.cell.rate == Fraction(1, 2 * len(check.counted))
    assert any(len(check.cells) < len(check.counted) for check in pairs_of(design(new)) if check.cells)


def test_a_trial_of_a_plain_sampler_spends_all_of_alpha() -> None:
    """Families that it does not have give their share to the others; a plan without an edition leaves it unspent."""
    spec = TrialSpec(sampler="it", targets=["rows-of-8", "rows-of-16"], requests=20_000)
    now = make(spec, Multinomial().describe(), "it")
    assert now.weights == {"law": 0.625, "conditional": 0.0, "dependence": 0.25, "rare": 0.0625, "fit": 0.0625}
    assert sum(check.alpha for check in now.checks) == pytest.approx(1e-5)
    assert now.plan["weights"]["law"] == "0.625"
    old = make(msgspec.structs.replace(spec, battery=Edition.SPREAD), Multinomial().describe(), "it")
    assert sum(check.alpha for check in old.checks) == pytest.approx(0.8e-5)
    assert old.plan["weights"]["law"] == "0.5"
    assert "battery" not in old.plan


def test_what_is_usual_is_supported_whatever_the_requests() -> None:
    """A plan's own shares are accepted when they are given, as a replay does: of few requests, of certain laws too."""
    for sampler, targets in ((Multinomial(), ["rows-of-8"]), (StandardRejection(), ["near"]), (Multinomial(), [])):
        for requests in (10, 20_000):
            spec = TrialSpec(sampler="it", targets=targets, requests=requests)
            usual = make(spec, sampler.describe(), "it")
            given = plan(msgspec.structs.replace(spec, weights=usual.weights), sampler.describe(), "it", given=True)
            assert given.plan == usual.plan


@pytest.mark.parametrize("sampler", [Multinomial(), StandardRejection()], ids=lambda sampler: type(sampler).__name__)
def test_alpha_is_divided_among_the_families_that_can_decide(sampler: Any) -> None:
    """Of each target alone, those that have a check which decides something of so many requests that all cells do."""
    names = [problem.name for problem in make(TrialSpec(sampler="it"), sampler.describe(), "it").problems]
    given = dict.fromkeys(DEFAULT, 1 / len(DEFAULT))
    without = 0
    for name in names:
        spec = TrialSpec(sampler="it", targets=[name], requests=LARGEST_REQUESTS)
        trial = make(msgspec.structs.replace(spec, weights=given), sampler.describe(), "it")
        able = {FAMILY[check.event] for check in trial.checks if check.decides}
        assert families(trial.groups) == able, name
        without += able < {FAMILY[check.event] for check in trial.checks}
    assert without


@pytest.mark.parametrize("number", [0, 3, -1])
def test_an_edition_that_there_is_not_is_refused(number: int) -> None:
    said = rf"a file: battery = {number}; editions are 1 to 2, and a new plan has 2"
    with pytest.raises(CampaignError, match=said):
        campaigns.of_document({"battery": number}, "a file")


def law_cells(name: str) -> Any:
    """Cells between requests of one target of pairs."""
    (problem,), _ = choose(StandardRejection().describe(), [name])
    return dependence_cells(Law(problem.target), pairs.build(name).depth, EVENTS[Kind.VERIFIER])


def test_only_pairs_of_requests_are_placed() -> None:
    """Everything else keeps its rate, and the order stays."""
    cells = law_cells("void")
    found = placed(cells, [Part(first=0, requests=1200)])
    assert [cell.id for cell in found] == [cell.id for cell in cells]
    for one, other in zip(cells, found, strict=True):
        if one.event not in BETWEEN or "requests-" not in one.pattern:
            assert one is other


def test_requests_a_launch_apart_are_compared() -> None:
    """Rows of two launches of any size, not of the usual distances only; an older plan has those alone."""
    document = {"targets": ["context"], "requests": 24_000, "paired": 0, "batch_sizes": [1, 5, 48], "depths": [4]}
    chosen = campaigns.of_document(document, "a test")
    assert lags_of(chosen) == tuple(sorted({*LAGS, 5, 48}))
    assert lags_of(campaigns.of_document(document | {"battery": Edition.SPREAD}, "a test")) == LAGS
    found = run_parts(chosen, Seed(bytes(32)), Backend.REFERENCE, parts_of(chosen), lambda *_: None).counts
    assert [name for name, size in found if size == 5] == [cell.id for cell in all_cells(chosen)]
    checks = {check.id: check for check in design(chosen)}
    for size in (5, 48):
        name = f"context/depth-4/match/requests-{size}"
        counted = sum(sum(counts) for (cell, _), counts in found.items() if cell.startswith(f"{name}/"))
        parts = [part for group in groups(chosen) for part in group.parts]
        assert counted == sum(pairs_in(part.requests, size) for part in parts)
        assert checks[name].events == counted
