"""The exact checks that planted faults must meet: what each observes of the edited reference, and what it must be.

A check is a part of what `pp3 exhaustive` and `pp3 oracle` run on a CPU, small enough to be run once a fault. The draws
are those at both ends of every ticketed interval of the 256 supports; the edges those of two targets; the ledger that
of a small campaign. The bridge of the draws takes the first 2^16 of 2^24 draw values of one policy's rows from the
reference, the others as its tickets give them; the bridges of acceptance, residual and bonus take each of these
integers from the edited verifier, found by bisection, where `pp3 oracle` takes semantics section 3.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from pp3 import targets
from pp3.harness.backends import Reference
from pp3.harness.bridge import DEPTHS, Steps, Use, bridge
from pp3.harness.crossings import cross
from pp3.harness.emission import Arithmetic, Device, Emission, Row, of_draft
from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, tree
from pp3.harness.exact.edges import W32, W64, Pair
from pp3.harness.exact.enumeration import Values
from pp3.kernels import reference
from pp3.kernels.reference import allocate
from pp3.targets.policies import build_policy

NARROW = ("disjoint", "invalidated")  # targets of 97 tokens
MEASURED = "invalidated"
POLICY = "identity"
WINDOW = 1 << 16
LEDGER = {"requests": 2000, "paired": 400}
EQUAL, WITHIN = "the target", "within the bound"
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`observe` is called with the edits in place, `expect` without them."""

    observe: Callable[[], Values]
    expect: Callable[[], Values]


def part(observe: Callable[[], Values], expect: Callable[[], Values], *names: str) -> Check:
    """A check of the entries whose names hold one of these texts."""

    def chosen(values: Values) -> Values:
        return {key: value for key, value in values.items() if any(name in key for name in names)}

    return Check(observe=lambda: chosen(observe()), expect=lambda: chosen(expect()))


def _draws() -> Values:
    """Tokens at both ends of every interval, in launches of few rows."""
    return {f"{name}/ends": [*draws.meet(logits, draws.propose_few)] for name, logits in draws.rows()}


def _edges() -> Values:
    return edges.observe(Reference(), NARROW).values


def _ledger(function: Callable[[], Values]) -> Values:
    """Of a small campaign, and without the near keys, which take a second."""
    with patch.object(counters, "DOCUMENT", LEDGER), patch.object(counters, "near_keys", lambda: iter(())):
        return function()


def _bridge_of_draws() -> Values:
    """What each bridge of POLICY finds from the draws of the window."""
    target = build_policy(POLICY)
    supports = allocate(target.draft_logits)
    drawn = []
    for row, (ids, tickets) in enumerate(zip(supports.ids.tolist(), supports.tickets, strict=True)):
        edge = np.minimum(np.cumsum(tickets, dtype=np.int64), WINDOW)
        counts = Counter(dict(zip(ids, (tickets - np.diff(edge, prepend=0)).tolist(), strict=True)))
        counts.update(_tokens(supports, row, np.arange(WINDOW)).tolist())
        drawn.append(dict(sorted((+counts).items())))
    values: Values = {}
    for one in cross(target, supports.ids, supports.tickets, drawn).bridges:
        found = f"{one.fault.breach} {one.fault.got} of token {one.fault.token}" if one.fault else EQUAL
        values[_name(POLICY, one.depth, one.void)] = found
    return values


