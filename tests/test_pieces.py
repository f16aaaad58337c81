"""A campaign in pieces at the command line: the receipt of a whole run, shards, merges, and what is refused by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, load, plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt, store
from pp3.harness.operations import own
from pp3.harness.operations.engines import Engine, serial
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import Stage

CAMPAIGN = 'targets = ["sparse-tail"]\nrequests = 203\npaired = 17\n'
INCONCLUSIVE = Exit.INCONCLUSIVE  # 203 requests decide nothing
OF_RUN = (
    "run",
    "execution",
    "seed",
    "environment",
    "timings",
)  # what two runs may say differently; the seed's `chosen`


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick_pieces: ModuleType) -> None:
    """Without the interpreter, and with counters of its own."""
    quick_pieces.install(monkeypatch.setattr)
    home = tmp_path / "home"
    monkeypatch.setattr(store, "find_checkout", lambda: None)
    home.mkdir()
    monkeypatch.chdir(home)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, quick_pieces: ModuleType) -> Path:
    """A campaign in pieces that is done, counter 9: its folder `d`, its receipt in `o`; to be copied, not changed."""
    root = tmp_path_factory.mktemp("once")
    (root / "small.toml").write_text(CAMPAIGN)
    with pytest.MonkeyPatch.context() as patch:
        quick_pieces.install(patch.setattr)
        patch.setattr(store, "find_checkout", lambda: None)
        patch.chdir(root)
        given = ("--campaign", root / "small.toml", "--dir", root / "d", "--counter", "9", "--out", root / "o")
        assert run(*given) == INCONCLUSIVE
    return root


@pytest.fixture
def finished(once: Path, tmp_path: Path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(once / "d", tmp_path / "d"))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A small campaign file."""
    path = tmp_path / "small.toml"
    path.write_text(CAMPAIGN)
    return path


def run(*arguments: str | Path) -> int:
    """pp3 qualify, in this process."""
    return cli.run(["qualify", *map(str, arguments)])


def predicate_in(folder: Path) -> dict[str, Any]:
    """Of the only receipt in a folder, which verifies."""
    [path] = folder.glob("*.json")
    assert cli.run(["verify", str(path)]) == Exit.OK
    return dict(canonical.decode(path.read_bytes())["predicate"])


def counts(predicate: dict[str, Any]) -> bytes:
    """Everything but when and how it was run, in canonical bytes."""
    return canonical.encode({key: value for key, value in predicate.items() if key not in OF_RUN})


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


@pytest.fixture
def sharded(campaign: Path, once: Path, tmp_path: Path) -> tuple[Path, list[Path]]:
    """The receipt of a whole campaign, and the same campaign as three shards in folders of their own."""
    shards = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]
    for number, folder in enumerate(shards, 1):
        given = ("--campaign", campaign, "--dir", folder, "--counter", "9", "--shard", f"{number}/3")
        assert run(*given) == Exit.OK
    return once / "o", shards


def merge(*arguments: str | Path) -> int:
    """pp3 merge, in this process."""
    return cli.run(["merge", *map(str, arguments)])


