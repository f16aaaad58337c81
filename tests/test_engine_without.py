"""A parameter that the user leaves out: no request has it, and receipt, page and terminal say so."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.engine import checkpoint
from pp3.harness.engine.contract import Answer, Ask
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.errors import Exit

NAME = "chain-256"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target alone."""
    folder = tmp_path_factory.mktemp("model") / "target"
    checkpoint.write(NAME, "target", folder)
    return folder


def qualify(model: Path, out: Path, *more: str) -> int:
    """Judge the reference engine at the fewest tokens."""
    asked = ["qualify", "--engine", "reference", "--checkpoint", str(model), "--tokens", "20000", "--counter", "5"]
    return cli.run([*asked, "--out", str(out), *more])


def test_no_request_has_it_and_everything_says_so(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine that dies of top-k, and of nothing else, is judged by the rest."""
    answers = ReferenceEngine.answers

    def dying(engine: ReferenceEngine, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        if any(ask.top_k for ask in asks):
            raise RuntimeError("max of an empty tensor")
        yield from answers(engine, asks, concurrency)

    monkeypatch.setattr(ReferenceEngine, "answers", dying)
    assert qualify(model, tmp_path / "whole") == Exit.INTERNAL
    capsys.readouterr()
    assert qualify(model, tmp_path / "rest", "--without", "top_k", "--without", "logit_bias") == Exit.OK
    said = capsys.readouterr().out
    assert "left out       logit_bias, top_k, by --without" in said
    assert "not applicable top-k: top_k is left out by --without" in said
    (receipt,) = (tmp_path / "rest").glob("*.json")
    predicate = json.loads(receipt.read_bytes())["predicate"]
    declared = predicate["plan"]["declared"]
    assert declared["settings"]["left out"] == "logit_bias, top_k"
    assert not {"top_k", "logit_bias"} & set(declared["supports"])
    assert cli.run(["verify", str(receipt), "--require-verdict", "PASS"]) == Exit.OK
    assert "No request had logit_bias, top_k" in receipt.with_suffix(".html").read_text()


def test_one_that_is_not_offered_is_refused_with_what_is(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert qualify(model, tmp_path / "out", "--without", "topk") == Exit.USAGE
    said = capsys.readouterr().err
    assert "--without topk: pp3-reference has abort_after, logit_bias" in said
    assert not list((tmp_path / "out").glob("*.json"))


def test_it_is_for_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["qualify", "--without", "top_k"]) == Exit.USAGE
    assert "--without is for a whole engine; name one with --engine" in capsys.readouterr().err


def test_an_engine_without_seeds_is_judged_by_its_laws(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert qualify(model, tmp_path / "out", "--without", "seed") == Exit.OK
    said = capsys.readouterr().out
    assert "not applicable replay: seed is left out by --without" in said