def _tokens(supports: reference.Supports, row: int, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The tokens that a row proposes at draw values [n]."""
    rounds, positions = draws.addresses(wanted)
    n = len(wanted)
    keys, on = np.full(n, draws.KEY, np.uint64), np.ones(n, np.bool_)
    return reference.propose_rows(supports, np.full(n, row), on, keys, rounds, positions, reference.TAU).token


class Found:
    """The integers of one row, as the verifier has them."""

    def __init__(self, pair: Pair, only: Use) -> None:
        tokens = pair.ids[pair.drawable].tolist()
        counts = edges._bisect(Reference(), pair) if only is Use.ACCEPTANCE else edges.accepting(pair)
        self.counts = dict(zip(tokens, counts, strict=True))
        self.residual = _hits(pair, "residual") if only is Use.RESIDUAL else None
        self.bonus = _hits(pair, "bonus") if only is Use.WHOLE else None

    def acceptance(self, weight: int, tickets: int) -> tuple[int, int]:
        """See emission.Arithmetic; the weight is the token."""
        return self.counts[weight], W32

    def draw(self, shares: Row) -> tuple[Row, int]:
        """See emission.Arithmetic."""
        return (self.residual, W64) if self.residual else Device().draw(shares)


def _hits(pair: Pair, kind: str) -> Row:
    """How many of the 2^64 values of w64 give each token: where the next begins is found by 64 halvings."""
    tokens = np.flatnonzero(edges.law(pair, kind))
    low, high = [0] * (len(tokens) - 1), [W64] * (len(tokens) - 1)
    for _ in range(64):
        middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
        beyond = (edges._emit(Reference(), pair, kind, middle) > tokens[:-1]).tolist()
        low = [a if past else at + 1 for a, at, past in zip(low, middle, beyond, strict=True)]
        high = [at if past else b for b, at, past in zip(high, middle, beyond, strict=True)]
    cuts = [0, *high, W64]
    return {token: after - first for token, first, after in zip(tokens.tolist(), cuts, cuts[1:], strict=False)}


def _bridge_of(only: Use) -> Values:
    """Whether each bridge of MEASURED stands on the acceptances, residuals or bonus laws that the verifier has."""
    target = targets.build(MEASURED)
    supports = allocate(target.draft_logits)
    found = [Found(pair, only) for pair in edges.pairs((MEASURED,))]
    values: Values = {}
    for depth in DEPTHS:

        class Measured(Steps):
            bonus_at = depth

            def emission(self, place: Place, whole: bool, arithmetic: Arithmetic) -> Emission:
                mine = found[self.row(only, *place)]
                if not isinstance(arithmetic, Device) or (whole and (place[0] != self.bonus_at or not mine.bonus)):
                    return super().emission(place, whole, arithmetic)
                if whole:
                    return Emission(law=mine.bonus or {}, kept={}, scale=W64)
                row = self.row(Use.CARRIER, *place)
                left = self.residual(self.weights[row], self.tickets[row])
                tokens = {token: token for token in self.drawn[row]}
                return of_draft(self.drawn[row], self.tickets[row], tokens, left, mine)

        for at in range(-1, depth):
            void = [j == at for j in range(depth)]
            crossed = bridge(target, supports.ids, supports.tickets, depth, void, steps=Measured)
            apart = f"{crossed.largest[0] / crossed.largest[1]:.2e} from {EQUAL}"
            values[_name(MEASURED, depth, crossed.void)] = WITHIN if crossed.ok else apart
    return values


def _name(target: str, depth: int, void: tuple[bool, ...]) -> str:
    return f"{target}/depth-{depth}/{''.join('-x'[mark] for mark in void)}"


def _bridge_check(only: Use) -> Check:
    return Check(observe=lambda: _bridge_of(only), expect=lambda: dict.fromkeys(_bridge_of(only), WITHIN))


def _invariance() -> Values:
    return invariance.observe_reference().values


def _observed_ledger() -> Values:
    return _ledger(lambda: counters.observe().values)


def _expected(function: Callable[..., Values], *given: Any) -> Callable[[], Values]:
    return lambda: function(*given)


CHECKS: dict[str, Check] = {
    "draws": part(_draws, lambda: draws.expect([name for name, _ in draws.rows()]), "/ends"),
    "edges: acceptance": part(_edges, _expected(edges.expect, NARROW), "/accepting"),
    "edges: residual": part(_edges, _expected(edges.expect, NARROW), "/residual"),
    "edges: full target": part(_edges, _expected(edges.expect, NARROW), "/full-target"),
    "edges: bonus": part(_edges, _expected(edges.expect, NARROW), "/bonus"),
    "tree": Check(observe=lambda: tree.observe(Reference()).values, expect=tree.expect),
    "exponential": part(lambda: exponential.observe_reference().values, exponential.expect, "hard"),
    "counters: ledger": part(_observed_ledger, lambda: _ledger(counters.expect), "distinct"),
    "counters: temperature 0": part(_observed_ledger, lambda: _ledger(counters.expect), "greedy"),
    "counters: keys": Check(
        observe=lambda: {"near-keys": [len({*counters.near_keys()})]}, expect=lambda: {"near-keys": [counters.NEAR]}
    ),
    "invariance: proposal": part(_invariance, _expected(invariance.expect, False), "proposal"),
    "invariance: verifier": part(_invariance, _expected(invariance.expect, False), "verify"),
    "pairs": Check(observe=lambda: pairs.observe(Reference(), False).values, expect=_expected(pairs.expect, False)),
    "bridge: draws": Check(observe=_bridge_of_draws, expect=lambda: dict.fromkeys(_bridge_of_draws(), EQUAL)),
    "bridge: acceptance": _bridge_check(Use.ACCEPTANCE),
    "bridge: residual": _bridge_check(Use.RESIDUAL),
    "bridge: bonus": _bridge_check(Use.WHOLE),
}
