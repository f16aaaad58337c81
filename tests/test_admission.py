"""Switches and guard: off by default, one configuration, every barrier named, nothing sampled on a default path."""

import ast
import copy
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import provenance
from pp3.harness.transport import admission, hello
from pp3.harness.transport.admission import (
    ENGINE_SWITCH,
    WORKER_SWITCH,
    Admission,
    Barrier,
    Engine,
    NotAdmittedError,
    Side,
    admit,
    admit_drafter,
)
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.refusal import FrameError, Refusal
from pp3.harness.transport.remote import RemoteRound
from pp3.harness.transport.speculator import GuardedSpeculator

ROOT = Path(__file__).resolve().parent.parent
ON = {ENGINE_SWITCH: "1"}
ADMITTED = Engine(sampler_marker=admission.SAMPLER_MARKER, runner_marker=admission.RUNNER_MARKER, depths=(5,), slots=4)
NAMING = {"harness/transport/admission.py"}  # what may name a switch, beside prose and tests
SETTING = re.compile(rb"DSPARK_SAMPLED_TOP32[\"'`\])]*\s*[=:,]\s*[\"'`]?1")  # in a shell, a mapping, a call
PATHS = {"wire", "trial-overlay"}  # kinds of receipts that a probability path stands behind
DEFAULT_PATHS = """
import json, sys
import pp3.harness.cli, pp3.harness.qualify, pp3.harness.evidence.verify, pp3.harness.trial.run
import pp3.harness.samplers.kernels
print(json.dumps([name for name in sys.modules if name.startswith("pp3")]))
"""


@pytest.mark.parametrize("value", ["", "0", "true", "True", "yes", "on", "2", "01", " 1", "1 ", "1\n"])
def test_only_one_enables(value: str) -> None:
    """Anything else is off, and so is nothing."""
    for switch in (ENGINE_SWITCH, WORKER_SWITCH):
        assert admission.mode_of({switch: value}, switch) is Mode.UNSAMPLED
        assert admission.mode_of({}, switch) is Mode.UNSAMPLED
        assert admission.mode_of({switch: "1"}, switch) is Mode.SAMPLED
    with pytest.raises(NotAdmittedError):
        admit(ADMITTED, {ENGINE_SWITCH: value})


def test_one_switch_is_not_the_other() -> None:
    """Each side reads its own."""
    assert admission.mode_of({WORKER_SWITCH: "1"}, ENGINE_SWITCH) is Mode.UNSAMPLED
    assert admission.mode_of({ENGINE_SWITCH: "1"}, WORKER_SWITCH) is Mode.UNSAMPLED


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("slots", [1, 4])
def test_the_one_configuration_is_admitted(depth: int, slots: int) -> None:
    """And says what for."""
    granted = admit(replace(ADMITTED, depths=(depth,), slots=slots), ON)
    assert (granted.depth, granted.slots) == (depth, slots)


BARRIERS: dict[str, tuple[dict[str, Any], Barrier]] = {
    "no sampler overlay": ({"sampler_marker": ""}, Barrier.SAMPLER_OVERLAY),
    "another sampler overlay": ({"sampler_marker": admission.RUNNER_MARKER}, Barrier.SAMPLER_OVERLAY),
    "no runner overlay": ({"runner_marker": ""}, Barrier.RUNNER_OVERLAY),
    "another policy": ({"policy": "latency"}, Barrier.POLICY),
    "a margin": ({"margins": (0.0,)}, Barrier.MARGINS),
    "five slots": ({"slots": 5}, Barrier.SLOTS),
    "no slots": ({"slots": 0}, Barrier.SLOTS),
    "two depths": ({"depths": (4, 5)}, Barrier.DEPTH),
    "no depth": ({"depths": ()}, Barrier.DEPTH),
    "depth 3": ({"depths": (3,)}, Barrier.DEPTH),
    "depth 6": ({"depths": (6,)}, Barrier.DEPTH),
    "block": ({"rejection": "block"}, Barrier.BLOCK),
    "synthetic": ({"rejection": "synthetic"}, Barrier.SYNTHETIC),
    "another rejection": ({"rejection": "fly"}, Barrier.REJECTION),
    "watermarking": ({"watermarking": True}, Barrier.WATERMARKING),
    "adaptive verification": ({"adaptive_verification": True}, Barrier.ADAPTIVE_VERIFICATION),
    "a depth file": ({"depth_file": "depth.json"}, Barrier.DEPTH_FILE),
    "prompt lookup": ({"prompt_lookup": True}, Barrier.PROMPT_LOOKUP),
    "a dynamic schedule": ({"dynamic_schedule": True}, Barrier.DYNAMIC_SCHEDULE),
}


