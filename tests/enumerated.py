"""Small chains with every draft sequence enumerated in fractions, beside the bridge's own answer."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from pp3.harness.bridge import Bridge, Place, Steps, bridge
from pp3.harness.emission import Row
from pp3.kernels.reference import ONE, SUPPORT, Supports, allocate
from pp3.targets import Target
from pp3.targets.policies import build_policy
from pp3.targets.target import POSITIONS

VOCAB, CONTEXTS, ROWS = 40, 2, 5
W32, W64 = 1 << 32, 1 << 64
Law = dict[int, Fraction]


def small(rng: np.random.Generator) -> tuple[Target, Any, Any]:
    """Two contexts, five rows, three or four tokens a law: near, equal, disjoint, one token, one ticket apart."""
    weights = np.zeros((ROWS, VOCAB), np.int64)
    ids = np.stack([np.sort(rng.permutation(VOCAB)[:SUPPORT]) for _ in range(ROWS)])
    tickets = np.zeros((ROWS, SUPPORT), np.int64)
    for row in range(ROWS):
        places = np.sort(rng.permutation(SUPPORT)[: 3 + row % 2])
        tickets[row, places] = split(rng, len(places))
        outside = [token for token in range(VOCAB) if token not in ids[row, places]]
        if row == 0:
            tokens = [*ids[row, places[:2]], *rng.permutation(outside)[:2]]
            weights[row, tokens] = split(rng, 4)
        elif row == 1:
            weights[row, ids[row]] = tickets[row]
        elif row == 2:
            weights[row, rng.permutation(outside)[:3]] = split(rng, 3)
        elif row == 3:
            weights[row, ids[row, places[0]]] = ONE
        else:
            weights[row, ids[row]] = tickets[row]
            weights[row, ids[row, places[:2]]] += np.array([1, -1])
    target = Target(
        name="small",
        why="small enough to enumerate",
        weights=weights,
        draft_logits=np.zeros((ROWS, VOCAB), np.float32),
        row_of=np.concatenate([[[0, 4]], rng.integers(0, ROWS, (POSITIONS - 1, CONTEXTS))]),
        context_of=rng.permutation(VOCAB) % CONTEXTS,
    )
    return target, ids, tickets


def split(rng: np.random.Generator, count: int) -> list[int]:
    """Positive integers of sum 2^24, of unlike sizes."""
    cuts = sorted({int(2 ** rng.uniform(1, 24)) for _ in range(count - 1)})
    while len(cuts) < count - 1:
        cuts = sorted({*cuts, int(rng.integers(2, ONE))})
    return [high - low for low, high in itertools.pairwise([0, *cuts, ONE])]


class Enumerated:
    """One round by brute force: every sequence of drafts, and every way it can be judged."""

    def __init__(
        self, target: Target, drawn: list[Law], carried: list[Law], depth: int, void: Sequence[bool], device: bool
    ) -> None:
        self.target, self.drawn, self.carried = target, drawn, carried
        self.depth, self.void, self.device = depth, void, device
        self.p = [{t: Fraction(int(w), ONE) for t, w in enumerate(row) if w} for row in target.weights]
        self.reached: dict[Place, Fraction] = defaultdict(Fraction)
        self.emitted: dict[Place, Law] = defaultdict(lambda: defaultdict(Fraction))
        self.lengths = [Fraction(0)] * (depth + 1)
        for places, drafts, chance in self.sequences():
            self.judge(places, drafts, chance)

    def row(self, place: Place) -> int:
        return int(self.target.row_of[place])

    def sequences(self) -> list[tuple[list[Place], list[int], Fraction]]:
        """All drafts of a round, whatever is accepted, with the places they and the bonus are judged at."""
        found: list[tuple[list[Place], list[int], Fraction]] = [([(0, 0)], [], Fraction(1))]
        for j in range(self.depth):
            found = [
                ([*places, (j + 1, int(self.target.context_of[draft]))], [*drafts, draft], chance * share)
                for places, drafts, chance in found
                for draft, share in self.drawn[self.row(places[j])].items()
            ]
        return found

    def judge(self, places: list[Place], drafts: list[int], chance: Fraction) -> None:
        for place, draft in zip(places, [*drafts, -1], strict=True):
            if not chance:
                return
            p, q = self.p[self.row(place)], self.carried[self.row(place)]
            self.reached[place] += chance
            if place[0] == self.depth or self.void[place[0]]:
                self.stop(place, p, chance)
                return
            if not q.get(draft):
                return  # undrawable: the request fails
            keep = min(Fraction(1), p.get(draft, Fraction(0)) / q[draft])
            if self.device:
                keep = Fraction(math.ceil(keep * W32), W32)
            self.emitted[place][draft] += chance * keep
            left = {token: share - q.get(token, 0) for token, share in p.items() if share > q.get(token, 0)}
            self.stop(place, left or p, chance * (1 - keep))
            chance *= keep

    def stop(self, place: Place, shares: Law, chance: Fraction) -> None:
        self.lengths[place[0]] += chance
        total, low = sum(shares.values()), Fraction(0)
        for token in sorted(shares):
            high = low + shares[token]
            hit = Fraction(math.ceil(high / total * W64) - math.ceil(low / total * W64), W64)
            self.emitted[place][token] += chance * (hit if self.device else shares[token] / total)
            low = high

    def laws(self) -> dict[Place, Law]:
        """The law of the emitted token at every place, given that it is reached."""
        return {
            place: {token: mass / self.reached[place] for token, mass in self.emitted[place].items() if mass}
            for place in sorted(self.reached)
        }

    def variations(self) -> dict[Place, Fraction]:
        """Total variation of every law from the target."""
        found = {}
        for place, law in self.laws().items():
            p = self.p[self.row(place)]
            found[place] = sum((abs(law.get(t, Fraction(0)) - p.get(t, 0)) for t in law | p), Fraction(0)) / 2
        return found


@cache
def emitted(name: str) -> Supports:
    """What a right device emits for the rows of a policy."""
    return allocate(build_policy(name).draft_logits)


def cross(name: str, depth: int = 5, void: int = -1, **changed: Any) -> Bridge:
    """A bridge of a policy, with draft `void` invalidated and some argument changed."""
    fields = {"ids": emitted(name).ids, "tickets": emitted(name).tickets} | changed
    return bridge(target=build_policy(name), depth=depth, void=[j == void for j in range(depth)], **fields)


class ResidualOfP(Steps):
    def residual(self, weights: Row, tickets: Row) -> Row:
        return weights
