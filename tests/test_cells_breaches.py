"""Counting what must not be: each breach has its own name, and an impossible outcome is a stray."""

from collections.abc import Callable

import numpy as np
import pytest
from tallied import damaged, on_torch, other, requests, tally_of

from pp3.harness.dependence import BUCKETS
from pp3.harness.design import cells_of
from pp3.harness.samplers.contract import Emission
from pp3.harness.tally import BREACHES
from pp3.targets import Target, build
from pp3.targets.target import ONE, POSITIONS

NONE = dict.fromkeys(BREACHES, 0)


def stopped(emission: Emission) -> int:
    """A request whose first draft was rejected."""
    return int(np.flatnonzero(emission.num_sampled == 1)[0])


@pytest.mark.parametrize("put", [pytest.param(lambda e: e, id="numpy"), pytest.param(on_torch, id="torch")])
@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        pytest.param(
            "context",
            lambda e, v: damaged(e, "tokens", (stopped(e), 0), v),
            {"illegal-token": 1},
            id="token-is-the-vocabulary",
        ),
        pytest.param(
            "context",
            lambda e, v: damaged(e, "tokens", (stopped(e), 0), -1),
            {"illegal-token": 1},
            id="token-is-padding",
        ),
        pytest.param(
            "context",
            lambda e, v: damaged(e, "proposed", (3, 3), v),
            {"illegal-token": 1},
            id="draft-is-the-vocabulary",
        ),
        pytest.param(
            "context", lambda e, v: damaged(e, "proposed", (3, 3), -7), {"illegal-token": 1}, id="draft-is-negative"
        ),
        pytest.param("context", lambda e, v: damaged(e, "num_sampled", 3, 0), {"illegal-length": 1}, id="length-0"),
        pytest.param(
            "context", lambda e, v: damaged(e, "num_sampled", 3, 6), {"illegal-length": 1}, id="length-6-of-5"
        ),
        pytest.param(
            "context", lambda e, v: damaged(e, "num_sampled", 3, -9), {"illegal-length": 1}, id="length-negative"
        ),
        pytest.param("context", lambda e, v: damaged(e, "status", 3, 1), {"failed": 1}, id="one-failed"),
        pytest.param("context", lambda e, v: damaged(e, "status", slice(0, 5), -9), {"failed": 5}, id="five-unwritten"),
        pytest.param(
            "equal-q", lambda e, v: damaged(e, "tokens", (3, 0), other(e, 3)), {"draft-not-echoed": 1}, id="not-echoed"
        ),
        pytest.param(
            "disjoint",
            lambda e, v: kept_although_disjoint(e),
            {"unreachable": 5},
            id="a-position-the-law-never-reaches",
        ),
    ],
)
def test_each_breach_has_its_own_name(
    name: str,
    damage: Callable[[Emission, int], Emission],
    expected: dict[str, int],
    put: Callable[[Emission], Emission],
) -> None:
    target = build(name)
    batch, emission = requests(target, 4)
    assert tally_of(target, 4, (batch, put(emission))).breaches == NONE
    tally = tally_of(target, 4, (batch, put(damage(emission, target.vocab))))
    assert tally.breaches == NONE | expected


def kept_although_disjoint(emission: Emission) -> Emission:
    """Request 3 keeps a draft that has no mass: a kept draft at position 0, and at position 1, where no request can
    be, a token, an accept, a residual and a recovery."""
    found = damaged(emission, "tokens", (3, 0), int(emission.drafts[3, 0]))
    return damaged(damaged(found, "tokens", (3, 1), int(emission.tokens[3, 0])), "num_sampled", 3, 2)


def test_an_impossible_outcome_is_a_stray() -> None:
    target = build("disjoint")
    batch, emission = requests(target, 4)
    token = int(np.flatnonzero(target.weights[0] == 0)[0])
    tally = tally_of(target, 4, (batch, damaged(emission, "tokens", (3, 0), token)))
    assert tally.breaches == NONE
    place = "position-0/context-0"
    strays = tally.strays()
    assert strays == [(f"disjoint/depth-4/{kind}/{place}", token, 1) for kind in ("token", "residual")]
    forbidden = {cell.id: counts[-1] for cell, counts in zip(tally.cells, tally.histograms(), strict=True)}
    assert sum(forbidden.values()) == 2
    assert all(forbidden[cell] == count for cell, _, count in strays)


def test_a_context_no_path_reaches() -> None:
    """Tokens of context 1 have neither weight nor tickets; one that is emitted all the same is seen."""
    vocab = 40
    weights = np.zeros((2, vocab), np.int64)
    weights[:, [0, 2]] = ONE // 2
    logits = np.full((2, vocab), -np.inf, np.float32)
    logits[:, [0, 2]] = 1.0
    target = Target(
        name="even",
        why="odd tokens lead to a context of their own",
        weights=weights,
        draft_logits=logits,
        row_of=np.tile([0, 1], (POSITIONS, 1)),
        context_of=np.arange(vocab) % 2,
    )
    batch, emission = requests(target, 4)
    assert (emission.num_sampled == 5).all()
    assert tally_of(target, 4, (batch, emission)).breaches == NONE
    drafted = damaged(emission, "proposed", (3, 0), 1)  # a stray, and position 1 in context 1
    tally = tally_of(target, 4, (batch, drafted))
    assert tally.breaches == NONE | {"unreachable": 1}
    assert tally.strays() == [("even/depth-4/proposal/position-0/context-0", 1, 1)]
    emitted = damaged(damaged(emission, "drafts", (3, 1), 1), "tokens", (3, 1), 1)
    tally = tally_of(target, 4, (batch, emitted))
    assert tally.breaches == NONE | {"unreachable": 5}  # a token, a kept draft, an accept, a prefix and a match
    place = "position-1/context-0"
    seen = [(f"even/depth-4/{event}/{place}", code, 1) for event, code in (("token", 1), ("kept", 1), ("accept", 3))]
    pair = cells_of(target, 4)[[cell.id for cell in tally.cells].index(f"even/depth-4/prefix/{place}")].maps
    seen.append((f"even/depth-4/prefix/{place}", int(pair[0][emission.tokens[3, 0]] * BUCKETS + pair[1][1]), 1))
    assert tally.strays() == seen
