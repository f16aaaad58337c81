"""The receipt of an engine: written by the command, verified without torch, shown as a page; what is altered shows."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_runs import arguments, models_in, sealed

from pp3.harness import canonical, cli
from pp3.harness.engine.judge import conclude
from pp3.harness.engine.plan import make, of_plan
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import leaves, provenance
from pp3.harness.evidence.engine import found_of
from pp3.harness.evidence.shapes import check_shape
from pp3.harness.evidence.verify import verify
from pp3.harness.outcome import Verdict
from pp3.harness.regression.checks import Change, engine_rows
from pp3.harness.regression.opened import device, requests_of, who
from pp3.harness.report.render import page

TOKENS = ["--tokens", "20000", "--counter", "7"]
Statement = dict[str, Any]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and its draft model."""
    return models_in(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def written(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of one run, in pieces that are kept."""
    out = tmp_path_factory.mktemp("out")
    folder = str(models / "pieces")
    assert cli.run(arguments(models, *TOKENS, "--dir", folder, "--out", str(out / "new"))) == Exit.OK
    return next((out / "new").glob("*.json"))


@pytest.fixture
def statement(written: Path) -> Statement:
    """Of that receipt; fit to be changed."""
    found: Statement = canonical.decode(written.read_bytes())
    return copy.deepcopy(found)


def test_a_receipt_verifies(written: Path) -> None:
    """Every step, without the checkpoint's files; sources are those of this tree."""
    found = verify(written, written.read_bytes(), source=provenance.TREE)
    assert found.ok, found.sentence
    assert (found.verdict, found.current) == ("PASS", "yes")
    assert [step.name for step in found.steps if step.outcome == "ok"] == [
        "bytes",
        "name",
        "shape",
        "plan",
        "laws",
        "recompute counts",
        "recompute statistics",
        "error budget",
        "verdict",
        "non-claims",
        "sources",
    ]


def test_it_holds_no_text_and_binds_what_decides(statement: Statement) -> None:
    """Counts alone; the engine's version, both models' digests, every parameter; the modules of its own adapter."""
    p = statement["predicate"]
    assert set(p["plan"]["checkpoints"]) == {"target", "draft"}
    assert (
        p["plan"]["checkpoints"]["target"]["model.safetensors"]
        != p["plan"]["checkpoints"]["draft"]["model.safetensors"]
    )
    assert {row["name"] for row in p["plan"]["conditions"]} >= {"stream", "top-k", "top-k/plain", "company"}
    assert (p["sampler"]["name"], p["plan"]["declared"]["version"]) == ("pp3-reference", "1")
    bound = {subject["name"] for subject in statement["subject"]}
    assert {"pp3/harness/engine/reference.py", "pp3/harness/engine/judge.py", "pp3/targets/chains.py"} <= bound
    assert "pp3/harness/engine/transformers_engine.py" not in bound
    assert (who(p), device(p)) == ("pp3-reference 1", "a CPU")
    assert requests_of(p) == sum(row["asks"] for row in p["plan"]["conditions"])


def test_every_leaf_has_a_rule(statement: Statement) -> None:
    """And every rule of this kind covers one."""
    check_shape(statement)
    paths = {path for path, _ in leaves.leaves(statement)}
    rules = {leaves.rule_of("engine", path).path for path in paths}
    unused = {rule.path for rule in leaves.RULES["engine"]} - rules
    assert unused <= {"predicate.plan", "predicate.cells[].first", "predicate.breaches", "predicate.reasons"} | {
        rule.path for rule in leaves.EVERY
    }


def at(*keys: str | int) -> Callable[[Statement, Any], None]:
    """Set a leaf of the predicate."""

    def change(statement: Statement, value: Any) -> None:
        place = statement["predicate"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value(place[keys[-1]]) if callable(value) else value

    return change


FORGED: dict[str, tuple[Callable[[Statement, Any], None], Any, str]] = {
    "the verdict": (at("verdict"), "FAIL", "verdict"),
    "a reason": (at("reasons"), ["none"], "verdict"),
    "the sentence": (at("sentence"), "PASS: perfect.", "verdict"),
    "a count": (at("cells", 0, "counts", 0), lambda n: n + 1, "recompute counts"),
    "a forbidden token": (at("cells", 0, "counts"), lambda c: [c[0] - 1, *c[1:-1], c[-1] + 1], "recompute statistics"),
    "a count moved": (at("cells", 0, "counts"), lambda c: [c[0] - 9, c[1] + 9, *c[2:]], "recompute statistics"),
    "a cell's name": (at("cells", 0, "id"), "stream/other", "recompute counts"),
    "a cell's size": (at("cells", 0, "counts"), lambda c: c[:-1], "recompute counts"),
    "a wrong answer": (at("exact", 0, "wrong"), 1, "verdict"),
    "more wrong than compared": (at("exact", 0, "wrong"), 10**6, "recompute counts"),
    "an exact check": (at("exact", 0, "id"), "lengths", "recompute counts"),
    "nothing compared": (at("exact", 1, "compared"), 0, "verdict"),
    "an attempt of an engine that is asked once": (at("replaced", "lost"), 1, "recompute counts"),
    "a negative number of attempts": (at("replaced", "refused"), -1, "shape"),
    "how prompts were sent": (at("plan", "prompts"), "text", "plan"),
    "a breach": (at("breaches"), {"request-not-answered": 1}, "verdict"),
    "an unknown breach": (at("breaches"), {"other": 1}, "recompute counts"),
    "a level": (at("tests", 0, "alpha"), "1e-06", "error budget"),
    "a p-value": (at("tests", 0, "p"), "0.5", "recompute statistics"),
    "the resolution": (at("resolution"), "0.001", "recompute statistics"),
    "a checkpoint's digest": (at("plan", "checkpoints", "target", "config.json"), "0" * 64, "plan"),
    "the tokens of the plan": (at("plan", "tokens"), 30_000, "plan"),
    "the seed": (at("seed", "sha256"), "0" * 64, "plan"),
    "the rule of the seed": (at("seed", "rule"), "any", "plan"),
    "the engine's name": (at("sampler", "name"), "vllm", "plan"),
    "the profile": (at("profile"), "plain", "shape"),
    "a non-claim": (at("nonClaims"), [], "non-claims"),
    "an unknown field": (at("extra"), 1, "shape"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_altered_is_named(name: str, statement: Statement, tmp_path: Path) -> None:
    """By the step that does not hold."""
    change, value, step = FORGED[name]
    if name in ("an unknown field",):
        statement["predicate"]["extra"] = 0
    if name == "how prompts were sent":
        statement["predicate"]["plan"]["prompts"] = "ids"
    change(statement, value)
    found = verify(*sealed(statement, tmp_path))
    assert found.failed is not None
    assert found.failed.name == step, found.sentence


def test_another_checkpoint_under_the_same_plan_is_named(statement: Statement, tmp_path: Path) -> None:
    """A plan that was changed together with its digest and seed, all but the files that the name rebuilds."""
    p = statement["predicate"]
    p["plan"]["checkpoints"]["target"]["config.json"] = "0" * 64
    p["planSha256"] = canonical.sha256(p["plan"])
    from pp3.harness.seeds import Seed

    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    found = verify(*sealed(statement, tmp_path))
    assert found.failed is not None
    assert found.failed.name == "laws"
    p["plan"]["alpha"] = "0.5"
    p["planSha256"] = canonical.sha256(p["plan"])
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    found = verify(*sealed(statement, tmp_path))
    assert found.failed is not None


def test_a_page_shows_it(written: Path, statement: Statement) -> None:
    """The same bytes each time; every condition, every exact check, what was left out, no text of a model."""
    html = page(written.read_bytes(), statement)
    assert html == page(written.read_bytes(), statement)
    for row in statement["predicate"]["plan"]["conditions"]:
        assert row["name"] in html
    for row in statement["predicate"]["exact"]:
        assert row["id"] in html
    for said in (
        "Every check beside its level",
        "Where tokens lie in their laws",
        "The smallest error that each check",
    ):
        assert said in html
    assert "<script" not in html
    assert written.with_suffix(".html").read_text("utf-8") == html


def test_a_failing_page_and_command(statement: Statement, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A receipt that does not verify has a page that says so."""
    statement["predicate"]["cells"][0]["counts"][0] += 1
    path, content = sealed(statement, tmp_path)
    path.write_bytes(content)
    assert cli.run(["report", str(path), "--out", str(tmp_path / "page.html")]) == Exit.NEGATIVE
    assert "does not verify" in capsys.readouterr().err
    assert cli.run(["replay", str(path)]) != Exit.OK


def test_a_resumed_run_has_the_same_counts(models: Path, written: Path, tmp_path: Path) -> None:
    """Pieces that are there are not asked again; those that are gone are, and come to the same."""
    pieces = models / "pieces" / "parts"
    gone = sorted(pieces.glob("to*")) + sorted(pieces.glob("alone*"))
    assert gone
    for part in gone:
        part.unlink()
    there = arguments(models, "--tokens", "20000", "--dir", str(models / "pieces"), "--resume")
    assert cli.run([*there, "--out", str(tmp_path / "out")]) == Exit.OK
    one, other = (
        canonical.decode(path.read_bytes())["predicate"] for path in (written, next((tmp_path / "out").glob("*.json")))
    )
    assert {key for key in one if one[key] != other[key]} == {"attempts", "run"}
    assert other["attempts"] == one["attempts"] + 1


def test_its_folder_says_how_far_it_came(models: Path, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens of each condition, all pieces, the verdict and the receipt."""
    assert written.is_file()
    capsys.readouterr()
    assert cli.run(["status", str(models / "pieces"), "--json"]) == Exit.OK
    [one] = json.loads(capsys.readouterr().out)
    tokens = canonical.decode(written.read_bytes())["predicate"]["tokens"]
    assert (one["standing"], one["unit"], one["tokens"]) == ("done", "tokens", {"done": tokens, "total": tokens})
    assert one["pieces"]["done"] == one["pieces"]["total"] == len(list((models / "pieces" / "parts").glob("*")))
    assert all(cell["done"] == cell["total"] for cell in one["cells"].values())
    assert cli.run(["status", str(models / "pieces")]) == Exit.OK
    said = capsys.readouterr().out
    assert "verdict PASS" in said
    assert f"tokens    {tokens:,} of {tokens:,}" in said


def test_processes_come_to_the_same_counts(models: Path, written: Path, tmp_path: Path) -> None:
    """Two, each with an engine of its own."""
    done = cli.run(arguments(models, *TOKENS, "--jobs", "2", "--json", "--out", str(tmp_path / "out")))
    assert done == Exit.OK
    one, other = (
        canonical.decode(path.read_bytes())["predicate"] for path in (written, next((tmp_path / "out").glob("*.json")))
    )
    assert {key for key in one if one[key] != other[key]} <= {"run"}


def test_how_prompts_were_sent_is_planned(statement: Statement) -> None:
    """As text it is another plan, that a receipt rebuilds; as token ids it is the plan of receipts before it."""
    ids = of_plan(statement["predicate"]["plan"])
    text = make(msgspec.structs.replace(ids.spec, prompts="text"), ids.facts)
    assert "prompts" not in ids.plain
    assert text.plain["prompts"] == "text"
    assert of_plan(text.plain).sha256 == text.sha256 != ids.sha256
    with pytest.raises(CampaignError, match="--prompts 'words': it must be one of ids, text"):
        make(msgspec.structs.replace(ids.spec, prompts="words"), ids.facts)


def test_more_lost_than_the_resolution_decides_nothing(statement: Statement) -> None:
    """An engine that loses the answers that show it wrong must not pass by it."""
    plan = of_plan(statement["predicate"]["plan"])
    found = found_of(plan, statement["predicate"])
    most = int(plan.resolution * sum(condition.asks for condition in plan.conditions))
    for lost, verdict in ((most, Verdict.PASS), (most + 1, Verdict.INCONCLUSIVE)):
        judged = conclude(plan, found.counts, found.exact, found.breaches, {"lost": lost, "refused": 10**9})
        assert judged.verdict is verdict
        assert (f"{lost:,} answers of" in " ".join(judged.reasons)) == (verdict is Verdict.INCONCLUSIVE)


def test_two_receipts_are_compared(
    written: Path, statement: Statement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check by check; no counts are promised to be equal, whatever the seed."""
    assert cli.run(["compare", str(written), str(written)]) == Exit.OK
    said = capsys.readouterr().out
    assert "NO REGRESSION: nothing is worse" in said
    assert "and so is every count" not in said
    worse = copy.deepcopy(statement["predicate"])
    worse["exact"][0]["wrong"] = 1
    worse["tests"][0]["detectable"] = "0.5"
    rows = {row.id: row for row in engine_rows(statement["predicate"], worse)}
    assert rows["length"].change is Change.WORSE
    assert rows[worse["tests"][0]["id"]].change is Change.WEAKER
    assert cli.run(["report", str(written), str(written), "--out", str(tmp_path / "two.html")]) != Exit.INTERNAL


def test_other_readers_know_the_kind(models: Path, written: Path, tmp_path: Path) -> None:
    """JUnit has a case a check, histories and indexes a row; pieces of an engine are not merged."""
    junit = tmp_path / "found.xml"
    assert cli.run(["report", str(written), "--junit", str(junit)]) == Exit.OK
    text = junit.read_text("utf-8")
    predicate = canonical.decode(written.read_bytes())["predicate"]
    for row in predicate["tests"] + predicate["exact"]:
        assert f'name="{row["id"]}"' in text
    assert cli.run(["history", str(written.parent)]) == Exit.OK
    assert cli.run(["report", str(written.parent), "--out", str(tmp_path / "index.html")]) == Exit.OK
    assert cli.run(["merge", str(models / "pieces")]) == Exit.USAGE
