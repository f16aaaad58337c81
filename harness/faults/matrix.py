"""Run planted faults and controls through run, tally and battery, and say which check catches which.

A fault is CAUGHT if its named check rejects it at its planned number of requests, whatever else does; ESCAPED if not.
EXACT-ONLY is one that no number of requests shows, of which its exact check must say something.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import get_context
from typing import Any

import numpy as np

from pp3.harness.cells import Event
from pp3.harness.faults import CONTROLS, FAULTS
from pp3.harness.faults.exact import PREFIX, said_by
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.peers import RULES
from pp3.harness.samplers.contract import Kind
from pp3.harness.seeds import Seed
from pp3.harness.trial.judge import TrialJudgement, conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.trial.run import run
from pp3.harness.verdict import Verdict

FORBIDDEN, BREACH, INVALID = "forbidden", "breach", "invalid"  # witnesses that are no check of their own
MARGINAL = (Event.TOKEN, Event.FULL_TARGET, Event.PROPOSAL)  # at position 0: a plain test of tokens
FAMILY_ALPHA = 1e-5
THREADS = 1  # of torch, where faults run side by side


class Outcome(StrEnum):
    """What became of a fault or a control."""

    CAUGHT = "CAUGHT"
    ESCAPED = "ESCAPED"
    EXACT_ONLY = "EXACT-ONLY"
    CONTROL_PASS = "CONTROL-PASS"
    CONTROL_FAIL = "CONTROL-FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault or control, as it came out."""

    id: str
    cause: str
    about: str
    report: str
    witness: str
    sole: bool
    verdict: Outcome
    caught_by: list[str]  # kinds of checks that rejected it, of the first seed
    marginal: bool  # whether a plain chi-square test of first tokens rejected it, at the family alpha
    ships: dict[str, bool]  # by rule of peers.py: whether it would have let it pass
    requests: int  # of all laws, for one seed
    seeds: int
    caught: int  # seeds at which the named check rejected it; of a control, at which nothing did
    effect: str  # the strongest reason, in words
    seconds: float = field(compare=False)

    @property
    def good(self) -> bool:
        """Whether it came out as it must."""
        return self.verdict not in (Outcome.ESCAPED, Outcome.CONTROL_FAIL)

    def plain(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "caught_by": self.caught_by,
            "witness": self.witness,
            "sole": self.sole,
            "marginal": self.marginal,
            "ships": self.ships,
            "requests": self.requests,
            "seeds": self.seeds,
            "caught": self.caught,
            "cause": self.cause,
            "about": self.about,
            "report": self.report,
            "effect": self.effect,
            "seconds": round(self.seconds, 3),
        }


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


def every() -> dict[str, Fault | Control]:
    """All faults, then all controls, by id."""
    return {fault.id: fault for fault in FAULTS} | {control.id: control for control in CONTROLS}


def rows(wanted: Iterable[str], seeds: int, jobs: int, device: str) -> Iterator[Row]:
    """The rows of some ids, in their order, as they come; several processes at once if jobs > 1."""
    orders = [(one, seeds, device) for one in wanted]
    if jobs == 1:
        yield from map(_row, orders)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin) as pool:
        yield from pool.map(_row, orders)


def row(one: Fault | Control, seeds: int = 1, device: str = "cpu") -> Row:
    """Try one fault or control at some seeds."""
    started = time.perf_counter()
    first = tried(one, 1, device)
    named = _rejects(one)
    caught = sum(named(first if counter == 1 else tried(one, counter, device)) for counter in range(1, seeds + 1))
    fault = one if isinstance(one, Fault) else None
    if fault is None:
        verdict = Outcome.CONTROL_PASS if caught == seeds else Outcome.CONTROL_FAIL
    elif fault.witness.startswith(PREFIX):
        quiet = first.judged.verdict is Verdict.PASS
        verdict = Outcome.EXACT_ONLY if caught and quiet else Outcome.ESCAPED
    else:
        verdict = Outcome.CAUGHT if caught == seeds else Outcome.ESCAPED
    return Row(
        id=one.id,
        cause=fault.cause if fault else "control",
        about=one.about,
        report=fault.report if fault else "",
        witness=fault.witness if fault else "",
        sole=fault is not None and fault.sole,
        verdict=verdict,
        caught_by=first.witnesses(),
        marginal=_marginal(first),
        ships=_ships(first),
        requests=first.trial.requests,
        seeds=seeds,
        caught=caught,
        effect=first.judged.reasons[0] if first.judged.reasons else "",
        seconds=time.perf_counter() - started,
    )


def tried(one: Fault | Control, counter: int, device: str) -> Tried:
    """One trial in this process, on the targets and with the requests that are planned for it."""
    sampler = one.sampler()
    spec = TrialSpec(sampler=one.id, targets=list(one.targets), requests=one.requests)
    trial = make(spec, sampler.describe(), one.id)
    found = run(trial, sampler, Seed.of(trial.plan_sha256, counter), device, lambda stage, done, total: None)
    return Tried(trial=trial, found=found, judged=conclude(trial, found, device))


def _rejects(one: Fault | Control) -> Callable[[Tried], bool]:
    """What must hold of every seed."""
    if isinstance(one, Control):
        return lambda seen: seen.judged.verdict is Verdict.PASS
    if one.witness.startswith(PREFIX):
        said = bool(said_by(one))
        return lambda seen: said
    return lambda seen: one.witness in seen.witnesses()


def _marginal(seen: Tried) -> bool:
    """Whether a chi-square test of the tokens at the first position alone rejects."""
    return any(
        test.pearson_p <= FAMILY_ALPHA
        for check, test in zip(seen.trial.checks, seen.judged.tests, strict=True)
        if test.event in MARGINAL and all(pooled.cell.position == 0 for pooled in check.cells) and test.df
    )


def _ships(seen: Tried) -> dict[str, bool]:
    """Whether each rule of acceptance of other projects passes every histogram of first tokens."""
    cells = [
        cell
        for problem in seen.trial.problems
        for cell in problem.cells
        if cell.event in MARGINAL and cell.position == 0 and len(cell.atoms) > 1
    ]
    if Kind(seen.trial.who.kind) is not Kind.PROPOSAL:
        cells = [cell for cell in cells if cell.event is not Event.PROPOSAL]
    found = {}
    for rule in RULES:
        passed = []
        for cell in cells:
            counts, null = np.array(seen.found.counts.get(cell.id, [0])), np.append(cell.probabilities(), 0.0)
            if counts.sum():
                passed.append(rule.passes(counts, null))
        found[rule.name] = all(passed)
    return found


def _row(order: tuple[str, int, str]) -> Row:
    name, seeds, device = order
    return row(every()[name], seeds, device)


def _begin() -> None:
    import torch

    torch.set_num_threads(THREADS)
