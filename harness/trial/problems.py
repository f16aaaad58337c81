"""What a sampler of each kind is tried on: laws as it saw them, and the events that its kind can show.

A problem is one target under one depth. Which problems apply follows from the kind and the declarations; what does not
apply is listed with its reason, so that declaring less cannot look like passing more.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial import plain
from pp3.harness.trial.seen import compares, exact, seen
from pp3.harness.trial.tickets import VOCAB
from pp3.targets import pairs

EMITTED = frozenset({Event.TOKEN, Event.LENGTH})
EVENTS: dict[Kind, frozenset[Event]] = {
    Kind.PLAIN: frozenset({Event.TOKEN}),
    Kind.PROPOSAL: frozenset({Event.PROPOSAL}),
    Kind.VERIFIER: EMITTED,
    Kind.PIPELINE: EMITTED | {Event.PROPOSAL},
}
# What a profile needs for a PASS: declaring less buys none. Block verification has a known law for whole rounds only.
WHOLE_ROUNDS = ("shared-noise", "whole")
REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.PLAIN: ("rows-of-12", "rows-of-63", "rows-of-1000"),
    Kind.PROPOSAL: ("near", "far", "context", "mixed", "peaked"),
    Kind.VERIFIER: ("near", "far", "equal", "context", "mixed", "peaked", *WHOLE_ROUNDS),
    Kind.PIPELINE: ("near", "far", "equal", "context", "mixed", "peaked", *WHOLE_ROUNDS),
}
UNEQUAL = "equal laws as logits: FP32 takes about 1e-7 of their drafts for rejected, and that is its rounding"


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One target as a sampler of one declaration sees it."""

    target: Any  # harness/oracle.Judged, with its carriers in `tables`
    depth: int
    events: Collection[Event]
    law_sha256: str

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
        return enumerate_cells(Law(self.target), self.depth, self.events)


def names(kind: Kind) -> tuple[str, ...]:
    """Names of all problems of a kind."""
    return plain.NAMES if kind is Kind.PLAIN else pairs.NAMES


def required(who: Description) -> tuple[str, ...]:
    """Names of the problems without which a sampler's verdict is INCONCLUSIVE at best."""
    if who.rule == Rule.BLOCK:
        return WHOLE_ROUNDS
    return tuple(name for name in REQUIRED[Kind(who.kind)] if not (name == "equal" and rounds(who)))


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
    if pair.patterns != ("none",) and kind is Kind.PROPOSAL:
        return "invalidated drafts, which a proposal never meets"
    if pair.patterns != ("none",) and who.void == Void.UNSUPPORTED:
        return "invalidated drafts; the sampler declares that it takes none"
    if who.rule == Rule.BLOCK and not pair.joint and pair.sampled:
        return "block verification has a known law for whole rounds only: smaller targets"
    if (pair.weights == pair.draft_weights).all() and rounds(who):
        return UNEQUAL
    target = seen(pair, who)
    events = EVENTS[kind]
    if kind in (Kind.VERIFIER, Kind.PIPELINE) and pair.joint:
        events = frozenset({Event.JOINT}) if who.rule == Rule.BLOCK else events | {Event.JOINT}
    return Problem(target=target, depth=pair.depth, events=events, law_sha256=target.pair.digest())
