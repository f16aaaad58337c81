"""The pairs of a target and its proposal: laws by digest, and that each shows what it is there for."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.joint import LARGEST, size
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.trial.seen import seen
from pp3.targets import PATTERNS, drafts_of
from pp3.targets.pairs import NAMES, WHY, Pair, build
from pp3.targets.target import ONE, VOIDS

EXACT = Description(name="it", kind=Kind.VERIFIER, target_carrier=Carrier.PROBS, greedy=True)
APART = 1 << 9  # shares over 2^24 that no FP32 rounding of logits bridges: 3e-5 of the smallest masses here
DIGESTS = {
    "near": "647aba0629b15f02",
    "far": "1a464c52b98b256d",
    "equal": "44beeefb95bdb0e3",
    "void": "2f04fc11b87abe44",
    "context": "31495170d75564d5",
    "mixed": "7e2672bdba3e316a",
    "peaked": "4f4be0680f4b29b3",
    "shared-noise": "143248fad2e10bee",
    "whole": "730cb4058df4bd31",
    "greedy": "d1a3a3645f3e30f8",
    "mixed-greedy": "68bbc75545de8b01",
    "ragged": "f21fb5642d13b4a3",
}


def rejected(pair: Pair) -> list[Fraction]:
    """Probability that a draft is rejected, by row."""
    return [
        Fraction(int(np.maximum(p - q, 0).sum()), ONE) for p, q in zip(pair.weights, pair.draft_weights, strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_laws_do_not_change_unnoticed(name: str) -> None:
    """A receipt names a law by this digest."""
    assert build(name).digest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_is_well_formed(name: str) -> None:
    pair = build(name)
    assert pair is build(name)
    assert (pair.name, pair.why) == (name, WHY[name])
    assert pair.row_of.max() < len(pair.weights)
    assert set(np.unique(pair.row_of)) == set(range(len(pair.weights)))  # no row that nobody reads
    assert pair.context_of.max() < pair.row_of.shape[1]
    assert set(pair.patterns) <= set(PATTERNS)
    assert pair.starts <= pair.row_of.shape[1]
    with pytest.raises(ValueError, match="read-only"):
        pair.weights[0, 0] = 1


@pytest.mark.parametrize("name", NAMES)
def test_every_position_is_reached_often_enough(name: str) -> None:
    """In 20,000 requests a law every round's end has 100 events, so that a check stands there."""
    pair = build(name)
    law = Law(seen(pair, EXACT))
    for pattern in pair.patterns:
        reached = law.reached(pair.depth, pattern)
        for j in range(1 if pattern in VOIDS[1:] else drafts_of(pattern, pair.depth) + 1):
            assert sum(mass for (position, _), mass in reached.items() if position == j) * 20_000 > 100, (pattern, j)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "equal"])
def test_target_and_proposal_are_apart(name: str) -> None:
    """No token lies where rounding alone decides whether it can be rejected, and every row rejects something."""
    pair = build(name)
    common = (pair.weights > 0) & (pair.draft_weights > 0)
    assert np.abs(pair.weights - pair.draft_weights)[common].min() > APART
    assert min(rejected(pair)[: len(pair.weights) - pair.starts]) > Fraction(1, 200)


@pytest.mark.parametrize("name", NAMES)
def test_an_argmax_is_no_tie(name: str) -> None:
    """Temperature 0 has one answer in FP32 logits as well."""
    pair = build(name)
    carried = seen(pair, EXACT).tables
    for rows in (carried.target_logits, carried.draft_logits):
        top = np.sort(rows[pair.heats == 0], axis=1)[:, -2:]
        assert (top[:, 0] < top[:, 1]).all()


def test_far_has_tokens_on_one_side_only() -> None:
    pair = build("far")
    assert ((pair.weights == 0) & (pair.draft_weights > 0)).any(axis=1).all()
    assert ((pair.weights > 0) & (pair.draft_weights == 0)).any(axis=1).all()
    assert min(rejected(pair)) > Fraction(1, 4)


