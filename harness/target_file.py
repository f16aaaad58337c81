"""A target defined in a campaign file: its shape, its checks, and the Target it makes.

Weights are integers over 2^24 for the listed tokens, zero elsewhere; draft logits are exact in BF16, -inf elsewhere.
"""

import math

import msgspec
import numpy as np

from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError
from pp3.targets import Target
from pp3.targets.target import POSITIONS, VOIDS


class RowSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One conditional law and its draft logits; tokens not listed have weight 0 and logit -inf."""

    ids: list[int]
    weights: list[int]
    draft_ids: list[int]
    draft_logits: list[float]


class TargetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target defined in the campaign file."""

    name: str
    vocab: int
    rows: list[RowSpec]
    contexts: list[int] | None = None
    patterns: list[str] = msgspec.field(default_factory=lambda: ["none"])


def build_target(spec: TargetSpec, where: str) -> Target:
    """A target of a campaign file."""
    if not 1 <= spec.vocab <= 1 << 24:
        raise CampaignError(
            f"{where}: target {spec.name!r}: vocab = {echo(spec.vocab)}; it must be from 1 to {1 << 24}"
        )
    weights = np.zeros((len(spec.rows), spec.vocab), np.int64)
    logits = np.full((len(spec.rows), spec.vocab), -np.inf, np.float32)
    for number, row in enumerate(spec.rows):
        place = f"{where}: target {spec.name!r}: row {number}"
        pairs = (
            ("ids", row.ids, "weights", row.weights),
            ("draft_ids", row.draft_ids, "draft_logits", row.draft_logits),
        )
        for ids_key, ids, key, values in pairs:
            if len(ids) != len(values):
                raise CampaignError(f"{place}: {len(ids)} {ids_key} and {len(values)} {key}; give one for each")
            wrong = [token for token in ids if not 0 <= token < spec.vocab]
            if wrong or len(set(ids)) != len(ids):
                raise CampaignError(f"{place}: {ids_key} {echo(wrong or ids)} must be distinct and below {spec.vocab}")
        heavy = [weight for weight in row.weights if abs(weight) > 1 << 24]
        if heavy:
            raise CampaignError(f"{place}: weights must lie in 0 to {1 << 24}, unlike {echo(heavy)}")
        if not all(map(math.isfinite, row.draft_logits)):
            raise CampaignError(f"{place}: draft_logits must be finite; leave a token out for -inf")
        inexact = [value for value in row.draft_logits if not _is_bf16(value)]
        if inexact or not row.draft_logits:
            what = (
                f"draft logit {inexact[0]!r} is not exact in BF16" if inexact else "no draft_logits; give one or more"
            )
            raise CampaignError(f"{place}: {what}")
        weights[number, row.ids] = row.weights
        logits[number, row.draft_ids] = row.draft_logits
    contexts = spec.contexts
    if contexts is not None and not all(0 <= context < len(spec.rows) for context in contexts):
        wrong_context = next(context for context in contexts if not 0 <= context < len(spec.rows))
        raise CampaignError(
            f"{where}: target {spec.name!r}: context {echo(wrong_context)}; there are {len(spec.rows)} rows"
        )
    by_context = np.tile(np.arange(len(spec.rows)), (POSITIONS, 1))
    if contexts is None and len(spec.rows) not in (1, POSITIONS):
        raise CampaignError(
            f"{where}: target {spec.name!r}: {len(spec.rows)} rows; give 1, {POSITIONS} (one a position), or contexts"
        )
    by_position = np.zeros((POSITIONS, 1), np.int64) if len(spec.rows) == 1 else np.arange(POSITIONS)[:, None]
    unknown = sorted(set(spec.patterns) - set(VOIDS))
    if unknown:
        raise CampaignError(
            f"{where}: target {spec.name!r}: pattern {echo(unknown)} is unknown; choose from {', '.join(VOIDS)}"
        )
    try:
        return Target(
            name=spec.name,
            why="defined in the campaign",
            weights=weights,
            draft_logits=logits,
            row_of=by_position if contexts is None else by_context,
            context_of=np.zeros(spec.vocab, np.int64) if contexts is None else np.array(contexts, np.int64),
            patterns=tuple(spec.patterns),
        )
    except ValueError as error:
        raise CampaignError(f"{where}: {error}") from None


def _is_bf16(value: float) -> bool:
    """Whether a double is a BF16 value exactly: eight significant bits, and neither overflow nor underflow."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(value)
    return float(single) == value and int(single.view(np.uint32)) & 0xFFFF == 0
