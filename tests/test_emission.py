"""Emissions: counts against their definitions and against the reference sampler, addressed at every edge."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.emission import Design, Device, Emission, Row, accepting, hits, of_draft, of_whole
from pp3.harness.inversion import invert
from pp3.kernels.reference import ONE, SUPPORT, Verification, allocate, verify
from pp3.targets import Target
from pp3.targets.policies import build_policy

KEY = 0x0123_4567_89AB_CDEF
W32, W64 = 1 << 32, 1 << 64
ROWS = [("identity", 0), ("tilt", 0), ("tilt", 17), ("sparse", 3), ("disjoint", 1)]


@pytest.mark.parametrize(
    ("weight", "tickets", "count"),
    [
        pytest.param(0, 1, 0, id="nothing-accepts"),
        pytest.param(5, 5, W32, id="equal-accepts-all"),
        pytest.param(ONE, 1, W32, id="more-is-no-more-than-all"),
        pytest.param(1, 2, W32 // 2, id="half"),
        pytest.param(1, 3, 1431655766, id="a-third-rounds-up"),
        pytest.param(2, 3, 2863311531, id="two-thirds-round-up"),
        pytest.param(1, ONE, 256, id="smallest"),
        pytest.param(ONE - 1, ONE, W32 - 256, id="largest-below-all"),
    ],
)
def test_accepting(weight: int, tickets: int, count: int) -> None:
    assert accepting(weight * ONE, tickets) == count


def test_accepting_takes_quanta_that_are_no_multiple_of_a_ticket() -> None:
    assert [accepting(quanta, ONE) for quanta in (1, 65536, 65537)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("edges", "counts"),
    [
        pytest.param([0, 1, 2], [W64 // 2] * 2, id="halves"),
        pytest.param([0, 1, 2, 3], [W64 // 3 + 1, W64 // 3, W64 // 3], id="thirds"),
        pytest.param([0, 5, 5, 7], [-(-W64 * 5 // 7), 0, W64 - -(-W64 * 5 // 7)], id="no-share-no-hit"),
    ],
)
def test_hits(edges: list[int], counts: list[int]) -> None:
    assert [hits(low, high, edges[-1]) for low, high in itertools.pairwise(edges)] == counts
    assert sum(counts) == W64


def test_hits_do_not_depend_on_the_unit() -> None:
    assert hits(3, 8, 11) == hits(3 * ONE, 8 * ONE, 11 * ONE)


Q, P = {1: ONE // 2, 2: ONE // 4, 3: ONE // 4}, {1: ONE // 4, 2: ONE // 4, 4: ONE // 2}


@pytest.mark.parametrize(
    ("drawn", "left", "law", "kept"),
    [
        pytest.param(Q, {4: ONE // 2}, {1: (1, 4), 2: (1, 4), 4: (1, 2)}, {1: (1, 4), 2: (1, 4)}, id="standard"),
        pytest.param(Q, P, {1: (3, 8), 2: (3, 8), 4: (1, 4)}, {1: (1, 4), 2: (1, 4)}, id="residual-of-p"),
        pytest.param({2: ONE}, {4: 1}, {2: (1, 1)}, {2: (1, 1)}, id="none-rejected"),
        pytest.param({3: ONE}, {4: 1}, {4: (1, 1)}, {}, id="all-rejected"),
        pytest.param({1: ONE // 2, 9: ONE // 2}, {4: 1}, {1: (1, 4), 4: (1, 4)}, {1: (1, 4)}, id="undrawable-fails"),
        pytest.param({9: ONE}, {4: 1}, {}, {}, id="only-undrawable"),
    ],
)
def test_design_of_a_draft(drawn: Row, left: Row, law: dict[int, Any], kept: dict[int, Any]) -> None:
    found = of_draft(drawn, Q, P, left, Design())
    assert fractions(found, found.law) == {token: Fraction(*share) for token, share in law.items()}
    assert fractions(found, found.kept) == {token: Fraction(*share) for token, share in kept.items()}


@pytest.mark.parametrize("arithmetic", [Design(), Device()])
def test_whole(arithmetic: Any) -> None:
    found = of_whole(P, arithmetic)
    assert fractions(found, found.law) == {token: Fraction(share, ONE) for token, share in P.items()}
    assert found.kept == {}


def test_device_of_thirds() -> None:
    """Acceptance of a third and a residual of thirds: both rounded up where the semantics say so."""
    found = of_draft({1: ONE}, {1: 3}, {1: 1}, {2: 1, 5: 1, 7: 1}, Device())
    keep = Fraction(1431655766, W32)
    assert fractions(found, found.kept) == {1: keep}
    thirds = {2: W64 // 3 + 1, 5: W64 // 3, 7: W64 // 3}
    assert fractions(found, found.law) == {1: keep} | {t: (1 - keep) * Fraction(n, W64) for t, n in thirds.items()}


def fractions(emission: Emission, part: Row) -> dict[int, Fraction]:
    """A part of an emission, tokens of no share left out."""
    return {token: Fraction(share, emission.scale) for token, share in part.items() if share}


class Round:
    """Rounds of depth 1 through the reference: one draft against one row, words of the judged position by address."""

    def __init__(self, target: Target, row: int) -> None:
        supports = allocate(target.draft_logits)
        self.probs = (target.weights / 2.0**24).astype(np.float32)
        self.weights = {int(t): int(target.weights[row, t]) for t in np.flatnonzero(target.weights[row])}
        self.name, self.row, self.ids, self.carried = target.name, row, supports.ids[row], supports.tickets[row]
        self.tickets = {i: t for i, t in zip(self.ids.tolist(), self.carried.tolist(), strict=True) if t}

    def verify(
        self, draft: list[int], w0: list[int], w64: list[int], first: int, last: int, ahead: int
    ) -> Verification:
        """The block at `ahead` positions past the draft holds the words; rows `first` and `last` judge."""
        parts = []
        for at in range(0, len(draft), 256):
            words = [[a, b % W32, b >> 32, 0] for a, b in zip(w0[at : at + 256], w64[at : at + 256], strict=True)]
            rounds, positions = invert(np.array(words, np.uint32), KEY)
            n = len(words)
            parts.append(
                verify(
                    np.broadcast_to(self.probs[[first, last]], (n, 2, self.probs.shape[1])),
                    np.array(draft[at : at + 256], np.int32)[:, None],
                    np.broadcast_to(self.ids, (n, 1, SUPPORT)),
                    np.broadcast_to(self.carried, (n, 1, SUPPORT)),
                    np.ones(n, np.bool_),
                    np.full(n, KEY, np.uint64),
                    rounds,
                    positions - np.uint64(ahead),
                )
            )
        return Verification(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def accepts(self, draft: list[int], w0: list[int]) -> list[bool]:
        """Whether each draft is kept at its w0."""
        found = self.verify(draft, w0, [0] * len(draft), self.row, self.row, 0)
        assert not found.status.any()
        return [length == 2 for length in found.num_sampled.tolist()]


@pytest.fixture(params=ROWS, ids=lambda param: f"{param[0]}-{param[1]}")
def judged(request: pytest.FixtureRequest) -> Round:
    """One row of one policy."""
    name, row = request.param
    return Round(build_policy(name), row)


def test_acceptance_edges_of_the_reference(judged: Round) -> None:
    """The last accepting w0, the first rejecting one, and their neighbours, of every draft of the row."""
    drafts, w0, expected = [], [], []
    for token, tickets in judged.tickets.items():
        count = accepting(judged.weights.get(token, 0) * ONE, tickets)
        for word in {0, count - 2, count - 1, count, count + 1, W32 - 1}:
            if 0 <= word < W32:
                drafts.append(token)
                w0.append(word)
                expected.append(word < count)
    assert judged.accepts(drafts, w0) == expected


def test_a_count_off_by_one_would_show() -> None:
    """At its edge the reference contradicts both neighbours of the count."""
    judged = Round(build_policy("tilt"), 0)
    seen = 0
    for token, tickets in judged.tickets.items():
        count = accepting(judged.weights.get(token, 0) * ONE, tickets)
        if 0 < count < W32:
            seen += 1
            assert judged.accepts([token, token], [count - 1, count]) == [True, False]
    assert seen > 3


def edges_of(shares: Row) -> tuple[list[int], list[int]]:
    """The first and the last w64 of every token by the counts, and the tokens."""
    words: list[int] = []
    tokens: list[int] = []
    start, low, total = 0, 0, sum(shares.values())
    for token, share in shares.items():
        count = hits(low, low + share, total)
        words += [start, start + count - 1]
        tokens += [token, token]
        start, low = start + count, low + share
    assert start == W64
    return words, tokens


def residual(judged: Round) -> Any:
    """A rejected draft: the largest w0 of one whose P is below its Q."""
    left = {t: w - judged.tickets.get(t, 0) for t, w in judged.weights.items() if w > judged.tickets.get(t, 0)}
    short = [t for t, n in judged.tickets.items() if accepting(judged.weights.get(t, 0) * ONE, n) < W32]
    return left, short[:1], 0, 0


def full_target(judged: Round) -> Any:
    """An invalidated draft."""
    return judged.weights, [-1], 0, 0


def bonus(judged: Round) -> Any:
    """A draft that every w0 accepts, then the row of the bonus."""
    sure = [t for t, n in judged.tickets.items() if judged.weights.get(t, 0) >= n]
    return judged.weights, sure[:1], 1, 1


@pytest.mark.parametrize("event", [residual, full_target, bonus])
def test_running_sum_edges_of_the_reference(judged: Round, event: Callable[[Round], Any]) -> None:
    """Both ends of every token's interval of w64; the ends of neighbours touch, so each count is located exactly."""
    shares, drafts, ahead, column = event(judged)
    if not (shares and drafts):  # identity rejects nothing, disjoint keeps nothing
        assert (event, judged.name) in [(residual, "identity"), (bonus, "disjoint")]
        return
    words, tokens = edges_of(shares)
    n = len(words)
    found = judged.verify(drafts * n, [W32 - 1] * n, words, judged.row, judged.row, ahead)
    assert not found.status.any()
    assert set((found.num_sampled - 1).tolist()) == {column}
    assert found.tokens[:, column].tolist() == tokens
