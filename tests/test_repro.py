"""Repro: the written scripts show their failures in a bare Python, and stop showing them when the failure is gone."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wrong_samplers import FAULTS, Wrong, wrong_tokens

from pp3.harness import canonical, cli
from pp3.harness.campaign import of_document, of_plan, plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.regression import offender, script
from pp3.harness.regression.offender import Offender, first_offender, span_of
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run
from pp3.kernels import reference

SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}
SAID = re.compile(r"\bp = ([0-9.e-]+), level ([0-9.e-]+)")
LINES = 40  # of a request's script, laws of 32 tokens and more among them
Predicate = dict[str, Any]


def bare(path: Path) -> tuple[int, str]:
    """Run a script in a Python that sees nothing of this tree: its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, "-I", str(path)], cwd="/", env={}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def failing(receipt_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The receipt of a campaign under each planted fault."""
    found = {}
    for name, (function, wrong) in FAULTS.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reference, function, wrong)
            found[name] = receipt_of(of_document(SMALL, "a test"), tmp_path_factory.mktemp(name), 3)
    return found


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a trial that fails."""
    sampler = Wrong()
    planned = make(TrialSpec(sampler="wrong", targets=["far", "whole", "void"]), sampler.describe(), "test")
    measured = run(planned, sampler, Seed.of(planned.plan_sha256, 7), "cpu", lambda *_: None)
    sources = Sources([["a.py", "0" * 64]], {})
    one = Found(trial=planned, device=identity("cpu"), measured=measured, sources=sources)
    statement = trial_receipt.build(one, 7, "given", datetime.now(UTC), trial_receipt.judge(one))
    return receipt.write(statement, tmp_path_factory.mktemp("trial"))


def predicate(path: Path) -> Predicate:
    """What a receipt claims."""
    found: Predicate = canonical.decode(path.read_bytes())["predicate"]
    return found


def written(path: Path, check: str, folder: Path) -> Path:
    """The script of a check, by the command."""
    out = folder / f"{check.replace('/', '-')}.py"
    assert cli.run(["repro", str(path), "--check", check, "--out", str(out)]) == Exit.OK
    return out


def by_statistic(path: Path) -> dict[str, dict[str, Any]]:
    """Of each method, the checks that failed without a forbidden outcome: the two smallest and the largest p-value."""
    tests = [test for test in predicate(path)["tests"] if test["outcome"] == "fail" and not test["forbidden"]]
    found: dict[str, dict[str, Any]] = {}
    for method in {test["method"] for test in tests}:
        ranked = sorted((test for test in tests if test["method"] == method), key=lambda test: float(test["p"]))
        found |= {test["id"]: test for test in [*ranked[:2], ranked[-1]]}
    return found


@pytest.mark.parametrize("which", ["residuals", "drafts", "trial"])
def test_a_statistic_comes_out_again(which: str, failing: dict[str, Path], trial: Path, tmp_path: Path) -> None:
    """The script's own p-value is the receipt's to its six digits, and it exits 1."""
    path = trial if which == "trial" else failing[which]
    chosen = by_statistic(path)
    assert chosen
    for check, test in chosen.items():
        code, printed = bare(written(path, check, tmp_path))
        said = SAID.search(printed)
        assert said is not None, printed
        assert code == 1
        # Six digits of p there; here lgamma of up to 1e5 loses 1e5 * 2^-52 * 1e6, and 1 - tail 1e-16 absolutely.
        assert float(said[1]) == pytest.approx(float(test["p"]), rel=2e-5, abs=1e-15)
        assert float(said[2]) == pytest.approx(float(test["alpha"]), rel=1e-5)
        assert "expected" in printed


def test_every_method_was_met(failing: dict[str, Path], trial: Path) -> None:
    """Of those that can fail here: repeats have their own test."""
    paths = [failing["residuals"], failing["drafts"], trial]
    assert {test["method"] for path in paths for test in by_statistic(path).values()} == {
        "g",
        "binomial",
        "rare",
        "fit",
    }


def test_a_forbidden_token_is_followed_to_its_request(failing: dict[str, Path], tmp_path: Path) -> None:
    """Key, counter, inputs, expected and got: without the fault the script's own draw is another token."""
    path = failing["tokens"]
    for test in [test for test in predicate(path)["tests"] if test["forbidden"]][:4]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reference, "_emit", wrong_tokens)
            out = written(path, test["id"], tmp_path)
        code, printed = bare(out)
        text = out.read_text("utf-8")
        assert code == 1
        assert f"PP3 receipt sha256 {path.stem.rpartition('-')[2]}" in text
        assert re.search(r"KEY, ROUND, POSITION = 0x[0-9a-f]{16}, \d+, \d+", text)
        found = re.fullmatch(r"token \d: expected \((\d+), False\), got \((\d+), False\)\n", printed)
        assert found is not None, printed
        assert (int(found[1]) + 1 - int(found[2])) % 97 == 0  # what the fault does
        assert re.findall("import.*", text) == ["import accumulate"]
        assert len(text.splitlines()) <= LINES


