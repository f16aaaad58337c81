"""Samplers that crash, hang, exit, fork or print: a receipt all the same, and the targets after it run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence.verify import verify
from pp3.harness.samplers.contract import Description
from pp3.harness.trial import parent, process
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.spread import dealt, slot, slots_for, summed

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


def test_parts_are_of_about_equal_size_and_hold_each_target_once() -> None:
    sizes = {"a": 13, "b": 7, "c": 4, "d": 4, "e": 4, "f": 2}
    assert dealt(sizes, 3) == [["a"], ["b", "e"], ["c", "d", "f"]]
    assert dealt(sizes, 1) == [list(sizes)]
    assert dealt(sizes, 64) == [[name] for name in sizes]


def test_progress_of_parts_is_that_of_the_whole() -> None:
    heard: list[tuple[str, int, int]] = []
    of_part = summed(lambda *said: heard.append(said), 100)
    one, other = of_part(0), of_part(1)
    one("mine", 10, 60)
    other("mine", 5, 40)
    one("mine", 60, 60)
    assert heard == [("mine", 10, 100), ("mine", 15, 100), ("mine", 65, 100)]


def test_no_process_starts_without_a_slot() -> None:
    stop = threading.Event()
    slots = slots_for(1)
    with slot(slots, stop):
        stop.set()
        with pytest.raises(KeyboardInterrupt), slot(slots, stop):
            pytest.fail("two in one slot")
    with slot(slots, stop):
        pass


def test_slots_are_dealt_to_the_gpus_in_turn() -> None:
    slots = slots_for(5, ["2", "7"])
    assert [slots.get() for _ in range(5)] == ["2", "7", "2", "7", "2"]
    assert [slots_for(1).get()] == [""]


def test_a_process_sees_the_gpu_of_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with none named, what its parent sees."""
    seen: list[str | None] = []

    class StartedError(Exception):
        """Far enough."""

    def popen(*what: Any, env: dict[str, str], **how: Any) -> None:
        seen.append(env.get("CUDA_VISIBLE_DEVICES"))
        raise StartedError

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    order: Any = None
    for gpu in ("", "1"):
        with pytest.raises(StartedError):
            process.run(order, lambda *said: None, threading.Event(), gpu)
    assert seen == ["0,1", "1"]


def test_progress_is_handed_on() -> None:
    heard: list[tuple[Any, ...]] = []
    message = b'{"type":"progressed","stage":"mine","done":3,"total":9}'
    assert process._hear(message, process.Heard(), lambda *said: heard.append(said))
    assert heard == [("mine", 3, 9)]


# The real process, through the command.
REAL = """
import atexit, ctypes, os, signal, subprocess, sys, time
from pp3.harness.samplers.torch_filters import Filters

class Mine(Filters):
    def run(self, batch):
        act(batch.vocab)
        return super().run(batch)

"""


def qualify(folder: Path, act: str, *more: str) -> int:
    """The command on a sampler that acts on the vocabulary of a batch; its exit code."""
    path = folder / "mine.py"
    path.write_text(REAL + dedent(act))
    given = ["qualify", "--sampler", f"{path}:Mine", "--device", "cpu", "--requests", "300", "--counter", "7"]
    return cli.run([*given, "--out", str(folder / "out"), "--json", *more])


def receipt_of(said: dict[str, Any]) -> dict[str, Any]:
    """The predicate of a receipt that verifies, beside its page."""
    path = Path(said["receipt"])
    found = verify(path, path.read_bytes())
    assert found.ok, found.sentence
    assert Path(said["report"]).is_file()
    return dict(canonical.decode(path.read_bytes())["predicate"])


def test_a_sampler_that_breaks_in_six_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One target each; the others are run, and the receipt holds."""
    act = """
    def act(vocab):
        if vocab == 4: sys.exit("enough")
        if vocab == 63: os._exit(0)
        if vocab == 7: ctypes.string_at(0)
        if vocab == 8: raise KeyboardInterrupt
        if vocab == 10: print("out of soap", flush=True); os._exit(9)
        if vocab == 12: os.fork()
        if vocab == 16: 1 // 0
        if vocab == 24: os.write(1, b"y" * 5_000_000)
    """
    assert qualify(tmp_path, act) == Exit.NEGATIVE
    said = json.loads(capsys.readouterr().out)
    predicate = receipt_of(said)
    assert (said["verdict"], predicate["verdict"]) == ("INVALID", "INVALID")
    broken = predicate["broken"]
    assert broken == {
        "rows-of-4": "called sys.exit(enough) at mine.py:12",
        "rows-of-63": "its process ended with exit code 0",
        "rows-of-7": "its process died of SIGSEGV at mine.py:14",
        "rows-of-8": "its process ended with exit code 130",
        "rows-of-10": "its process ended with exit code 9; its last words: out of soap",
        "rows-of-16": "raised ZeroDivisionError at mine.py:18: integer division or modulo by zero",
    }
    assert {reason.partition(":")[0] for reason in said["reasons"][: len(broken)]} == set(broken)
    counted = {cell["id"].partition("/")[0] for cell in predicate["cells"] if sum(cell["counts"]) == 300}
    assert counted == {"rows-of-12", "rows-of-24", "rows-of-1000"}
    assert [name for name, _ in predicate["sampler"]["files"]] == ["mine.py"]


def test_a_sampler_that_does_strange_things_and_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It passes; what it loads late is bound as well, and what it leaves running is ended."""
    mark = tmp_path / "pid"
    (tmp_path / "late.py").write_text("Y = 2\n")
    act = f"""
    atexit.register(os.abort)

    def act(vocab):
        import late
        os.write(2, b"z" * 1_000_000)
        pid = os.fork()
        if pid == 0:
            while True: time.sleep(1)
        open({str(mark)!r}, "w").write(str(pid))
    """
    code = qualify(tmp_path, act, "--target", "rows-of-63", "--requests", "4000")
    said = json.loads(capsys.readouterr().out)
    assert (code, said["verdict"]) == (Exit.OK, "PASS"), said["reasons"]
    assert [name for name, _ in receipt_of(said)["sampler"]["files"]] == ["late.py", "mine.py"]
    wait_until_gone(int(mark.read_text()))


