"""The adapter over a real socket to our own server, in a process of its own: what is answered, told and refused."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acted_server import TWO, acting

from pp3.harness.engine.completions import CompletionsEngine, connect
from pp3.harness.engine.contract import Ask, Finish
from pp3.harness.engine.model import load
from pp3.harness.engine.runner import Emitted, Runner
from pp3.harness.errors import CampaignError
from pp3.targets.target import ONE

CHAIN, DEPTH = load("chain-64"), 3
ROOT = Path(__file__).resolve().parents[1]


def asks(count: int, length: int, seed: int, **more: Any) -> list[Ask]:
    """Requests after ordinary tokens, each with a seed of its own."""
    return [Ask(number=i, prompt=(7 * i % 59,), length=length, seed=seed + i, **more) for i in range(count)]


def in_process(plan: Sequence[Ask]) -> list[list[Emitted]]:
    """What our own engine gives each request, by step."""
    runner, got = Runner(CHAIN, slots=3, depth=DEPTH), [list[Emitted]() for _ in plan]
    for ask, steps in zip(plan, got, strict=True):
        runner.submit(ask, steps.append)
    while runner.step():
        pass
    return got


def tokens_of(got: list[list[Emitted]]) -> list[tuple[int, ...]]:
    """The tokens of each answer."""
    return [tuple(token for step in steps for token in step.tokens) for steps in got]


def served(*options: str) -> Iterator[str]:
    """Our own server in a process of its own; its URL."""
    command = [sys.executable, "-P", "-m", "pp3.harness.engine.server", "--target", "chain-64", "--model", "toy"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A sound server, speculating."""
    yield from served("--depth", str(DEPTH), "--slots", "4", "--seed", "6")


def own(url: str, **more: Any) -> CompletionsEngine:
    """Our own server through the adapter."""
    engine = connect(url, "toy", CHAIN.vocab, speculate=True, **{"timeout_s": 60.0, **more})
    assert isinstance(engine, CompletionsEngine)
    return engine


def test_an_answer_over_the_wire_is_the_one_in_process(url: str) -> None:
    plan = [
        *asks(5, 40, 11),
        *(
            replace(ask, number=ask.number + 5)
            for ask in asks(5, 30, 70, temperature=0.7, top_k=9, top_p=0.9, min_p=0.05)
        ),
        Ask(number=10, prompt=(2, 9), length=25, seed=5, logit_bias={4: 2.0, 9: -3.0}, repetition_penalty=1.2),
        Ask(number=11, prompt=(60,), length=25, seed=5, ignore_eos=False),
        Ask(number=12, prompt=(1,), length=50, seed=8, stop=(3, 17)),
        Ask(number=13, prompt=(1,), length=20, seed=-8, speculate=False),
        Ask(number=14, prompt=(1,), length=20, temperature=0.0, seed=0),
    ]
    wanted = in_process(plan)
    engine = own(url)
    for concurrency in (1, 6):
        answers = {answer.number: answer for answer in engine.answers(plan, concurrency)}
        assert sorted(answers) == list(range(len(plan)))
        assert [answers[n].tokens for n in range(len(plan))] == tokens_of(wanted)
        assert [answers[n].finish for n in range(len(plan))] == [parts[-1].finish for parts in wanted]
        for number in (0, 1, 2, 3, 4):
            assert answers[number].steps == tuple(len(step.tokens) for step in wanted[number])
        assert answers[13].steps is None
        assert answers[0].logprobs is None
    assert sum(engine.replaced.values()) == 0
    engine.close()


def test_log_probabilities_come_with_their_tokens(url: str) -> None:
    for answer in own(url).answers(asks(3, 12, 4, logprobs=2), 3):
        before = [7 * answer.number % 59, *answer.tokens][:-1]
        assert answer.logprobs is not None
        np.testing.assert_allclose(
            answer.logprobs, np.log(CHAIN.weights[CHAIN.class_of[before], list(answer.tokens)] / ONE), rtol=1e-12
        )