def ended(text: str) -> Any:
    """The exit code of a script that is run here."""
    with pytest.raises(SystemExit) as end:
        exec(compile(text, "script", "exec"), {"print": lambda *_: None})
    return end.value.code


def altered(right: Offender) -> list[Offender]:
    """The same request drafted, emitted or ended otherwise."""
    found = [
        replace(right, proposed=[*right.proposed[:-1], right.proposed[-1] + 1]),
        replace(right, tokens=[*right.tokens[:-1], right.tokens[-1] + 1]),
    ]
    if len(right.tokens) > 1:
        found.append(replace(right, tokens=right.tokens[:-1]))
    if len(right.tokens) < 5:
        found.append(replace(right, tokens=[*right.tokens, 0]))
    return found


def test_the_walk_of_the_script_is_the_reference(tmp_path: Path) -> None:
    """Of requests without a fault every script finds what was emitted: drafts, and each kind of token."""
    campaign = of_document(SMALL | {"targets": ["equal-q", "invalidated", "context"]}, "a test")
    seed = Seed.of(plan_sha256(campaign), 1)
    lengths, void = set(), 0
    for target in campaign.targets:
        first, _ = span_of(campaign, target.name, 4, 3)
        for request in range(first, first + 40):
            found = offender._of_request(target, 4, 3, seed, request)
            lengths.add(len(found.tokens))
            void += found.drafts[len(found.tokens) - 1 :][:1] == [-1]
            texts = list(script.of_request(["a request"], found))
            assert len(texts) == 4 + len(found.tokens)
            assert [ended(text) for text in texts] == [0] * len(texts), request
            for wrong in altered(found):
                codes = [ended(text) for text in script.of_request(["a request"], wrong)]
                assert codes.count(1) >= 1, (request, wrong)
    out = tmp_path / "last.py"
    out.write_text(texts[-1], "utf-8")
    assert lengths == {1, 2, 3, 4, 5}
    assert void
    assert bare(out)[0] == 0


def test_a_fault_that_the_reference_does_not_have_is_shown_by_its_counts(
    failing: dict[str, Path], tmp_path: Path
) -> None:
    """As of kernels on a GPU that emit what the reference does not: no request is found, the outcomes are listed."""
    path = failing["tokens"]
    check = next(test["id"] for test in predicate(path)["tests"] if test["forbidden"])
    code, printed = bare(written(path, check, tmp_path))
    assert code == 1
    assert "expected 0, got " in printed


