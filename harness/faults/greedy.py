"""K8: temperature 0, and what takes its place."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import planting
from pp3.harness.faults.running import Integers
from pp3.harness.faults.truncation import Filtered, Row
from pp3.harness.samplers.contract import Kind

plant = planting("temperature 0")
PLAIN: dict[str, Any] = {"kind": Kind.PLAIN, "requests": 4_000}


class TinyTemperature(Filtered):
    """Greedy rows run at a temperature of 1e-6: ties are drawn at random."""

    def greedy(self, left: Row) -> Row:
        """All that equal the largest."""
        return np.where(left == left[0], left, 0)


class SamplesAtZero(Filtered):
    """Temperature 0 with a default top-p still samples, at temperature 1."""

    def greedy(self, left: Row) -> Row:
        """As it is."""
        return left


class Overflows(Filtered):
    """Greedy rows divide by 1e-5 in half precision: minus infinity, a softmax of NaN, and token 0."""

    def plain_law(self, target: Any) -> Integers:
        """Token 0 where no logit is so near 0 that the quotient is finite."""
        law = super().plain_law(target)
        lost = (target.tables.temperature == 0) & (-np.log(target.tables.probs.max(axis=1)) / 1e-5 > 65504)
        law[lost] = np.where(np.arange(law.shape[1]) == 0, law[lost].sum(axis=1, keepdims=True), 0)
        return law


class LastOfTies(Filtered):
    """The reduction of the argmax keeps the last of equal elements."""

    def greedy(self, left: Row) -> Row:
        """The last that equals the largest."""
        return np.where(np.arange(len(left)) == np.flatnonzero(left == left[0])[-1], left, 0)


class GreedyBonusSampled(Correct):
    """The bonus of a greedy request is sampled."""

    def bonus_law(self, target: Any) -> Integers:
        """At temperature 1 whatever the request's."""
        return np.where((target.pair.heats == 0)[:, None], target.pair.weights, super().bonus_law(target))


class GreedyJudged(Correct):
    """A greedy request's drafts are judged by the law of temperature 1."""

    def target_law(self, target: Any) -> Integers:
        """At temperature 1 whatever the request's."""
        return np.where((target.pair.heats == 0)[:, None], target.pair.weights, super().target_law(target))


class AllGreedy(Correct):
    """A batch with one greedy request is greedy throughout."""

    def target_law(self, target: Any) -> Integers:
        """One-hot rows where any row is greedy."""
        law = super().target_law(target)
        if not (target.pair.heats == 0).any():
            return law
        return np.where(np.arange(law.shape[1]) == law.argmax(axis=1)[:, None], law.sum(axis=1, keepdims=True), 0)


REPORT = "FlashML-org/FreeToken PR 471; pytorch/executorch PR 22631"
FAULTS = (
    plant("K8-034", TinyTemperature, "forbidden", REPORT, ("rows-of-7",), **PLAIN),
    plant("K8-034/all", AllGreedy, "token", REPORT, ("mixed-greedy",)),
    plant("K8-035", SamplesAtZero, "forbidden", "Lightning-AI/litgpt PR 2239", ("rows-of-12",), **PLAIN),
    plant("K8-035/bonus", GreedyBonusSampled, "forbidden", "Lightning-AI/litgpt PR 2239", ("greedy",)),
    plant("K8-035/judged", GreedyJudged, "forbidden", "Lightning-AI/litgpt PR 2239", ("greedy",)),
    plant("K8-036", Overflows, "forbidden", "vLLM issue 3063", ("rows-of-12",), **PLAIN),
    plant("K8-037", LastOfTies, "forbidden", "lattice PR 386; pytorch issue 127196", ("rows-of-7",), **PLAIN),
)
