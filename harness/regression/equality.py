"""Whether two runs of one plan and seed must give equal counts, or why nobody can promise it.

Of our own sampler, whose draws are addressed and whose arithmetic is specified to the bit: always. Of another only if
each row's random numbers follow from what the harness hands out, if it met the same launches, and if its floating-point
arithmetic is that of the same device.
"""

from typing import Any

from pp3.harness.evidence.trial import trial_of
from pp3.harness.regression.opened import TRIAL, identity, machine
from pp3.harness.samplers.contract import Randomness
from pp3.harness.trial.launches import rows_of
from pp3.harness.trial.plan import Trial

REPEATABLE = (Randomness.ADDRESSED, Randomness.KEYED, Randomness.INJECTED)


def not_promised(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Why equal counts are not promised of two receipts of one plan and seed; "" if they are."""
    return why_not(trial_of(old), identity(old), identity(new)) if old["kind"] == TRIAL else ""


def why_not(trial: Trial, old: dict[str, str], new: dict[str, str]) -> str:
    """The same of one trial on two devices, by their identities. A processor that is not named may be any."""
    randomness = Randomness(trial.who.randomness)
    if randomness not in REPEATABLE:
        return f"{trial.who.name} draws from {_drawn(randomness)}, whose order follows the launches of a device"
    there, here = machine(old), machine(new)
    if ("gpu" in old) != ("gpu" in new) and (why := _launches(trial, old, new, there, here)):
        return why
    if there != here and randomness is not Randomness.ADDRESSED:
        return f"{trial.who.name} computes in floating point, on {there} there and on {here} here"
    return ""


def _launches(trial: Trial, old: dict[str, str], new: dict[str, str], there: str, here: str) -> str:
    """Whether a GPU and a processor are given launches of other sizes."""
    for problem in trial.problems:
        requests = trial.requests_of(problem)
        sizes = [rows_of(trial.who, problem, requests, "cuda" if "gpu" in named else "cpu") for named in (old, new)]
        if sizes[0] != sizes[1]:
            return f"{problem.name} is launched {sizes[0]:,} requests at a time on {there}, {sizes[1]:,} on {here}"
    return ""


def _drawn(randomness: Randomness) -> str:
    return "a torch.Generator" if randomness is Randomness.GENERATOR else "torch's global generator"
