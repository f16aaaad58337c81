"""transformers in process: the real thing where it is installed, with the faults that were reported of it planted."""

import hashlib
import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.engine import checkpoint, planted
from pp3.harness.engine.asks import pieces
from pp3.harness.engine.contract import Ask, Engine, Finish
from pp3.harness.engine.judge import Judgement, conclude
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, make
from pp3.harness.engine.run import Runner, reseed
from pp3.harness.engine.tally import Found
from pp3.harness.engine.transformers_engine import GENERATORS, TransformersEngine, cut
from pp3.harness.errors import Exit
from pp3.harness.seeds import Seed

REAL = find_spec("transformers") is not None
NAME = "chain-64"
EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "transformers_padding.py"
real = pytest.mark.skipif(not REAL, reason="transformers is no dependency; with pip install pp3[engine] they run")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and its draft model."""
    folder = tmp_path_factory.mktemp("models")
    for role in checkpoint.ROLES:
        checkpoint.write(NAME, role, folder / role)
    return folder


@pytest.fixture
def assisted(models: Path) -> TransformersEngine:
    """With an assistant model."""
    return TransformersEngine(models / "target", models / "draft")


@pytest.fixture
def plain(models: Path) -> TransformersEngine:
    """Without."""
    return TransformersEngine(models / "target", None)


def judged(engine: Engine, test: str, only: Sequence[str]) -> tuple[Found, Judgement]:
    """Some conditions, with the seed of a test."""
    plan = make(EngineSpec(target=NAME, draft=engine.facts.speculative, tokens=LEAST_TOKENS), engine.facts)
    seed = Seed.of(plan.sha256, int.from_bytes(hashlib.sha256(test.encode()).digest()[:6], "little"))
    reseed(getattr(engine, "engine", engine), seed)
    runner, found = Runner(plan, seed, engine), Found()
    for piece in pieces(plan):
        if piece.condition.name in only:
            found.add(runner.run(piece))
    return found, conclude(plan, found.counts, found.exact, found.breaches, found.replaced)


def failed(found: Found, verdict: Judgement) -> set[str]:
    """Names of the checks that failed."""
    exact = {name for name, (_, wrong) in found.exact.items() if wrong}
    return exact | {test.id for test in verdict.tests if test.outcome == "fail"}


@real
def test_plain_generation_passes(plain: TransformersEngine, request: pytest.FixtureRequest) -> None:
    """Filters, stops, greedy, log-probabilities, neighbours that hang up: a few tokens of each."""
    names = ["starts", "top-k", "top-p", "min-p", "bias", "penalty", "penalty-end", "company", "churn", "aborted"]
    found, verdict = judged(plain, request.node.nodeid, [*names, "end", "stop", "greedy", "logprobs"])
    assert failed(found, verdict) == set()
    assert found.breaches == {}
    assert found.exact["logprobs/tolerance"][0] == 128 * 24


@real
def test_assisted_generation_passes(assisted: TransformersEngine, request: pytest.FixtureRequest) -> None:
    """Steps are told, greedy answers equal those without drafts, a seed repeats."""
    found, verdict = judged(assisted, request.node.nodeid, ["top-k", "end", "greedy"])
    assert failed(found, verdict) == set()
    assert found.exact["greedy/paths"] == [59, 0]
    [answer] = assisted.answers([Ask(number=1, prompt=(1,), length=40)], 1)
    assert answer.steps is not None
    assert (sum(answer.steps), max(answer.steps) > 1) == (40, True)
    twice = [next(assisted.answers([Ask(number=n, prompt=(1,), length=20, seed=5)], 1)).tokens for n in (1, 2)]
    assert twice[0] == twice[1]


@pytest.mark.gpu
@real
def test_both_paths_pass_on_a_gpu(models: Path, request: pytest.FixtureRequest) -> None:
    """The receipt names the device; a seed repeats there too."""
    plain = TransformersEngine(models / "target", None, device="cuda")
    assert plain.facts.settings["device"] == plain.torch.cuda.get_device_name(0)
    assert plain.model.lm_head.weight.device.type == "cuda"
    names = ["starts", "top-k", "top-p", "min-p", "bias", "company", "churn", "aborted", "end", "stop"]
    found, verdict = judged(plain, request.node.nodeid, [*names, "greedy", "logprobs"])
    assert failed(found, verdict) == set()
    assert found.breaches == {}
    assisted = TransformersEngine(models / "target", models / "draft", device="cuda")
    found, verdict = judged(assisted, request.node.nodeid, ["end", "greedy"])
    assert failed(found, verdict) == set()
    assert found.exact["greedy/paths"] == [59, 0]
    twice = [next(assisted.answers([Ask(number=n, prompt=(1,), length=20, seed=5)], 1)).tokens for n in (1, 2)]
    assert twice[0] == twice[1]


class RawDrafts(TransformersEngine):
    """Drafts are drawn from the filtered law, and the raw one is handed to the verifier (transformers issue 47932)."""

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Any]:
        """See the contract."""
        kind = importlib.import_module(GENERATORS).AssistedCandidateGenerator
        honest = kind._generate_candidates

        def raw(generator: Any, arguments: Any) -> Any:
            ids, logits = honest(generator, arguments)
            out = generator.assistant_model(ids).logits[:, -logits.shape[1] - 1 : -1].float()
            return ids, out

        kind._generate_candidates = raw
        try:
            yield from super().answers(asks, concurrency)
        finally:
            kind._generate_candidates = honest


@real
def test_raw_drafts_are_caught(models: Path, request: pytest.FixtureRequest) -> None:
    """K1-002, in the real engine, at 2,048 tokens under top-k; without a filter it changes nothing."""
    engine = RawDrafts(models / "target", models / "draft")
    found, verdict = judged(engine, request.node.nodeid, ["top-k", "end"])
    assert "top-k/tilt" in failed(found, verdict)
    assert failed(found, verdict) <= {"top-k/tilt", "top-k/rank", "top-k/token"}


@real
@pytest.mark.parametrize(
    ("kind", "condition", "check"),
    [
        (planted.RowOrder, "stream", "stream/token"),
        (planted.Padding, "starts", "starts/position-0"),
        (planted.FirstParameters, "company", "company/warm/rank"),
        (planted.NoEnd, "end", "end/after"),
        (planted.ShiftedLogprobs, "logprobs", "logprobs/tolerance"),
    ],
    ids=["row order", "padding", "the first one's parameters", "no end", "log-probabilities"],
)
def test_faults_around_it_are_caught(
    kind: type[planted.Around], condition: str, check: str, plain: TransformersEngine, request: pytest.FixtureRequest
) -> None:
    """What a runner does to requests and answers of the real engine."""
    found, verdict = judged(kind(plain), request.node.nodeid, [condition])
    assert check in failed(found, verdict)


@real
def test_rows_keep_their_own_lengths(plain: TransformersEngine) -> None:
    """In one batch: different prompts, lengths, and a caller who hangs up."""
    asks = [
        Ask(number=1, prompt=(1, 2, 3), length=7),
        Ask(number=2, prompt=(4,), length=3),
        Ask(number=3, prompt=(5, 6), length=9, abort_after=2),
    ]
    found = {answer.number: answer for answer in plain.answers(asks, 8)}
    assert {number: len(answer.tokens) for number, answer in found.items()} == {1: 7, 2: 3, 3: 2}
    assert {number: answer.finish for number, answer in found.items()} == {
        1: Finish.LENGTH,
        2: Finish.LENGTH,
        3: Finish.ABORTED,
    }


@real
def test_text_and_ids_are_one_another_s(models: Path) -> None:
    """The tokenizer of a checkpoint: one word an id, both ways, nothing added."""
    package = importlib.import_module("transformers")
    tokenizer = package.AutoTokenizer.from_pretrained(str(models / "target"))
    assert tokenizer("t5 t63 t0")["input_ids"] == [5, 63, 0]
    assert tokenizer.decode([5, 63, 0]) == "t5 t63 t0"
    assert tokenizer.eos_token_id == 63


@real
def test_the_example_of_padding_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/examples/transformers_padding.py: alone the law holds in every version, to 5 sd of 20,000 draws."""
    monkeypatch.setattr("sys.argv", ["transformers_padding.py", "1"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    law, alone, padded = (float(line.split()[at]) for line, at in zip(_lines(capsys), (-1, -3, -3), strict=True))
    assert abs(alone - law) < 5 * (law * (1 - law) / 20_000) ** 0.5
    assert padded < 1


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the example printed of shares."""
    return capsys.readouterr().out.splitlines()[-3:]


@pytest.mark.parametrize(
    ("steps", "length", "found"),
    [((3, 2), 5, (3, 2)), ((3, 2), 4, (3, 1)), ((3, 2), 3, (3,)), ((), 0, ())],
)
def test_steps_are_cut_to_the_answer(steps: tuple[int, ...], length: int, found: tuple[int, ...]) -> None:
    """The last step may have emitted more than was asked for."""
    assert cut(steps, length) == found


def test_without_transformers_it_says_so(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """69, and what to install."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "transformers", None)
        given = ["qualify", "--engine", "transformers", "--checkpoint", str(models / "target"), "--tokens", "20000"]
        assert cli.run(given) == Exit.UNAVAILABLE
    assert "pip install pp3[engine]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('huggingface-hub<2.0 is required\\nTry: pip')", "huggingface-hub<2.0 is required; install"),
        ("import no_such_tokenizers", "no_such_tokenizers is not installed"),
    ],
)
def test_a_package_that_does_not_load_is_told(
    text: str,
    said: str,
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With packages that it does not take, or without one that it needs."""
    (tmp_path / "transformers.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    asked = [
        "qualify",
        "--engine",
        "transformers",
        "--checkpoint",
        str(models / "target"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert cli.run(asked) == Exit.UNAVAILABLE
    assert said in capsys.readouterr().err