def test_a_caller_that_hangs_up_leaves_its_slot_and_its_neighbours(url: str) -> None:
    plan = asks(9, 60, 21)
    wanted = tokens_of(in_process(plan))
    leaving = [replace(ask, abort_after=7, length=5000) if ask.number % 3 == 0 else ask for ask in plan]
    for answer in own(url).answers(leaving, 4):
        if answer.number % 3 == 0:
            assert answer.finish is Finish.ABORTED
            assert answer.tokens == wanted[answer.number][:7]
        else:
            assert (answer.finish, answer.tokens) == (Finish.LENGTH, wanted[answer.number])


def test_a_stream_that_ends_before_the_caller_leaves_is_whole(url: str) -> None:
    (answer,) = own(url).answers([Ask(number=0, prompt=(4,), length=5, seed=3, abort_after=50, logprobs=0)], 1)
    assert (answer.finish, len(answer.tokens), len(answer.logprobs or ())) == (Finish.LENGTH, 5, 5)


def test_what_is_served_is_told(url: str) -> None:
    facts = own(url).facts
    assert (facts.name, facts.version, facts.vocab, facts.speculative) == ("pp3 over HTTP", "1", 64, True)
    tried = {"retries": "3", "timeout": "60 s", "speculates": "yes"}
    assert facts.settings == {"model": "toy", "target": "chain-64", "slots": "4", "depth": str(DEPTH), **tried}
    assert {"speculate", "steps", "seed", "stop"} <= facts.supports
    assert facts.filters == "vllm-torch"
    assert facts.replays == {"alone", "batch", "order", "slot"}
    for plain in served("--depth", "0"):
        assert not {"speculate", "steps"} & connect(plain, "toy", 64, speculate=False).facts.supports


def metrics(content: bytes, speculate: bool) -> str:
    """What is settled of an engine whose counters read so."""
    with acting() as actor:
        actor.fixed["/metrics"] = content
        return connect(actor.url, "toy", 64, speculate=speculate).facts.settings["speculates"]


def test_speculation_that_is_told_is_held_against_what_is_said(url: str) -> None:
    with pytest.raises(CampaignError, match="it speculates; name its draft model with --draft-checkpoint"):
        connect(url, "toy", 64, speculate=False)
    for plain in served("--depth", "0"):
        with pytest.raises(CampaignError, match="it does not speculate; start it with its draft model"):
            connect(plain, "toy", 64, speculate=True)
    assert metrics(b"vllm:num_requests_running 0\nvllm:spec_decode_num_drafts_total 0\n", True) == "yes"
    assert metrics(b"vllm:num_requests_running 0\n", False) == "no"
    assert metrics(b"process_cpu_seconds_total 1\n", True) == "not told"
    with pytest.raises(CampaignError, match="does not speculate"):
        metrics(b"vllm:num_requests_running 0\n", True)


TEXTS = {f"t{token}": token for token in range(64)}


def test_prompts_as_text_are_the_same_requests(url: str) -> None:
    plan = [Ask(number=n, prompt=tuple(range(n, 3 * n + 1)), length=20, seed=n) for n in range(5)]
    plan += [replace(ask, number=ask.number + 5, length=400, abort_after=6) for ask in plan]
    by_ids, by_text = (
        {answer.number: answer.tokens for answer in own(url, **more).answers(plan, 4)}
        for more in ({}, {"prompts": "text", "texts": TEXTS})
    )
    assert by_ids == by_text


def test_a_planted_fault_is_served() -> None:
    for address in served("--depth", str(DEPTH), "--fault", "nothing-stops"):
        answers = list(own(address).answers([Ask(number=0, prompt=(1,), length=300, seed=1, stop=tuple(range(30)))], 1))
        assert [len(answer.tokens) for answer in answers] == [300]


def test_a_runner_that_is_told_too_little_is_refused() -> None:
    command = [sys.executable, "-P", "-m", "pp3.harness.engine.server", "--target", "chain-64", "--fault", "past-stop"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 2
    assert "give --depth 1 or more" in done.stderr
    with pytest.raises(CampaignError, match="is no Markov chain"):
        load("disjoint")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "best-of": ({"best_of": 2}, "best_of is not known"),
    "no-prompt": ({"prompt": []}, "the prompt is empty"),
    "token-outside": ({"prompt": [64]}, "prompt must be token ids from 0 to 63"),
    "text-outside": ({"prompt": "t5 x"}, "prompt must be token ids"),
    "no-length": ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1"),
    "top-p": ({"top_p": 0}, "top_p must be a number from"),
    "temperature": ({"temperature": True}, "temperature must be a number"),
    "bias": ({"logit_bias": {"a": 1}}, "logit_bias must be"),
    "model": ({"model": "other"}, "the model 'other' does not exist"),
}


