"""`pp3 qualify --engine`: runs that break off, attempts that were replaced, bad input and its way out."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_runs import models_in, sealed

from pp3.harness import canonical, cli
from pp3.harness.engine import command
from pp3.harness.engine import open as opening
from pp3.harness.engine.command import part_of
from pp3.harness.engine.contract import Answer, Ask, Engine
from pp3.harness.engine.open import open_engine
from pp3.harness.engine.planted import Around
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence.verify import verify
from pp3.harness.report.render import page

TOKENS = ["--tokens", "20000", "--counter", "7"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and its draft model."""
    return models_in(tmp_path_factory.mktemp("models"))


def test_a_run_that_breaks_off_says_so(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a piece is not kept; what was is counted, the rest is asked when it goes on."""
    asked = 0

    def answers(engine: Any, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        nonlocal asked
        for answer in ReferenceEngine.answers(engine, asks, concurrency):
            asked += 1
            if asked > 150:
                raise CampaignError("it is gone")
            yield answer

    monkeypatch.setattr(opening, "ReferenceEngine", type("Gone", (ReferenceEngine,), {"answers": answers}))
    pieces = tmp_path / "pieces"
    served = ["--checkpoint", str(models / "target"), *TOKENS, "--dir", str(pieces), "--out", str(tmp_path / "out")]
    assert cli.run(["qualify", "--engine", "reference", *served]) == Exit.USAGE
    capsys.readouterr()
    assert cli.run(["status", str(pieces)]) == Exit.INCONCLUSIVE
    said = capsys.readouterr().out
    assert "failed (it is gone)" in said
    there = len(list((pieces / "parts").glob("*")))
    assert f"pieces    {there} of" in said
    assert there > 0


class Flaky(Around):
    """Answers everything, some of it only when it is asked again."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.facts = dataclasses.replace(engine.facts, settings={**engine.facts.settings, "retries": "3"})
        self.replaced = {"lost": 0, "refused": 0}

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """See Around."""
        for ask in batch:
            self.replaced["lost"] += ask.number % 500 == 0
            self.replaced["refused"] += ask.number % 100 == 0
        return answers


def test_attempts_that_were_replaced_are_in_the_receipt(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all starts together: pieces keep theirs. The page and the sentence say them, verify holds the verdict."""
    opened: list[Flaky] = []

    def flaky(*given: Any) -> Flaky:
        opened.append(Flaky(open_engine(*given)))
        return opened[-1]

    monkeypatch.setattr(command, "open_engine", flaky)
    served, pieces = ["--checkpoint", str(models / "target")], str(tmp_path / "pieces")
    asked = ["qualify", "--engine", "reference", *served, *TOKENS, "--json", "--dir", pieces]
    assert cli.run([*asked, "--out", str(tmp_path / "one")]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    found = canonical.decode(Path(said["receipt"]).read_bytes())
    p = found["predicate"]
    assert p["replaced"] == opened[0].replaced == said["replaced"]
    assert p["replaced"]["refused"] > p["replaced"]["lost"] > 1
    assert p["sentence"].count(f"{p['replaced']['lost']:,} answers did not come whole and were asked for again") == 1
    assert verify(Path(said["receipt"]), Path(said["receipt"]).read_bytes()).ok
    html = page(Path(said["receipt"]).read_bytes(), found)
    assert f"prompts as token ids; {p['replaced']['lost']} answers did not come whole" in html
    first = next((tmp_path / "pieces" / "parts").glob("stream-*"))
    first.unlink()
    assert cli.run([*asked, "--resume", "--out", str(tmp_path / "two")]) == Exit.OK
    again = json.loads(capsys.readouterr().out)
    assert again["replaced"] == said["replaced"]
    p["replaced"]["lost"] = 10**6
    forged = verify(*sealed(found, tmp_path))
    assert forged.failed is not None
    assert forged.failed.name == "verdict"


BAD: dict[str, tuple[list[str], str]] = {
    "no checkpoint": (["--engine", "reference"], "--engine needs --checkpoint DIR"),
    "an unknown engine": (
        ["--engine", "vllm", "--checkpoint", "TARGET"],
        "give transformers, reference, or an address",
    ),
    "an address without a model": (["--engine", "http://localhost:1", "--checkpoint", "TARGET"], "needs --model NAME"),
    "a folder that is none": (
        ["--engine", "reference", "--checkpoint", "."],
        "give a folder that pp3 checkpoint wrote",
    ),
    "a draft as the target": (["--engine", "reference", "--checkpoint", "DRAFT"], "the target is wanted"),
    "a target as the draft": (
        ["--engine", "reference", "--checkpoint", "TARGET", "--draft-checkpoint", "TARGET"],
        "the draft is wanted",
    ),
    "another's option": (["--engine", "reference", "--sampler", "x"], "--sampler is for samplers"),
    "an option of engines": (["--tokens", "20000"], "--tokens is for a whole engine; name one with --engine"),
    "too few tokens": (["--engine", "reference", "--checkpoint", "TARGET", "--tokens", "5"], "from 20000 to"),
    "another dtype": (["--engine", "reference", "--checkpoint", "TARGET", "--dtype", "int8"], "give float32"),
    "no requests in flight": (["--engine", "reference", "--checkpoint", "TARGET", "--concurrency", "0"], "from 1 to"),
    "resume of nothing": (["--engine", "reference", "--checkpoint", "TARGET", "--resume"], "--resume needs --dir"),
    "processes at an address": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--jobs", "2"],
        "one at an address has --concurrency",
    ),
    "text of no kind": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--prompts", "words"],
        "give ids or text",
    ),
    "a dialect of no kind": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--dialect", "x"],
        "dialect 'x' is unknown",
    ),
    "no time": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--answer-timeout", "0"],
        "timeout 0.0 s",
    ),
    "retries without end": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--retries", "99"],
        "retries 99; give 0 to 20",
    ),
    "an empty key": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--key-file", "/dev/null"],
        "it must hold one line of ASCII",
    ),
    "no key": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--key-file", "TARGET/none"],
        "No such file or directory; give a file that can be read",
    ),
    "text of an engine in process": (
        ["--engine", "reference", "--checkpoint", "TARGET", "--prompts", "text"],
        "--prompts is of an engine at an address; reference has none",
    ),
    "text without an engine": (["--prompts", "text"], "--prompts is for a whole engine; name one with --engine"),
    "nothing listens": (
        ["--engine", "http://localhost:1", "--model", "m", "--checkpoint", "TARGET", "--retries", "0"],
        "connection refused",
    ),
    "a counter": (["--engine", "reference", "--checkpoint", "TARGET", "--counter", "-1"], "--counter -1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_with_the_way_out(name: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is asked or written."""
    given, says = BAD[name]
    places = {"TARGET": str(models / "target"), "DRAFT": str(models / "draft")}
    assert cli.run(["qualify", *(places.get(word, word) for word in given)]) == Exit.USAGE
    assert says in capsys.readouterr().err


def test_a_part_comes_back() -> None:
    """As it was kept."""
    plain = {"breaches": {}, "counts": {"a": [1, 2, 0]}, "exact": {"length": [3, 0]}, "tokens": 5}
    plain["replaced"] = {"lost": 2, "refused": 0}
    assert part_of(json.loads(json.dumps(plain))).plain() == plain
