"""K1: the acceptance rule and the law of the drafts disagree."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import CERTAIN, ENGINE, Correct
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.reshape import best, bfloat16, heated, unmasked, without_each
from pp3.harness.faults.running import Integers
from pp3.harness.samplers.contract import Kind

plant = planting("acceptance and proposal disagree")
PIPELINE, PROPOSAL = Kind.PIPELINE, Kind.PROPOSAL


class AcceptsAll(Correct):
    """The test that counts what matches is always true."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Always."""
        return q * 0 + 1, q * 0 + 1


class UnfilteredRatio(Correct):
    """Drafts come from the filtered law, the ratio divides by the unfiltered one."""

    def ratio_law(self, target: Any) -> Integers:
        """An eighth of the mass on what the filter removed."""
        return unmasked(super().ratio_law(target), 8)


class ArgmaxDraft(Correct):
    """The draft is the likeliest token, the ratio that of a draw."""

    def draft_law(self, target: Any) -> Integers:
        """A point mass."""
        return best(super().draft_law(target))


class PointMass(Correct):
    """Each draft is judged as if nothing else could have been drafted: kept with P(x), replaced from P without x."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """P of the draft."""
        return p, p * 0 + total

    def residual(self, p: Integers, q: Integers) -> Integers:
        """P without each token."""
        return without_each(p)

    def residual_key(self, target: Any, pair: Integers, token: Integers) -> Integers:
        """P without this token."""
        key: Integers = pair * target.weights.shape[1] + token
        return key


class NoTemperature(Correct):
    """The ratio and the residual are computed at temperature 1."""

    def target_law(self, target: Any) -> Integers:
        """At temperature 1."""
        return heated(super().target_law(target), heats(target))

    def ratio_law(self, target: Any) -> Integers:
        """Likewise."""
        return heated(super().ratio_law(target), heats(target))


class HalfPrecisionDraft(Correct):
    """Drafts come from a softmax in bfloat16, the ratio from one in FP32."""

    def draft_law(self, target: Any) -> Integers:
        """Rounded to eight bits of mantissa."""
        return bfloat16(super().draft_law(target))


class RatioToMaximum(Correct):
    """Q is not at hand; the largest P stands in for it."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """P(x) / max P."""
        return p, p * 0 + p.max(axis=-1, keepdims=True)


class Swapped(Correct):
    """The ratio is upside down."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Q / P."""
        return q, p


