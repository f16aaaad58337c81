"""Processes of a trial that crash, hang, exit or say nothing: named, and the targets after them run."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest
from left_behind import wait_until_gone

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers.contract import Description
from pp3.harness.trial import parent, process
from pp3.harness.trial.plan import TrialSpec, make

WHO = Description(name="mine", kind="plain", filters=("temperature",))
PLAN = make(TrialSpec(requests=500), WHO, "test")
TARGETS = [problem.name for problem in PLAN.problems]
FIRST, SECOND, *REST = TARGETS
# A process that says what ours would, in a twentieth of the time: `at(target)` comes before each target is run.
STAND_IN = """
import ctypes, json, os, signal, subprocess, sys, time
order = json.load(sys.stdin)

def say(**message):
    os.write(order["report"], json.dumps(message).encode() + b"\\n")

def run():
    say(type="who", **WHO)
    say(type="sources", files=[["mine.py", "0" * 64]], packages={})
    for target in [name for name in order["only"] or TARGETS if name in TARGETS]:
        say(type="begun", problem=target)
        at(target)
        found = {"counts": {target + "/depth-0/token/x": [os.getpid()]}, "seconds": {target: 1.0}, "requests": 5}
        say(type="ended", problem=target, found=found)
    say(type="done")

def at(target):
    pass

"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., parent.Found]:
    """Run a stand-in that does something at its first target, or before."""

    def run(body: str = "", before: str = "", silence: float = 30.0, jobs: int = 1) -> parent.Found:
        who = {
            "declared": msgspec.to_builtins(WHO),
            "device": {"backend": "cpu"},
            "plan_sha256": PLAN.plan_sha256,
            "requests": 500,
        }
        script = tmp_path / "stand_in.py"
        at = "\n".join(f"        {line}" for line in dedent(body).strip().splitlines())
        script.write_text(
            f"{STAND_IN}\nWHO, TARGETS = {who!r}, {TARGETS!r}\n"
            + (f"def at(target):\n    if target == {FIRST!r}:\n{at}\n" if body else "")
            + f"{dedent(before)}\nrun()\n"
        )
        monkeypatch.setattr(process, "CHILD", [sys.executable, "-I", "-S", str(script)])
        monkeypatch.setattr(process, "SILENCE", silence)
        monkeypatch.setattr(process, "GRACE", 2.0)
        return parent.run(TrialSpec(sampler="mine"), False, None, "cpu", 1, lambda *_: None, jobs=jobs)

    return run


Run = Callable[..., parent.Found]
DEATHS = {
    "an exit": ("os._exit(3)", "its process ended with exit code 3"),
    "an exit without an error": ("os._exit(0)", "its process ended with exit code 0"),
    "a segmentation fault": ("ctypes.string_at(0)", "its process died of SIGSEGV"),
    "an abort": ("os.abort()", "its process died of SIGABRT"),
    "a kill": ("os.kill(os.getpid(), signal.SIGKILL)", "its process died of SIGKILL"),
    "a traceback": ("raise OSError('gone')", "its process ended with exit code 1; its last words: OSError: gone"),
    "last words": (
        "os.write(2, b'out of soap'); os._exit(9)",
        "its process ended with exit code 9; its last words: out of soap",
    ),
    "last words after megabytes": (
        "os.write(1, b'x' * 3_000_000); os.write(1, b'\\nenough\\n'); os._exit(9)",
        "its process ended with exit code 9; its last words: enough",
    ),
    "words that are no text": (
        "os.write(1, b'\\xff\\xfe\\n'); os._exit(9)",
        "its process ended with exit code 9; its last words: \ufffd\ufffd",
    ),
    "a place that faulthandler named": (
        "os.write(2, b'Fatal Python error: Segmentation fault\\n\\nCurrent thread 0x1 (most recent call first):\\n"
        '  File "/usr/lib/python3/site-packages/a.py", line 5 in f\\n  File "/home/me/mine.py", line 12 in run\\n'
        "');os.kill(os.getpid(), 11)",
        "its process died of SIGSEGV at mine.py:12",
    ),
    "closed files": (
        "os.closerange(3, 64)",
        "its process ended with exit code 1; its last words: OSError: [Errno 9] Bad file descriptor",
    ),
    "a closed report": ("os.close(order['report']); time.sleep(60)", "its process closed its report and was ended"),
    "junk in the pipe": (
        "os.write(order['report'], b'junk\\n'); time.sleep(60)",
        "its process wrote to PP3's own pipe",
    ),
    "what is no message": ("say(type='ended', problem=5); time.sleep(60)", "its process wrote to PP3's own pipe"),
    "what is no finding": (
        "say(type='ended', problem=target, found={'counts': 5}); time.sleep(60)",
        "its process wrote to PP3's own pipe",
    ),
    "a death by its child": ("os.fork() or os.kill(os.getppid(), 9); time.sleep(60)", "its process died of SIGKILL"),
}


@pytest.mark.parametrize(("body", "reason"), DEATHS.values(), ids=DEATHS)
def test_a_target_that_kills_its_process_is_named_and_the_rest_run(body: str, reason: str, run: Run) -> None:
    started = time.monotonic()
    found = run(body)
    assert found.measured.broken == {FIRST: reason}
    assert list(found.measured.seconds) == [SECOND, *REST]
    assert found.measured.requests == 5 * len(TARGETS[1:])
    assert len({counts[0] for counts in found.measured.counts.values()}) == 1  # one process ran all the rest
    assert found.sources.files == [["mine.py", "0" * 64]]
    assert time.monotonic() - started < 20


