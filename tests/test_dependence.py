"""Laws of what may not depend on each other: against every path of small targets, walked one by one in fractions."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from walked_paths import cells_of, equal, is_right, law, law_of, normal, random_pair, tabled, walked, who

from pp3.harness.cells import CAMPAIGN, Event
from pp3.harness.dependence import (
    BUCKETS,
    CARRIED,
    LAGS,
    LONGEST,
    RARE,
    ROUNDS,
    WINDOW,
    buckets,
    classes,
    dependence_cells,
    stretch,
)
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Kind, Rule, Void
from pp3.harness.tally import pattern_of, start_of
from pp3.harness.trial.seen import seen
from pp3.targets import build as toy
from pp3.targets import invalidated, pairs
from pp3.targets.target import ONE, VOIDS

Mass = dict[Any, Fraction]
SHAPES = [(2, 1, 1), (4, 2, 2), (5, 2, 3), (3, 3, 2), (12, 1, 2)]
KINDS: dict[str, dict[str, Any]] = {
    "standard": {},
    "one-hot": {"draft_carrier": Carrier.ONE_HOT},
    "sample-match": {"rule": Rule.SAMPLE_MATCH},
    "void-from-the-residual": {"void": Void.RESIDUAL},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("vocab", "depth", "contexts"), SHAPES)
@pytest.mark.parametrize("patterns", [("none",), VOIDS], ids=["none", "every-pattern"])
def test_laws_within_a_round(
    kind: str, vocab: int, depth: int, contexts: int, patterns: tuple[str, ...], rng: np.random.Generator
) -> None:
    """Prefix, equal neighbours and recovery: none missing, none too many, exactly."""
    pair = random_pair(rng, vocab, depth, contexts, patterns=patterns)
    compares = kind in ("one-hot", "sample-match")
    after: dict[tuple[int, int], Mass] = defaultdict(lambda: defaultdict(Fraction))
    replaced: dict[tuple[int, int], Mass] = defaultdict(lambda: defaultdict(Fraction))
    for k, steps, mass in walked(pair, compares, kind == "void-from-the-residual"):
        void = (*invalidated(patterns[k], depth), False)
        for j, step in enumerate(steps):
            if j and not void[j]:
                after[j, step.context][steps[j - 1].token, step.token] += mass
            if step.draft is not None and not step.kept:
                replaced[j, step.context][step.draft, step.token] += mass
    cells = cells_of(pair, **KINDS[kind])
    found = {(c.event, c.position, c.context): c for c in cells if c.position >= 0}
    expected = {(event, *at) for at in after for event in (Event.PREFIX, Event.MATCH)}
    assert set(found) == expected | {(Event.RECOVERY, *at) for at in replaced}
    for at, joint in after.items():
        is_right(found[Event.PREFIX, *at], tabled(joint, found[Event.PREFIX, *at]))
        is_right(found[Event.MATCH, *at], equal(joint))
    for at, joint in replaced.items():
        is_right(found[Event.RECOVERY, *at], tabled(joint, found[Event.RECOVERY, *at]))


@pytest.mark.parametrize(("vocab", "depth", "contexts"), SHAPES)
def test_laws_of_drafts_alone(vocab: int, depth: int, contexts: int, rng: np.random.Generator) -> None:
    """Of a sampler that only drafts: a draft after a draft, and first drafts of two requests."""
    pair = random_pair(rng, vocab, depth, contexts)
    after: dict[tuple[int, int], Mass] = defaultdict(lambda: defaultdict(Fraction))
    for drafts in itertools.product(range(vocab), repeat=depth):
        context, mass = 0, Fraction(1)
        for j, token in enumerate(drafts):
            mass *= Fraction(int(pair.draft_weights[pair.row_of[j, context], token]), ONE)
            context = int(pair.context_of[token])
        for j in range(1, depth):
            after[j, int(pair.context_of[drafts[j - 1]])][drafts[j - 1], drafts[j]] += mass
    events = frozenset({Event.PROPOSAL, Event.PREFIX, Event.MATCH, Event.PAIR})
    cells = cells_of(pair, events, kind=Kind.PROPOSAL)
    found = {(c.event, c.position, c.context): c for c in cells if c.position >= 0}
    reached = {at: joint for at, joint in after.items() if any(joint.values())}
    assert set(found) == {(event, *at) for at in reached for event in (Event.PREFIX, Event.MATCH)}
    for at, joint in reached.items():
        is_right(found[Event.PREFIX, *at], tabled(joint, found[Event.PREFIX, *at]))
        is_right(found[Event.MATCH, *at], equal(joint))
    first = law_of(pair.draft_weights[0])
    same = sum((p * p for p in first.values()), Fraction(0))
    (lag,) = [cell for cell in cells if cell.event is Event.MATCH and cell.pattern == "requests-1/class-0"]
    assert law(lag).get(1, 0) == same


@pytest.mark.parametrize("kind", ["standard", "one-hot", "void-from-the-residual"])
@pytest.mark.parametrize(
    ("patterns", "temperatures"),
    [
        pytest.param(("none",), (1.0,), id="one-class"),
        pytest.param(VOIDS, (1.0,), id="patterns"),
        pytest.param(("none",), (1.0, 1.0, 1.0), id="starts"),
        pytest.param(("first", "last"), (1.0, 1.0), id="both"),
    ],
)
def test_laws_between_requests(
    kind: str, patterns: tuple[str, ...], temperatures: tuple[float, ...], rng: np.random.Generator
) -> None:
    """Of each class and the one that follows it at a distance: the product of what each is by itself."""
    pair = random_pair(rng, 6, 2, len(temperatures), patterns=patterns, temperatures=temperatures)
    count = len(patterns) * len(temperatures)
    first: list[Mass] = [defaultdict(Fraction) for _ in range(count)]
    length: list[Mass] = [defaultdict(Fraction) for _ in range(count)]
    second: Mass = defaultdict(Fraction)
    for k, steps, mass in walked(pair, kind == "one-hot", kind == "void-from-the-residual"):
        first[k][steps[0].token] += mass * count
        length[k][len(steps) - 1] += mass * count
        if len(steps) > 1:
            second[steps[1].token] += mass
    cells = cells_of(pair, **KINDS[kind])
    target = seen(pair, who(**KINDS[kind]))
    assert classes(Law(target)) == count
    found = {(cell.event, cell.pattern): cell for cell in cells if cell.position < 0}
    rate = Fraction(1, 2 * count)
    for k in range(count):
        request = np.array([k + 7 * count])
        assert (int(start_of(target, request)[0]), int(pattern_of(target, request)[0])) == divmod(k, len(patterns))
        for lag in LAGS:
            other = (k + lag) % count
            joint = {(a, b): p * q * rate for a, p in first[k].items() for b, q in first[other].items()}
            is_right(found.pop((Event.MATCH, f"requests-{lag}/class-{k}")), equal(joint))
            if lag == 1:
                pairs_cell = found.pop((Event.PAIR, f"requests-1/class-{k}"))
                is_right(pairs_cell, tabled(joint, pairs_cell))
                if len(temperatures) == 1:
                    both = {
                        i * (pair.depth + 1) + j: p * q * rate
                        for i, p in length[k].items()
                        for j, q in length[other].items()
                    }
                    lengths = found.pop((Event.LENGTH_PAIR, f"requests-1/class-{k}"))
                    is_right(lengths, both)
                    assert lengths.strata is not None
                    assert lengths.strata.tolist() == (lengths.atoms // (pair.depth + 1)).tolist()
    if count == 1:
        same = equal({(a, b): p * q * rate for a, p in first[0].items() for b, q in first[0].items()})
        for name in ROUNDS:
            if name != CARRIED:
                is_right(found.pop((Event.ROUND, f"{name}/class-0")), same)
        carried = found.pop((Event.ROUND, f"{CARRIED}/class-0"), None)
        assert carried is not None
        joint = {(a, b): p * q for a, p in second.items() for b, q in first[0].items()}
        assert law(carried) == normal(equal(joint))
        tokens = Law(target).target.weights[0]
        if length_of := stretch(tokens):
            cell = found.pop((Event.REPEAT, f"stretches-of-{length_of}"))
            assert law(cell) == {0: Fraction(RARE - 1, RARE), 1: Fraction(1, RARE)}
            assert cell.rate == Fraction(1, length_of)
    assert found == {}


def test_our_own_campaigns_have_no_rounds_of_a_slot() -> None:
    cells = dependence_cells(Law(toy("context")), 4, CAMPAIGN)
    assert Event.ROUND not in {cell.event for cell in cells}
    assert {cell.event for cell in cells} == {
        Event.PREFIX,
        Event.RECOVERY,
        Event.MATCH,
        Event.PAIR,
        Event.LENGTH_PAIR,
        Event.REPEAT,
    }


def test_wanted_events_alone(rng: np.random.Generator) -> None:
    """Each event by itself is what it is among all; equal neighbours of a round come with its prefixes."""
    pair = random_pair(rng, 5, 2, 2)
    whole = cells_of(pair)
    for event in {cell.event for cell in whole}:
        alone = cells_of(pair, frozenset({Event.TOKEN, Event.PREFIX, event}))
        wanted = (Event.PREFIX, event)
        mine = [cell.id for cell in whole if cell.event in wanted]
        if event is not Event.MATCH:
            assert [cell.id for cell in alone if cell.event is event] == [c.id for c in whole if c.event is event]
        else:
            assert [cell.id for cell in alone] == mine


@pytest.mark.parametrize("name", pairs.NAMES)
def test_every_cell_of_our_pairs_has_a_name_of_its_own(name: str) -> None:
    cells = cells_of(pairs.build(name))
    assert len({cell.id for cell in cells}) == len(cells)
    assert all(min(cell.shares) > 0 and (np.diff(cell.atoms) > 0).all() for cell in cells)


def bucket(weights: list[int], token: int) -> int:
    """By the middle of a token's mass, in fractions."""
    middle = Fraction(2 * sum(weights[:token]) + weights[token], 2 * sum(weights))
    return min(math.floor(middle * BUCKETS), BUCKETS - 1)


