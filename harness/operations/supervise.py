"""Runs one pp3 command for pp3_locked.sh: checks the GPU, keeps the status, ends every process that the run started.

    python -m pp3.harness.operations.supervise WRAPPER_PID RUN_FOLDER qualify|oracle|probe [arguments]

It lives no longer than the wrapper, or than the flock that holds the lock for it: whatever of them is killed, the run
is ended before the lock's next holder can find it at work. It signals nothing but its own descendants.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence.moment import stamp, utc
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.gpu import Gpu, check
from pp3.harness.operations.status import WRAPPER, process, read_status, write_status

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2): orphans below become children of this process
PIECES = ("--dir", "--help", "-h")  # arguments of qualify after which no folder is chosen here
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
LAST = "lastCampaign"  # in the status: the folder that --resume goes on with, whatever ran since
STOP = "stop"  # file of a run that a signal reached before its supervisor could hear one
SAY_S = 60.0  # seconds between two lines of progress
KILL_S = 5.0  # seconds that the kernel may take to end a process


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code of the command, or 128 and the signal that ended it."""
    wrapper, run, mode, *rest = arguments
    scratch = Path(run).parent
    clear(scratch, Path(run))
    try:
        gpus = check(os.environ.get("PP3_POWER_W", ""))
        rest, campaign = with_folder(mode, rest, scratch)
    except PP3Error as error:
        print(f"pp3_locked: {error}", file=sys.stderr)
        return int(error.exit_code)
    try:
        return Supervisor(int(wrapper), Path(run), mode, rest, campaign, gpus).run()
    except OSError as error:
        print(f"pp3_locked: {error.filename or scratch}: {error.strerror}; free some space", file=sys.stderr)
        return Exit.IO
    finally:
        shutil.rmtree(run, ignore_errors=True)


def clear(scratch: Path, mine: Path) -> None:
    """Remove what runs that are gone have left of their own."""
    for path in scratch.glob("run-*"):
        number = path.name.removeprefix("run-")
        if path != mine and number.isdecimal() and not process(int(number))["ticks"]:
            shutil.rmtree(path, ignore_errors=True)


def with_folder(mode: str, arguments: list[str], scratch: Path) -> tuple[list[str], str]:
    """The arguments with a folder for the pieces of a campaign, and that folder: a new one, or to resume the last."""
    given = [one for one in arguments if one.partition("=")[0] in PIECES]
    if mode != "qualify" or given:
        at = arguments.index("--dir") + 1 if "--dir" in arguments else len(arguments)
        equal = [one.partition("=")[2] for one in given if one.startswith("--dir=")]
        folder = arguments[at] if at < len(arguments) else "".join(equal[:1])
        return arguments, os.path.abspath(folder) if folder else ""
    if "--resume" in arguments:
        try:
            folder = str(read_status(scratch / WRAPPER).get(LAST, ""))
        except CampaignError as error:
            raise CampaignError(f"--resume: no run is known here ({error}); give its folder with --dir") from None
        if not folder or not Folder(Path(folder)).holds_one():
            raise CampaignError(f"--resume: the last run has left no campaign ({folder or 'none'}); begin one")
    else:
        folder = str(scratch / "campaigns" / f"{stamp(utc(datetime.now(UTC)))}-{os.getpid()}")
    return [*arguments, "--dir", folder], folder


class Supervisor:
    """One run of one command."""

    def __init__(
        self, wrapper: int, folder: Path, mode: str, arguments: list[str], campaign: str, gpus: list[Gpu]
    ) -> None:
        self.wrapper, self.folder, self.scratch = wrapper, folder, folder.parent
        self.command = [sys.executable, "-P", "-m", "pp3.harness.cli", mode, *arguments]
        self.grace = float(os.environ.get("PP3_GRACE_S", "10"))
        self.said: dict[str, Any] = {
            "campaign": campaign,
            LAST: campaign or _last(self.scratch),
            "gpus": [{"name": gpu.name, "powerLimitW": gpu.power_w} for gpu in gpus],
            "mode": mode,
            "process": process(os.getpid()),
            "startedUtc": utc(datetime.now(UTC)),
        }

    def run(self) -> int:
        """Start, wait, end everything; the exit code."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        if (self.folder / STOP).exists():
            self._write("interrupted", Exit.INTERRUPTED)
            return Exit.INTERRUPTED
        prctl = ctypes.CDLL(None).prctl
        prctl(SUBREAPER, 1, 0, 0, 0)
        self._write("running", None)
        above = [_opened(pid) for pid in (self.wrapper, os.getppid())]
        child = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0),  # if this process is killed
        )
        end = os.pidfd_open(child.pid)
        try:
            while not (ready := select.select([end, wake, *above], [], [], SAY_S)[0]):
                self._say()
            why = "ended" if end in ready else "interrupted" if wake in ready else "its wrapper was killed"
            if end not in ready:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGINT)
                if above[-1] not in ready:  # or the lock is free, and its next holder must not find this run at work
                    select.select([end], [], [], self.grace)
        finally:
            self._end(child)
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        if why == "ended" and child.returncode < 0:
            why = f"killed by {signal.Signals(-child.returncode).name}"
        try:
            if read_status(self.scratch / WRAPPER).get("process") == self.said["process"]:  # no other run since
                self._write(why, code)
        except (OSError, CampaignError) as error:
            print(f"pp3_locked: {self.scratch / WRAPPER}: {error}: how it ended is not there", file=sys.stderr)
        return code

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill what is left of the run, and wait for it."""
        deadline = time.monotonic() + KILL_S
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            child.poll()
            while True:
                try:
                    waited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                except ChildProcessError:
                    break
                if waited is None:
                    select.select([], [], [], 0.01)
                    break
                if waited.si_pid == child.pid:
                    child.wait()
                else:
                    os.waitpid(waited.si_pid, 0)
        child.wait()

    def _say(self) -> None:
        """A line of progress, for whoever looks at the session or its log."""
        from pp3.harness.operations.status_command import latest, progress

        with contextlib.suppress(OSError, CampaignError):
            for one in latest(Path(self.said["campaign"])) if self.said["campaign"] else []:
                if one["startedUtc"] >= self.said["startedUtc"]:
                    print(f"pp3_locked: {one['updatedUtc']} {progress(one)}", file=sys.stderr, flush=True)

    def _write(self, state: str, code: int | None) -> None:
        exit_code = {} if code is None else {"exit": code}
        said = self.said | exit_code | {"state": state, "updatedUtc": utc(datetime.now(UTC))}
        write_status(self.scratch / WRAPPER, said)


def _last(scratch: Path) -> str:
    """The campaign that the run before this one would have gone on with, or ""."""
    try:
        return str(read_status(scratch / WRAPPER).get(LAST, ""))
    except CampaignError:
        return ""


def _opened(pid: int) -> int:
    """A descriptor that is ready when a process is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        read, write = os.pipe()
        os.close(write)  # it is gone already: at its end, and so ready
        return read


def descendants(pid: int) -> list[int]:
    """Every process below one, the deepest last."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_bytes().rpartition(b") ")[2].split()
            below.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = list(below.get(pid, []))
    for one in found:
        found += below.get(one, [])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
