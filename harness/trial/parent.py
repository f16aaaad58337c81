"""Run a trial in processes of its own, and come back whatever becomes of them.

A process that dies or hangs takes one target with it: the next process begins with the one after. The targets of one
sampler can be spread over several processes: each request has its number, so that the counts are those of one.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers.contract import Description
from pp3.harness.trial import process
from pp3.harness.trial.device import INTERPRETED
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.order import Order, Sources, Who
from pp3.harness.trial.plan import Progress, Trial, TrialSpec, make
from pp3.harness.trial.process import Heard
from pp3.harness.trial.spread import Slots, beside, dealt, slot, slots_for, summed

NOBODY = "/"  # no target is called so: a process that is only asked who it is


@dataclass(slots=True, kw_only=True)
class Found:
    """What a trial's processes said."""

    trial: Trial
    device: dict[str, str]
    measured: Measured = field(default_factory=Measured)
    sources: Sources = field(default_factory=lambda: Sources(files=[], packages={}))

    def add_sources(self, said: Sources | None) -> None:
        """Take in what another process is made of: one may have loaded what another had no need of."""
        if said is not None:
            self.sources = self.sources.joined(said)
            self.device = self.device | (INTERPRETED if said.interpreted else {})


def run(
    spec: TrialSpec,
    given: bool,
    image: Path | None,
    device: str,
    counter: int,
    progress: Progress,
    stop: threading.Event | None = None,
    jobs: int = 1,
    slots: Slots | None = None,
    most: int = 0,
    only: Sequence[str] | None = None,
) -> Found:
    """Run one sampler, its targets spread over `jobs` processes, each in one of the slots that several trials share.

    PP3Error if it cannot even be asked who it is; a crash after that is a finding. KeyboardInterrupt soon after `stop`
    is set: an interrupt reaches the main thread alone. `most` as trial/api.plan; `only` is a part of its targets, each
    request under its number in the whole; without any, the sampler is only asked who it is.
    """
    stop, slots = stop or threading.Event(), slots or slots_for(jobs)
    order = Order(
        sampler=spec.sampler,
        image=str(image) if image else None,
        device=device,
        spec=msgspec.to_builtins(spec),
        given=given,
        counter=counter,
        where=f"sampler {spec.sampler}",
        report=-1,
        only=[NOBODY] if jobs > 1 or only == [] else list(only or []),
        most=most,
    )

    def start(only: list[str], progress: Progress) -> Heard:
        with slot(slots, stop) as gpu:
            return process.run(msgspec.structs.replace(order, only=only), progress, stop, gpu)

    heard = _asked(start(order.only, progress), spec)
    assert heard.who is not None
    found = Found(trial=_planned(heard.who, spec), device=heard.who.device)
    names = [problem.name for problem in found.trial.problems if only is None or problem.name in only]
    if jobs == 1:
        while left := _take(heard, found, names):
            heard = start(left, progress)
        return found
    found.add_sources(heard.sources)
    _spread(found, jobs, start, progress, stop)
    found.measured.strays.sort(key=lambda stray: names.index(stray["cell"].partition("/")[0]))
    return found


def _spread(
    found: Found,
    jobs: int,
    start: Callable[[list[str], Progress], Heard],
    progress: Progress,
    stop: threading.Event,
) -> None:
    """Run every target, those of one part one after another, the parts beside each other; what they found, added."""
    trial = found.trial
    of_part = summed(progress, trial.requests)

    def run_part(number: int, mine: list[str]) -> Found:
        one, say = Found(trial=trial, device=found.device), of_part(number)
        heard = _asked(start(mine, say), trial.spec)
        while left := _take(heard, one, mine):
            heard = start(left, say)
        return one

    sizes = {problem.name: trial.requests_of(problem) for problem in trial.problems}
    for one in beside(dealt(sizes, jobs), run_part, stop):
        found.measured.add(one.measured)
        found.add_sources(one.sources)


def _asked(heard: Heard, spec: TrialSpec) -> Heard:
    """The first process of a sampler, or of a part of it. PP3Error if it did not say who it is."""
    if heard.refused is not None:
        raise PP3Error(heard.refused.message, Exit(heard.refused.code))
    if heard.who is None:
        raise PP3Error(f"sampler {spec.sampler}: its process {heard.end}", Exit.NEGATIVE)
    return heard


def _take(heard: Heard, found: Found, wanted: list[str]) -> list[str]:
    """Take in what one process found; what another is to run of the wanted: all but what this process died on."""
    same = heard.who is not None and heard.who.plan_sha256 == found.trial.plan_sha256
    if same:
        found.add_sources(heard.sources)
        for measured in heard.ended.values():
            found.measured.add(measured)
    broken = found.measured.broken
    left = [name for name in wanted if name not in found.measured.seconds and name not in broken]
    why = ""
    if heard.refused is not None:
        why = f"another process could not begin: {heard.refused.message}"
    elif heard.who is not None and not same:
        why = "in another process the sampler described itself in another way"
    elif left and not (heard.done and heard.ended):
        at = heard.begun if heard.begun in left else left[0]
        broken[at] = f"its process {heard.end}"
        left.remove(at)
        why = f"on {at} its process {heard.end}" if heard.silent else ""
    if why:
        broken |= dict.fromkeys(left, f"not run: {why}")
    return [] if why else left


def _planned(who: Who, spec: TrialSpec) -> Trial:
    declared = dict(who.declared)
    declared["files"] = tuple((name, digest) for name, digest in declared["files"])
    declared["filters"] = tuple(declared["filters"])
    chosen = msgspec.structs.replace(spec, requests=who.requests)
    trial = make(chosen, Description(**declared), spec.sampler)
    if trial.plan_sha256 != who.plan_sha256:
        raise PP3Error(f"{spec.sampler}: its process made another plan than this one: two versions of pp3?")
    return trial
