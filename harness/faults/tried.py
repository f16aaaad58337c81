"""One sampler, tried at one seed: what speaks against it, and what a plain test and the rules of peers make of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pp3.harness.cells import Event
from pp3.harness.faults.peers import RULES
from pp3.harness.samplers.contract import Kind
from pp3.harness.seeds import Seed
from pp3.harness.trial.judge import TrialJudgement, conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.trial.run import run

FORBIDDEN, BREACH, INVALID = "forbidden", "breach", "invalid"  # witnesses that are no check of their own
MARGINAL = (Event.TOKEN, Event.FULL_TARGET, Event.PROPOSAL)  # at position 0: a plain test of tokens
FAMILY_ALPHA = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One sampler at one seed."""

    trial: Trial
    found: Measured
    judged: TrialJudgement

    def witnesses(self) -> list[str]:
        """Everything that speaks against the sampler, each once: kinds of checks first."""
        failed = [test for test in self.judged.tests if test.outcome == "fail"]
        seen = list(dict.fromkeys(test.event.value for test in failed if test.significant))
        seen += [FORBIDDEN] if any(test.forbidden for test in failed) else []
        seen += [BREACH] if self.found.breaches else []
        return seen + ([INVALID] if self.found.broken else [])

    @property
    def reason(self) -> str:
        """The strongest reason against it, or ""."""
        return self.judged.reasons[0] if self.judged.reasons else ""

    def marginal(self) -> bool:
        """Whether a chi-square test of the tokens at the first position alone rejects."""
        return any(
            test.pearson_p <= FAMILY_ALPHA
            for check, test in zip(self.trial.checks, self.judged.tests, strict=True)
            if test.event in MARGINAL and all(pooled.cell.position == 0 for pooled in check.cells) and test.df
        )

    def ships(self) -> dict[str, bool]:
        """Whether each rule of acceptance of other projects passes every histogram of first tokens."""
        cells = [
            cell
            for problem in self.trial.problems
            for cell in problem.cells
            if cell.event in MARGINAL and cell.position == 0 and len(cell.atoms) > 1
        ]
        if Kind(self.trial.who.kind) is not Kind.PROPOSAL:
            cells = [cell for cell in cells if cell.event is not Event.PROPOSAL]
        found = {}
        for rule in RULES:
            passed = []
            for cell in cells:
                counts = np.array(self.found.counts.get(cell.id, [0]))
                if counts.sum():
                    passed.append(rule.passes(counts, np.append(cell.probabilities(), 0.0)))
            found[rule.name] = all(passed)
        return found


def attempt(sampler: Any, name: str, targets: Sequence[str], requests: int, counter: int, device: str) -> Tried:
    """One trial in this process, on some targets (none: all of its kind) with so many requests of each law."""
    spec = TrialSpec(sampler=name, targets=list(targets), requests=requests)
    trial = make(spec, sampler.describe(), name)
    found = run(trial, sampler, Seed.of(trial.plan_sha256, counter), device, _silent)
    return Tried(trial=trial, found=found, judged=conclude(trial, found, device))


def _silent(stage: str, done: int, total: int) -> None:
    """No progress."""
