"""Replay: a receipt's plan and seed give its integers again, from the present sources, on another device too."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from restated import changed

from pp3.harness import canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, of_document, parts_of
from pp3.harness.errors import Exit
from pp3.harness.evidence import provenance
from pp3.harness.evidence.verify import verify
from pp3.harness.regression import replay_command
from pp3.harness.regression.integers import Integers
from pp3.harness.regression.opened import open_receipt
from pp3.harness.regression.replay import campaign_of, judge
from pp3.harness.run import Measured, run_parts
from pp3.harness.seeds import Seed
from pp3.harness.trial.start import write_starter
from pp3.kernels import reference

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = sorted((ROOT / "receipts" / "evidence" / "qualify").glob("*.json"), reverse=True)
SLICE = "context,5"  # the part of a committed receipt that make test replays: a tenth of its requests
SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}
Statement = dict[str, Any]
Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a small campaign."""
    return receipt_of(of_document(SMALL, "a test"), tmp_path_factory.mktemp("replay"), 3)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a trial of a control in torch."""
    out = tmp_path_factory.mktemp("trial") / "out"
    arguments = ["qualify", "--sampler", "torch-multinomial", "--target", "rows-of-12", "--device", "cpu"]
    assert cli.run([*arguments, "--requests", "20000", "--counter", "4", "--out", str(out)]) == Exit.OK
    return next(out.glob("*.json"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`pp3 replay ... --json`: its exit code, what it prints and what it says is wrong."""

    def command(path: Path, *arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = cli.run(["replay", str(path), "--device", "cpu", "--json", *arguments])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    return command


def test_the_counts_come_out_again(old: Path, command: Command) -> None:
    """Every integer, without a new receipt."""
    code, found, _ = command(old, "--no-write")
    assert (code, found["equal"], found["receipt"]) == (Exit.OK, True, None)
    predicate = canonical.decode(old.read_bytes())["predicate"]
    assert found["compared"] == sum(len(cell["counts"]) + len(cell["first"]) for cell in predicate["cells"])
    assert found["sentence"].startswith("EQUAL: the NumPy reference of pp3-top32")


@pytest.mark.parametrize(("part", "cells"), [("invalidated", "invalidated/"), ("disjoint,4", "disjoint/depth-4/")])
def test_a_slice_is_that_part_of_the_whole(old: Path, command: Command, part: str, cells: str) -> None:
    """Its requests keep their numbers: the counts are those of the whole run."""
    code, found, _ = command(old, "--slice", part)
    predicate = canonical.decode(old.read_bytes())["predicate"]
    mine = [cell for cell in predicate["cells"] if cell["id"].startswith(cells)]
    assert (code, found["equal"]) == (Exit.OK, True)
    assert found["compared"] == sum(len(cell["counts"]) + len(cell["first"]) for cell in mine)


def test_the_parts_of_a_campaign_make_the_whole(old: Path) -> None:
    """One after the other, each by itself."""
    opened = open_receipt(old)
    campaign, seed = campaign_of(opened)
    found: dict[tuple[str, int], list[int]] = {}
    pairs = []
    for part in parts_of(campaign):
        measured = run_parts(campaign, seed, Backend.REFERENCE, [part], lambda *_: None)
        found |= measured.counts
        pairs += measured.pairs
    assert found == {(cell["id"], cell["batch"]): cell["counts"] for cell in opened.predicate["cells"]}
    assert pairs == opened.predicate["paired"]


def test_one_count_that_differs_is_named(old: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources changed: one request in a thousand draws its replacement by another word."""
    real = reference._emit

    def emit(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
        moved = w64.copy()
        moved[w64[:, 3] % 1000 == 0, 2] ^= 1 << 31
        return real(rows, row, support, tickets, rejected, moved)

    monkeypatch.setattr(reference, "_emit", emit)
    code, found, _ = command(old, "--no-write")
    assert (code, found["equal"]) == (Exit.NEGATIVE, False)
    predicate = canonical.decode(old.read_bytes())["predicate"]
    cells = {(cell["id"], cell["batch"]): cell for cell in predicate["cells"]}
    named = cells[found["mismatch"]["cell"], found["mismatch"]["batch"]]
    assert int(found["mismatch"]["old"].replace(",", "")) in named["counts"]
    assert found["mismatch"]["old"] != found["mismatch"]["new"]
    assert f"the first is {named['id']} at batch {named['batch']}: counts of outcome " in found["sentence"]


def test_a_replay_is_a_receipt_of_its_own(
    old: Path,
    command: Command,
    tmp_path: Path,
    measure: Callable[[Campaign, Seed], Measured],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Marked as a replay; it verifies, and compares as equal to what it repeats. The interpreter's part is by hand."""
    monkeypatch.setattr(replay_command, "run", lambda campaign, seed, device, progress: measure(campaign, seed))
    code, found, _ = command(old, "--out", str(tmp_path / "again"))
    assert (code, found["equal"]) == (Exit.OK, True)
    written = Path(found["receipt"])
    seeds = [canonical.decode(path.read_bytes())["predicate"]["seed"] for path in (old, written)]
    assert (seeds[0].pop("chosen"), seeds[1].pop("chosen")) == ("given", "replay")
    assert seeds[0] == seeds[1]
    assert verify(written, written.read_bytes(), provenance.TREE).ok
    assert cli.run(["compare", str(old), str(written)]) == Exit.OK


def test_a_trial_of_a_sampler_that_is_here(trial: Path, command: Command, tmp_path: Path) -> None:
    """Its generator is seeded by the harness: on this device the counts come out again, though nobody promises it."""
    code, found, _ = command(trial, "--out", str(tmp_path / "again"))
    assert (code, found["equal"]) == (Exit.OK, True)
    assert "torch.Generator" in found["equalCountsNotPromised"]
    written = canonical.decode(Path(found["receipt"]).read_bytes())["predicate"]
    assert written["seed"]["chosen"] == "replay"
    assert written["cells"] == canonical.decode(trial.read_bytes())["predicate"]["cells"]


def test_a_sampler_of_the_user_is_found_where_he_says(tmp_path: Path, command: Command) -> None:
    """By its name alone it is not known; with another file it is another sampler."""
    campaign, source = write_starter(tmp_path / "mine")
    out = str(tmp_path / "out")
    arguments = ["qualify", "--campaign", str(campaign), "--device", "cpu", "--target", "rows-of-8"]
    assert cli.run([*arguments, "--counter", "1", "--out", out]) == Exit.OK
    path = next(Path(out).glob("*.json"))
    code, _, said = command(path, "--no-write")
    assert code == Exit.UNAVAILABLE
    assert "--sampler file.py:object" in said
    there = ["--slice", "rows-of-8", "--sampler", f"{source}:MySampler"]
    code, found, _ = command(path, *there)
    assert (code, found["equal"], found["part"]) == (Exit.OK, True, "rows-of-8")
    source.write_text(source.read_text("utf-8") + "\n# another file\n", "utf-8")
    code, _, said = command(path, *there)
    assert code == Exit.INCONCLUSIVE
    assert f"{source.name} is another file here" in said


def test_where_equal_counts_are_not_promised_a_test_decides() -> None:
    """Samples of one law are no evidence; those of two are."""

    def counts(*values: int) -> Integers:
        return Integers(counts={("cell", 0): list(values)}, first={})

    about = {"where": "x", "measured_on": "y", "part": ""}
    same = judge(counts(500, 500), counts(510, 490), {}, "it draws as it likes", **about)
    assert (same.exit, same.sentence.partition(" (")[0]) == (Exit.OK, "NO EVIDENCE of a difference")
    other = judge(counts(500, 500), counts(700, 300), {}, "it draws as it likes", **about)
    assert (other.exit, other.worst) == (Exit.NEGATIVE, "cell")
    assert judge(counts(500, 500), counts(510, 490), {}, "", **about).exit is Exit.NEGATIVE


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda p: p["plan"]["targets"][0].update(lawSha256="0" * 64), Exit.INCONCLUSIVE, "another one here"),
        (lambda p: p["plan"].pop("detect"), Exit.INCONCLUSIVE, "does not rebuild here"),
        (lambda p: p["plan"].update(requests=5), Exit.INCONCLUSIVE, "rebuilds to another one here"),
    ],
    ids=["law", "older plan", "plan"],
)
def test_a_plan_that_is_another_here_is_incomparable(
    change: Callable[[Statement], object], code: Exit, said: str, old: Path, command: Command, tmp_path: Path
) -> None:
    """The receipt of other sources; made by these it would not verify."""

    def age(statement: Statement) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
        change(statement["predicate"])

    got, _, error = command(changed(old, age, tmp_path), "--no-write")
    assert (got, said in error, "the pp3 that made it" in error) == (code, True, True)