def test_equal_rejects_nothing() -> None:
    assert max(rejected(build("equal"))) == 0


def test_context_has_three_laws_at_a_position() -> None:
    pair = build("context")
    assert pair.row_of[1].tolist() == [0, 1, 2]
    gap = [np.abs(pair.weights[i] - pair.weights[j]).sum() / ONE / 2 for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(gap) > 0.1


@pytest.mark.parametrize("name", ["mixed", "mixed-greedy"])
def test_mixed_requests_share_no_token(name: str) -> None:
    """Whatever is read from another's row is impossible at the first token, and at every one after it."""
    pair = build(name)
    for start in range(pair.starts):
        mine = pair.context_of == start
        for row in pair.row_of[:, start]:
            for rows in (pair.weights, pair.draft_weights):
                assert ((rows[row] > 0) == mine).all()
    assert len(set(pair.temperatures)) == pair.starts
    assert [pair.heats[row] for row in pair.row_of[2]] == [np.float32(heat) for heat in pair.temperatures]


def test_greedy_rounds_go_on_and_end() -> None:
    """The proposal's best is the target's, but for the last draft: a pipeline keeps three and is stopped."""
    for name in ("greedy", "mixed-greedy"):
        pair = build(name)
        rows = pair.row_of[:, 0]
        same = pair.weights[rows].argmax(axis=1) == pair.draft_weights[rows].argmax(axis=1)
        assert same.tolist() == [True, True, True, False, True]


def test_shared_noise_leaves_a_residual_on_a_likely_and_an_unlikely_draft() -> None:
    """The cell of vLLM PR #54282: draft noise that comes again favours the likely one."""
    pair = build("shared-noise")
    residual = np.maximum(pair.weights[0] - pair.draft_weights[0], 0)
    assert residual[0] == 0
    assert residual[1:].min() / ONE > 0.1
    assert pair.draft_weights[0, 1] > 30 * pair.draft_weights[0, 2]


def test_peaked_keeps_point_masses() -> None:
    """A draft and a draw from the target are often equal, which they hardly are where no token dominates."""
    pair = build("peaked")
    equal = [
        sum(Fraction(int(p) * int(q), ONE**2) for p, q in zip(*rows, strict=True))
        for rows in zip(pair.weights, pair.draft_weights, strict=True)
    ]
    assert min(equal) > Fraction(1, 2)


def test_joint_pairs_are_small() -> None:
    joint = [build(name) for name in NAMES if build(name).joint]
    assert {pair.name for pair in joint} == {"whole", "shared-noise"}
    assert max(size(pair.vocab, pair.depth) for pair in joint) < LARGEST // 1000


def test_a_digest_covers_all_that_makes_the_law() -> None:
    pair = build("mixed")
    weights = pair.weights.copy()
    weights[0, [0, 3]] += (1, -1)
    draft = pair.draft_weights.copy()
    draft[0, [0, 3]] += (1, -1)
    others = [
        replace(pair, weights=weights),
        replace(pair, draft_weights=draft),
        replace(pair, patterns=("first",)),
        replace(pair, temperatures=(0.7, 1.0, 1.4)),
        replace(pair, row_of=pair.row_of[::-1].copy()),
        replace(pair, context_of=pair.context_of[::-1].copy()),
    ]
    assert len({pair.digest(), *(other.digest() for other in others)}) == 7
    assert replace(pair, name="other", why="a label").digest() == pair.digest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.full((15, 24), ONE // 24)}, r"a target row does not sum to 16777216 \(2\^24\)"),
        ({"draft_weights": np.full((15, 24), 1)}, "a proposal row does not sum"),
        ({"row_of": np.zeros((5, 2), np.int64)}, "3 temperatures need as many contexts"),
    ],
)
def test_what_is_no_pair_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(build("mixed"), **change)


def test_an_unknown_name() -> None:
    with pytest.raises(KeyError):
        build("nearly")
