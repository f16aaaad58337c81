"""The bridge from the tickets a device emitted to the exact law of a whole round, in integers alone.

At every (position, context) that a round can reach, the design law of the emitted token must equal the target row as a
rational, and the device law must lie within 2^-32 + V 2^-64 of it. A forward recursion with one common denominator a
position carries both to the law of the accepted length (docs/semantics.md, section 3).

Drafts drawn by the very tickets that the verifier reads make rejection sampling exact for any tickets of sum 2^24. So
equality rests on how they are drawn: `drawn` gives the counts of draw values that were enumerated on the device.
Without it the drafts are taken to be drawn by the tickets.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.emission import Arithmetic, Design, Device, Emission, Row, of_draft, of_whole
from pp3.kernels.reference import ONE, SUPPORT
from pp3.targets import Target

DEPTHS = (4, 5)
Table = npt.NDArray[np.integer[Any]] | Sequence[Sequence[int]]
Drawn = Sequence[Mapping[int, int]]  # for each row, how many of the 2^24 draw values give a token
Place = tuple[int, int]  # position, context
Ratio = tuple[int, int]  # numerator and denominator in lowest terms


class Use(StrEnum):
    """What a row is read for."""

    DRAFT = "draft"
    CARRIER = "carrier"  # the tickets that the verifier reads
    ACCEPTANCE = "acceptance"
    RESIDUAL = "residual"
    WHOLE = "whole"  # an invalidated draft and the bonus


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first thing found that is not as it must be."""

    breach: str  # ids, tickets, draws or law
    row: int  # of the target
    position: int = -1  # -1: the tables themselves, before any chain
    context: int = -1
    token: int = -1  # -1: the row as a whole
    got: str
    expected: str

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """The exact laws of one round. After a fault of the tables none is computed."""

    depth: int
    void: tuple[bool, ...]  # which drafts are invalidated
    fault: Fault | None
    bound: Ratio  # of each variation
    variations: tuple[tuple[Place, Ratio], ...] = ()  # total variation of the device law from the target
    design_lengths: tuple[Ratio, ...] = ()  # probability of 0 to depth accepted drafts
    device_lengths: tuple[Ratio, ...] = ()

    @property
    def largest(self) -> Ratio:
        """The largest variation."""
        best = (0, 1)
        for _, ratio in self.variations:
            best = ratio if ratio[0] * best[1] > best[0] * ratio[1] else best
        return best

    @property
    def within(self) -> bool:
        """Whether there are variations and all are below the bound."""
        return bool(self.variations) and self.largest[0] * self.bound[1] < self.bound[0] * self.largest[1]

    @property
    def ok(self) -> bool:
        """Whether the design law is the target and the device law within the bound of it."""
        return self.fault is None and self.within

    @property
    def length_variation(self) -> Ratio:
        """Total variation of the device's length law from the design's."""
        pairs = list(zip(self.design_lengths, self.device_lengths, strict=True))
        scale = math.lcm(*(d for pair in pairs for _, d in pair))
        return _lowest(sum(abs(p * (scale // q) - r * (scale // s)) for (p, q), (r, s) in pairs), 2 * scale)

    def plain(self) -> dict[str, Any]:
        """Receipt form: a rational is a string, with the double nearest to it where it is read by people."""
        return {
            "bound": _text(self.bound),
            "depth": self.depth,
            "designLengths": [_text(ratio) for ratio in self.design_lengths],
            "designMean": _number(mean(self.design_lengths)),
            "deviceLengths": [_text(ratio) for ratio in self.device_lengths],
            "deviceMean": _number(mean(self.device_lengths)),
            "fault": self.fault.plain() if self.fault else None,
            "largest": _number(self.largest),
            "lengthVariation": _number(self.length_variation),
            "ok": self.ok,
            "variations": [[*place, _text(ratio)] for place, ratio in self.variations],
            "void": [int(void) for void in self.void],
        }


@dataclass(frozen=True, eq=False)
class Steps:
    """Which rows a round reads and what it makes of them; one step changed is a planted fault."""

    target: Target
    weights: Sequence[Row]
    tickets: Sequence[Row]
    drawn: Sequence[Row]

    def row(self, use: Use, position: int, context: int) -> int:
        """The row read at a place: one for every use."""
        return int(self.target.row_of[position, context])

    def residual(self, weights: Row, tickets: Row) -> Row:
        """(P - Q)+, or P where that is empty."""
        left = {token: weight - tickets.get(token, 0) for token, weight in weights.items()}
        return {token: share for token, share in left.items() if share > 0} or weights

    def emission(self, place: Place, whole: bool, arithmetic: Arithmetic) -> Emission:
        """The law of the token emitted at a place."""
        if whole:
            return of_whole(self.weights[self.row(Use.WHOLE, *place)], arithmetic)
        tickets = self.tickets[self.row(Use.CARRIER, *place)]
        left = self.residual(self.weights[self.row(Use.RESIDUAL, *place)], tickets)
        drawn, judge = self.drawn[self.row(Use.DRAFT, *place)], self.weights[self.row(Use.ACCEPTANCE, *place)]
        return of_draft(drawn, tickets, judge, left, arithmetic)


def bridge(
    target: Target,
    ids: Table,
    tickets: Table,
    depth: int,
    void: Sequence[bool],
    drawn: Drawn | None = None,
    steps: type[Steps] = Steps,
) -> Bridge:
    """Carry the emitted ids and tickets, [rows, 32] beside the target's rows, through one round.

    Raises ValueError for tables that are no integers of this shape, a depth that is not 4 or 5, or a void of another
    length.
    """
    ids, tickets = np.asarray(ids), np.asarray(tickets)
    shape = (len(target.weights), SUPPORT)
    if ids.shape != shape or tickets.shape != shape or (drawn is not None and len(drawn) != len(ids)):
        raise ValueError(f"tables of {target.name} are {ids.shape} and {tickets.shape}; want {shape}, and drawn a row")
    if ids.dtype.kind not in "iu" or tickets.dtype.kind not in "iu":
        raise ValueError(
            f"tables of {target.name} are {ids.dtype} and {tickets.dtype}; want integers of 64 bits at most"
        )
    if depth not in DEPTHS or len(void) != depth:
        raise ValueError(f"depth {depth} with {len(void)} drafts marked; want {DEPTHS} and a mark a draft")
    void, bound = tuple(map(bool, void)), _lowest((1 << 32) + target.vocab, 1 << 64)
    table = [list(zip(*row, strict=True)) for row in zip(ids.tolist(), tickets.tolist(), strict=True)]
    counts = table if drawn is None else [sorted(row.items()) for row in drawn]
    if fault := _check_table("tickets", target.vocab, table) or _check_table("draws", target.vocab, counts):
        return Bridge(depth=depth, void=void, fault=fault, bound=bound)
    weights = [{token: int(row[token]) for token in np.flatnonzero(row).tolist()} for row in target.weights]
    rule = steps(target, weights, *([{i: n for i, n in row if n} for row in rows] for rows in (table, counts)))
    design, design_lengths = _propagate(rule, depth, void, Design())
    device, device_lengths = _propagate(rule, depth, void, Device())
    expected = {place: weights[int(target.row_of[place])] for place in device}
    return Bridge(
        depth=depth,
        void=void,
        fault=_check_law(target, design, expected),
        bound=bound,
        variations=tuple((place, _variation(emission, expected[place])) for place, emission in device.items()),
        design_lengths=design_lengths,
        device_lengths=device_lengths,
    )


def mean(lengths: Sequence[Ratio]) -> Ratio:
    """Mean of a law over 0, 1, 2 and so on."""
    scale = math.lcm(*(denominator for _, denominator in lengths))
    return _lowest(sum(n * p * (scale // q) for n, (p, q) in enumerate(lengths)), scale)


def _check_table(breach: str, vocab: int, table: Sequence[Sequence[tuple[int, int]]]) -> Fault | None:
    """Ids ascending and in range, shares not negative and of sum 2^24."""
    for row, entries in enumerate(table):
        before = -1
        for token, share in entries:
            if not before < token < vocab:
                return Fault(
                    breach="ids", row=row, token=token, got=f"{token}", expected=f"above {before}, below {vocab}"
                )
            if share < 0:
                return Fault(breach=breach, row=row, token=token, got=f"{share}", expected="none negative")
            before = token
        total = sum(share for _, share in entries)
        if total != ONE:
            return Fault(breach=breach, row=row, got=f"{total}", expected=f"{ONE}")
    return None


def _propagate(
    steps: Steps, depth: int, void: tuple[bool, ...], arithmetic: Arithmetic
) -> tuple[dict[Place, Emission], tuple[Ratio, ...]]:
    """The emission of every place that is reached, and the law of the number of accepted drafts."""
    context_of = steps.target.context_of
    made: dict[tuple[bool, tuple[int, ...]], Emission] = {}
    emissions: dict[Place, Emission] = {}
    lengths = [(0, 1)] * (depth + 1)
    state, denominator = {0: 1}, 1
    for position in range(depth + 1):
        whole = position == depth or void[position]
        for context in state:
            key = whole, tuple(steps.row(use, position, context) for use in Use)
            if key not in made:
                made[key] = steps.emission((position, context), whole, arithmetic)
            emissions[position, context] = made[key]
        scale = math.lcm(*(emissions[position, context].scale for context in state))
        following: dict[int, int] = {}
        stopped = 0
        for context, mass in state.items():
            here = emissions[position, context]
            grown = mass * (scale // here.scale)
            stopped += grown * (sum(here.law.values()) - sum(here.kept.values()))
            for token, part in here.kept.items():
                after = int(context_of[token])
                following[after] = following.get(after, 0) + grown * part
        denominator *= scale
        lengths[position] = _lowest(stopped, denominator)
        state = dict(sorted(following.items()))
        if not state:
            break
    return emissions, tuple(lengths)


def _check_law(target: Target, emissions: dict[Place, Emission], expected: dict[Place, Row]) -> Fault | None:
    """Every emission equals the target row, in cross products."""
    for place, emission in emissions.items():
        for token in sorted(emission.law.keys() | expected[place].keys()):
            got, want = emission.law.get(token, 0), expected[place].get(token, 0)
            if got * ONE != want * emission.scale:
                return Fault(
                    breach="law",
                    row=int(target.row_of[place]),
                    position=place[0],
                    context=place[1],
                    token=token,
                    got=_text(_lowest(got, emission.scale)),
                    expected=_text(_lowest(want, ONE)),
                )
    return None


def _variation(emission: Emission, expected: Row) -> Ratio:
    """Half the sum of the differences of an emission from a row over 2^24."""
    tokens = emission.law.keys() | expected.keys()
    apart = sum(abs(emission.law.get(t, 0) * ONE - expected.get(t, 0) * emission.scale) for t in tokens)
    return _lowest(apart, 2 * ONE * emission.scale)


def _lowest(numerator: int, denominator: int) -> Ratio:
    common = math.gcd(numerator, denominator)
    return numerator // common, denominator // common


def _text(ratio: Ratio) -> str:
    return f"{ratio[0]}/{ratio[1]}"


def _number(ratio: Ratio) -> dict[str, str]:
    return {"double": repr(ratio[0] / ratio[1]), "ratio": _text(ratio)}