@pytest.mark.parametrize(("changed", "said"), REFUSED.values(), ids=REFUSED)
def test_our_server_refuses_what_it_would_not_obey(url: str, changed: dict[str, Any], said: str) -> None:
    engine = own(url)

    class Odd:
        """Our dialect with one thing changed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(dialect, name)

        def body(self, ask: Ask, model: str) -> dict[str, Any]:
            return {**dialect.body(ask, model), **changed}

    dialect = engine._dialect
    engine._dialect = Odd()
    with pytest.raises(CampaignError, match=said):
        list(engine.answers([TWO], 1))


def test_a_caller_that_stops_listening_ends_what_is_in_flight(url: str) -> None:
    engine = own(url)
    answers = engine.answers([replace(ask, length=4 if ask.number == 0 else 10**6) for ask in asks(3, 4, 1)], 3)
    assert next(answers).number == 0
    answers.close()  # type: ignore[attr-defined]
    assert len(list(engine.answers(asks(6, 5, 1), 6))) == 6  # and their slots are free again


@pytest.mark.parametrize(
    ("url_given", "said"),
    [
        ("localhost:8000", "is no URL"),
        ("ftp://x", "give http://HOST:PORT"),
        ("http://a:b@x", "a user name"),
        ("http://x:99999", "is no URL"),
        ("http://x/v1?a=1", "leave them out"),
    ],
)
def test_what_is_no_url_is_refused(url_given: str, said: str) -> None:
    with pytest.raises(CampaignError, match=said):
        connect(url_given, "toy", 64, speculate=False)


def test_another_model_or_vocabulary_is_refused(url: str) -> None:
    with pytest.raises(CampaignError, match="model 'other' is not served; it serves toy"):
        connect(url, "other", 64, speculate=False)
    with pytest.raises(CampaignError, match="64 tokens; the checkpoint has 65: another model"):
        connect(url, "toy", 65, speculate=False)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"timeout_s": 0.0}, "timeout 0.0 s"),
        ({"retries": -1}, "retries -1"),
        ({"dialect": "tgi"}, "dialect 'tgi' is unknown; choose from auto, openai, vllm"),
        ({"dialect": "openai"}, "token ids are not told"),
        ({"dialect": "openai", "texts": {"a": 1, "b": 1}}, "two token texts have one id"),
        ({"dialect": "llama.cpp"}, "/props"),
        ({"prompts": "text"}, "prompts as text need the texts of the checkpoint's tokenizer"),
        ({"prompts": "text", "texts": {"a": 0, "b c": 1}}, "has the text 'b c', which is not one word between spaces"),
        ({"prompts": "text", "texts": {"a": 0, "b": 2}}, "has not each id from 0 to 1 once"),
    ],
)
def test_options_are_checked(url: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(CampaignError, match=said):
        connect(url, "toy", 64, speculate=False, **more)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (replace(TWO, prompt=()), "a prompt of 0"),
        (replace(TWO, prompt=(64,)), r"tokens \[64\] outside 0 to 63"),
        (replace(TWO, length=0), "a length of 0"),
        (replace(TWO, logit_bias={99: 1.0}), r"tokens \[99\] outside"),
    ],
)
def test_an_ask_that_cannot_be_is_refused_before_any_is_sent(url: str, ask: Ask, said: str) -> None:
    with pytest.raises(CampaignError, match=said):
        list(own(url).answers([ask], 1))


def test_texts_find_ids_where_none_are_told(url: str) -> None:
    texts = {f"t{token}": token for token in range(64)}
    plan = asks(2, 15, 31, top_p=0.8)
    wanted = tokens_of(in_process([replace(ask, ignore_eos=False) for ask in plan]))
    engine = connect(url, "toy", 64, speculate=False, dialect="openai", texts=texts)
    assert [answer.tokens for answer in engine.answers(plan, 1)] == wanted
    less = connect(url, "toy", 64, speculate=False, dialect="openai", texts={"t0": 0})
    with pytest.raises(CampaignError, match="have texts that the tokenizer does not know"):
        list(less.answers(plan, 1))
