"""What a sampler of each kind is tried on: laws as it saw them, and the events that its kind can show.

A problem is one target under one depth. Which problems apply follows from the kind and the declarations; what does not
apply is listed with its reason, so that declaring less cannot look like passing more.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.dependence import dependence_cells
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial import plain
from pp3.harness.trial.seen import compares, exact, seen
from pp3.harness.trial.tickets import VOCAB
from pp3.targets import drafts_of, invalidated, pairs

BETWEEN = frozenset({Event.MATCH, Event.ROUND, Event.PAIR, Event.REPEAT})  # requests
EMITTED = BETWEEN | {Event.TOKEN, Event.LENGTH, Event.PREFIX, Event.LENGTH_PAIR, Event.BONUS}
JUDGED = EMITTED | {Event.FULL_TARGET, Event.KEPT, Event.RESIDUAL, Event.ACCEPT, Event.RECOVERY}
EVENTS: dict[Kind, frozenset[Event]] = {
    Kind.PLAIN: BETWEEN | {Event.TOKEN},
    Kind.PROPOSAL: BETWEEN | {Event.PROPOSAL, Event.PREFIX},
    Kind.VERIFIER: JUDGED,
    Kind.PIPELINE: JUDGED | {Event.PROPOSAL},
    Kind.ENGINE: EMITTED,
}
# All that is known of block verification: whole rounds, and that first tokens are exact.
BLOCK = BETWEEN | {Event.JOINT}
# What a profile needs for a PASS: declaring less buys none. Block verification has a known law for whole rounds only.
WHOLE_ROUNDS = ("shared-noise", "whole")
RAGGED = "ragged"  # needed of those that declare it
REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.PLAIN: ("rows-of-12", "rows-of-63", "rows-of-1000"),
    Kind.PROPOSAL: ("near", "far", "context", "mixed", "peaked"),
    Kind.VERIFIER: ("near", "far", "equal", "context", "mixed", "peaked", *WHOLE_ROUNDS),
    Kind.PIPELINE: ("near", "far", "equal", "context", "mixed", "peaked", *WHOLE_ROUNDS),
    Kind.ENGINE: ("near", "far", "equal", "context", "mixed", "peaked", *WHOLE_ROUNDS),
}
# Where both laws are equal and one travels as logits, a sampler compares its own FP32 softmax of them: each of about
# four roundings of 2^-24, of an exponential, a sum and a quotient, on either side of the ratio.
ROUNDING = 2.0**-20


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One target as a sampler of one declaration sees it."""

    target: Any  # harness/oracle.Judged, with its carriers in `tables`
    depth: int
    events: Collection[Event]
    law_sha256: str
    slack: float = 0.0  # chance, a draft, that rounding rejects what the law always keeps

    @property
    def name(self) -> str:
        """Name of the target."""
        return str(self.target.name)

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return len(self.target.context_of)

    @property
    def share(self) -> int:
        """Requests in units of the campaign's: a pattern, a case, and what is not greedy get as many as any law."""
        if self.target.labels:
            return len(self.target.labels)
        sampled = int((self.target.tables.temperature > 0).sum())
        return len(self.target.patterns) * (-(-self.target.starts // sampled) if sampled else 1)

    @cached_property
    def cells(self) -> list[Cell]:
        """Everything that is counted."""
        law = Law(self.target)
        return enumerate_cells(law, self.depth, self.events) + dependence_cells(law, self.depth, self.events)


def names(kind: Kind) -> tuple[str, ...]:
    """Names of all problems of a kind."""
    return plain.NAMES if kind is Kind.PLAIN else pairs.NAMES


def required(who: Description) -> tuple[str, ...]:
    """Names of the problems without which a sampler's verdict is INCONCLUSIVE at best."""
    if who.rule == Rule.BLOCK:
        return WHOLE_ROUNDS
    kind = Kind(who.kind)
    more = (RAGGED,) if who.ragged and kind in (Kind.VERIFIER, Kind.PIPELINE) else ()
    return (*REQUIRED[kind], *more)


def rounds(who: Description) -> bool:
    """Whether a sampler divides two laws of which one is its own FP32 softmax."""
    return not compares(who) and not exact(who)


def choose(who: Description, wanted: Collection[str]) -> tuple[list[Problem], dict[str, str]]:
    """The wanted problems that apply to a sampler, and why each other one does not."""
    kind = Kind(who.kind)
    found: list[Problem] = []
    left_out: dict[str, str] = {}
    for name in wanted:
        problem = _rows(name, who, left_out) if kind is Kind.PLAIN else _pair(pairs.build(name), kind, who)
        if isinstance(problem, str):
            left_out[name] = problem
        else:
            found.append(problem)
    return found, left_out


def _rows(name: str, who: Description, left_out: dict[str, str]) -> Problem | str:
    target = plain.rows(name, who, left_out)
    if isinstance(target, str):
        return target
    return Problem(target=target, depth=0, events=EVENTS[Kind.PLAIN], law_sha256=plain.digest(name))


def _pair(pair: pairs.Pair, kind: Kind, who: Description) -> Problem | str:
    tickets = who.draft_carrier == Carrier.TICKETS
    if tickets and kind is Kind.VERIFIER:
        return "a batch has no tickets of given drafts: they are those that a proposal makes"
    vocab = VOCAB if tickets else pair.vocab
    if not who.min_vocab <= vocab <= who.max_vocab:
        return f"vocabulary {vocab}; the sampler declares {who.min_vocab} to {who.max_vocab}"
    if not min(pair.temperatures) and not who.greedy:
        return "temperature 0; the sampler declares no greedy path"
    void = any(any(invalidated(pattern, pair.depth)) for pattern in pair.patterns)
    short = any(drafts_of(pattern, pair.depth) < pair.depth for pattern in pair.patterns)
    if void and kind in (Kind.PROPOSAL, Kind.ENGINE):
        return f"invalidated drafts, which this kind ({kind.value}) never meets"
    if void and who.void == Void.UNSUPPORTED:
        return "invalidated drafts; the sampler declares that it takes none"
    if short and kind in (Kind.PROPOSAL, Kind.ENGINE):
        return f"requests with fewer drafts than others, which this kind ({kind.value}) never meets"
    if short and not who.ragged:
        return "requests with fewer drafts than others; the sampler does not declare ragged"
    if who.rule == Rule.BLOCK and not pair.joint and pair.sampled:
        return "block verification has a known law for whole rounds only: smaller targets"
    same = bool((pair.weights == pair.draft_weights).all())
    target = seen(pair, who)
    events = EVENTS[kind]
    if who.rule == Rule.BLOCK and pair.sampled:
        events = BLOCK
    elif kind is not Kind.PROPOSAL and pair.joint:
        events = events | {Event.JOINT}
    return Problem(
        target=target,
        depth=pair.depth,
        events=events,
        law_sha256=target.pair.digest(),
        slack=ROUNDING if same and rounds(who) else 0.0,
    )
