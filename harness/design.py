"""What a campaign judges, decided before it runs: its cells, pooled into checks, and the share of alpha of each.

Pooling follows from the null alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from pp3.harness.campaign import Campaign, pair_shards
from pp3.harness.cells import CAMPAIGN, Cell, Event, enumerate_cells
from pp3.harness.dependence import LAGS, WINDOW, dependence_cells
from pp3.harness.edition import LAST, Edition
from pp3.harness.oracle import Law
from pp3.harness.paired import rows_for
from pp3.harness.places import Part, halves, placed
from pp3.harness.pooling import Pooled, pool
from pp3.harness.weights import Family
from pp3.targets import Target

CERTAIN = "the law has one outcome: any other is a hard failure"
TOO_FEW = "too few events for two groups of cells"
NO_SHARE = "its family has no share of alpha"


class Method(StrEnum):
    """How a check is decided."""

    G = "g"  # likelihood ratio over pooled groups, chi-square
    BINOMIAL = "binomial"  # two outcomes of one law: exact, two-sided
    REPEAT = "repeat"  # expected number of events that hardly occur
    RARE = "rare"  # smallest exact binomial tail of single outcomes
    FIT = "fit"  # sum of G of independent cells, two-sided


FAMILY = {
    Event.TOKEN: Family.LAW,
    Event.FULL_TARGET: Family.LAW,
    Event.LENGTH: Family.LAW,
    Event.PROPOSAL: Family.LAW,
    Event.JOINT: Family.LAW,
    Event.ACCEPT: Family.CONDITIONAL,
    Event.KEPT: Family.CONDITIONAL,
    Event.RESIDUAL: Family.CONDITIONAL,
    Event.BONUS: Family.CONDITIONAL,
    Event.PREFIX: Family.CONDITIONAL,
    Event.RECOVERY: Family.DEPENDENCE,
    Event.MATCH: Family.DEPENDENCE,
    Event.ROUND: Family.DEPENDENCE,
    Event.PAIR: Family.DEPENDENCE,
    Event.LENGTH_PAIR: Family.DEPENDENCE,
    Event.REPEAT: Family.DEPENDENCE,
    Event.RARE: Family.RARE,
    Event.FIT: Family.FIT,
}
LAWS = tuple(event for event, family in FAMILY.items() if family in (Family.LAW, Family.CONDITIONAL))
SINGLE = tuple(event for event in LAWS if event not in (Event.ACCEPT, Event.KEPT, Event.PREFIX))  # outcomes one by one
REQUIRED = (Event.TOKEN, Event.FULL_TARGET, Event.LENGTH, Event.PROPOSAL, Event.JOINT, Event.RESIDUAL, Event.BONUS)
EMITTED = (Event.TOKEN, Event.FULL_TARGET, Event.BONUS)  # independent of each other, given how often each is met
SUMMED = (EMITTED, (Event.PROPOSAL,), (Event.JOINT,))  # by the fit: of each target and depth the first that it has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Check:
    """One statistical check, fixed before the run: cells whose statistics add up."""

    id: str
    event: Event
    target: str
    depth: int
    method: Method
    cells: tuple[Pooled, ...]  # those that can decide something
    counted: tuple[str, ...]  # ids of all its cells: a forbidden outcome fails in any
    alpha: float
    reason: str  # why it cannot decide anything, or ""
    required: bool
    single: tuple[Cell, ...] = ()  # whose outcomes are judged one by one

    @property
    def decides(self) -> bool:
        """Whether more than a forbidden outcome can fail it."""
        return self.alpha > 0

    @property
    def df(self) -> int:
        """Degrees of freedom of the sum."""
        return sum(pooled.df for pooled in self.cells)

    @property
    def chance(self) -> float:
        """Of one coin: the probability of its second outcome."""
        pooled = self.cells[0]
        return float(pooled.probabilities[pooled.groups[1]])

    @property
    def events(self) -> float:
        """Events expected at the planned size."""
        return math.fsum(pooled.events for pooled in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Cells that the same requests fall into, and the parts that these come in."""

    cells: list[Cell]
    depth: int
    parts: tuple[Part, ...]

    @property
    def requests(self) -> int:
        """Requests of all parts."""
        return sum(part.requests for part in self.parts)


def groups(campaign: Campaign) -> list[Group]:
    """Every target and depth of a campaign: its requests come after the paired ones, batch size by batch size."""
    found: list[Group] = []
    first = sum(rows_for(pairs) for _, _, pairs in pair_shards(campaign))
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            parts: list[Part] = []
            for size in campaign.spec.batch_sizes:
                end = first + campaign.requests_of(depth, size)
                parts += [Part(first=low, requests=high - low) for low, high in halves(first, end)]
                first = end
            found.append(Group(cells=cells_of(target, depth, lags_of(campaign)), depth=depth, parts=tuple(parts)))
    return found


@lru_cache(maxsize=64)
def cells_of(target: Target, depth: int, lags: tuple[int, ...] = LAGS) -> list[Cell]:
    """Every cell of one target and depth of our own campaigns; the same list each time, to be read only."""
    law = Law(target)
    return enumerate_cells(law, depth) + dependence_cells(law, depth, CAMPAIGN, lags)


def lags_of(campaign: Campaign) -> tuple[int, ...]:
    """Distances of the requests that are compared: the usual ones, and that of a row in two launches of any size."""
    if campaign.edition is Edition.SPREAD:
        return LAGS
    return tuple(sorted({*LAGS, *(size for size in campaign.spec.batch_sizes if size < WINDOW)}))


