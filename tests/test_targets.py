"""The five built-in targets: golden digests, exactness, spread, and how far the rows of one target lie apart."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.kernels.reference import allocate
from pp3.targets import NAMES, PATTERNS, Target, build, drafts_of, invalidated
from pp3.targets.target import ONE, POSITIONS, VOIDS

TILE = 4096  # of the proposal kernel
DIGESTS = {
    "sparse-tail": "f9890ab04df57e89c794c1233579eecc2c7046b565f4e0d338d6ef7a8926c06c",
    "disjoint": "ba22155e61d544021edfd37df406bfa710fd80acff8c90469af7c7da2e506142",
    "equal-q": "04c7161675a71950374ca75b7eb176a9d00ab536c7543a0f6d5408c5f1639adf",
    "invalidated": "ee1dadc54b546dd3b426bf5ecadc41f52723b666539653d41bde4915e072b5fa",
    "context": "013330780873f2b9e7ce55f19a703711872f798867868a0ed6265c1331887fdb",
}


def tickets(target: Target) -> npt.NDArray[np.int64]:
    """The proposal's law, [rows, vocab]."""
    supports = allocate(target.draft_logits)
    dense = np.zeros_like(target.weights)
    np.put_along_axis(dense, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
    return dense


def total_variation(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> float:
    """Half the sum of the differences of two laws over 2^24."""
    return float(np.abs(one - other).sum()) / 2 / ONE


@pytest.mark.parametrize("name", NAMES)
def test_digest_is_the_committed_one(name: str) -> None:
    """A new NumPy or Python must not change what was qualified."""
    assert build(name).digest() == DIGESTS[name]


def test_every_target_has_a_golden_digest() -> None:
    assert set(NAMES) == set(DIGESTS)
    assert len(set(DIGESTS.values())) == len(NAMES) == 5


@pytest.mark.parametrize("name", NAMES)
def test_laws_are_exact(name: str) -> None:
    target = build(name)
    assert target.weights.sum(axis=1).tolist() == [ONE] * len(target.weights)
    assert target.weights.min() == 0
    probabilities = (target.weights / 2.0**24).astype(np.float32)
    assert (probabilities.astype(np.float64) * 2.0**24 == target.weights).all()
    bfloat = (target.draft_logits.view(np.uint32) >> 16 << 16).view(np.float32)
    assert (bfloat == target.draft_logits).all()
    assert tickets(target).sum(axis=1).tolist() == [ONE] * len(target.weights)


def test_support_spreads_over_three_tiles() -> None:
    wide = []
    for target in map(build, NAMES):
        if target.vocab <= 3 * TILE:
            continue
        wide.append(target.name)
        for row in (*target.weights, *tickets(target)):
            assert len(set((np.flatnonzero(row) // TILE).tolist())) >= 3
    assert len(wide) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_rows_lie_apart(name: str) -> None:
    """A mix-up of any two rows moves a law by 0.2 or more, in the target and in the proposal."""
    target = build(name)
    assert len(target.weights) > 1
    for law in (target.weights, tickets(target)):
        for one, other in itertools.combinations(law, 2):
            assert total_variation(one, other) >= 0.2


def test_every_draft_of_disjoint_is_rejected() -> None:
    target = build("disjoint")
    assert not ((target.weights > 0) & (tickets(target) > 0)).any()


def test_equal_q_is_the_tickets() -> None:
    target = build("equal-q")
    assert (target.weights == tickets(target)).all()


def test_sparse_tail_has_a_third_on_40_tokens_never_drafted() -> None:
    target = build("sparse-tail")
    for weights, drawn in zip(target.weights, tickets(target), strict=True):
        tail = weights[drawn == 0]
        assert (int(tail.sum()), int((tail > 0).sum())) == (ONE // 3, 40)
        assert (weights[drawn > 0] > 0).all()


@pytest.mark.parametrize("name", ["sparse-tail", "invalidated", "context"])
def test_both_outcomes_of_a_draft_are_common(name: str) -> None:
    target = build(name)
    kept = np.minimum(target.weights, tickets(target)).sum(axis=1) / ONE
    assert ((kept > 0.2) & (kept < 0.95)).all()


def test_context_depends_on_the_previous_token() -> None:
    target = build("context")
    assert (target.contexts, target.row_of.tolist()) == (4, [[0, 1, 2, 3]] * POSITIONS)
    for law in (target.weights, tickets(target)):
        shares = [np.bincount(target.context_of, weights=row, minlength=4) / ONE for row in law]
        assert (np.array(shares) > 0.02).all()  # every context follows every other


@pytest.mark.parametrize("name", [name for name in NAMES if name != "context"])
def test_other_targets_have_a_row_a_position(name: str) -> None:
    target = build(name)
    assert (target.contexts, target.row_of[:, 0].tolist()) == (1, list(range(POSITIONS)))


def test_patterns_of_the_targets() -> None:
    assert build("invalidated").patterns == ("first", "middle", "last", "every")
    assert {build(name).patterns for name in NAMES if name != "invalidated"} == {("none",)}


def test_unknown_name() -> None:
    with pytest.raises(KeyError, match="sparse-tale"):
        build("sparse-tale")


@pytest.mark.parametrize(
    ("pattern", "depth", "expected"),
    [
        ("none", 4, [0, 0, 0, 0]),
        ("first", 4, [1, 0, 0, 0]),
        ("middle", 4, [0, 0, 1, 0]),
        ("middle", 5, [0, 0, 1, 0, 0]),
        ("last", 5, [0, 0, 0, 0, 1]),
        ("every", 5, [1, 1, 1, 1, 1]),
    ],
)
def test_invalidated(pattern: str, depth: int, expected: list[int]) -> None:
    assert [int(void) for void in invalidated(pattern, depth)] == expected


def small(**changed: Any) -> Target:
    """A target of two rows and 40 tokens."""
    weights = np.zeros((2, 40), np.int64)
    weights[0, 3], weights[1, [4, 5]] = ONE, ONE // 2
    fields: dict[str, Any] = {
        "name": "small",
        "why": "a test",
        "weights": weights,
        "draft_logits": np.zeros((2, 40), np.float32),
        "row_of": np.zeros((POSITIONS, 1), np.int64),
        "context_of": np.zeros(40, np.int64),
    }
    return Target(**fields | changed)


def altered(field: str, index: Any, value: float) -> dict[str, Any]:
    """One entry of one field of `small` changed."""
    array = getattr(small(), field).copy()
    array[index] = value
    return {field: array}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(altered("weights", (1, 4), ONE), "weights of row 1 sum to 25165824; want 16777216", id="sum"),
        pytest.param(altered("weights", (0, 3), 0), "weights of row 0 sum to 0", id="no-mass"),
        pytest.param(
            {"weights": np.array([[ONE + 1, -1] + [0] * 38] * 2)},
            "row 0 sum to 16777216; .*none negative",
            id="negative",
        ),
        pytest.param(
            {"draft_logits": np.zeros((2, 39), np.float32)},
            r"draft_logits are \(2, 39\), weights \(2, 40\)",
            id="shape",
        ),
        pytest.param(altered("draft_logits", (0, 7), 0.1), r"draft logit \S*0\.1\S* is not exact", id="not-bf16"),
        pytest.param({"row_of": np.zeros((5, 1), np.int64)}, r"row_of must be \[6, contexts\]", id="five-positions"),
        pytest.param(altered("row_of", (2, 0), 2), "rows below 2", id="row-too-high"),
        pytest.param(altered("row_of", (2, 0), -1), "rows below 2", id="row-negative"),
        pytest.param({"context_of": np.zeros(39, np.int64)}, "each of 40 tokens a number below 1", id="39-contexts"),
        pytest.param(altered("context_of", 5, 1), "a number below 1", id="context-too-high"),
        pytest.param(altered("context_of", 5, -1), "a number below 1", id="context-negative"),
        pytest.param({"patterns": ("none", "frist")}, r"pattern \['frist'\] is unknown", id="unknown-pattern"),
        pytest.param({"patterns": ()}, "choose from none, first, middle, last, every", id="no-pattern"),
    ],
)
def test_bad_targets_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"target small: .*{message}"):
        small(**changed)


def test_good_target_is_taken() -> None:
    assert (small().vocab, small().contexts) == (40, 1)
    assert VOIDS == ("none", "first", "middle", "last", "every")
    assert (*VOIDS, "short-0", "short-1", "short-2", "short-3", "short-4") == PATTERNS


@pytest.mark.parametrize("depth", [0, 1, 4, 5])
def test_a_short_pattern_has_so_many_drafts_and_voids_none(depth: int) -> None:
    for pattern in VOIDS:
        assert drafts_of(pattern, depth) == depth
    for count, pattern in enumerate(PATTERNS[len(VOIDS) :]):
        assert drafts_of(pattern, depth) == min(count, depth)
        assert invalidated(pattern, depth) == (False,) * depth


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: {"weights": t.weights[::-1].copy()}, id="weights"),
        pytest.param(lambda t: {"draft_logits": t.draft_logits + np.float32(1)}, id="logits"),
        pytest.param(lambda t: {"row_of": 1 - t.row_of}, id="rows"),
        pytest.param(lambda t: {"patterns": ("first",)}, id="patterns"),
        pytest.param(
            lambda t: {"row_of": np.tile([0, 1], (POSITIONS, 1)), "context_of": np.arange(40) % 2}, id="contexts"
        ),
    ],
)
def test_digest_binds_the_law(change: Callable[[Target], dict[str, Any]]) -> None:
    target = small()
    assert replace(target, **change(target)).digest() != target.digest()


def test_digest_leaves_labels_out() -> None:
    target = small()
    assert replace(target, name="other", why="another").digest() == target.digest()