def test_every_target_that_kills_its_process_is_named(run: Run) -> None:
    """As many processes as targets, and no more."""
    found = run(before="def at(target):\n    os._exit(5)")
    assert found.measured.broken == dict.fromkeys(TARGETS, "its process ended with exit code 5")


@pytest.mark.parametrize("body", ["time.sleep(60)", "while True: os.write(1, b'x' * 1000)"])
def test_a_process_that_says_nothing_is_ended(body: str, run: Run) -> None:
    """Words are no report; the other targets are not tried, since each would take as long."""
    found = run(body, silence=2.0)
    why = "its process said nothing for 2 s and was ended"
    assert found.measured.broken == {FIRST: why} | dict.fromkeys([SECOND, *REST], f"not run: on {FIRST} {why}")


def test_all_that_it_started_is_ended_with_it(run: Run, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    run(
        f"""
        pid = os.fork()
        if pid == 0:
            while True: os.write(1, b"y" * 1000)
        open({str(mark)!r}, "w").write(str(pid))
        os._exit(1)
        """
    )
    wait_until_gone(int(mark.read_text()))


FINE = {
    "megabytes on both streams": "os.write(1, b'y' * 5_000_000); os.write(2, b'z' * 5_000_000)",
    "a child that comes back": "os.fork() or os._exit(0)",
    "a child that stays and holds every pipe": "os.fork() or time.sleep(600)",
    "a child that stays and prints": "os.fork() or [os.write(1, b'x' * 100) for _ in iter(int, 1)]",
    "a crash on leaving": "import atexit; atexit.register(os.abort)",
    "a stay that never ends": "import atexit; atexit.register(time.sleep, 600)",
    "a closed standard input and output": "os.close(0); os.close(1); os.close(2)",
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_what_is_no_finding(body: str, run: Run) -> None:
    started = time.monotonic()
    found = run(body)
    assert found.measured.broken == {}
    assert list(found.measured.seconds) == TARGETS
    assert time.monotonic() - started < 20


CANNOT_BEGIN = {
    "an exit": ("os._exit(4)", "sampler mine: its process ended with exit code 4", Exit.NEGATIVE),
    "a signal": ("os.kill(os.getpid(), 11)", "sampler mine: its process died of SIGSEGV", Exit.NEGATIVE),
    "a traceback": (
        "import nothing_of_this_name",
        "sampler mine: its process ended with exit code 1; its last",
        Exit.NEGATIVE,
    ),
    "a refusal": ("say(type='refused', message='no such thing', code=2); sys.exit()", "no such thing", Exit.USAGE),
    "another plan": ("WHO['plan_sha256'] = '0' * 64", "mine: its process made another plan", Exit.INTERNAL),
}


@pytest.mark.parametrize(("before", "message", "code"), CANNOT_BEGIN.values(), ids=CANNOT_BEGIN)
def test_a_sampler_that_cannot_begin(before: str, message: str, code: Exit, run: Run) -> None:
    """An error, for there is nobody to say anything of."""
    with pytest.raises(PP3Error) as error:
        run(before=before)
    assert str(error.value).startswith(message)
    assert error.value.exit_code == code


AGAIN = {
    "refuses": (
        "say(type='refused', message='the GPU is gone', code=69); sys.exit()",
        "not run: another process could not begin: the GPU is gone",
    ),
    "describes itself in another way": (
        "WHO['plan_sha256'] = '0' * 64",
        "not run: in another process the sampler described itself in another way",
    ),
}


@pytest.mark.parametrize(("again", "reason"), AGAIN.values(), ids=AGAIN)
def test_a_second_process_that_is_another(again: str, reason: str, run: Run) -> None:
    """Nothing that it says is counted."""
    found = run("os._exit(1)", before=f"if order['only']:\n    {again}")
    assert found.measured.broken.pop(FIRST) == "its process ended with exit code 1"
    assert found.measured.broken == dict.fromkeys([SECOND, *REST], reason)
    assert found.measured.counts == {}


def test_a_second_process_that_dies_at_once_takes_one_target_each(run: Run) -> None:
    found = run("os._exit(1)", before="if order['only']: os._exit(6)")
    assert found.measured.broken == dict.fromkeys(TARGETS, "its process ended with exit code 6") | {
        FIRST: "its process ended with exit code 1"
    }


def test_targets_are_spread_over_processes(run: Run) -> None:
    """One only says who it is; the others have a part each, and what a death costs is one target of one part."""
    found = run("os._exit(5)", jobs=3)
    assert found.measured.broken == {FIRST: "its process ended with exit code 5"}
    assert set(found.measured.seconds) == {SECOND, *REST}
    processes = {counts[0] for counts in found.measured.counts.values()}
    assert len(processes) in (3, 4)  # three parts; one more process where the one that died had more to do
    assert found.measured.requests == 5 * len(TARGETS[1:])


def test_a_part_that_is_refused_ends_the_trial(run: Run) -> None:
    before = f"if {FIRST!r} in order['only']:\n    say(type='refused', message='the GPU is full', code=69); sys.exit()"
    with pytest.raises(PP3Error, match="the GPU is full") as error:
        run(before=before, jobs=3)
    assert error.value.exit_code == Exit.UNAVAILABLE
