"""Bad input of a trial that only the sampler's process meets: one line that names the value and the way out."""

from pathlib import Path
from typing import Any

import pytest
from refusals import MINE, refused

from pp3.harness.trial import process
from pp3.harness.trial.api import plan
from pp3.harness.trial.plan import TrialSpec


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


IN_ITS_PROCESS: dict[str, tuple[str, list[str], str]] = {
    "no such object": ("mine.py:Min", [], "sampler mine.py:Min: mine.py has no 'Min'; did you mean 'Mine'?"),
    "an object that cannot be made": (
        "mine.py:Raises",
        [],
        "sampler mine.py:Raises: making it raised OSError: no weights",
    ),
    "an object that is none": (
        "mine.py:number",
        [],
        "int is no sampler: it must be an object with describe() and run(batch)",
    ),
    "a description that is none": ("mine.py:Nobody", [], "Nobody.describe() gave str; want a pp3.Description"),
    "a description that cannot be": (
        "mine.py:Misspelt",
        [],
        "Misspelt.describe() raised ValueError: kind = 'planar'; choose from plain,",
    ),
    "a carrier that is none here": (
        "mine.py:Tickets",
        [],
        "sampler mine.py:Tickets: x declares target_carrier = 'tickets'; a target travels as",
    ),
    "no vocabulary": ("mine.py:Nothing", [], "sampler mine.py:Nothing: no target applies to x: rows-of-"),
    "rules that contradict each other": (
        "mine.py:Joint",
        [],
        "sampler mine.py:Joint: x declares what cannot be: ties value-only and lower-id",
    ),
    "an order that there is not": (
        "mine.py:Order",
        [],
        "sampler mine.py:Order: x declares what cannot be: 'sideways' is not a valid Order",
    ),
    "a module that there is not": (
        "no_such_module:x",
        [],
        "sampler no_such_module:x: importing no_such_module raised ModuleNotFoundError: No",
    ),
    "a module that exits": ("quits.py:x", [], "sampler quits.py:x: importing quits.py raised SystemExit: 3"),
    "a module that is none": ("broken.py:x", [], "sampler broken.py:x: importing broken.py raised SyntaxError: "),
    "a target that is almost one": (
        "mine.py:Mine",
        ["--target", "rows-of-13"],
        "sampler mine.py:Mine: unknown target 'rows-of-13'; did you mean 'rows-of-63'?",
    ),
    "a target of another kind": (
        "mine.py:Mine",
        ["--target", "near"],
        "sampler mine.py:Mine: unknown target 'near'; a plain has rows-of-",
    ),
    "a target that does not apply": (
        "mine.py:Mine",
        ["--target", "rows-of-6"],
        "sampler mine.py:Mine: no target applies to torch-multinomial: rows-of-6: no case",
    ),
    "a promise that cannot be kept": (
        "mine.py:Mine",
        ["--target", "rows-of-12", "--requests", "1000", "--detect", "0.01"],
        "sampler mine.py:Mine: detect = 0.01 needs 2",
    ),
}


def test_what_is_refused_in_its_process(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same lines, in this process; the real one is tried below."""
    (here / "quits.py").write_text("import sys\nsys.exit(3)\n")
    (here / "broken.py").write_text("def\n")
    monkeypatch.setattr(process, "run", in_this_process)
    wrong = []
    for name, (sampler, options, message) in IN_ITS_PROCESS.items():
        said = refused(["--sampler", sampler, *options], capsys)
        if not said.startswith(message):
            wrong.append((name, said))
    assert wrong == []


def in_this_process(order: Any, *_: Any) -> Any:
    """What the child would refuse, without its start."""
    from pp3.harness.errors import PP3Error
    from pp3.harness.samplers import registry
    from pp3.harness.trial.api import describe
    from pp3.harness.trial.order import Refused

    try:
        who = describe(registry.load(registry.find(order.sampler), None))
        plan(TrialSpec(**order.spec), who, order.where, order.given)
    except PP3Error as error:
        return process.Heard(refused=Refused(str(error), int(error.exit_code)))
    raise AssertionError("not refused")


def test_a_refusal_comes_from_the_process(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real one."""
    assert refused(["--sampler", "mine.py:Raises"], capsys).startswith(
        IN_ITS_PROCESS["an object that cannot be made"][2]
    )