def test_buckets_are_ranges_of_about_equal_mass(rng: np.random.Generator) -> None:
    """Ascending from 0 or more to at most BUCKETS - 1; one of several tokens has at most an eighth and its largest."""
    for _ in range(200):
        weights = rng.integers(0, 2 ** rng.integers(1, 40), rng.integers(1, 60))
        weights[rng.integers(0, len(weights))] += 1
        found = buckets(weights)
        assert found.tolist() == [bucket(weights.tolist(), token) for token in range(len(weights))]
        assert (np.diff(found) >= 0).all()
        assert 0 <= found.min() <= found.max() < BUCKETS
        for b in set(found.tolist()):
            inside = weights[found == b]
            assert inside.sum() * BUCKETS <= weights.sum() + inside.max() * BUCKETS


def test_many_equal_tokens_fill_every_bucket() -> None:
    found = buckets(np.full(64, 5))
    assert np.bincount(found).tolist() == [64 // BUCKETS] * BUCKETS


@pytest.mark.parametrize(
    "shares",
    [[1] * n for n in (2, 3, 20, 1000, 1 << 16)] + [[9, 1], [99, 1], [1 << 24, 1], [3, 2, 2, 1]],
    ids=lambda shares: f"{max(shares)}-of-{sum(shares)}",
)
def test_a_stretch_is_just_so_long_that_a_window_hardly_repeats_it(shares: list[int]) -> None:
    """WINDOW places, each equal with at most the largest probability a token; one token fewer would not do."""
    length = stretch(np.array(shares))
    largest = Fraction(max(shares), sum(shares))
    exact = next((n for n in range(1, LONGEST + 1) if WINDOW * largest**n * RARE <= 1), 0)
    assert abs(length - exact) <= (1 if length else 0)  # a logarithm in doubles, which may round a tie
    assert not length or WINDOW * largest**length * RARE <= Fraction(1 + 10**-9)


def test_a_certain_token_has_no_stretch() -> None:
    assert stretch(np.array([7])) == stretch(np.array([0, 7, 0])) == 0
    assert not [cell for cell in cells_of(pairs.build("greedy")) if cell.event is Event.REPEAT]


def test_stretches_repeat_no_more_often_than_said(rng: np.random.Generator) -> None:
    """With short ones, so that repeats occur: of windows of 512 places, P(a stretch has its like) within the bound.

    512 largest^length bounds each; 200 windows of 64 stretches; five standard errors of a mean of dependent ones,
    taken as if each window were one event.
    """
    law_, length, n, windows = np.array([0.4, 0.3, 0.2, 0.1]), 8, 512, 200
    bound = n * law_.max() ** length
    share = []
    for _ in range(windows):
        tokens = rng.choice(4, n, p=law_)
        places = np.lib.stride_tricks.sliding_window_view(tokens, length)
        codes = places @ (4 ** np.arange(length))
        _, which, times = np.unique(codes, return_inverse=True, return_counts=True)
        share.append((times[which] > 1)[::length].mean())
    assert 0 < float(np.mean(share)) <= bound + 5 * float(np.std(share)) / math.sqrt(windows)
