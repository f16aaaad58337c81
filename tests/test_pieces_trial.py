"""A trial of any sampler in pieces, one a target: shards join to the receipt of a whole run, and both verify."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit, VerificationError
from pp3.harness.evidence import receipt, store
from pp3.harness.operations import trial
from pp3.harness.operations.folder import Folder
from pp3.harness.trial import process

DECIDED = (Exit.OK, Exit.INCONCLUSIVE)  # as few requests may leave a check open
TARGETS = ("rows-of-8", "rows-of-12")
SAMPLER = """
import torch

from pp3 import Batch, Description


class Mine:
    def describe(self) -> Description:
        return Description(name="mine", kind="plain", version="1", filters=("temperature",))

    def run(self, batch: Batch) -> torch.Tensor:
        probs = torch.softmax(batch.logits / batch.temperature[:, None], dim=-1)
        return torch.multinomial(probs, 1, generator=batch.generator)[:, 0]
"""
OF_RUN = ("run", "execution", "environment")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, quick_pieces: ModuleType) -> Any:
    """A sampler's file, a whole trial of it in `one`, and the same in two shards: `d-1` and `d-2`."""
    folder = tmp_path_factory.mktemp("trial")
    (folder / "mine.py").write_text(SAMPLER)
    with pytest.MonkeyPatch.context() as patch:
        quick_pieces.install(patch.setattr)
        patch.setattr("pp3.harness.trial.command.page_of", lambda statement, written, folder: None)
        patch.setattr(store, "find_checkout", lambda: None)
        patch.chdir(folder)
        assert run("--out", "one") in DECIDED
        for number in (1, 2):
            assert run("--dir", f"d-{number}", "--shard", f"{number}/2") == Exit.OK
        yield folder


def run(*more: str) -> int:
    """pp3 qualify of the sampler on two targets."""
    chosen = [word for name in TARGETS for word in ("--target", name)]
    given = ("--sampler", "mine.py:Mine", "--requests", "500", "--counter", "4", "--device", "cpu")
    return cli.run(["qualify", *given, *chosen, *more])


def predicate_in(folder: Path) -> dict[str, Any]:
    """Of the only receipt in a folder, which verifies."""
    [path] = folder.glob("2*.json")
    assert cli.run(["verify", str(path)]) == Exit.OK
    return dict(canonical.decode(path.read_bytes())["predicate"])


def test_shards_join_to_the_whole(place: Path) -> None:
    """The same counts, tests, sentence and sources; one piece a target."""
    assert cli.run(["merge", "d-1", "d-2", "--out", "m"]) in DECIDED
    whole, found = predicate_in(place / "one"), predicate_in(place / "m")
    assert canonical.encode({key: value for key, value in found.items() if key not in OF_RUN}) == canonical.encode(
        {key: value for key, value in whole.items() if key not in OF_RUN}
    )
    assert found["execution"] == {
        "attempts": 2,
        "devices": {"a CPU": len(TARGETS)},
        "pieces": len(TARGETS),
        "repeated": 0,
        "unequal": [],
    }


def test_a_trial_goes_on_and_runs_nothing_twice(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts are there after the merge: no process is started."""
    cli.run(["merge", "d-1", "d-2", "--out", "again"])
    monkeypatch.setattr(process, "CHILD", ["false"])
    assert cli.run(["qualify", "--dir", "d-1", "--resume", "--out", "resumed"]) in DECIDED
    assert predicate_in(place / "resumed")["cells"] == predicate_in(place / "one")["cells"]


def test_a_target_with_two_results_is_invalid(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are kept; the receipt says which, verifies, and may not leave it out."""
    cli.run(["merge", "d-1", "d-2", "--out", "before"])
    [path] = (place / "d-2" / "parts").iterdir()
    part = canonical.decode(path.read_bytes())
    cell = next(iter(part["result"]["measured"]["counts"]))
    row = part["result"]["measured"]["counts"][cell]
    at = next(place for place, count in enumerate(row[:-1]) if count)
    row[at], row[at - 1] = row[at] - 1, row[at - 1] + 1
    path.unlink()
    path.write_bytes(canonical.encode(part))
    assert cli.run(["merge", "d-1", "d-2", "--out", "unequal"]) == Exit.NEGATIVE
    found = predicate_in(place / "unequal")
    assert found["verdict"] == "INVALID"
    assert "it came to other counts when it was run again" in found["reasons"][0]
    assert found["execution"]["unequal"] == [path.stem]
    [written] = (place / "unequal").glob("2*.json")
    statement = canonical.decode(written.read_bytes())
    statement["predicate"]["execution"]["unequal"] = []
    capsys.readouterr()
    assert cli.run(["verify", str(receipt.write(statement, place / "changed"))]) == Exit.NEGATIVE
    assert "must be broken if it came to other counts again" in capsys.readouterr().out


def test_parts_of_another_file_do_not_join(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sampler's own file is another one on one machine, which its description does not say."""
    trial_of, parts = trial.trial_of, []
    for name in ("d-1", "d-2"):
        folder = Folder(place / name)
        parts += [canonical.decode(path.read_bytes()) for path in folder.files()][:1]
    manifest = Folder(place / "d-1").manifest()
    changed = canonical.decode(canonical.encode(parts[1]))
    for file in changed["result"]["sources"]["files"]:
        file[1] = "0" * 64
    with pytest.raises(VerificationError, match="was run with another "):
        trial.joined(trial_of(manifest), [parts[0], changed], "d")


def test_a_trial_that_is_refused_spends_no_counter(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves no folder: its shards and its --out are looked at before."""
    ours = ("pp3-runs", "new", "one")
    before = sorted(path for name in ours for path in (place / name).rglob("*"))
    assert run("--dir", "new", "--shard", "1/9") == Exit.USAGE
    assert "this campaign has 2 pieces" in capsys.readouterr().err
    assert run("--dir", "new", "--out", "one") == Exit.USAGE
    assert "--out one already holds" in capsys.readouterr().err
    assert sorted(path for name in ours for path in (place / name).rglob("*")) == before
    assert not (place / "new").exists()