@pytest.mark.parametrize(("change", "barrier"), BARRIERS.values(), ids=BARRIERS)
def test_a_barrier_is_named(change: dict[str, Any], barrier: Barrier) -> None:
    """Alone, and in the message."""
    with pytest.raises(NotAdmittedError, match=barrier.value) as refused:
        admit(replace(ADMITTED, **change), ON)
    assert refused.value.barriers == (barrier,)
    assert refused.value.exit_code is Exit.USAGE


def greeting(mode: Mode = Mode.SAMPLED, target: int = 1) -> Hello:
    """What a peer is."""
    return Hello(mode=mode, target=bytes([target]) * 32, draft=bytes([2]) * 32, markov=bytes([3]) * 32)


ON_DRAFTER = {WORKER_SWITCH: "1"}
OF_DRAFTER: dict[str, tuple[dict[str, str], Mode, int, tuple[Barrier, ...]]] = {
    "the switch is off": ({}, Mode.SAMPLED, 5, (Barrier.DRAFTER_SWITCH,)),
    "the engine's switch alone": ({ENGINE_SWITCH: "1"}, Mode.SAMPLED, 5, (Barrier.DRAFTER_SWITCH,)),
    "mode 0 was agreed": (ON_DRAFTER, Mode.UNSAMPLED, 5, (Barrier.UNSAMPLED,)),
    "depth 3": (ON_DRAFTER, Mode.SAMPLED, 3, (Barrier.DEPTH,)),
    "all": ({}, Mode.UNSAMPLED, 6, (Barrier.DRAFTER_SWITCH, Barrier.UNSAMPLED, Barrier.DEPTH)),
}


@pytest.mark.parametrize(("environment", "mode", "depth", "barriers"), OF_DRAFTER.values(), ids=OF_DRAFTER)
def test_a_drafter_is_not_admitted(
    environment: dict[str, str], mode: Mode, depth: int, barriers: tuple[Barrier, ...]
) -> None:
    """Each barrier by name."""
    mine = greeting(mode)
    with pytest.raises(NotAdmittedError) as refused:
        admit_drafter(mine, hello.encode(mine, bytes(16)), depth, environment)
    assert refused.value.barriers == barriers


@pytest.mark.parametrize("depth", [4, 5])
def test_a_drafter_is_admitted_by_the_engines_hello(depth: int) -> None:
    """One that it accepts: the engine's mode and model are its own."""
    mine = greeting()
    granted = admit_drafter(mine, hello.encode(mine, bytes(16)), depth, ON_DRAFTER)
    assert (granted.side, granted.depth) == (Side.DRAFTER, depth)
    for other, code in ((greeting(Mode.UNSAMPLED), Refusal.HELLO_MODE), (greeting(target=9), Refusal.HELLO_TARGET)):
        with pytest.raises(FrameError) as refused:
            admit_drafter(mine, hello.encode(other, bytes(16)), depth, ON_DRAFTER)
        assert refused.value.code is code


def test_every_barrier_is_met_somewhere() -> None:
    """The tables leave none out; the engine's switch has its own test."""
    drafters = {barrier for *_, barriers in OF_DRAFTER.values() for barrier in barriers}
    assert {barrier for _, barrier in BARRIERS.values()} | drafters | {Barrier.ENGINE_SWITCH} == set(Barrier)


def test_all_barriers_are_named_at_once() -> None:
    """So that they can be removed at once; a default engine is not admitted."""
    with pytest.raises(NotAdmittedError) as refused:
        admit(Engine(), {})
    assert set(refused.value.barriers) == {
        Barrier.ENGINE_SWITCH,
        Barrier.SAMPLER_OVERLAY,
        Barrier.RUNNER_OVERLAY,
        Barrier.DEPTH,
    }
    assert isinstance(refused.value, CampaignError)


def test_an_admission_is_not_made_by_hand() -> None:
    """Nor by changing another, nor as another kind of it; a copy is the same leave."""
    with pytest.raises(TypeError, match="not made by hand"):
        Admission(side=Side.ENGINE, depth=5, slots=4, grant=object())
    with pytest.raises(TypeError):
        Admission(side=Side.ENGINE, depth=5, slots=4)  # type: ignore[call-arg]  # that is what is tried
    granted = admit(ADMITTED, ON)
    with pytest.raises((TypeError, ValueError), match="grant"):
        replace(granted, depth=4)  # type: ignore[call-arg]  # that is what is tried
    with pytest.raises(TypeError, match="not made by hand"):
        replace(granted, depth=4, grant=None)
    with pytest.raises(AttributeError):
        granted.depth = 4  # type: ignore[misc]  # that is what is tried
    with pytest.raises(TypeError, match="no other kinds"):
        type("Mine", (Admission,), {})
    assert copy.copy(granted) == granted


