"""`pp3 survey`: who is run, with how many requests, in which order, and what ends it."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence import provenance
from pp3.harness.samplers import registry
from pp3.harness.samplers.registry import Entry
from pp3.harness.trial import command, survey
from pp3.harness.trial.plan import FULL, QUICK

ENTRIES = {
    "torch-multinomial": registry.find("torch-multinomial"),
    "torch-standard-rejection": registry.find("torch-standard-rejection"),
    "no_such:x": Entry(name="no_such:x", target="no_such:x", about="cannot be imported"),
    "absent": Entry(name="absent", target="m:x", about="needs what there is not", needs=("no_such_package",)),
}


@pytest.fixture(autouse=True)
def _sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not change meanwhile, and every refusal reads them all."""
    monkeypatch.setattr(provenance, "stale", lambda *_: [])


def run_with(monkeypatch: pytest.MonkeyPatch, run_one: Any, *options: str) -> int:
    """The command with the trials replaced."""
    monkeypatch.setattr(registry, "everything", lambda: ENTRIES)
    monkeypatch.setattr(survey, "run_one", run_one)
    return cli.run(["survey", "--device", "cpu", *options])


def test_nothing_that_can_run_is_exit_4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> command.Ran:
        raise PP3Error("no")

    code = run_with(monkeypatch, refuse, "--out", str(tmp_path / "out"))
    streams = capsys.readouterr()
    assert code == Exit.NOTHING_RAN
    said = set(streams.err.removeprefix("pp3: nothing ran: ").strip().split("; "))
    assert said == {
        "absent: no_such_package is not installed",
        "torch-multinomial: no",
        "torch-standard-rejection: no",
        "no_such:x: no",
    }
    assert list((tmp_path / "out").iterdir()) == []


def test_each_is_asked_for_what_was_promised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By default 20,000 of each law on a CPU; on a GPU two million, and half a percent."""
    asked: list[tuple[Any, ...]] = []

    def note(spec: Any, given: bool, image: Any, device: str, *_: Any, **__: Any) -> command.Ran:
        asked.append((spec.sampler, spec.requests, spec.detect, given, image, device))
        raise PP3Error("no")

    names = ["--sampler", "torch-multinomial"]
    run_with(monkeypatch, note, *names, "--out", str(tmp_path / "a"))
    run_with(
        monkeypatch,
        note,
        *names,
        "--requests",
        "7",
        "--detect",
        "0.1",
        "--image",
        "x.whl",
        "--out",
        str(tmp_path / "b"),
    )
    monkeypatch.setattr(survey, "choose", lambda device: "cuda")
    run_with(monkeypatch, note, *names, "--out", str(tmp_path / "c"))
    assert asked == [
        ("torch-multinomial", QUICK, 0.0, False, None, "cpu"),
        ("torch-multinomial", 7, 0.1, True, None, "cpu"),
        ("torch-multinomial", FULL, survey.DETECT, False, None, "cuda"),
    ]


@pytest.mark.parametrize(
    ("device", "options", "requests", "detect", "most"),
    [
        pytest.param("cpu", [], 300, 0.0, 300, id="no more than it is run with"),
        pytest.param("cuda", [], 300, survey.DETECT, 300, id="nor on a GPU, where the promise stays"),
        pytest.param("cpu", ["--requests", "9000"], 9000, 0.0, 0, id="unless the user says how many"),
    ],
)
def test_a_slow_one_is_run_with_fewer_and_spread(
    device: str,
    options: list[str],
    requests: int,
    detect: float,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    asked: list[Any] = []

    def note(spec: Any, *_: Any, jobs: int, slots: Any, most: int) -> command.Ran:
        asked.append((spec.sampler, spec.requests, spec.detect, jobs, most))
        raise PP3Error("no")

    quick = Entry(name="quick", target="m:x", about="")
    entries = {"quick": quick, "slow": replace(quick, name="slow", requests=300)}
    monkeypatch.setattr(survey, "run_one", note)
    monkeypatch.setattr(survey, "choose", lambda _: device)
    monkeypatch.setattr(registry, "everything", lambda: entries)
    assert cli.run(["survey", "--jobs", "3", "--out", str(tmp_path / "out"), *options]) == Exit.NOTHING_RAN
    others = 9000 if options else FULL if device == "cuda" else QUICK
    assert sorted(asked) == [("quick", others, detect, 1, 0), ("slow", requests, detect, 3, most)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sampler", "torch-multinomia"], "unknown sampler 'torch-multinomia'; did you mean 'torch-multinomial'?"),
        (["--sampler", "absent", "--sampler", "absent"], "--sampler names one twice: absent, absent"),
        (["--requests", "0"], "pp3 survey: requests = 0; it must be from 1 to"),
        (["--detect", "2"], "pp3 survey: detect = 2.0; it must be 0 (no promise) or"),
    ],
)
def test_bad_input(
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert run_with(monkeypatch, None, *options, "--out", str(out)) == Exit.USAGE
    assert capsys.readouterr().err.startswith(f"pp3: error: {message}")
    assert not out.exists()


def test_a_sampler_is_chosen_once() -> None:
    with pytest.raises(CampaignError, match="names one twice"):
        survey.select(["torch-multinomial", "torch-multinomial"], False)


def test_an_interrupt_ends_all_that_runs(tmp_path: Path) -> None:
    """Ctrl-C: 130, no survey, and no sampler is left running or started."""
    (tmp_path / "slow.py").write_text(
        "import os, time\nfrom pp3.harness.samplers.torch_controls import Multinomial\n"
        "class Slow(Multinomial):\n    def run(self, batch):\n"
        "        open(f'{os.getpid()}.pid', 'w').close(); time.sleep(600)\n"
        "class One(Slow): pass\nclass Two(Slow): pass\nclass Three(Slow): pass\n"
    )
    names = [option for name in ("One", "Two", "Three") for option in ("--sampler", f"slow.py:{name}")]
    running = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "pp3.harness.cli",
            "survey",
            "--device",
            "cpu",
            "--jobs",
            "2",
            "--out",
            "out",
            *names,
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said.strip()) == (Exit.INTERRUPTED, "pp3: interrupted; nothing half-written was left")
    assert list((tmp_path / "out").iterdir()) == []
    time.sleep(0.2)
    for path in tmp_path.glob("*.pid"):
        assert not Path(f"/proc/{path.stem}").exists() or " Z " in Path(f"/proc/{path.stem}/stat").read_text()
