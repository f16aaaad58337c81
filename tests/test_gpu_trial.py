"""A sampler that spoils its CUDA context on one target: that target is INVALID, a fresh process runs the others.

Run by `make test-gpu`, as tests/test_gpu.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify

pytestmark = pytest.mark.gpu

# A device-side assert: the index is out of range, so that every later call to CUDA in the process fails.
SAMPLER = """
import torch
from pp3.harness.samplers.torch_filters import Filters

class Mine(Filters):
    def run(self, batch):
        if batch.vocab == {spoils}:
            table = torch.zeros(4, device=batch.logits.device)
            table[torch.full((len(batch),), 4, device=batch.logits.device)]
            torch.cuda.synchronize()
        return super().run(batch)
"""
TARGETS = ("rows-of-12", "rows-of-63", "rows-of-4")
REQUESTS = 20_000


def trial(folder: Path, spoils: int, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    """The command's exit code, and the predicate of its receipt, which verifies."""
    (folder / "mine.py").write_text(SAMPLER.format(spoils=spoils))
    targets = [option for name in TARGETS for option in ("--target", name)]
    given = ["qualify", "--sampler", f"{folder / 'mine.py'}:Mine", "--require-gpu", "--requests", str(REQUESTS)]
    code = cli.run([*given, *targets, "--counter", "7", "--out", str(folder / "out"), "--json", *more])
    path = Path(json.loads(capsys.readouterr().out)["receipt"])
    found = verify(path, path.read_bytes())
    assert found.ok, found.sentence
    return code, dict(canonical.decode(path.read_bytes())["predicate"])


def counted(predicate: dict[str, Any]) -> set[str]:
    """Targets of which every case has all its requests."""
    sums: dict[str, set[int]] = {}
    for cell in predicate["cells"]:
        if "/token/" not in cell["id"]:
            continue  # pairs of requests, of which there are half as many
        sums.setdefault(cell["id"].partition("/")[0], set()).add(sum(cell["counts"]))
    return {target for target, found in sums.items() if found == {REQUESTS}}


@pytest.mark.parametrize("spoils", [12, 63, 4], ids=["first", "between", "last"])
def test_a_spoiled_context_costs_one_target(spoils: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, predicate = trial(tmp_path, spoils, capsys)
    spoilt = f"rows-of-{spoils}"
    assert (code, predicate["verdict"]) == (Exit.NEGATIVE, "INVALID")
    assert set(predicate["broken"]) == {spoilt}
    assert "CUDA" in predicate["broken"][spoilt]
    assert "not run" not in predicate["broken"][spoilt]
    assert counted(predicate) == {*TARGETS} - {spoilt}
    assert predicate["sampler"]["device"]["backend"] == "cuda"


def test_what_a_fresh_process_counts_is_what_an_unspoiled_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The requests of a target, and so its counts, do not depend on what became of the others."""
    for name in ("spoilt", "whole"):
        (tmp_path / name).mkdir()
    _, spoilt = trial(tmp_path / "spoilt", 63, capsys)
    code, whole = trial(tmp_path / "whole", -1, capsys)
    assert (code, whole["broken"]) == (Exit.OK, {}), whole["reasons"]
    counts = [{c["id"]: c["counts"] for c in p["cells"] if "rows-of-63/" not in c["id"]} for p in (spoilt, whole)]
    assert counts[0] == counts[1]


def test_a_spoiled_context_spoils_no_process_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, predicate = trial(tmp_path, 63, capsys, "--jobs", "3")
    assert set(predicate["broken"]) == {"rows-of-63"}
    assert counted(predicate) == {"rows-of-12", "rows-of-4"}
