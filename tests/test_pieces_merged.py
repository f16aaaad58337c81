"""`pp3 merge`: shards join to the whole, and a part that is missing, doubled, foreign or unequal is named."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pieces_run import INCONCLUSIVE, campaign_in, counts, finished_in, go_home, part_of, predicate_in, run

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick_pieces: ModuleType) -> None:
    """Without the interpreter, and with counters of its own."""
    go_home(monkeypatch, tmp_path / "home", quick_pieces)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, quick_pieces: ModuleType) -> Path:
    """A campaign in pieces that is done, counter 9: its folder `d`, its receipt in `o`; to be copied, not changed."""
    return finished_in(tmp_path_factory.mktemp("once"), quick_pieces)


@pytest.fixture
def finished(once: Path, tmp_path: Path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(once / "d", tmp_path / "d"))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A small campaign file."""
    return campaign_in(tmp_path)


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
