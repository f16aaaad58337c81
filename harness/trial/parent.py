"""Run a trial in processes of its own, and come back whatever becomes of them.

A process that dies or hangs takes one target with it: the next process begins with the one after. The targets of one
sampler can be spread over several processes: each request has its number, so that the counts are those of one.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers.contract import Description
from pp3.harness.trial.device import INTERPRETED
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.order import Begun, Done, Ended, Message, Order, Progressed, Refused, Sources, Who
from pp3.harness.trial.plan import Progress, Trial, TrialSpec, make
from pp3.harness.trial.sources import INSTALLED
from pp3.harness.trial.spread import Slots, beside, dealt, slot, slots_for, summed

CHILD = [sys.executable, "-P", "-m", "pp3.harness.trial.child"]
NOBODY = "/"  # no target is called so: a process that is only asked who it is
SILENCE = 900.0  # seconds without a report after which the process is ended
GRACE = 10.0  # seconds it may take to leave once everything is said
TAIL = 1 << 14  # bytes of its last output that are kept
MOST = 1 << 20  # bytes of output that are read once it has left
LONGEST = 200  # characters of its last words that are shown
FRAME = re.compile(r'File "([^"]+)", line (\d+) in ')  # of faulthandler, innermost first
CURRENT = "Current thread 0x"  # which it names last, if there are others


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


@dataclass(slots=True, kw_only=True)
class _Heard:
    """What one process said, and how it ended."""

    who: Who | None = None
    refused: Refused | None = None
    sources: Sources | None = None
    begun: str = ""  # the problem it was at
    ended: dict[str, Measured] = field(default_factory=dict)
    end: str = ""  # how it ended, if not as it should
    silent: bool = False
    done: bool = False  # everything is said, whatever becomes of it now


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

    def start(only: list[str], progress: Progress) -> _Heard:
        with slot(slots, stop) as gpu:
            return _process(msgspec.structs.replace(order, only=only), progress, stop, gpu)

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
    start: Callable[[list[str], Progress], _Heard],
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


def _asked(heard: _Heard, spec: TrialSpec) -> _Heard:
    """The first process of a sampler, or of a part of it. PP3Error if it did not say who it is."""
    if heard.refused is not None:
        raise PP3Error(heard.refused.message, Exit(heard.refused.code))
    if heard.who is None:
        raise PP3Error(f"sampler {spec.sampler}: its process {heard.end}", Exit.NEGATIVE)
    return heard


def _take(heard: _Heard, found: Found, wanted: list[str]) -> list[str]:
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


def _process(order: Order, progress: Progress, stop: threading.Event, gpu: str = "") -> _Heard:
    """One process from start to end, on this GPU if one is named, and the end of all that it started."""
    read, write = os.pipe()
    process = subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(write,),
        # Threads that spin between small operations starve each other.
        env={"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
        start_new_session=True,
    )
    os.close(write)
    assert process.stdin is not None
    assert process.stdout is not None
    heard = _Heard()
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # if it died at once, that is heard below
            process.stdin.write(msgspec.json.encode(msgspec.structs.replace(order, report=write)))
        printed = _listen(process, read, heard, progress, stop)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if heard.silent else GRACE)
        heard.end = heard.end or _ended(process.returncode, heard.silent, printed)
        return heard
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(read)
        process.stdout.close()


def _listen(
    process: subprocess.Popen[bytes], read: int, heard: _Heard, progress: Progress, stop: threading.Event
) -> bytes:
    """Hear a process until it leaves, closes its report or says nothing for too long; the last that it printed."""
    assert process.stdout is not None
    printed, pending = b"", b""
    last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(read, selectors.EVENT_READ, True)
        selector.register(process.stdout, selectors.EVENT_READ, False)
        while time.monotonic() - last < SILENCE:
            if stop.is_set():
                raise KeyboardInterrupt
            gone = process.poll() is not None
            ready = selector.select(timeout=0 if gone else 0.5)
            reported = False
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                reported |= key.data
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data:
                    last = time.monotonic()
                    *lines, pending = (pending + chunk).split(b"\n")
                    if not all(_hear(line, heard, progress) for line in lines):
                        heard.end = "wrote to PP3's own pipe"
                    if heard.done or heard.end:
                        return printed
                else:
                    printed = (printed + chunk)[-TAIL:]
            reporting = any(key.data for key in selector.get_map().values())
            if not reported and (gone or not (reporting or ready)):
                return (printed + _rest(process.stdout.fileno()))[-TAIL:]
        heard.silent = True
        return printed


def _rest(pipe: int) -> bytes:
    """What lies in a pipe, whoever else may hold it."""
    os.set_blocking(pipe, False)
    found = b""
    with contextlib.suppress(BlockingIOError):
        while len(found) < MOST and (chunk := os.read(pipe, 1 << 16)):
            found += chunk
    return found


def _hear(line: bytes, heard: _Heard, progress: Progress) -> bool:
    """Take in one message; False if it is none."""
    try:
        message = msgspec.json.decode(line, type=Message)
        match message:
            case Who():
                heard.who = message
            case Refused():
                heard.refused = message
            case Sources():
                heard.sources = message
            case Begun():
                heard.begun = message.problem
            case Ended():
                heard.ended[message.problem] = msgspec.convert(message.found, Measured)
            case Done():
                heard.done = True
            case Progressed():
                progress(message.stage, message.done, message.total)
    except msgspec.MsgspecError:
        return False
    return True


def _planned(who: Who, spec: TrialSpec) -> Trial:
    declared = dict(who.declared)
    declared["files"] = tuple((name, digest) for name, digest in declared["files"])
    declared["filters"] = tuple(declared["filters"])
    chosen = msgspec.structs.replace(spec, requests=who.requests)
    trial = make(chosen, Description(**declared), spec.sampler)
    if trial.plan_sha256 != who.plan_sha256:
        raise PP3Error(f"{spec.sampler}: its process made another plan than this one: two versions of pp3?")
    return trial


def _ended(code: int | None, silent: bool, printed: bytes) -> str:
    """How a process ended, where in its own code if Python said so, and its last words."""
    if silent:
        return f"said nothing for {SILENCE:g} s and was ended"
    if code is None:
        return "closed its report and was ended"
    text = printed.decode("utf-8", "replace")
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    frames = [
        f
        for f in FRAME.findall(text.partition(CURRENT)[2] or text)
        if not {*INSTALLED, "ctypes"} & set(f[0].split(os.sep))
    ]
    if code < 0 and frames:
        return f"{how} at {os.path.basename(frames[0][0])}:{frames[0][1]}"
    said = text.strip().splitlines()[-1:]
    return how + (f"; its last words: {said[0][:LONGEST]}" if said else "")
