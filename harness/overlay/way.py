"""Which requests of a qualification go over the wire in which frames, and which lose their proposal there.

All of it follows from plan, seed and device, so that a receipt cannot say that less was injected.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness import paired
from pp3.harness.errors import VerificationError
from pp3.harness.overlay.problems import target
from pp3.harness.samplers.contract import INVALIDATED
from pp3.harness.seeds import Seed
from pp3.harness.tally import start_of
from pp3.harness.transport import losses
from pp3.harness.transport.faults import Dealt, deal
from pp3.harness.transport.place import Place
from pp3.harness.trial import drafts
from pp3.harness.trial.launches import rows_of
from pp3.harness.trial.plan import Trial

Array = npt.NDArray[Any]
BESIDE = "; pairs straight to the buffers"  # of receipts before the pairs went over the wire too


def said(place: Place) -> str:
    """What a proposal goes through, in a receipt's words."""
    return f"wire, proxy in a {place.value}"


def check(trial: Trial, seed: Seed, device: str, overlay: Mapping[str, Any]) -> int:
    """The number of requests that were to be lost on the way. VerificationError unless plan and seed imply what a
    receipt says of it."""
    path = overlay["path"]
    if path.removesuffix(BESIDE) not in map(said, Place):
        raise VerificationError(f"path is {path!r}; it must be one of {', '.join(map(said, Place))}")
    pairs = {} if path.endswith(BESIDE) else {row["target"]: row["pairs"] for row in overlay["paired"]}
    return losses.compare(losses.summed(_batches(trial, seed, device, pairs)), overlay["journey"])


def _batches(trial: Trial, seed: Seed, device: str, pairs: Mapping[str, int]) -> Iterator[tuple[Dealt, Array]]:
    """Every launch, in frames, and which of its requests are sampled: the order of trial/run.py, then of the pairs."""
    for problem in trial.problems:
        first, end = trial.span_of(problem)
        rows = rows_of(trial.who, problem, end - first, device)
        for low in range(first, end, rows):
            requests = np.arange(low, min(low + rows, end))
            given = drafts.given(problem.target, problem.depth, seed, requests, True)
            warm = problem.target.tables.temperature[start_of(problem.target, requests)] > 0
            label = f"{problem.name}/{problem.depth}/{low}"
            yield deal(seed, label, given[:, 0] == INVALIDATED, len(requests)), warm
    first = trial.requests
    for problem in trial.problems:
        count = pairs.get(problem.name, 0)
        if not count:
            continue
        given, warm = losses.greedy_rows(target(problem.name), problem.depth, seed, first, count)
        for low in range(0, len(given), paired.MIXED_ROWS):
            part = slice(low, low + paired.MIXED_ROWS)
            label = f"{problem.name}/{problem.depth}/{first + low}"
            yield deal(seed, label, given[part, 0] == INVALIDATED, paired.MIXED_ROWS), warm[part]
        first += len(given)
