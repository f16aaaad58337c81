"""The overlays behind the wire: a command from image to receipt, and what its receipt holds of the way.

Not run where `make image` has not been, or without LibCST.
"""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import provenance
from pp3.harness.evidence.trial import as_run, counts_of
from pp3.harness.evidence.verify import verify
from pp3.harness.image import cache
from pp3.harness.overlay import judge, prepare, sources
from pp3.harness.transport.losses import findings
from pp3.harness.verdict import Verdict

VERSION = "0.33.0"


@pytest.fixture(scope="module")
def image() -> Path:
    """The real files, or a named skip."""
    home = cache.default_folder()
    if home is None or not sources.beside(home / VERSION).is_dir():
        pytest.skip(f"no image of vllm {VERSION} with its runner here: make image VERSION={VERSION}")
    pytest.importorskip("libcst", reason="LibCST is the extra `image`")
    return home / VERSION


@pytest.fixture(scope="module")
def written(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a small qualification."""
    folder = tmp_path_factory.mktemp("over-wire")
    prepare.prepare(image, folder / "overlay")
    options = [
        "--image",
        str(image),
        "--overlay",
        str(folder / "overlay"),
        "--target",
        "invalidated-depth-4",
        "--device",
        "cpu",
    ]
    command = ["qualify", "--sampler", "overlay", *options, "--requests", "49", "--counter", "3", "--proxy", "process"]
    assert cli.run([*command, "--out", str(folder / "out")]) == Exit.INCONCLUSIVE  # too few requests for a PASS
    [path] = (folder / "out").glob("*.json")
    return path


def test_the_receipt(written: Path) -> None:
    found = verify(written, written.read_bytes())
    assert [step for step in found.steps if step.outcome == "FAIL"] == []
    predicate = json.loads(written.read_bytes())["predicate"]
    overlay, journey = predicate["overlay"], predicate["overlay"]["journey"]
    assert overlay["path"] == "wire, proxy in a process"
    assert predicate["breaches"] == {}
    assert overlay["paired"] == [
        {"depth": 4, "first": {}, "mismatches": 0, "pairs": 24, "target": "invalidated-depth-4"}
    ]
    assert findings(journey) == []
    assert journey["altered"] == 0
    assert sum(journey["injected"].values()) >= 98  # of 196 requests the halves that are void from the first draft on
    assert provenance.kind_of(predicate) == "trial-overlay"
    bound = provenance.source_files("trial-overlay")
    for module in ("overlay/over_wire", "overlay/edits", "transport/wire", "transport/proxy_process"):
        assert f"pp3/harness/{module}.py" in bound


def _sign(path: Path, statement: dict[str, Any], folder: Path) -> Path:
    """The statement under the name of its digest."""
    content = canonical.encode(statement)
    name = f"{path.name.partition('-')[0]}-{hashlib.sha256(content).hexdigest()}.json"
    (folder / name).write_bytes(content)
    return folder / name


LIES: list[tuple[str, list[str | int], Any, str]] = [
    ("another digest", ["attestation", "files", 0, "sha256"], "0" * 64, "not the reviewed ones"),
    ("another source", ["attestation", "files", 0, "sourceSha256"], "0" * 64, "not the reviewed ones"),
    ("another marker", ["attestation", "markers", "PP3_RUNNER_OVERLAY"], "x", "other markers"),
    ("pairs of nobody", ["paired", 0, "target"], "context", "do not tile"),
    ("another depth", ["paired", 0, "depth"], 5, "cannot be"),
    ("a pair that differs", ["paired", 0, "mismatches"], 1, "cannot be"),
    ("fewer injected", ["journey", "injected", "failed"], 0, "way: injected are"),
    ("fewer frames", ["journey", "frames"], 1, "way: frames are 1"),
    ("fewer requests on the way", ["journey", "rows"], 196, "way: rows are 196; plan and seed imply"),
    ("fewer pairs on the way", ["path"], "wire, proxy in a process; pairs straight to the buffers", "way: frames are"),
    ("another way", ["path"], "pigeons", "way: path is 'pigeons'"),
    ("a loss that was not", ["journey", "counted", "failed"], 0, "verdict"),
    ("a row that was altered", ["journey", "altered"], 1, "verdict"),
]


@pytest.mark.parametrize(("what", "keys", "value", "message"), LIES, ids=[row[0] for row in LIES])
def test_lies_are_found(
    what: str, keys: list[str | int], value: Any, message: str, written: Path, tmp_path: Path
) -> None:
    statement = copy.deepcopy(json.loads(written.read_bytes()))
    at: Any = statement["predicate"]["overlay"]
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    lie = _sign(written, statement, tmp_path)
    found = verify(lie, lie.read_bytes())
    failed = [f"{step.name}: {step.detail}" for step in found.steps if step.outcome == "FAIL"]
    assert len(failed) == 1
    assert message in failed[0]


def test_a_loss_that_was_not_injected_is_a_fail(written: Path) -> None:
    predicate = json.loads(written.read_bytes())["predicate"]
    journey = predicate["overlay"]["journey"]
    journey["counted"]["failed"] += 1
    trial = as_run(predicate)
    judged = judge.conclude(trial, counts_of(trial, predicate), "a CPU", predicate["overlay"]["paired"], journey)
    assert judged.verdict is Verdict.FAIL
    assert "requests were lost as failed" in judged.reasons[0]
