"""Rows of the matrix for faults in the text of kernels: a few rows in the interpreter, a trial on a GPU.

On a CPU no requests are counted: a fault is CAUGHT if its check of few rows differs, and EXACT-ONLY if that is an
enumeration and so is what its record names among the trials. On a GPU whatever a trial is to see has one; the rest is
left to few rows, in the interpreter.
"""

import time

from pp3.harness.faults.exact import PREFIX
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.triton_fault import TextControl, TextFault
from pp3.harness.verdict import Verdict

CAUSE = "text of a kernel"
ROWS = ("bits", "answers", "wide")  # of what few rows show that is no enumeration
REQUESTS = 1_000_000  # of each law, on a GPU


def of_rows(one: TextFault | TextControl, device: str) -> bool:
    """Whether few rows decide it and not a trial."""
    if device == "cpu":
        return True
    return isinstance(one, TextFault) and (one.witness in ROWS or one.witness.startswith(PREFIX))


def few(one: TextFault | TextControl) -> Row:
    """A row by few rows, in a process that has chosen Triton's interpreter; the same whatever the seed."""
    from pp3.harness.faults.triton_text import SEEN_BY, few_rows  # torch

    started = time.perf_counter()
    if isinstance(one, TextControl):
        said = few_rows(None)
        verdict = Outcome.CONTROL_FAIL if any(said.values()) else Outcome.CONTROL_PASS
    else:
        said = few_rows(one, (one.seen,)) if one.seen in SEEN_BY else {}
        exact = one.seen.startswith(PREFIX) and one.witness.startswith(PREFIX)
        verdict = Outcome.ESCAPED if not any(said.values()) else Outcome.EXACT_ONLY if exact else Outcome.CAUGHT
    seen = [check for check, found in said.items() if found]
    return _row(
        one,
        witness=one.seen if isinstance(one, TextFault) else "",
        verdict=verdict,
        caught_by=seen,
        marginal=None,
        ships=None,
        requests=0,
        seeds=1,
        caught=int(verdict is not Outcome.ESCAPED and verdict is not Outcome.CONTROL_FAIL),
        effect=said[seen[0]] if seen else "",
        seconds=time.perf_counter() - started,
    )


def many(one: TextFault | TextControl, requests: int, seeds: int) -> Row:
    """A row by trials on the GPU of this process."""
    from pp3.harness.faults.triton_text import run_on  # torch

    started = time.perf_counter()
    fault = one if isinstance(one, TextFault) else None
    found = [run_on(fault, "cuda", requests, one.targets, counter) for counter in range(1, seeds + 1)]
    if fault:
        caught = sum(fault.witness in outcome.caught_by for outcome in found)
        verdict = Outcome.CAUGHT if caught == seeds else Outcome.ESCAPED
    else:
        caught = sum(outcome.verdict is Verdict.PASS for outcome in found)
        verdict = Outcome.CONTROL_PASS if caught == seeds else Outcome.CONTROL_FAIL
    first = found[0].tried
    return _row(
        one,
        witness=fault.witness if fault else "",
        verdict=verdict,
        caught_by=list(found[0].caught_by),
        marginal=first.marginal(),
        ships=first.ships(),
        requests=first.trial.requests,
        seeds=seeds,
        caught=caught,
        effect=first.reason,
        seconds=time.perf_counter() - started,
    )


def _row(one: TextFault | TextControl, **more: object) -> Row:
    fault = isinstance(one, TextFault)
    return Row(
        id=one.id,
        cause=CAUSE if fault else "control",
        about=one.about,
        report=one.report if isinstance(one, TextFault) else "",
        sole=False,
        **more,  # type: ignore[arg-type]  # names and types are Row's own
    )