def test_the_first_request_is_the_first(failing: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by halving, and by looking at every request from the beginning."""
    p = predicate(failing["tokens"])
    campaign, seed = of_plan(p["plan"]), Seed.of(p["planSha256"], p["seed"]["counter"])
    stray = next(stray for stray in p["strays"] if "/token/" in stray["cell"])
    monkeypatch.setattr(reference, "_emit", wrong_tokens)
    found = first_offender(campaign, seed, stray["cell"], stray["batch"], stray["outcome"])
    assert found is not None
    name, _, _, position, _ = stray["cell"].split("/")
    at = int(position.removeprefix("position-"))
    first, end = span_of(campaign, name, 4, stray["batch"])
    target = next(target for target in campaign.targets if target.name == name)
    emission = ReferenceSampler().run(sampled_batch(target, 4, stray["batch"], seed, first, end))
    judged = (emission.num_sampled > at) & (emission.drafts[:, min(at, 3)] >= 0)
    hits = np.flatnonzero(judged & (emission.tokens[:, at] == stray["outcome"]))
    assert found.request == first + int(hits[0])


def test_a_script_stops_when_the_deviation_is_gone(tmp_path: Path) -> None:
    """Counts that follow the law, and counts that do not, by each way of judging."""
    about = ["a check"]
    cells = [[(1, 500), (1, 500)], [(3, 300), (1, 100)]]
    far = [[(1, 900), (1, 100)], [(3, 300), (1, 100)]]
    scripts = {
        "g": (script.deviation(about, "1e-08", cells), script.deviation(about, "1e-08", far)),
        "fit": (
            script.fit(about, "1e-04", [[(1, 515), (1, 485)]] * 9),
            script.fit(about, "1e-04", [[(1, 500), (1, 500)]] * 9),  # too good
        ),
        "binomial": (
            script.one_outcome(about, "1e-08", 1, 1, 2, 510, 1000),
            script.one_outcome(about, "1e-08", 1, 1, 2, 610, 1000),
        ),
        "rare": (
            script.one_outcome(about, "1e-08", 100, 1, 1 << 24, 1, 1000),
            script.one_outcome(about, "1e-08", 100, 1, 1 << 24, 4, 1000),
        ),
        "repeat": (script.repeats(about, "1e-08", 1000, 0), script.repeats(about, "1e-08", 1000, 3)),
        "forbidden": (script.forbidden(about, []), script.forbidden(about, [("cell", 7, 1)])),
    }
    for name, texts in scripts.items():
        for code, text in enumerate(texts):
            path = tmp_path / f"{name}-{code}.py"
            path.write_text(text, "utf-8")
            assert bare(path)[0] == code, name


def test_a_script_is_short(failing: dict[str, Path], tmp_path: Path) -> None:
    """Some 20 lines and the law."""
    for check in by_statistic(failing["residuals"]):
        text = written(failing["residuals"], check, tmp_path).read_text("utf-8")
        code = [line for line in text.splitlines() if line and not line.startswith(("#", "    [", "    (", "    (("))]
        assert len(code) <= 45, check
        assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--check", "invalidated/depth-4/residual/position-9"],
            Exit.USAGE,
            "did you mean invalidated/depth-4/",
        ),
        ([], Exit.USAGE, "say which check: --check ID; in this receipt those that fail: "),
        (["--check", "nothing"], Exit.USAGE, "those that fail: "),
        (["--check", "disjoint/depth-4/proposal/position-0"], Exit.USAGE, "its outcome is pass"),
    ],
    ids=["near", "none", "far", "passes"],
)
def test_bad_input_is_named(
    arguments: list[str], code: Exit, said: str, failing: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["repro", str(failing["residuals"]), *arguments]) == code
    assert said in capsys.readouterr().err


def test_nothing_is_overwritten(
    failing: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default name is that of the check, in the current folder."""
    monkeypatch.chdir(tmp_path)
    check = "invalidated/depth-4/token/position-0"
    assert cli.run(["repro", str(failing["residuals"]), "--check", check]) == Exit.OK
    assert [path.name for path in tmp_path.iterdir()] == ["repro-invalidated-depth-4-token-position-0.py"]
    assert cli.run(["repro", str(failing["residuals"]), "--check", check]) == Exit.USAGE
    assert "exists already" in capsys.readouterr().err