def test_shards_join_to_the_whole(sharded: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """In any order, wherever each was run; and merging again changes nothing."""
    one, (first, second, third) = sharded
    assert merge(third, first, second, "--out", tmp_path / "m") == INCONCLUSIVE
    found = predicate_in(tmp_path / "m")
    assert counts(found) == counts(predicate_in(one))
    assert (found["execution"]["attempts"], found["execution"]["repeated"]) == (3, 0)
    assert merge(third, first, second, "--out", tmp_path / "n") == INCONCLUSIVE
    assert predicate_in(tmp_path / "n")["execution"]["repeated"] == 0


def test_shards_of_one_folder_join_too(campaign: Path, tmp_path: Path) -> None:
    """As tasks of an array on a file system that all of them see; one of them may run twice."""
    for number in (2, 1, 2, 3):
        assert (
            run("--campaign", campaign, "--dir", tmp_path / "d", "--counter", "9", "--shard", f"{number}/3") == Exit.OK
        )
    assert merge(tmp_path / "d", "--out", tmp_path / "m") == INCONCLUSIVE
    assert predicate_in(tmp_path / "m")["execution"]["attempts"] == 4


def test_a_missing_part_is_named(sharded: tuple[Path, list[Path]], tmp_path: Path, capsys: Any) -> None:
    """With the rest, and nothing is written; its shard alone mends it."""
    _, shards = sharded
    lost = part_of(shards[1])
    lost.unlink()
    assert merge(*shards, "--out", tmp_path / "m") == Exit.NEGATIVE
    assert f"missing: {lost.stem}, of " in capsys.readouterr().err
    assert list((tmp_path / "m").iterdir()) == []
    assert run("--dir", shards[1], "--shard", "2/3") == Exit.OK
    assert merge(*shards, "--out", tmp_path / "m") == INCONCLUSIVE


def part_of(folder: Path) -> Path:
    """A part of requests."""
    return sorted((folder / "parts").glob("requests,*"))[0]


def test_a_doubled_part_is_named(sharded: tuple[Path, list[Path]], tmp_path: Path, capsys: Any) -> None:
    """A copy under another name would be counted twice."""
    _, shards = sharded
    assert merge(*shards, "--out", tmp_path / "m") == INCONCLUSIVE
    part = part_of(shards[0])
    shutil.copy(part, part.with_name("requests,copy.json"))
    assert merge(shards[0], "--out", tmp_path / "n") == Exit.NEGATIVE
    said = capsys.readouterr().err
    assert "doubled: " in said
    assert part.stem in said


FOREIGN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "of another plan": (lambda part: part.update(planSha256="0" * 64), "its planSha256 is 0000"),
    "of another counter": (lambda part: part.update(counter=8), "its counter is 8, the campaign's 9"),
    "of other sources": (lambda part: part.update(sourcesSha256="1" * 64), "its sourcesSha256 is 1111"),
    "of another backend": (lambda part: part.update(backend="cuda"), "its backend is cuda"),
    "of no piece": (lambda part: part.update(name="requests,x,depth-4,batch-1,0-9"), "is no piece of this campaign"),
    "with a field more": (lambda part: part.update(more=1), "no part of a campaign of this version"),
    "with a cell less": (lambda part: part["result"]["counts"].pop(), "not of the shape of its piece"),
    "with a bin less": (lambda part: part["result"]["counts"][0].pop(), "not of the shape of its piece"),
}


@pytest.mark.parametrize(("change", "said"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_part_is_named(
    change: Callable[[dict[str, Any]], Any], said: str, finished: Path, tmp_path: Path, capsys: Any
) -> None:
    """Whatever it is; nothing is written."""
    path = part_of(finished)
    part = canonical.decode(path.read_bytes())
    change(part)
    path.unlink()
    path.write_bytes(canonical.encode(part))
    assert merge(finished, "--out", tmp_path / "m") == Exit.NEGATIVE
    assert said in capsys.readouterr().err
    assert list((tmp_path / "m").iterdir()) == []


def test_half_a_part_is_refused_by_name(finished: Path, tmp_path: Path, capsys: Any) -> None:
    """No write of ours leaves one; a copy to another machine may."""
    path = part_of(finished)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])
    assert merge(finished, "--out", tmp_path / "m") == Exit.NEGATIVE
    said = capsys.readouterr().err
    assert f"{path.name}: foreign: not JSON" in said


def test_folders_of_two_campaigns_do_not_join(campaign: Path, tmp_path: Path, capsys: Any) -> None:
    """The other folder is named."""
    for counter in ("1", "2"):
        run("--campaign", campaign, "--dir", tmp_path / counter, "--counter", counter, "--shard", "1/2")
    assert merge(tmp_path / "1", tmp_path / "2") == Exit.NEGATIVE
    assert f"{tmp_path / '2'}: foreign: its counter is 2" in capsys.readouterr().err


