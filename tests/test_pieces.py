"""A campaign in pieces at the command line: the receipt of a whole run, on which GPUs and from which sources."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pieces_run import CAMPAIGN, INCONCLUSIVE, campaign_in, finished_in, go_home, predicate_in, run

from pp3.harness import canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, load, plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.operations import own
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import Stage


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick_pieces: ModuleType) -> None:
    """Without the interpreter, and with counters of its own."""
    go_home(monkeypatch, tmp_path / "home", quick_pieces)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, quick_pieces: ModuleType) -> Path:
    """A campaign in pieces that is done, counter 9: its folder `d`, its receipt in `o`; to be copied, not changed."""
    return finished_in(tmp_path_factory.mktemp("once"), quick_pieces)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A small campaign file."""
    return campaign_in(tmp_path)


def whole(campaign: Path, measure: Callable[[Campaign, Seed], Measured], counter: int) -> Measured:
    """What one run finds, which knows nothing of pieces."""
    chosen = load(campaign)
    return measure(chosen, Seed.of(plan_sha256(chosen), counter))


def test_pieces_give_the_receipt_of_a_whole_run(once: Path, measure: Callable[[Campaign, Seed], Measured]) -> None:
    """The same cells, first halves, pairs and breaches; and the receipt says that it was in pieces."""
    found = predicate_in(once / "o")
    one = whole(once / "small.toml", measure, 9)
    assert found["cells"] == [
        {"batch": batch, "counts": seen, "first": one.first[cell, batch], "id": cell}
        for (cell, batch), seen in one.counts.items()
    ]
    assert found["paired"] == one.pairs
    assert found["breaches"] == one.breaches
    pieces = len(own.pieces_of(json.loads((once / "d" / "campaign.json").read_bytes())))
    assert found["execution"]["attempts"] == 1
    assert list(found["execution"]["devices"].values()) == [pieces] == [found["execution"]["pieces"]]
    assert found["seed"]["counter"] == 9


def test_pieces_compare_requests_at_the_distance_of_any_batch_size(
    campaign: Path, tmp_path: Path, measure: Callable[[Campaign, Seed], Measured]
) -> None:
    """A row of two launches of 48 is met 48 requests later, which is no usual distance."""
    campaign.write_text(CAMPAIGN.replace("203", "807") + "batch_sizes = [6, 48]\n")
    given = ("--campaign", campaign, "--dir", tmp_path / "d", "--counter", "9", "--out", tmp_path / "o")
    assert run(*given) == INCONCLUSIVE
    found = {(row["id"], row["batch"]): row for row in predicate_in(tmp_path / "o")["cells"]}
    one = whole(campaign, measure, 9)
    assert {key: row["counts"] for key, row in found.items()} == one.counts
    assert {key: row["first"] for key, row in found.items()} == one.first
    assert sum(sum(row["counts"]) for (cell, _), row in found.items() if "/requests-48/" in cell)


def test_a_receipt_says_how_long_pieces_took(once: Path) -> None:
    """Each once, in the order of the plan, those of one size and cell in one row."""
    manifest = json.loads((once / "d" / "campaign.json").read_bytes())
    pieces = own.pieces_of(manifest)
    took = {path.stem: json.loads(path.read_bytes())["nanoseconds"] for path in (once / "d" / "parts").iterdir()}
    rows = {row["id"]: row["samples"] for row in predicate_in(once / "o")["timings"]}
    of_half = [piece for piece in pieces if piece.requests and piece.depth == 4 and piece.batch == 1]
    assert len(of_half) == 2  # halves of 26 requests, 13 each
    assert rows["sparse-tail/depth-4/batch-1/piece-of-13-requests"] == [took[piece.name] for piece in of_half]
    assert rows["kernels/verify"] == [took["kernels,verify"]]
    assert rows["sparse-tail/depth-4/piece-of-9-pairs"] == [
        took[piece.name] for piece in pieces if piece.stage is Stage.PAIRED and piece.depth == 4
    ]
    assert sum(map(sum, rows.values())) == sum(took.values())
    assert sum(map(len, rows.values())) == len(pieces)


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a piece more": (lambda said: said.update(pieces=said["pieces"] + 1), "the plan is cut into"),
    "a device more": (lambda said: said["devices"].update(other=1), "the plan is cut into"),
    "too many repeated": (lambda said: said.update(repeated=10**6), "are said to be repeated"),
    "a foreign piece": (lambda said: said.update(unequal=["x"]), "'x' is no piece of the plan"),
    "a piece that was not unequal": (lambda said: said.update(unequal=["kernels,verify"]), "verdict"),
    "no attempt": (lambda said: said.update(attempts=0), "attempts"),
}


@pytest.mark.parametrize(("change", "said"), TAMPERED.values(), ids=TAMPERED)
def test_what_a_receipt_says_of_its_pieces_is_verified(
    change: Callable[[dict[str, Any]], Any], said: str, once: Path, tmp_path: Path, capsys: Any
) -> None:
    """Against the plan."""
    [path] = (once / "o").glob("*.json")
    statement = canonical.decode(path.read_bytes())
    change(statement["predicate"]["execution"])
    changed = receipt.write(statement, tmp_path / "changed")
    capsys.readouterr()
    assert cli.run(["verify", str(changed)]) == Exit.NEGATIVE
    assert said in capsys.readouterr().out


def test_gpus_of_two_kinds_are_allowed_and_named(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """By hand, where no GPU is: the reference stands in for the kernels, and says to be two."""
    from pp3.harness.operations import order
    from pp3.harness.samplers.reference import ReferenceSampler
    from pp3.harness.shards import count

    names = iter(["NVIDIA H200"] * 9 + ["NVIDIA L4"] * 99)
    monkeypatch.setattr(count, "sampler_on", lambda backend: ReferenceSampler())
    monkeypatch.setattr(order, "device_name", lambda backend: next(names))
    monkeypatch.setattr("pp3.harness.operations.command.choose_device", lambda *_: Backend.CUDA)
    assert (
        run("--campaign", campaign, "--dir", tmp_path / "d", "--counter", "9", "--out", tmp_path / "o") == INCONCLUSIVE
    )
    found = predicate_in(tmp_path / "o")
    assert found["execution"]["devices"] == {"NVIDIA H200": 9, "NVIDIA L4": found["execution"]["pieces"] - 9}
    assert "on NVIDIA H200 and NVIDIA L4 are not decided" in found["sentence"]


def test_other_sources_do_not_go_on(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Both digests are named; neither a merge."""
    run("--campaign", campaign, "--dir", tmp_path / "d", "--counter", "3", "--shard", "1/2")
    monkeypatch.setattr("pp3.harness.operations.command.sources_sha256", lambda kind: "5" * 64)
    for command in (["qualify", "--dir", str(tmp_path / "d"), "--resume"], ["merge", str(tmp_path / "d")]):
        assert cli.run(command) == Exit.USAGE
        assert f"these are {'5' * 64}" in capsys.readouterr().err


def test_a_changed_plan_is_seen(campaign: Path, tmp_path: Path, capsys: Any) -> None:
    """Its digest is another one."""
    run("--campaign", campaign, "--dir", tmp_path / "d", "--counter", "3", "--shard", "1/2")
    path = tmp_path / "d" / "campaign.json"
    manifest = canonical.decode(path.read_bytes())
    manifest["plan"]["requests"] += 1
    path.unlink()
    path.write_bytes(canonical.encode(manifest))
    assert run("--dir", tmp_path / "d", "--resume") == Exit.USAGE
    assert "its plan has another digest" in capsys.readouterr().err
