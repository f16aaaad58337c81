"""K1: the acceptance rule and the law of the drafts disagree."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import CERTAIN, ENGINE, Correct, Integers
from pp3.harness.faults.fault import Fault, Shows
from pp3.harness.faults.reshape import best, bfloat16, heated, swapped, unmasked, without_each
from pp3.harness.samplers.contract import Kind

CAUSE = "acceptance and proposal disagree"


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
    """Where acceptance is nearly certain, the threshold of one token loses a fiftieth."""

    def acceptance(self, p: Any, q: Any, total: int) -> tuple[Any, Any]:
        """Of the token of each row whose acceptance is largest below 1, 98 % of it."""
        chance = np.where((p < q) & (q > 0), p * CERTAIN // np.where(q == 0, 1, q), -1)
        at = np.arange(p.shape[-1]) == chance.argmax(axis=-1)[..., None]
        return np.where(at, p * 49, p * 50), q * 50


class WarmDraft(Correct):
    """Drafts and ratio agree, both at another temperature than is said."""

    def draft_law(self, target: Any) -> Integers:
        """To the power of 0.8."""
        return heated(super().draft_law(target), 0.8)

    ratio_law = draft_law


class SwappedIds(Correct):
    """The draft's vocabulary map exchanges two ids that the target prefers, and the ratio has the same map."""

    def draft_law(self, target: Any) -> Integers:
        """Of the two tokens whose P exceeds both Qs by most, each with the other's Q."""
        q = super().draft_law(target)
        one, other = outweighed(target.weights, q)
        return swapped(q, one, other)

    ratio_law = draft_law


def outweighed(p: Integers, q: Integers) -> tuple[Integers, Integers]:
    """Two tokens of each row, [rows] each, whose Qs differ most while P exceeds their sum fourfold; or token 0 twice."""
    one, other = q[:, :, None], q[:, None, :]
    room = np.minimum(p[:, :, None], p[:, None, :]) >= 4 * np.maximum(one, other)
    value = np.where(room & (one > 0) & (other > 0), (one - other) ** 2 / np.maximum(np.minimum(one, other), 1), 0)
    found = value.reshape(len(p), -1).argmax(axis=1)
    return found // p.shape[1], found % p.shape[1]


def heats(target: Any) -> Any:
    """Temperature of each row, [rows, 1]; 1 where greedy."""
    found = np.asarray(target.pair.heats, np.float64)
    return np.where(found == 0, 1.0, found)[:, None]


def plant(id: str, sampler: type[Correct], witness: str, about: str, **more: Any) -> Fault:
    """A fault of this cause."""
    kind = more.pop("kind", Kind.VERIFIER)
    return Fault(
        **{"id": id, "about": about, "witness": witness, "cause": CAUSE, "sampler": lambda: sampler(kind)} | more
    )


FAULTS = (
    plant("K1-001", AcceptsAll, "token", "every draft is kept", report="huggingface/transformers PR 28508", targets=("near",)),
    plant(
        "K1-002",
        UnfilteredRatio,
        "token",
        "drafts of the filtered law, judged by the unfiltered one",
        report="huggingface/transformers issue 47932",
        targets=("far",),
    ),
    plant(
        "K1-003",
        ArgmaxDraft,
        "token",
        "the likeliest token is drafted and judged as if it had been drawn",
        report="huggingface/transformers PR 33534",
        targets=("near",),
        kind=Kind.PIPELINE,
        others=("proposal",),
    ),
    *(
        plant(
            f"K1-004{variant}",
            PointMass,
            "length",
            "drawn drafts are judged as point masses: every token is right, fewer are kept" + sole,
            report="vLLM issue 40149",
            targets=("near",),
            kind=kind,
            requests=2_000,
            others=("accept", "kept", "residual", "recovery", "length-pair"),
        )
        for variant, kind, sole in (
            ("", Kind.VERIFIER, ""),
            ("/pipeline", Kind.PIPELINE, ""),
            ("/engine", ENGINE, "; where drafts stay inside, the length alone says so, with its own pairs"),
        )
    ),
    plant(
        "K1-005",
        NoTemperature,
        "token",
        "the verifier leaves the temperature out",
        report="lattice issue 388",
        targets=("near", "mixed"),
    ),
    plant(
        "K1-006",
        HalfPrecisionDraft,
        "exact:draws",
        "drafts from bfloat16, the ratio from FP32: about 1e-3 in total variation, beyond any usual number of requests",
        report="deepseek-ai/DeepSpec issue 31",
        targets=("near",),
        kind=Kind.PROPOSAL,
        shows=Shows.EXACT,
    ),
    plant(
        "K1-007",
        RatioToMaximum,
        "accept",
        "the largest target probability stands in for the draft's",
        report="1bit-MONSTER issue 637",
        targets=("near",),
        others=("token", "length", "kept"),
    ),
    plant(
        "K1-008/swapped",
        Swapped,
        "forbidden",
        "the ratio is upside down, and keeps what the target forbids",
        report="study of statistics, section 1.2",
        targets=("far",),
    ),
    plant(
        "K1-008/coarse",
        CoarseCoin,
        "exact:edges",
        "acceptance in eight bits",
        report="study of statistics, section 3",
        targets=("near",),
        shows=Shows.EXACT,
    ),
    plant(
        "K1-008/no-division",
        ProbabilityCompared,
        "token",
        "the coin is compared with P: residuals are for more rejections than there should be",
        report="study of statistics, section 1.2",
        targets=("near",),
        others=("accept", "length", "kept"),
    ),
    plant(
        "K1-008/consistent",
        WarmDraft,
        "proposal",
        "drafts and ratio agree on a wrong temperature: what is emitted has the right law",
        report="study of statistics, section 0",
        targets=("near",),
        kind=Kind.PIPELINE,
        others=("accept", "length", "kept", "residual", "recovery"),
    ),
    plant(
        "sole-accept",
        OneTokenLess,
        "accept",
        "the likeliest to be kept of each row's doubtful tokens is kept 2 % less: seen only given the draft",
        report="study of statistics, section 1.2",
        targets=("far",),
        sole=True,
    ),
    plant(
        "sole-kept",
        SwappedIds,
        "kept",
        "two ids change places in draft and ratio: tokens and lengths stay exact, drafts stay inside; the residual has "
        "the opposite shift, in more mass, and may fire too",
        report="made for this battery",
        targets=("far",),
        kind=ENGINE,
        others=("residual",),
        sole=True,
    ),
)
