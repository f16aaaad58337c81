"""How many requests a launch of a trial has: so that a reader of its receipt knows which were launched together."""

from pp3.harness.samplers.contract import Description
from pp3.harness.samplers.stream import ROUNDS
from pp3.harness.trial.problems import Problem

ROWS = {"cuda": 1 << 19, "cpu": 1 << 13}
ENTRIES = 1 << 26  # of one tensor: a sort holds some, and samplers share a GPU
EPOCHS = 2  # that a problem is cut into, so that slots change hands
LEAST_ROWS = 64  # unless the sampler declares its own


def rows_of(who: Description, problem: Problem, requests: int, device: str) -> int:
    """Requests a launch: as many as the sampler takes, or as suit the device, the entries of a request and the stream.

    A stream wants some epochs, and launches that move a row on by one start.
    """
    if who.rows_per_launch:
        return who.rows_per_launch
    most = min(ROWS["cuda" if device.startswith("cuda") else "cpu"], ENTRIES // (problem.vocab * (problem.depth + 1)))
    rows = min(most, max(LEAST_ROWS, requests // (EPOCHS * ROUNDS)))
    patterns, starts = len(problem.target.patterns), problem.target.starts
    period = patterns * starts
    return rows - rows % period - period + patterns if starts > 1 and rows >= 2 * period else rows
