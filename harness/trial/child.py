"""The process that a foreign sampler runs in: it may crash, hang or print, and the campaign goes on.

Reads one JSON order from standard input; writes JSON lines to the file descriptor that the order names.
"""

import faulthandler
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import msgspec

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers import registry
from pp3.harness.seeds import Seed
from pp3.harness.trial.api import describe, plan
from pp3.harness.trial.device import choose, identity, interpreted, launches, survives
from pp3.harness.trial.order import Begun, Done, Ended, Message, Order, Progressed, Refused, Sources, Who
from pp3.harness.trial.plan import TrialSpec
from pp3.harness.trial.sources import of_sampler

OFTEN = 0.2  # seconds between two lines of progress


def main() -> int:
    """Run one order."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    os.set_inheritable(order.report, False)
    faulthandler.enable()
    with os.fdopen(order.report, "w", encoding="utf-8") as lines:
        try:
            _run(order, lines)
        except PP3Error as error:
            _say(lines, Refused(str(error), int(error.exit_code)))
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return Exit.OK


def _run(order: Order, lines: TextIO) -> None:
    device = choose(order.device)
    if device == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before any kernel is decorated
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with launches() as launched:
        _run_problems(order, device, lines, launched)


def _run_problems(order: Order, device: str, lines: TextIO, launched: Callable[[], bool]) -> None:
    from pp3.harness.trial import guard
    from pp3.harness.trial.run import run_problem

    entry = registry.find(order.sampler)
    before = set(sys.modules)
    with guard.poisoned():  # buffers that it makes once and keeps
        sampler = registry.load(entry, Path(order.image) if order.image else None)
    who = describe(sampler)
    trial = plan(msgspec.convert(order.spec, TrialSpec), who, order.where, order.given, order.most)
    seed = Seed.of(trial.plan_sha256, order.counter)

    def say_sources() -> bool:
        """What it is made of so far, and whether the interpreter is part of it."""
        seen = interpreted(who, launched())
        _say(lines, Sources(**of_sampler(sampler, who, before), interpreted=seen))
        return seen

    _say(
        lines,
        Who(
            declared=msgspec.to_builtins(who),
            device=identity(device),
            plan_sha256=trial.plan_sha256,
            requests=trial.spec.requests,
        ),
    )
    seen = say_sources()
    said = 0.0
    wanted = [problem for problem in trial.problems if not order.only or problem.name in order.only]
    whole, before_it, first = sum(map(trial.requests_of, wanted)), 0, 0

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal said, seen
        if not seen and launched():
            seen = say_sources()
        done = before_it + done - first
        if time.monotonic() - said >= OFTEN or done == whole:
            said = time.monotonic()
            _say(lines, Progressed(stage, done, whole))

    for problem in wanted:
        first, end = trial.span_of(problem)
        _say(lines, Begun(problem.name))
        found = run_problem(trial, problem, sampler, seed, device, progress)
        _say(lines, Ended(problem.name, msgspec.to_builtins(found)))
        if found.broken and not survives(device):
            break  # the rest is run by another process
        before_it += end - first
    say_sources()
    _say(lines, Done())


def _say(lines: TextIO, message: Message) -> None:
    lines.write(msgspec.json.encode(message).decode() + "\n")
    lines.flush()


if __name__ == "__main__":
    sys.exit(main())
