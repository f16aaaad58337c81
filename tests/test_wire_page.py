"""The page and the verification of a receipt over the wire."""

import copy
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, cli, run
from pp3.harness.campaign import plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence.verify import verify
from pp3.harness.report.render import page
from pp3.harness.seeds import Seed
from pp3.harness.transport import command, wire_plan
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import ReferenceStage

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DOCUMENT = {"targets": ["disjoint"], "requests": 300, "paired": 20, "depths": [4], "batch_sizes": [2]}


@pytest.fixture(scope="module")
def statement(measure: Any) -> dict[str, Any]:
    """A small campaign over the wire; what is said of the kernels is made by hand."""
    campaign = wire_plan.over_wire(campaigns.of_document(DOCUMENT, "test"), Place.THREAD)
    seed = Seed.of(plan_sha256(campaign), 3)
    beside, sampler = measure(campaign, seed), PathSampler(ReferenceStage(), Place.THREAD)
    measured = run.Measured(sampler=beside.sampler, kernels=beside.kernels, timings=beside.timings)
    run._campaign(campaign, seed, sampler, measured, lambda *_: None)
    sampler.close()
    assert measured.counts == beside.counts  # the same sampler without a path, given the same -1 drafts
    path = sampler.journey.plain()
    judged = command.judge(campaign, measured, path)
    return command.build(campaign, seed, 3, "given", STARTED, measured, path, judged)


def verified(statement: dict[str, Any], folder: Path) -> Any:
    """What verification says of a statement that is sealed anew."""
    written = receipt.write(statement, folder)
    return verify(written, written.read_bytes())


def test_it_verifies(statement: dict[str, Any], tmp_path: Path) -> None:
    """With a step of its own."""
    found = verified(statement, tmp_path)
    assert [step.outcome for step in found.steps if step.outcome == "FAIL"] == []
    said = next(step.detail for step in found.steps if step.name == "path")
    assert "were to be lost, as plan and seed imply" in said
    names = [subject["name"] for subject in statement["subject"]]
    assert {"pp3/harness/transport/serve.py", "pp3/harness/transport/wire.py", "pp3/harness/run.py"} <= set(names)


def as_campaign(predicate: dict[str, Any]) -> None:
    """Drop the path."""
    predicate["kind"] = "qualify"
    del predicate["path"]


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "fewer injected": (lambda p: p["path"]["injected"].update(failed=0), "path: injected"),
    "fewer frames": (lambda p: p["path"].update(frames=1), "path: frames"),
    "a loss too many": (lambda p: p["path"]["counted"].update(unexpected=1), "verdict"),
    "another proxy": (lambda p: p["plan"]["path"].update(proxy="process"), "plan"),
    "another rate": (lambda p: p["plan"]["path"]["faults"].update(late="2/32"), "plan"),
    "no path at all": (as_campaign, "plan"),
}


@pytest.mark.parametrize(("change", "said"), FORGED.values(), ids=FORGED)
def test_a_forged_path_is_found(
    change: Callable[[dict[str, Any]], object], said: str, statement: dict[str, Any], tmp_path: Path
) -> None:
    """Sealed anew, as a forger would."""
    forged = copy.deepcopy(statement)
    change(forged["predicate"])
    failed = next(step for step in verified(forged, tmp_path).steps if step.outcome == "FAIL")
    assert f"{failed.name}: {failed.detail}".startswith(said)


def test_the_page_shows_the_path(statement: dict[str, Any]) -> None:
    """What was to be lost, by rate, beside what was counted."""
    text = re.sub(r"<[^>]*>", "", page(canonical.encode(statement), statement))
    path = statement["predicate"]["path"]
    assert "through a proxy in a thread" in text
    assert "injected: failed (13/32 of those)" in text
    assert f"sent, in {path['frames']:,} frames" in text
    assert "pp3 qualify --path wire" in text


def test_a_replay_says_what_to_do_instead(
    statement: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: the path is a part of what was measured."""
    written = receipt.write(statement, tmp_path)
    assert cli.run(["replay", str(written)]) == Exit.USAGE
    assert "run `pp3 qualify --path wire` with its counter again" in capsys.readouterr().err
