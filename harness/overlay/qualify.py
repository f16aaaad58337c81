"""Run the overlays: every request of the plan through producer, path and overlays, then the temperature-0 pairs.

A pair is one temperature-0 request, in a launch mixed with sampled ones, with its proposal, the same way; and the same
request and drafts through the unchanged image without a proposal, each draft a point mass. Both must be the walk along
the target's argmax.
"""

from collections.abc import Callable
from typing import Any

from pp3.harness import paired
from pp3.harness.overlay.judge import shares
from pp3.harness.overlay.pipeline import Overlay
from pp3.harness.overlay.problems import target
from pp3.harness.seeds import Seed
from pp3.harness.trial import run as trials
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial

PAIRS = 100_000
Progress = Callable[[str, int, int], None]


def run(trial: Trial, sampler: Overlay, seed: Seed, pairs: int, progress: Progress) -> tuple[Measured, list[Any]]:
    """What was counted, and the pairs of each target in receipt form."""
    measured = trials.run(trial, sampler, seed, sampler.device, progress)
    found, number, done = [], trial.requests, 0
    for problem, (name, count) in zip(trial.problems, shares(trial, pairs), strict=True):
        carried: Any = Carried(name, problem.target.tables)
        tally = paired.PairTally()
        if count:
            tally = paired.run(sampler, carried, problem.depth, seed, number, count)
        number += paired.rows_for(count)
        done += count
        progress("paired", done, pairs)
        found.append({"depth": problem.depth, "target": name, **tally.plain()})
    return measured, found


class Carried:
    """A target with the tables that its rows travel in, as paired requests need both."""

    def __init__(self, name: str, tables: Any) -> None:
        self._target, self.tables = target(name), tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