def design(campaign: Campaign) -> list[Check]:
    """Every check of a campaign."""
    return checks(groups(campaign), campaign.spec.alpha, campaign.spec.pool, campaign.weights, campaign.edition)


def families(found: list[Group]) -> set[Family]:
    """Families with a check that more than a forbidden outcome can fail, if there are enough requests."""
    events = {cell.event for group in found for cell in group.cells if not _certain(cell)}
    single = {Family.RARE} if any(_singles(group) for group in found) else set()
    fit = {Family.FIT} if any(events.intersection(summed) for summed in SUMMED) else set()
    return {FAMILY[event] for event in events} | single | fit


def checks(
    found: list[Group], alpha: float, least: int, weights: Mapping[str, float], edition: Edition = LAST
) -> list[Check]:
    """Every check of some groups, with its share of the family alpha: equal parts of its family's weight."""
    if edition is not Edition.SPREAD:
        found = [replace(group, cells=placed(group.cells, group.parts)) for group in found]
    drafts: list[Check] = []
    for group in found:
        by_check: dict[str, list[Cell]] = {}
        for cell in group.cells:
            by_check.setdefault(check_id(cell), []).append(cell)
        drafts += [_draft(name, cells, group, least) for name, cells in by_check.items()]
        drafts += _rare(group)
    drafts += _fit(drafts)
    drafts = [
        draft if draft.reason or weights[FAMILY[draft.event]] else replace(draft, reason=NO_SHARE) for draft in drafts
    ]
    able: dict[Family, int] = {}
    for draft in drafts:
        if not draft.reason:
            able[FAMILY[draft.event]] = able.get(FAMILY[draft.event], 0) + 1
    return [
        draft if draft.reason else replace(draft, alpha=alpha * weights[family] / able[family])
        for draft in drafts
        for family in [FAMILY[draft.event]]
    ]


def _draft(name: str, cells: list[Cell], group: Group, least: int) -> Check:
    """One check of some cells, without its share of alpha."""
    first = cells[0]
    certain = all(_certain(cell) for cell in cells)
    repeat = first.event is Event.REPEAT
    pools = () if repeat else tuple(pooled for cell in cells if (pooled := pool(cell, group.requests, least)))
    return Check(
        id=name,
        event=first.event,
        target=first.target,
        depth=group.depth,
        method=Method.REPEAT if repeat else Method.BINOMIAL if _two(cells, pools) else Method.G,
        cells=pools,
        counted=tuple(cell.id for cell in cells),
        alpha=0.0,
        reason="" if pools or repeat else CERTAIN if certain else TOO_FEW,
        required=not certain and first.event in REQUIRED and (first.position <= 0 or first.event is Event.BONUS),
        single=tuple(cells) if repeat else (),
    )


def _certain(cell: Cell) -> bool:
    """Whether a cell's law, given its stratum, has one outcome everywhere."""
    return len(cell.atoms) == (1 if cell.strata is None else len(np.unique(cell.strata)))


def _two(cells: list[Cell], pools: tuple[Pooled, ...]) -> bool:
    """Whether a check is one coin."""
    met = [cell for cell in cells if cell.rate]
    return len(met) == len(pools) == 1 and len(met[0].atoms) == 2 and pools[0].df == 1


def _rare(group: Group) -> list[Check]:
    """Every outcome of a law by itself: pooling hides what befalls a few rare ones."""
    single = _singles(group)
    if not single:
        return []
    return [
        Check(
            id=f"{single[0].target}/depth-{group.depth}/{Event.RARE.value}",
            event=Event.RARE,
            target=single[0].target,
            depth=group.depth,
            method=Method.RARE,
            cells=(),
            counted=(),
            alpha=0.0,
            reason="",
            required=False,
            single=single,
        )
    ]


def _singles(group: Group) -> tuple[Cell, ...]:
    """Cells whose outcomes are judged one by one."""
    return tuple(cell for cell in group.cells if cell.event in SINGLE and len(cell.atoms) > 1)


def _fit(drafts: list[Check]) -> list[Check]:
    """The sum of G of all cells that are independent: of tokens emitted, or else of drafts, or else of whole rounds."""
    cells: list[Pooled] = []
    for target in dict.fromkeys((draft.target, draft.depth) for draft in drafts):
        mine = [draft for draft in drafts if (draft.target, draft.depth) == target]
        for events in SUMMED:
            chosen = [pooled for draft in mine if draft.event in events for pooled in draft.cells]
            if chosen:
                cells += chosen
                break
    if not cells:
        return []
    return [
        Check(
            id=Event.FIT.value,
            event=Event.FIT,
            target="",
            depth=0,
            method=Method.FIT,
            cells=tuple(cells),
            counted=(),
            alpha=0.0,
            reason="",
            required=False,
        )
    ]


def check_id(cell: Cell) -> str:
    """The check that a cell belongs to."""
    start = f"{cell.target}/depth-{cell.depth}/{cell.event}"
    if cell.event in (Event.MATCH, Event.ROUND, Event.PAIR, Event.LENGTH_PAIR, Event.REPEAT) and cell.position < 0:
        return f"{start}/{cell.pattern.partition('/')[0]}"
    if cell.event is Event.MATCH:
        return f"{start}/positions-{cell.position}"
    if cell.depth == 0:
        return cell.id
    where = "" if cell.event in (Event.LENGTH, Event.JOINT, Event.BONUS) else f"/position-{cell.position}"
    return f"{start}{where}"