def test_counts_are_replayed_where_only_the_battery_is_another(old: Path, command: Command, tmp_path: Path) -> None:
    """The receipt of other sources whose statistics these do not recompute: its plan and laws are the same here."""

    def age(statement: Statement) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
        statement["predicate"]["tests"][0]["g"] = "1"

    path = changed(old, age, tmp_path)
    assert open_receipt(path).unverified.startswith("does not verify here: recompute statistics")
    code, found, _ = command(path, "--slice", "disjoint,4")
    assert (code, found["equal"]) == (Exit.OK, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--slice", "disjiont"], Exit.USAGE, "did you mean disjoint?"),
        (["--slice", "disjoint,5"], Exit.USAGE, "did you mean disjoint,4?"),
        (["--slice", "disjoint", "--out", "x"], Exit.USAGE, "a slice writes no receipt"),
        (["--no-write", "--out", "x"], Exit.USAGE, "--no-write writes no receipt"),
        (["--sampler", "torch-multinomial"], Exit.USAGE, "for the receipt of a trial"),
        (["--device", "cuda"], Exit.UNAVAILABLE, "GPU"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_named(arguments: list[str], code: Exit, said: str, old: Path, command: Command) -> None:
    got, _, error = command(old, *arguments)
    assert (got, said in error) == (code, True), error


@pytest.mark.parametrize("kind", ["oracle", "exhaustive", "survey"])
def test_a_receipt_without_a_seed_has_its_own_way(kind: str, old: Path, command: Command) -> None:
    paths = (ROOT / "receipts" / "evidence" / kind).glob("*.json")
    path = next(p for p in sorted(paths, reverse=True) if canonical.decode(p.read_bytes())["predicate"]["kind"] == kind)
    code, _, error = command(path)
    assert (code, f"kind {kind}" in error) == (Exit.USAGE, True)


def newest_current() -> Path | None:
    """The newest committed receipt of a campaign whose sources are those of this tree."""
    for path in COMMITTED:
        statement = canonical.decode(path.read_bytes())
        if not provenance.stale("qualify", statement["subject"], provenance.TREE):
            return path
    return None


def test_a_slice_of_the_committed_receipt_comes_out_of_the_reference(command: Command) -> None:
    """An H200's counts, on the CPU."""
    path = newest_current()
    if path is None:
        pytest.skip("no committed receipt of a campaign is current: make qualify on a GPU makes one")
    code, found, _ = command(path, "--slice", SLICE)
    assert (code, found["equal"]) == (Exit.OK, True), found["sentence"]


@pytest.mark.soak
def test_the_whole_committed_receipt_comes_out_of_the_reference(command: Command) -> None:
    path = newest_current()
    if path is None:
        pytest.skip("no committed receipt of a campaign is current: make qualify on a GPU makes one")
    code, found, _ = command(path, "--no-write")
    assert (code, found["equal"]) == (Exit.OK, True), found["sentence"]


def test_breaches_are_held_against_a_slice_where_there_were_none(
    old: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted over all parts: of a receipt without any, a part has none."""
    from pp3.harness.samplers import reference as sampler

    real = sampler.ReferenceSampler.run

    def run(self: Any, batch: Any) -> Any:
        emission = copy.copy(real(self, batch))
        emission.status[:1] = reference.FAILED
        return emission

    monkeypatch.setattr(sampler.ReferenceSampler, "run", run)
    code, found, _ = command(old, "--slice", "disjoint,4")
    assert (code, found["equal"]) == (Exit.NEGATIVE, False)