def again(folder: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Another folder of the same campaign, whose parts took another time; one of them is changed. Its file."""
    other = Path(shutil.copytree(folder, folder.with_name(name)))
    for path in (other / "parts").iterdir():
        part = canonical.decode(path.read_bytes())
        part["nanoseconds"] += 1
        path.unlink()
        path.write_bytes(canonical.encode(part))
    path = part_of(other)
    part = canonical.decode(path.read_bytes())
    change(part)
    path.unlink()
    path.write_bytes(canonical.encode(part))
    return path


def test_an_equal_second_result_is_counted_once(finished: Path, once: Path, tmp_path: Path) -> None:
    """It was run again elsewhere, and took another time; the receipt says how many were."""
    other = again(finished, "other", lambda part: None).parents[1]
    assert merge(finished, other, "--out", tmp_path / "m") == INCONCLUSIVE
    found = predicate_in(tmp_path / "m")
    assert counts(found) == counts(predicate_in(once / "o"))
    assert found["execution"]["repeated"] == found["execution"]["pieces"]
    assert found["execution"]["unequal"] == []


def test_what_a_piece_ran_on_is_no_result(finished: Path, tmp_path: Path) -> None:
    """Of the kernels' evidence the identity names the device and what its process has compiled, which may differ."""
    other = again(finished, "other", lambda part: None).parents[1]
    path = other / "parts" / "kernels,identity.json"
    part = canonical.decode(path.read_bytes())
    part["result"]["identity"][0]["numpy"] = "0.0"
    path.unlink()
    path.write_bytes(canonical.encode(part))
    assert merge(finished, other, "--out", tmp_path / "m") == INCONCLUSIVE
    assert predicate_in(tmp_path / "m")["execution"]["unequal"] == []


def moved(part: dict[str, Any]) -> None:
    """One count moved to the next bin: every sum is right, and the piece is not pure."""
    row = next(row for row in part["result"]["counts"] if row[0] and len(row) > 2)
    row[0], row[1] = row[0] - 1, row[1] + 1


def test_an_unequal_second_result_is_invalid_and_both_are_kept(finished: Path, tmp_path: Path) -> None:
    """The receipt names it, and verifies."""
    path = again(finished, "other", moved)
    assert merge(finished, path.parents[1], "--out", tmp_path / "m") == Exit.NEGATIVE
    found = predicate_in(tmp_path / "m")
    assert found["verdict"] == "INVALID"
    assert found["reasons"][0] == f"{path.stem} came to other counts when it was run again"
    assert found["execution"]["unequal"] == [path.stem]
    [beside] = (finished / "unequal").iterdir()
    assert beside.read_bytes() == path.read_bytes()
    assert (finished / "parts" / path.name).read_bytes() != path.read_bytes()


def test_what_was_unequal_stays_so_in_another_merge(finished: Path, tmp_path: Path) -> None:
    """A folder that is taken in brings its second parts with it."""
    clean = Path(shutil.copytree(finished, finished.with_name("clean")))
    path = again(finished, "other", moved)
    assert merge(finished, path.parents[1], "--out", tmp_path / "m") == Exit.NEGATIVE
    assert merge(clean, finished, "--out", tmp_path / "n") == Exit.NEGATIVE
    assert predicate_in(tmp_path / "n")["execution"]["unequal"] == [path.stem]


def test_a_name_that_leaves_the_folder_is_foreign(finished: Path, tmp_path: Path, capsys: Any) -> None:
    """Nothing of a folder is taken in before all of all folders is known to be good."""
    held = Path(shutil.copytree(finished, finished.with_name("held")))
    part_of(held).unlink()
    before = sorted(held.rglob("*"))
    path = again(finished, "other", lambda part: part.update(name="../../outside/evil"))
    assert merge(held, finished, path.parents[1], "--out", tmp_path / "m") == Exit.NEGATIVE
    assert f"{path}: foreign: '../../outside/evil' is no piece" in capsys.readouterr().err
    assert sorted(held.rglob("*")) == before
    assert not (held.parent / "outside").exists()


def test_a_renamed_part_is_named(finished: Path, tmp_path: Path, capsys: Any) -> None:
    """Under another name it would be run again."""
    path = part_of(finished)
    path.rename(path.with_name("requests,else.json"))
    assert merge(finished, "--out", tmp_path / "m") == Exit.NEGATIVE
    assert f"renamed: it is the part of {path.stem}" in capsys.readouterr().err


def test_a_folder_given_twice_is_refused(finished: Path, capsys: Any) -> None:
    """Its starts would count twice."""
    assert merge(finished, finished) == Exit.USAGE
    assert "given twice" in capsys.readouterr().err


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


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "resume without a folder": (["--resume"], 2, "--resume needs --dir"),
    "a shard without a folder": (["--shard", "1/2"], 2, "--shard needs --dir"),
    "nothing to resume": (["--dir", "new", "--resume"], 2, "holds no campaign"),
    "a shard of nothing": (["--dir", "new", "--shard", "0/2", "--counter", "1"], 2, "give i/n"),
    "a shard past the last": (["--dir", "new", "--shard", "3/2", "--counter", "1"], 2, "give i/n"),
    "a shard that is none": (["--dir", "new", "--shard", "half", "--counter", "1"], 2, "give i/n"),
    "more shards than pieces": (
        ["--dir", "new", "--shard", "1/999999", "--counter", "1"],
        2,
        "pieces; take n up to that",
    ),
    "a shard without a counter": (["--dir", "new", "--shard", "1/2"], 2, "--shard needs --counter"),
    "a campaign that is there": (["--dir", "there"], 2, "--resume goes on with it"),
    "a folder with other things": (["--dir", "full"], 2, "it is not empty"),
    "a file": (["--dir", "full/file"], 2, "it is no folder"),
    "another plan": (["--dir", "there", "--resume", "--requests", "7"], 2, "whose planSha256 is"),
    "another counter": (
        ["--dir", "there", "--resume", "--counter", "4"],
        2,
        "whose counter is 3, the options ask for 4",
    ),
    "a GPU for one begun without": (["--dir", "there", "--resume", "--device", "cuda"], 2, "begun without a GPU"),
    "GPUs and Dask": (["--dir", "new", "--gpus", "all", "--dask", "tcp://x"], 2, "exclude each other"),
    "GPUs and no GPU": (["--dir", "new", "--gpus", "all", "--device", "cpu"], 2, "contradict each other"),
    "no GPUs": (["--dir", "new", "--gpus", "all"], 69, "0 GPUs are visible here"),
    "Dask without a device": (["--dir", "new", "--dask", "tcp://x"], 2, "--dask needs --device"),
}


