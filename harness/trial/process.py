"""One process of a trial: started, heard until it leaves or is silent for too long, ended with all that it started."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import msgspec

from pp3.harness.trial.measured import Measured
from pp3.harness.trial.order import Begun, Done, Ended, Message, Order, Progressed, Refused, Sources, Who
from pp3.harness.trial.plan import Progress
from pp3.harness.trial.sources import INSTALLED

CHILD = [sys.executable, "-P", "-m", "pp3.harness.trial.child"]
SILENCE = 900.0  # seconds without a report after which the process is ended
GRACE = 10.0  # seconds it may take to leave once everything is said
TAIL = 1 << 14  # bytes of its last output that are kept
MOST = 1 << 20  # bytes of output that are read once it has left
LONGEST = 200  # characters of its last words that are shown
FRAME = re.compile(r'File "([^"]+)", line (\d+) in ')  # of faulthandler, innermost first
CURRENT = "Current thread 0x"  # which it names last, if there are others


@dataclass(slots=True, kw_only=True)
class Heard:
    """What one process said, and how it ended."""

    who: Who | None = None
    refused: Refused | None = None
    sources: Sources | None = None
    begun: str = ""  # the problem it was at
    ended: dict[str, Measured] = field(default_factory=dict)
    end: str = ""  # how it ended, if not as it should
    silent: bool = False
    done: bool = False  # everything is said, whatever becomes of it now


def run(order: Order, progress: Progress, stop: threading.Event, gpu: str = "") -> Heard:
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
    heard = Heard()
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
    process: subprocess.Popen[bytes], read: int, heard: Heard, progress: Progress, stop: threading.Event
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


def _hear(line: bytes, heard: Heard, progress: Progress) -> bool:
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
