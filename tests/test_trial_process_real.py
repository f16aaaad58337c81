"""Samplers that crash, hang, exit, fork or print, in real processes: a receipt all the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from left_behind import wait_until_gone

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify
from pp3.harness.trial import process

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
