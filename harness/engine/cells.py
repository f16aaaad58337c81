"""What is counted of an engine's tokens, and the law that each count is held to.

Every cell has groups that expect enough events, in strata; a count vector has one entry a group, then one for events in
strata that decide nothing, then one for what the law forbids. Looks:

    token      tokens given the class of the one before: one stratum a class
    rank       where a token lies in its law, the likeliest first, as a number in [0, 1) that is uniform if the law
               holds (ranks.py): few groups, so that small deviations show
    tilt       the same, those first that the proposal favours most over the target: what leans to the drafts adds up
    position   the same of one position of a sequence
    place      the same of one place in a speculation step, where the engine tells: 0 is the first token of a step
    pair       two successive tokens, by quarters of the ids, given the class before both: disjoint pairs
    neighbour  equal tokens at the same place of two requests that arrive one after the other
    slot       the same of requests that are one batch apart
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.conditions import ENDED, EXACT, PENALISED, STARTS, Condition, Kind
from pp3.harness.engine.contract import Facts
from pp3.harness.engine.law import Law, law_of, travel
from pp3.targets.chains import Chain

BUCKETS = 32  # of a rank
PARTS = 4  # that ids are cut into for pairs
PLACES = 8  # of a step that are told apart; the last stands for all from it on
UNDECIDED, FORBIDDEN = -2, -1  # in place of a group
Integers = npt.NDArray[np.int64]


class Look(StrEnum):
    """What is looked at."""

    TOKEN = "token"
    RANK = "rank"
    TILT = "tilt"
    POSITION = "position"
    PLACE = "place"
    PAIR = "pair"
    NEIGHBOUR = "neighbour"
    SLOT = "slot"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One histogram and its law."""

    id: str
    look: Look
    condition: str
    setting: int  # of the condition
    number: int  # of a position or a place; 0
    probabilities: npt.NDArray[np.float64]  # [groups], given the stratum
    strata: Integers  # [groups] from 0 on
    events: float  # expected in the strata that decide; of a place 0: it depends on what is accepted
    table: Integers | None = None  # [strata, outcomes] to groups; of the other looks a group is a bucket
    required: bool = False

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return len(self.probabilities) - (int(self.strata[-1]) + 1) if len(self.strata) else 0

    @property
    def size(self) -> int:
        """Entries of its count vector."""
        return len(self.probabilities) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Whose a cell is."""

    condition: str
    setting: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laws:
    """The laws of a condition's settings and where its requests travel."""

    laws: tuple[Law, ...]
    rates: tuple[npt.NDArray[np.float64], ...]  # [length, classes] each: draws of one request


def laws_of(chain: Chain, logits: Law, condition: Condition) -> Laws:
    """Laws of every setting, in order; of a penalty that without one, which its cells do not use."""
    laws = tuple(law_of(logits, setting) for setting in condition.settings)
    start = np.bincount(chain.class_of[: chain.ordinary], minlength=chain.classes) / chain.ordinary
    end = -1
    if condition.kind in ENDED:
        start, end = np.zeros(chain.classes), chain.end
        start[-1] = 1
    rates = [travel(law, chain.class_of, start, condition.length, end) for law in laws]
    if condition.kind is Kind.STOP:
        rates = [stopped(law, chain, start, condition) for law in laws]
    return Laws(laws=laws, rates=tuple(rates))


def stopped(law: Law, chain: Chain, start: npt.NDArray[np.float64], condition: Condition) -> Law:
    """As `travel`, of sequences that any of some tokens ends."""
    moves = np.zeros((len(law), len(law)))
    ends = np.zeros(chain.vocab, bool)
    ends[list(condition.stops)] = True
    for number in range(len(law)):
        moves[:, number] = law[:, (chain.class_of == number) & ~ends].sum(axis=1)
    rates, alive = np.zeros((condition.length, len(law))), start
    for place in range(condition.length):
        rates[place] = alive
        alive = alive @ moves
    return rates


def cells_of(chain: Chain, logits: Law, condition: Condition, facts: Facts, pool: int, concurrency: int) -> list[Cell]:
    """Every cell of a condition, in a fixed order."""
    if condition.kind in EXACT:
        return []
    found = laws_of(chain, logits, condition)
    cells: list[Cell] = []
    for number, (setting, law, rates) in enumerate(zip(condition.settings, found.laws, found.rates, strict=True)):
        asks = condition.asks / len(condition.settings)
        own = f"{condition.name}/{setting.name}" if len(condition.settings) > 1 else condition.name
        base = Base(condition=condition.name, setting=number)
        events = asks * rates.sum()
        if condition.kind not in PENALISED:
            table, shares, strata, used = pooled(law, asks * rates.sum(axis=0), pool)
            cells.append(
                Cell(
                    id=f"{own}/{Look.TOKEN}",
                    look=Look.TOKEN,
                    number=0,
                    probabilities=shares,
                    strata=strata,
                    events=used,
                    table=table,
                    required=condition.required and condition.name == "stream",
                    condition=base.condition,
                    setting=base.setting,
                )
            )
        cells.append(_ranks(f"{own}/{Look.RANK}", Look.RANK, 0, events, base, condition.required))
        if facts.speculative and condition.kind not in PENALISED:
            cells.append(_ranks(f"{own}/{Look.TILT}", Look.TILT, 0, events, base, condition.required))
    if condition.name.startswith("starts"):
        for place in range(STARTS):
            name = f"{condition.name}/{Look.POSITION}-{place}"
            required = condition.required and place == 0
            cells.append(_ranks(name, Look.POSITION, place, condition.asks, base, required))
    if condition.name == "stream":
        cells += _stream(found.laws[0], found.rates[0], chain, condition, facts, pool, concurrency)
    if condition.seeded:
        cells.append(_matches(condition, Look.NEIGHBOUR, found, False))
    return cells