class CoarseCoin(Correct):
    """The acceptance threshold is kept in eight bits."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """floor(256 P / Q) / 256."""
        return np.where(p >= q, 1 << 8, (p << 8) // np.where(q == 0, 1, q)), q * 0 + (1 << 8)


class ProbabilityCompared(Correct):
    """The coin is compared with P instead of with P / Q."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """P."""
        return p, p * 0 + total


class OneTokenLess(Correct):
    """At the first position the threshold of one token, the one nearest to certain, loses a fiftieth: given the draft
    that shows, elsewhere it drowns. A product law of rejected drafts and replacements holds the same shift among many
    more outcomes."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Of the token of the first row whose acceptance is largest below 1, 98 % of it."""
        chance = np.where((p < q) & (q > 0), p * CERTAIN // np.where(q == 0, 1, q), -1)
        at = (np.arange(p.shape[-1]) == chance[0].argmax()) & (np.arange(len(p)) == 0)[:, None]
        return np.where(at, p * 49, p * 50), q * 50


class WarmDraft(Correct):
    """Drafts and ratio agree, both at another temperature than is said."""

    def draft_law(self, target: Any) -> Integers:
        """To the power of 0.8."""
        return heated(super().draft_law(target), 0.8)

    ratio_law = draft_law


class SwappedIds(Correct):
    """The draft's vocabulary map exchanges two ids that the target prefers by far, and so does the ratio's: tokens and
    lengths stay exact. No fault shows in kept drafts alone: what is kept of a token is what is drafted of it where P is
    at least Q (and proposal sees that), and what is emitted of it where it is not (and token does)."""

    def draft_law(self, target: Any) -> Integers:
        """In one row, two tokens with each other's Q."""
        q = super().draft_law(target)
        row, one, other = outweighed(target.weights, q)
        found = q.copy()
        found[row, [one, other]] = q[row, [other, one]]
        return found

    ratio_law = draft_law


def outweighed(p: Integers, q: Integers) -> tuple[int, int, int]:
    """A row and two of its tokens, P above both Qs, whose exchange shows in what is kept more than in what is replaced.

    Theirs are the largest (1/q + 1/q') / (1/(p - q) + 1/(p' - q')) among those whose Qs differ by a hundredth.
    """
    one, other, left = q[:, :, None], q[:, None, :], np.maximum(p - q, 0)
    fits = (np.minimum(p[:, :, None], p[:, None, :]) > np.maximum(one, other)) & (np.minimum(one, other) > 0)
    fits &= np.abs(one - other) * 100 > q.sum(axis=1)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        kept, replaced = 1 / q, 1 / left
        value = (kept[:, :, None] + kept[:, None, :]) / (replaced[:, :, None] + replaced[:, None, :])
    row, pair = divmod(int(np.where(fits, value, 0).argmax()), p.shape[1] ** 2)
    return row, *divmod(pair, p.shape[1])


def heats(target: Any) -> Any:
    """Temperature of each row, [rows, 1]; 1 where greedy."""
    found = np.asarray(target.pair.heats, np.float64)
    return np.where(found == 0, 1.0, found)[:, None]


STUDY = "study of statistics, sections 0 to 3"
WELL_KNOWN = ("accept", "kept", "residual", "recovery", "length-pair", "forbidden")
FAULTS = (
    plant("K1-001", AcceptsAll, "token", "huggingface/transformers PR 28508", ("near",)),
    plant("K1-002", UnfilteredRatio, "token", "huggingface/transformers issue 47932", ("far",)),
    plant("K1-003", ArgmaxDraft, "token", "huggingface/transformers PR 33534", ("near",), kind=PIPELINE),
    plant("K1-004", PointMass, "length", "vLLM issue 40149", ("near",), requests=2_000, others=WELL_KNOWN),
    plant(
        "K1-004/pipeline",
        PointMass,
        "length",
        "vLLM issue 40149",
        ("near",),
        requests=2_000,
        others=WELL_KNOWN,
        kind=PIPELINE,
    ),
    plant("K1-005", NoTemperature, "length", "lattice issue 388", ("near",)),
    plant(
        "K1-006",
        HalfPrecisionDraft,
        "exact:draws",
        "deepseek-ai/DeepSpec issue 31",
        ("near",),
        kind=PROPOSAL,
        shows=Shows.EXACT,
    ),
    plant("K1-007", RatioToMaximum, "accept", "1bit-MONSTER issue 637", ("near",)),
    plant("K1/swapped", Swapped, "forbidden", STUDY, ("far",)),
    plant("K1/coarse", CoarseCoin, "exact:edges", STUDY, ("near",), shows=Shows.EXACT),
    plant("K1/no-division", ProbabilityCompared, "token", STUDY, ("near",)),
    plant("K1/consistent", WarmDraft, "proposal", STUDY, ("near",), kind=PIPELINE, others=WELL_KNOWN),
    plant(
        "K1/exchanged-ids",
        SwappedIds,
        "kept",
        MADE,
        ("far",),
        kind=PIPELINE,
        others=("proposal", "residual", "recovery", "rare-cell"),
    ),
    plant("sole-accept", OneTokenLess, "accept", MADE, ("near",), requests=250_000, others=("recovery",), sole=True),
)
ENGINE_FAULTS = (  # of the kind `engine`: drafts stay inside
    plant(
        "K1-004/engine",
        PointMass,
        "length",
        "vLLM issue 40149",
        ("near",),
        requests=2_000,
        kind=ENGINE,
        others=("rare-cell", "length-pair"),
        about="Drawn drafts are judged as point masses and stay inside: every token is right, fewer are kept.",
    ),
)
