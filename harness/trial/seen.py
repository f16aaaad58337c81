"""The law a sampler is held to, from the carriers as it saw them and what it declares they mean.

Laws that travel as probabilities or as tickets are exact: integers over 2^24. A law that travels as FP32 logits is
their softmax in FP64, written as integers over 2^50, so that the rounding of the carrier is never blamed on the
sampler.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial.tickets import ticketed
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

FINE = 1 << 50
Weights = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """The carriers of a pair's rows, FP32 [rows, vocab]: what a sampler can be given."""

    target_probs: Floats
    target_logits: Floats  # processed
    draft_probs: Floats
    draft_logits: Floats  # before temperature
    scaled_draft_logits: Floats
    temperature: Floats  # [starts]

    def __post_init__(self) -> None:
        freeze(self)


def tables(pair: Pair) -> Tables:
    """Logits are log-probabilities in FP64 rounded to FP32; a greedy row's are those of temperature 1."""
    greedy = pair.heats == 0
    heat = np.where(greedy, np.float32(1), pair.heats).astype(np.float64)[:, None]
    with np.errstate(divide="ignore"):
        target, draft = np.log(pair.weights / ONE), np.log(pair.draft_weights / ONE)
    return Tables(
        target_probs=(np.where(greedy[:, None], _best(pair.weights, ONE), pair.weights) / ONE).astype(np.float32),
        target_logits=target.astype(np.float32),
        draft_probs=(pair.draft_weights / ONE).astype(np.float32),
        draft_logits=(draft * heat).astype(np.float32),
        scaled_draft_logits=draft.astype(np.float32),
        temperature=np.array(pair.temperatures, np.float32),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """A pair as a sampler saw it: harness/oracle.Judged."""

    pair: Pair
    tables: Tables
    weights: Weights
    proposal: Weights
    kept: Weights
    void: Weights
    total: int
    block: bool
    compares: bool
    labels: tuple[str, ...] = ()
    lump: None = None

    @property
    def name(self) -> str:
        """The pair's name."""
        return self.pair.name

    @property
    def draft_logits(self) -> Floats:
        """Logits that drafts are drawn from, [rows, vocab]."""
        return self.tables.draft_logits

    @property
    def row_of(self) -> npt.NDArray[np.int64]:
        """Row that judges a position in a context."""
        return self.pair.row_of

    @property
    def context_of(self) -> npt.NDArray[np.int64]:
        """Context that a token leads to."""
        return self.pair.context_of

    @property
    def patterns(self) -> tuple[str, ...]:
        """Which drafts are invalidated."""
        return self.pair.patterns

    @property
    def starts(self) -> int:
        """In how many contexts requests start."""
        return self.pair.starts

    def proposal_weights(self) -> Weights:
        """Law of the drafts."""
        return self.proposal

    def kept_weights(self) -> Weights:
        """Mass drafted and kept."""
        return self.kept

    def void_weights(self) -> Weights:
        """Law at an invalidated draft."""
        return self.void


def freeze(record: Any) -> None:
    """Let nobody write to the arrays of a dataclass: a sampler can reach them through its batch."""
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False


def seen(pair: Pair, who: Description) -> Seen:
    """What a sampler that declares `who` is held to on a pair."""
    if who.draft_carrier == Carrier.TICKETS:
        pair, logits = ticketed(pair)
        carried = replace(tables(pair), draft_logits=logits)
    else:
        carried = tables(pair)
    greedy = (pair.heats == 0)[:, None]
    total = ONE if exact(who) and not compares(who) else FINE
    target = pair.weights * (total // ONE) if who.target_carrier == Carrier.PROBS else _softmax(carried.target_logits)
    weights = np.where(greedy, _best(pair.weights, total), target)
    proposal = _proposal(pair, carried, who, total)
    kept = _product(proposal, weights, total) if compares(who) else np.minimum(weights, proposal)
    left = weights - kept
    from_residual = who.void == Void.RESIDUAL and not compares(who) and left.sum(axis=1, keepdims=True) > 0
    return Seen(
        pair=pair,
        tables=carried,
        weights=weights,
        proposal=proposal,
        kept=kept,
        void=np.where(from_residual & ~greedy, left, weights),
        total=total,
        block=who.rule == Rule.BLOCK and pair.sampled,
        compares=compares(who),
    )


def compares(who: Description) -> bool:
    """Whether a draft is kept where a draw from the target equals it, so that its own law is not looked at."""
    return who.rule == Rule.SAMPLE_MATCH or who.draft_carrier == Carrier.ONE_HOT


def exact(who: Description) -> bool:
    """Whether both laws travel as integers over 2^24, so that no softmax of the sampler's own stands between them."""
    return who.target_carrier == Carrier.PROBS and who.draft_carrier in (Carrier.PROBS, Carrier.TICKETS)


def _proposal(pair: Pair, carried: Tables, who: Description, total: int) -> Weights:
    """Law of the drafts: the harness draws them from it, or a sampler that drafts itself and is given the same rows."""
    if who.draft_carrier in (Carrier.PROBS, Carrier.ONE_HOT, Carrier.TICKETS):
        law = pair.draft_weights * (total // ONE)
    elif who.draft_carrier == Carrier.SCALED_LOGITS:
        law = _softmax(carried.scaled_draft_logits)
    else:
        heat = np.where(pair.heats == 0, np.float32(1), pair.heats).astype(np.float64)
        law = _softmax(carried.draft_logits.astype(np.float64) / heat[:, None])
    if who.kind == Kind.VERIFIER:
        return law
    return np.where((pair.heats == 0)[:, None], _best(pair.draft_weights, total), law)


def _best(rows: Weights, total: int) -> Weights:
    """All mass on the largest of each row, the lower id of ties, [rows, vocab]."""
    found = np.zeros_like(rows)
    np.put_along_axis(found, rows.argmax(axis=1)[:, None], total, axis=1)
    return found


def _product(one: Weights, other: Weights, total: int) -> Weights:
    """one * other / total, in integers of any size, rounded to the nearest."""
    wide = one.astype(object) * other.astype(object)
    rounded: Weights = ((2 * wide + total) // (2 * total)).astype(np.int64)
    return rounded


def _softmax(logits: npt.NDArray[np.floating]) -> Weights:
    """Integers over 2^50 in proportion to exp(logits) [rows, vocab]; a possible token keeps at least one."""
    wide = logits.astype(np.float64)
    mass = np.exp(wide - wide.max(axis=1, keepdims=True))
    weights = np.rint(mass / mass.sum(axis=1, keepdims=True) * FINE).astype(np.int64)
    weights = np.where(mass > 0, np.maximum(weights, 1), 0)
    best = weights.argmax(axis=1)
    weights[np.arange(len(weights)), best] += FINE - weights.sum(axis=1)
    return weights
