"""What the overlays are tried on: the customer's five targets, and one whose rows went through a grammar's mask.

Each at depth 5 and, under a name that says so, at depth 4: the two that a session may be admitted for.

Drafts come from the tickets of each target's own draft logits; the target travels as FP32 logits, and the law is their
softmax. A grammar forbids tokens of the target whatever the proposal thinks of them: the two know nothing of each
other, so that many a draft is impossible and must be replaced.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.transport.frame import DEPTHS
from pp3.harness.trial.plan import Trial, TrialSpec, check
from pp3.harness.trial.problems import EVENTS, ROUNDING, Problem
from pp3.harness.trial.seen import seen
from pp3.kernels.reference import TAU
from pp3.targets import NAMES as TOY
from pp3.targets import Target, toy
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

GRAMMAR = "grammar"
BASE = "context"  # the target that the grammar masks: each of its states forbids other tokens
EVERY = 3  # one token in three is forbidden
LAWS = (*TOY, GRAMMAR)
SHORTER = f"-depth-{min(DEPTHS)}"  # after a name: the same law, fewer drafts a round
NAMES = (*LAWS, *(f"{name}{SHORTER}" for name in LAWS))
EQUAL = "equal-q"
WHERE = "--sampler overlay"


@cache
def target(name: str) -> Target:
    """A target by name. KeyError for one that is not in NAMES."""
    law = name.removesuffix(SHORTER)
    return replace(_masked(toy.build(BASE)) if law == GRAMMAR else toy.build(law), name=name)


def depth_of(name: str) -> int:
    """Drafts a round of a target."""
    return min(DEPTHS) if name.endswith(SHORTER) else max(DEPTHS)


def forbidden(shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Tokens that the grammar forbids in each state, [rows, vocab]."""
    rows, vocab = np.indices(shape)
    forbids: npt.NDArray[np.bool_] = (vocab // 4 + rows) % EVERY == 0
    return forbids


def problem(name: str, who: Description) -> Problem:
    """A target as the overlays see it, at its depth."""
    mine, depth = target(name), depth_of(name)
    pair = Pair(
        name=name,
        why=mine.why,
        weights=mine.weights.copy(),
        draft_weights=mine.proposal_weights(),
        row_of=mine.row_of[: depth + 1],
        context_of=mine.context_of,
        patterns=mine.patterns,
        temperatures=(float(np.float32(TAU)),),
    )
    # Tickets are probabilities that are exact; as tickets, the harness would deal the pair to a vocabulary of its own.
    judged = seen(pair, replace(who, draft_carrier=Carrier.PROBS))
    judged = replace(judged, tables=replace(judged.tables, draft_logits=mine.draft_logits))
    return Problem(
        target=judged,
        depth=depth,
        events=EVENTS[Kind.PIPELINE],
        law_sha256=pair.digest(),
        slack=ROUNDING if name.removesuffix(SHORTER) == EQUAL else 0.0,
    )


def _masked(mine: Target) -> Target:
    """The target with a third of its tokens forbidden in each state, the rest in proportion."""
    kept = np.where(forbidden(mine.weights.shape), 0, mine.weights)
    weights = kept * ONE // kept.sum(axis=1, keepdims=True)
    best = weights.argmax(axis=1)
    weights[np.arange(len(weights)), best] += ONE - weights.sum(axis=1)
    return replace(
        mine,
        name=GRAMMAR,
        why="a grammar forbids a third of the tokens, another third in each state, and the proposal does not know it",
        weights=weights,
    )


def trial(spec: TrialSpec, who: Description) -> Trial:
    """The plan of a qualification on the targets of the spec, by default all of NAMES. CampaignError for another."""
    check(spec, WHERE)
    unknown = [name for name in spec.targets if name not in NAMES]
    if unknown:
        raise CampaignError(f"{WHERE}: unknown target {echo(unknown[0])}; the overlays have {', '.join(NAMES)}")
    return Trial(spec=spec, who=who, problems=[problem(name, who) for name in spec.targets or NAMES])
