"""What the rules of acceptance of other projects' tests would say of a histogram, restated in our own code.

Each rule is a function of counts [k] and null probabilities [k] alone. The tests they come from were read, not run;
their vocabularies, numbers of draws and laws are their own, so a rule here says what its bar sees, not how good a
test is. No source states a false-alarm rate or a power for these bars.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp3.harness.special import special

Counts = npt.NDArray[np.int64]  # [k]
Law = npt.NDArray[np.float64]  # [k]

COSINE = 0.99
TOTAL_VARIATION = 0.02
DIVERGENCE = 0.01  # nats
SIGMAS = 10
FIRST = 10  # draws after which the first distance is taken
FALLS = 20  # times as much as the distance to the reference
# Relative variance of exp(U), U uniform in [0, 1): the reference laws are softmaxes of such logits, so the squares of
# their distances to their mean, 1 / k each, sum to about this over k.
REFERENCE_VARIANCE = (math.e**2 - 1) / 2 / (math.e - 1) ** 2 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of acceptance: whether counts [k] with this null [k] pass."""

    name: str
    source: str
    about: str
    passes: Callable[[Counts, Law], bool]


def cosine(counts: Counts, null: Law) -> float:
    """Cosine of the angle between the counts and the null."""
    return float(counts @ null / math.sqrt(float(counts @ counts) * float(null @ null)))


def total_variation(counts: Counts, null: Law) -> float:
    """Half of the summed differences of frequencies and null."""
    return float(np.abs(counts / counts.sum() - null).sum() / 2)


def divergence(counts: Counts, null: Law) -> float:
    """Kullback-Leibler divergence of the frequencies from the null, in nats; inf if a forbidden token was drawn."""
    return float(special.rel_entr(counts / counts.sum(), null).sum())


def sigmas(counts: Counts, null: Law) -> float:
    """Largest difference of a count and its mean, in standard errors; inf if a token is off that cannot vary."""
    events = counts.sum()
    off, spread = np.abs(counts - events * null), np.sqrt(events * null * (1 - null))
    return float(np.where(spread > 0, off / np.where(spread > 0, spread, 1), np.where(off > 0, math.inf, 0)).max())


def distance_ratio(counts: Counts, null: Law, first: Counts | None = None) -> float:
    """How often the distance to the null fell as much as that to random reference laws, from 10 draws to all.

    Euclidean distances; that to the reference is the root mean square over softmaxes of uniform logits. Without the
    counts of the first ten draws, their root mean square distance given all counts: the ten are a sample of all.
    """
    events = float(counts.sum())
    frequencies = counts / events
    uniform = np.full(len(null), 1 / len(null))

    def fall(law: Law, variance: float) -> float:
        last = float(((frequencies - law) ** 2).sum()) + variance
        if first is None:
            scatter = (1 - float(frequencies @ frequencies)) / FIRST * (events - FIRST) / (events - 1)
            start = last + scatter
        else:
            start = float(((first / first.sum() - law) ** 2).sum()) + variance
        return math.sqrt(start / last) if last else math.inf

    return fall(null, 0.0) / fall(uniform, REFERENCE_VARIANCE / len(null))


RULES = (
    Rule(
        name="cosine",
        source="FlashInfer, tests/utils/test_sampling.py",
        about="cosine similarity of frequencies and law at least 0.99",
        passes=lambda counts, null: cosine(counts, null) >= COSINE,
    ),
    Rule(
        name="total-variation",
        source="SGLang, test_spec_verify_distribution.py",
        about="total variation of frequencies and law at most 0.02",
        passes=lambda counts, null: total_variation(counts, null) <= TOTAL_VARIATION,
    ),
    Rule(
        name="divergence",
        source="TensorRT-LLM, test_torch_rejection_sampling.py",
        about="Kullback-Leibler divergence at most 0.01 nats; there, of its difference from that of plain sampling",
        passes=lambda counts, null: divergence(counts, null) <= DIVERGENCE,
    ),
    Rule(
        name="sigmas",
        source="vLLM, test_gpu_gumbel_sample.py",
        about="every token's count within 10 standard errors of its mean",
        passes=lambda counts, null: sigmas(counts, null) <= SIGMAS,
    ),
    Rule(
        name="distance-ratio",
        source="vLLM, tests/v1/sample/test_rejection_sampler.py",
        about="from 10 to 100,000 draws the distance to the law falls over 20 times as much as that to random laws",
        passes=lambda counts, null: distance_ratio(counts, null) > FALLS,
    ),
)


def false_alarm(rule: Rule, null: Law, events: int, runs: int, rng: np.random.Generator) -> int:
    """How many of `runs` histograms of a correct sampler the rule rejects."""
    return sum(not rule.passes(counts, null) for counts in rng.multinomial(events, null, runs))