@pytest.mark.parametrize("what", [None, True, object(), Engine(), "admitted"])
def test_a_speculator_needs_an_admission(what: Any) -> None:
    """RemoteRound does not, and is marked as the test surface that it is."""
    with pytest.raises(CampaignError, match=r"need an admission of the engine; given was .*, which is none"):
        GuardedSpeculator(what, None)  # type: ignore[arg-type]  # that is what is tried
    assert RemoteRound.TEST_SURFACE
    assert not hasattr(GuardedSpeculator, "TEST_SURFACE")


def test_a_speculator_takes_no_drafters_admission() -> None:
    """Each side has its own."""
    mine = greeting()
    granted = admit_drafter(mine, hello.encode(mine, bytes(16)), 5, ON_DRAFTER)
    with pytest.raises(CampaignError, match="given was that of the drafter"):
        GuardedSpeculator(granted, None)  # type: ignore[arg-type]  # never reached


def tracked() -> list[str]:
    """Names of files under version control, or that would be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_sets_a_switch() -> None:
    """Only admission.py names one, beside prose and tests. It touches no environment: it reads the mapping it gets."""
    naming = {name for name in tracked() if WORKER_SWITCH.encode() in (ROOT / name).read_bytes()}
    assert {name for name in naming if not name.endswith(".md") and not name.startswith("tests/")} == NAMING
    assert [name for name in naming if SETTING.search((ROOT / name).read_bytes())] == []
    written = []
    for node in ast.walk(ast.parse((ROOT / "harness/transport/admission.py").read_text("utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            written += [name] if name in ("environ", "putenv", "setenv", "os") else []
    assert written == []


@pytest.mark.parametrize("switch", [WORKER_SWITCH, ENGINE_SWITCH])
@pytest.mark.parametrize("form", ["{}=1", "export {}='1'", 'ENV {}="1"', "{}: 1", '"{}": "1"', 'os.environ["{}"] = "1"',
                                  "os.putenv('{}', '1')", 'setenv("{}", "1")'])  # fmt: skip
def test_the_search_would_find_a_setting(switch: str, form: str) -> None:
    """In a script, a container file, a workflow or Python."""
    assert SETTING.search(form.format(switch).encode())


@pytest.mark.parametrize("kind", [kind for kind in provenance.ROOTS if kind not in PATHS])
def test_no_default_path_can_come_to_load_the_path(kind: str) -> None:
    """Following every import of a run, those within functions too: no module of the path, and not its kernel."""
    reached = {name for name in provenance.source_files(kind) if "/harness/transport/" in name or "scatter" in name}
    assert reached == set()


UNSAMPLED = """
import sys
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.place import Place
from pp3.harness.transport.remote import RemoteRound
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.step import Row, Step
from pp3.harness.transport.wire import reply_of
from pp3.harness.transport.worker import Worker
import numpy as np
mine = Hello(mode=Mode.UNSAMPLED, target=bytes(32), draft=bytes(32), markov=bytes(32))
answer = lambda step: reply_of(step, np.zeros(1, int), np.full((1, 5), 7), np.ones((1, 5)), None, None)
worker = Worker(mine, 5, answer)
channel = Channel(Terms(mine=mine, session=bytes(16), depth=5, vocab=99), Place.THREAD, worker.dial, 30.0)
channel.wait_ready()
rows = (Row(slot=2, generation=1, position=3),)
found = RemoteRound(channel).run(Step(mode=Mode.UNSAMPLED, round=1, depth=5, rows=rows))
channel.close()
print(found.drafts.tolist(), sorted(name for name in sys.modules if name in (
    "torch", "triton", "pp3.kernels.proposal", "pp3.kernels.scatter", "pp3.harness.transport.buffers")))
"""


def test_an_unsampled_round_loads_no_kernel() -> None:
    """From submit to drafts in mode 0, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", UNSAMPLED],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "[[7, 7, 7, 7, 7]] []\n"


def test_default_paths_load_nothing_of_the_transport() -> None:
    """Campaigns, trials, verification and the kernels' sampler, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", DEFAULT_PATHS],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = json.loads(done.stdout)
    assert "pp3.harness.samplers.kernels" in loaded
    of_plans = {"faults", "frame", "place", "refusal", "wire_plan"}  # what says which campaign a receipt's plan is
    parts = {name.rpartition(".")[2] for name in loaded if name.startswith("pp3.harness.transport.")}
    assert parts <= of_plans
    assert "pp3.kernels.scatter" not in loaded