@pytest.mark.parametrize(("options", "code", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(
    options: list[str], code: int, said: str, campaign: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the value, the limit and the way out."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("full").mkdir()
    Path("full/file").touch()
    assert run("--campaign", campaign, "--dir", "there", "--counter", "3", "--shard", "1/2") == Exit.OK
    given = [] if "--resume" in options else ["--campaign", str(campaign)]
    capsys.readouterr()
    assert run(*options, *given) == code
    assert said in capsys.readouterr().err


NOT_BEGUN: dict[str, tuple[list[str], int, str]] = {
    "a shard past the last": (["--shard", "3/2"], 2, "give i/n"),
    "more shards than pieces": (["--shard", "1/999999"], 2, "pieces; take n up to that"),
    "an --out that holds files": (["--out", "full"], 2, "already holds 1 files"),
    "an --out that is a file": (["--out", "full/file"], 2, "--out full/file: "),
    "no scheduler": (["--dask", "nonsense://x"], 69, "no scheduler answers there"),
    "a scheduler, and an --out that holds files": (["--dask", "tcp://there:1", "--out", "full"], 2, "already holds 1"),
    "no GPUs": (["--gpus", "all"], 69, "0 GPUs are visible here"),
    "a --dir below a file": (["--dir", "full/file/d"], 2, "--dir full/file/d: Not a directory"),
}


@pytest.mark.parametrize(("options", "code", "said"), NOT_BEGUN.values(), ids=NOT_BEGUN)
def test_what_is_refused_spends_no_counter(
    options: list[str], code: int, said: str, campaign: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves neither a folder nor a campaign in one."""
    from pp3.harness.operations import dask_engine

    closed: list[str] = []

    def connect(address: str) -> Engine:
        if "there" not in address:
            return real(address)
        return replace(serial(apart=False), close=lambda: closed.append(address))

    real = dask_engine.connect
    monkeypatch.setattr(dask_engine, "connect", connect)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("full").mkdir()
    Path("full/file").touch()
    before = sorted(Path().rglob("*"))
    device = ["--device", "cpu"] if "--dask" in options else []
    folder = [] if "--dir" in options else ["--dir", "new"]
    assert run("--campaign", campaign, "--counter", "3", *folder, *device, *options) == code
    assert said in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
    assert closed == (["tcp://there:1"] if "tcp://there:1" in options else [])


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