def test_the_counts_of_several_processes_are_those_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, impossible outcomes in their order, what broke, the verdict: all but the moments of a receipt."""
    act = """
    class Mine(Filters):
        def run(self, batch):
            if batch.vocab == 63: os._exit(3)
            return super().run(batch).roll(int(batch.vocab in (10, 12)))
    """
    found = []
    for jobs in ("1", "4"):
        (tmp_path / jobs).mkdir()
        assert qualify(tmp_path / jobs, act, "--jobs", jobs) == Exit.NEGATIVE
        predicate = receipt_of(json.loads(capsys.readouterr().out))
        del predicate["run"]
        found.append(predicate)
    assert len({stray["cell"].partition("/")[0] for stray in found[0]["strays"]}) == 2
    assert set(found[0]["broken"]) == {"rows-of-63"}
    assert found[0] == found[1]


def test_what_an_interpreter_ran_is_said_and_what_imports_triton_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen in the sampler's process, at its first launch."""
    act = """
    import torch, triton
    import triton.language as tl

    @triton.jit
    def copy(x_ptr, y_ptr, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        tl.store(y_ptr + at, tl.load(x_ptr + at))

    def act(vocab):
        if LAUNCHES:
            x = torch.arange(4)
            copy[(1,)](x, torch.empty_like(x), SIZE=4)
    """
    for launches in (False, True):
        (tmp_path / str(launches)).mkdir()
        qualify(tmp_path / str(launches), f"{dedent(act)}\nLAUNCHES = {launches}", "--target", "rows-of-12")
        said = json.loads(capsys.readouterr().out)
        assert " on a CPU " in said["sentence"]
        assert (" on a CPU in Triton's interpreter " in said["sentence"]) is launches
        assert receipt_of(said)["sampler"]["device"].get("interpreter") == ("1" if launches else None)


def test_a_sampler_that_hangs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named after its silence, with what it started ended; the target before it stands."""
    monkeypatch.setattr(process, "SILENCE", 8.0)
    mark = tmp_path / "pids"
    act = f"""
    def act(vocab):
        if vocab == 63:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open({str(mark)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
            time.sleep(600)
    """
    targets = [option for name in ("rows-of-12", "rows-of-63", "rows-of-4") for option in ("--target", name)]
    assert qualify(tmp_path, act, *targets) == Exit.NEGATIVE
    predicate = receipt_of(json.loads(capsys.readouterr().out))
    assert set(predicate["broken"]) == {"rows-of-63", "rows-of-4"}
    for pid in map(int, mark.read_text().split()):
        wait_until_gone(pid)


def test_a_sampler_that_dies_at_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, one line, no receipt."""
    assert qualify(tmp_path, "os._exit(4)") == Exit.NEGATIVE
    said = capsys.readouterr().err
    assert said == f"pp3: error: sampler {tmp_path / 'mine.py'}:Mine: its process ended with exit code 4\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_an_interrupt_ends_the_process(tmp_path: Path) -> None:
    """Ctrl-C while a sampler runs: 130, and nothing is left running."""
    mark = tmp_path / "pid"
    path = tmp_path / "mine.py"
    path.write_text(f"{REAL}def act(vocab):\n    open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)\n")
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "pp3.harness.cli", "qualify", "--sampler", f"{path}:Mine", "--device", "cpu"]
        + ["--counter", "7", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == Exit.INTERRUPTED
    assert said.strip() == "pp3: interrupted; nothing half-written was left"
    wait_until_gone(int(mark.read_text()))


def wait_until_gone(pid: int) -> None:
    """Until a process is dead; a zombie that nobody reaps here counts as dead."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} still runs")
