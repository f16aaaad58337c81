"""Pairs as our own sampler is tried on them, and their laws."""

from pp3.harness.samplers.own import Reference
from pp3.harness.trial.problems import Problem, choose
from pp3.harness.trial.seen import Seen, seen
from pp3.targets import pairs
from pp3.targets.pairs import build

WHO = Reference().describe()
OURS = tuple(name for name in pairs.NAMES if name != "ragged")  # it takes no request with fewer drafts than others


def law(name: str) -> Seen:
    """What our sampler is held to on a pair."""
    return seen(build(name), WHO)


def problem(name: str) -> Problem:
    """A pair as our sampler is tried on it."""
    (found,), _ = choose(WHO, [name])
    return found