def _stream(
    law: Law, rates: Law, chain: Chain, condition: Condition, facts: Facts, pool: int, concurrency: int
) -> Iterator[Cell]:
    """What only long sequences in company show."""
    base = Base(condition=condition.name, setting=0)
    if "steps" in facts.supports and facts.speculative:
        for place in range(PLACES):
            yield _ranks(f"{condition.name}/{Look.PLACE}-{place}", Look.PLACE, place, 0, base, False, BUCKETS)
    joint = pair_law(law, chain)
    table, shares, strata, used = pooled(joint, condition.asks * rates[::2].sum(axis=0), pool)
    yield Cell(
        id=f"{condition.name}/{Look.PAIR}",
        look=Look.PAIR,
        number=0,
        probabilities=shares,
        strata=strata,
        events=used,
        table=table,
        required=True,
        condition=base.condition,
        setting=base.setting,
    )
    found = Laws(laws=(law,), rates=(rates,))
    yield _matches(condition, Look.NEIGHBOUR, found, True)
    if concurrency > 1:
        yield _matches(condition, Look.SLOT, found, False)


def _matches(condition: Condition, look: Look, found: Laws, required: bool) -> Cell:
    """A coin: whether two requests have an equal token, as a rank below the chance that they have on average."""
    chance = match_chance(found.laws[0], found.rates[0])
    return Cell(
        id=f"{condition.name}/{look}",
        look=look,
        condition=condition.name,
        setting=0,
        number=0,
        probabilities=np.array([chance, 1 - chance]),
        strata=np.zeros(2, np.int64),
        events=condition.asks // 2 * float(found.rates[0].sum()),
        required=required,
    )


def match_chance(law: Law, rates: Law) -> float:
    """Chance that two independent requests have equal tokens at a place, over all places."""
    share = rates.sum(axis=0) / rates.sum()
    return float(np.einsum("a,ab,b->", share, law @ law.T, share))


def _ranks(name: str, look: Look, number: int, events: float, base: Base, required: bool, buckets: int = 0) -> Cell:
    """Equal buckets of a uniform number, as many as expect 100 events or more."""
    buckets = buckets or next((many for many in (BUCKETS, 16, 8, 4, 2) if events >= 100 * many), 0)
    return Cell(
        id=name,
        look=look,
        number=number,
        probabilities=np.full(buckets, 1 / max(buckets, 1)),
        strata=np.zeros(buckets, np.int64),
        events=float(events),
        required=required,
        condition=base.condition,
        setting=base.setting,
    )


def part_of(tokens: Integers, vocab: int) -> Integers:
    """Which quarter of the ids each token is in."""
    return tokens * PARTS // vocab


def pair_law(law: Law, chain: Chain) -> Law:
    """Joint law of the quarters of two tokens, given the class before both, [classes, PARTS * PARTS]."""
    inside = part_of(np.arange(chain.vocab), chain.vocab)[:, None] == np.arange(PARTS)
    second = (law @ inside)[chain.class_of]  # [vocab, PARTS], after each token
    return np.stack([law[:, inside[:, part]] @ second[inside[:, part]] for part in range(PARTS)], axis=1).reshape(
        len(law), PARTS * PARTS
    )


def pooled(
    law: Law, events: npt.NDArray[np.float64], least: int
) -> tuple[Integers, npt.NDArray[np.float64], Integers, float]:
    """Groups of each stratum's outcomes, merged from the rarest on until each expects `least`.

    law [strata, outcomes]; events [strata] expected. The table of groups, their probabilities, their strata, and the
    events of the strata that decide. Looks at the null alone.
    """
    table = np.full(law.shape, UNDECIDED, np.int64)
    shares: list[float] = []
    strata: list[int] = []
    used, number = 0.0, 0
    for row, expected in zip(range(len(law)), events.tolist(), strict=True):
        possible = np.flatnonzero(law[row] > 0)
        table[row][law[row] == 0] = FORBIDDEN
        order = possible[np.argsort(law[row][possible], kind="stable")]
        borders, open_mass, first = [], 0.0, 0
        for place, mass in enumerate(law[row][order].tolist()):
            open_mass += mass
            if open_mass * expected >= least:
                borders.append((first, place + 1, open_mass))
                first, open_mass = place + 1, 0.0
        if len(borders) > 1 and open_mass:
            start, _, mass = borders[-1]
            borders[-1] = (start, len(order), mass + open_mass)
        if len(borders) < 2:
            continue
        for start, stop, mass in borders:
            table[row][order[start:stop]] = len(shares)
            shares.append(mass)
            strata.append(number)
        number += 1
        used += expected
    return table, np.array(shares), np.array(strata, np.int64), used
