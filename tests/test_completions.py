"""The adapter over real sockets: our own server in a process of its own, and servers that misbehave."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pp3.harness.engine.completions import CompletionsEngine, connect
from pp3.harness.engine.contract import Answer, Ask, Finish
from pp3.harness.engine.model import load
from pp3.harness.engine.runner import Emitted, Runner
from pp3.harness.errors import CampaignError
from pp3.targets.target import ONE

CHAIN, DEPTH = load("chain-64"), 3
ROOT = Path(__file__).resolve().parents[1]
ANSWER = {"choices": [{"token_ids": [3, 4], "finish_reason": "length", "logprobs": None}], "usage": {}}
MODELS = {"data": [{"id": "toy", "owned_by": "vllm", "max_model_len": 99}]}
TWO = Ask(number=7, prompt=(1,), length=2)


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


class Actor:
    """A server that does as it is told, one act a request; it keeps what it was sent."""

    def __init__(self) -> None:
        self.acts: list[Callable[[socket.socket], bool]] = []
        self.paths: list[str] = []
        self.told: list[tuple[str, bytes]] = []
        self.bodies: list[Any] = []
        self.fixed: dict[str, Any] = {
            "/v1/models": MODELS,
            "/version": {"version": "0.0"},
            "/server_info": {"version": "0.0"},
        }
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.released = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                wire, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(wire,), daemon=True).start()

    def _talk(self, wire: socket.socket) -> None:
        with wire, wire.makefile("rb") as sent:
            while head := sent.readline():
                size = 0
                while (line := sent.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                path = head.split()[1].decode()
                self.paths.append(path)
                body = sent.read(size)
                if path in self.fixed or head.startswith(b"GET"):
                    said = self.fixed.get(path)
                    self.told.append((path, body))
                    wire.sendall(whole({}, "404 Not Found") if said is None else whole(said))
                    continue
                self.bodies.append(json.loads(body))
                if not self.acts.pop(0)(wire):
                    return


@contextmanager
def acting(*acts: Callable[[socket.socket], bool]) -> Iterator[Actor]:
    """A server that will do these acts, one a completion."""
    actor = Actor()
    actor.acts += acts
    try:
        yield actor
    finally:
        actor.released.set()
        actor.listener.close()


def whole(said: Any, status: str = "200 OK", *headers: str) -> bytes:
    """A reply."""
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


def says(said: Any, status: str = "200 OK", *headers: str) -> Callable[[socket.socket], bool]:
    """An act: reply, and keep the connection."""

    def act(wire: socket.socket) -> bool:
        wire.sendall(whole(said, status, *headers))
        return True

    return act


def breaks(content: bytes) -> Callable[[socket.socket], bool]:
    """An act: send these bytes and close."""

    def act(wire: socket.socket) -> bool:
        wire.sendall(content)
        return False

    return act


def chunked(*events: Any, end: bytes = b"0\r\n\r\n") -> bytes:
    """A stream of events."""
    parts = [b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n\n" for one in events]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


def part(tokens: list[int], finish: str | None) -> dict[str, Any]:
    """One event of a stream."""
    return {"choices": [{"token_ids": tokens, "finish_reason": finish, "logprobs": None}]}


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


def reads(read: Any, *acts: Callable[[socket.socket], bool], dialect: str = "vllm") -> Actor:
    """Ask with text; an engine whose tokenizer reads this of the words."""
    with acting(*acts) as actor:
        actor.fixed["/tokenize"] = read
        engine = connect(actor.url, "toy", 64, speculate=False, dialect=dialect, prompts="text", texts=TEXTS, retries=0)
        list(engine.answers([replace(TWO, prompt=(5, 9))], 1))
        return actor


ODD_WORDS: dict[str, tuple[Any, str]] = {
    "another word": ([0, 1, 3, 2, *range(4, 64)], "reads 't2' as token 3, the checkpoint's as 2"),
    "one token more": ([64, *range(64)], "reads 64 words as 65 tokens"),
    "none": ([], "reads 64 words as 0 tokens"),
}


@pytest.mark.parametrize(("read", "said"), ODD_WORDS.values(), ids=ODD_WORDS)
def test_another_tokenizer_is_named(read: list[int], said: str) -> None:
    with pytest.raises(CampaignError, match=f"{said}.*--prompts ids"):
        reads({"tokens": read})


def test_the_tokenizer_is_asked_once_and_the_prompt_goes_as_text() -> None:
    actor = reads({"tokens": list(range(64))}, GOOD)
    ((path, sent),) = [one for one in actor.told if one[0] == "/tokenize"]
    assert json.loads(sent)["prompt"] == " ".join(TEXTS)
    (body,) = actor.bodies
    assert (path, body["prompt"], body["add_special_tokens"]) == ("/tokenize", "t5 t9", False)


def told_prompt(**more: Any) -> Callable[[socket.socket], bool]:
    """An answer that says what its prompt was."""
    usage = {"prompt_tokens": more.pop("count", 2), "completion_tokens": 2}
    return says({"choices": [{**ANSWER["choices"][0], **more}], "usage": usage})  # type: ignore[index]


OTHER_PROMPTS: dict[str, tuple[Callable[[socket.socket], bool], str]] = {
    "another id": (told_prompt(prompt_token_ids=[5, 8]), "a prompt of 2 tokens is read as other tokens"),
    "one more": (told_prompt(count=3), "a prompt of 2 tokens is read as 3: another tokenizer"),
}


@pytest.mark.parametrize(("act", "said"), OTHER_PROMPTS.values(), ids=OTHER_PROMPTS)
def test_a_prompt_that_was_read_otherwise_counts_for_nothing(act: Callable[[socket.socket], bool], said: str) -> None:
    with pytest.raises(CampaignError, match=f"ask 7: .*{said}"):
        reads(None, act)


def test_the_prompt_that_was_read_may_be_told() -> None:
    assert len(reads(None, told_prompt(prompt_token_ids=[5, 9])).bodies) == 1


def test_text_is_sent_where_each_engine_reads_it() -> None:
    llama = {"tokens": [3, 4], "stop": True, "stop_type": "limit", "tokens_predicted": 2, "tokens_evaluated": 2}
    slots = [{"speculative": False}]
    props = {"build_info": "b1", "total_slots": 1, "default_generation_settings": {"params": {"samplers": []}}}
    with acting(says(llama)) as actor:
        actor.fixed |= {"/slots": slots, "/props": props, "/tokenize": {"tokens": list(range(64))}}
        engine = connect(actor.url, "toy", 64, speculate=False, dialect="llama.cpp", prompts="text", texts=TEXTS)
        assert [one.tokens for one in engine.answers([replace(TWO, prompt=(5, 9))], 1)] == [(3, 4)]
        assert (actor.bodies[0]["prompt"], engine.facts.settings["speculates"]) == ("t5 t9", "no")
        assert json.loads(dict(actor.told)["/tokenize"])["content"] == " ".join(TEXTS)
    meta = {"completion_tokens": 2, "prompt_tokens": 2, "finish_reason": {"type": "length"}}
    with acting(says({"output_ids": [3, 4], "meta_info": meta})) as actor:
        actor.fixed["/server_info"] = {"version": "0", "speculative_algorithm": "STANDALONE"}
        engine = connect(actor.url, "toy", 64, speculate=True, dialect="sglang", prompts="text", texts=TEXTS)
        assert len(list(engine.answers([replace(TWO, prompt=(5, 9))], 1))) == 1
        assert (actor.bodies[0]["text"], "input_ids" in actor.bodies[0]) == ("t5 t9", False)


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


GOOD = says(ANSWER)
REPLACED: dict[str, Callable[[socket.socket], bool]] = {
    "500": says({"error": {"message": "out of memory"}}, "500 Internal Server Error", "Retry-After: 0"),
    "503": says({"detail": "loading"}, "503 Service Unavailable", "Retry-After: 0"),
    "429": says({"error": {"message": "slow down"}}, "429 Too Many Requests", "Retry-After: 0"),
    "cut-body": breaks(whole(ANSWER)[:-9]),
    "cut-headers": breaks(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "no-reply": breaks(b""),
    "no-json": breaks(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(ANSWER).encode()[:-9]),
    "no-finish": says({"choices": [{"token_ids": [3], "finish_reason": None, "logprobs": None}]}),
    "given-up": says({"choices": [{"token_ids": [3], "finish_reason": "abort", "logprobs": None}]}),
}


@pytest.mark.parametrize("act", REPLACED.values(), ids=REPLACED)
def test_what_was_not_whole_is_asked_again_and_counted_once(act: Callable[[socket.socket], bool]) -> None:
    with acting(act, GOOD) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=1, timeout_s=20)
        answers = list(engine.answers([TWO], 1))
        assert [(answer.number, answer.tokens) for answer in answers] == [(7, (3, 4))]
        assert isinstance(engine, CompletionsEngine)
        early = act in (REPLACED["503"], REPLACED["429"])  # refused before anything was made
        assert engine.replaced == {"lost": 1 - early, "refused": int(early)}
        assert len(actor.bodies) == 2
        assert actor.bodies[0] == actor.bodies[1]


@pytest.mark.parametrize("act", [REPLACED["429"], REPLACED["cut-body"]], ids=["429", "cut-body"])
def test_retries_are_bounded(act: Callable[[socket.socket], bool]) -> None:
    with acting(act, act, GOOD) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=1)
        with pytest.raises(CampaignError, match=r"ask 7: .* after 2 attempts.*--retries"):
            list(engine.answers([TWO], 1))
        assert len(actor.bodies) == 2


FINAL: dict[str, tuple[Callable[[socket.socket], bool], str]] = {
    "400": (says({"error": {"message": "bad seed"}}, "400 Bad Request"), "HTTP 400 Bad Request: bad seed"),
    "401": (says({"error": "no key"}, "401 Unauthorized"), "HTTP 401 Unauthorized: no key"),
    "404": (says(b"<html>", "404 Not Found"), "HTTP 404 Not Found: 6 bytes that are no JSON"),
    "wait-an-hour": (
        says({"error": {}}, "429 Too Many Requests", "Retry-After: 3600"),
        "asks to wait 3600 s, the limit is 60",
    ),
    "outside": (
        says({"choices": [{"token_ids": [3, 64], "finish_reason": "length", "logprobs": None}]}),
        "token 64 is outside 0 to 63: the engine serves another checkpoint",
    ),
    "no-ids": (
        says({"choices": [{"text": "a b", "finish_reason": "length", "logprobs": None}]}),
        "the answer has no token_ids",
    ),
    "another-shape": (says({"result": "a b"}), "the answer is not what vllm gives .KeyError.; choose its dialect"),
    "a-list": (says([1, 2]), "the answer is not what vllm gives"),
    "miscounted": (
        says({**ANSWER, "usage": {"completion_tokens": 3}}),
        "the engine counts 3 tokens and tells 2 ids",
    ),
    "error-under-200": (says({"error": {"message": "no slot"}}), "the engine says: no slot"),
}


@pytest.mark.parametrize(("act", "said"), FINAL.values(), ids=FINAL)
def test_what_no_retry_would_mend_is_said_at_once(act: Callable[[socket.socket], bool], said: str) -> None:
    with acting(act, GOOD) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=5)
        with pytest.raises(CampaignError, match=f"ask 7: .*{said}"):
            list(engine.answers([TWO], 1))
        assert len(actor.bodies) == 1


CUT: dict[str, bytes] = {
    "ended-without-a-word": chunked(part([3], None), part([4], None)),
    "cut-in-a-chunk": chunked(part([3], None), part([4], None), end=b"40\r\ndata: {"),
    "cut-between-chunks": chunked(part([3], None), end=b""),
}


@pytest.mark.parametrize("content", CUT.values(), ids=CUT)
def test_a_stream_that_is_cut_short_counts_for_nothing(content: bytes) -> None:
    ask = replace(TWO, length=9, abort_after=3)
    good = breaks(chunked(part([5], None), part([6, 7, 8], None), part([9], "length"), b"[DONE]"))
    with acting(breaks(content), good) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=1)
        (answer,) = engine.answers([ask], 1)
        assert (answer.tokens, answer.finish) == ((5, 6, 7), Finish.ABORTED)
        assert len(actor.bodies) == 2


@pytest.mark.parametrize("incremental", [False, True], ids=["so-far", "new-ones"])
def test_sglangs_streams_are_read_either_way(incremental: bool) -> None:
    def event(tokens: list[int], start: int, reason: str | None) -> dict[str, Any]:
        finish = None if reason is None else {"type": reason}
        told = [[-0.5 * token, token, None] for token in tokens]
        meta = {"completion_tokens": len(tokens), "finish_reason": finish, "output_token_logprobs": told}
        ids = tokens[start:] if incremental else tokens
        meta["output_token_logprobs"] = told[start:] if incremental else told
        return {"output_ids": ids, "meta_info": meta}

    stream = [event([3], 0, None), event([3, 4, 5], 1, None), event([3, 4, 5, 6], 3, "length")]
    with acting(breaks(chunked(*stream, b"[DONE]")), breaks(chunked(*stream, b"[DONE]"))) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, dialect="sglang", retries=0)
        ask = Ask(number=0, prompt=(1,), length=4, logprobs=0, abort_after=2)
        aborted, ended = engine.answers([ask, replace(ask, number=1, abort_after=9)], 1)
        assert (aborted.tokens, aborted.logprobs, aborted.finish) == ((3, 4), (-1.5, -2.0), Finish.ABORTED)
        assert (ended.tokens, ended.logprobs) == ((3, 4, 5, 6), (-1.5, -2.0, -2.5, -3.0))
        assert ended.finish is Finish.LENGTH


@pytest.mark.parametrize("drip", [False, True], ids=["silent", "dripping"])
def test_an_engine_that_is_slow_is_left_in_time(drip: bool) -> None:
    def slowly(wire: socket.socket) -> bool:
        wire.sendall(whole(ANSWER)[:-40])
        for byte in whole(ANSWER)[-40:]:
            if actor.released.wait(0.1):
                return False
            if drip:
                wire.sendall(bytes([byte]))
        return False

    with acting(slowly) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=0, timeout_s=0.5)
        with pytest.raises(CampaignError, match=r"no whole reply within 0\.5 s.*--answer-timeout"):
            list(engine.answers([TWO], 1))


def test_a_connection_that_the_engine_let_go_is_no_lost_attempt() -> None:
    with acting(breaks(whole(ANSWER)), GOOD) as actor:  # closes after a whole reply, as after a quiet while
        engine = connect(actor.url, "toy", 64, speculate=False, retries=0)
        assert len(list(engine.answers([TWO, replace(TWO, number=8)], 1))) == 2
        assert isinstance(engine, CompletionsEngine)
        assert sum(engine.replaced.values()) == 0


def test_one_that_fails_ends_the_others_and_keeps_what_was_answered() -> None:
    def stuck(wire: socket.socket) -> bool:
        actor.released.wait(60)
        return False

    with acting(GOOD, stuck, FINAL["400"][0]) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, timeout_s=60)
        started, kept = time.monotonic(), list[Answer]()
        with pytest.raises(CampaignError, match="bad seed"):
            kept.extend(engine.answers([replace(TWO, number=n) for n in range(3)], 2))
        assert len(kept) == 1
        assert time.monotonic() - started < 30  # the one that is stuck was hung up on, long before its minute


def test_a_caller_that_stops_listening_ends_what_is_in_flight(url: str) -> None:
    engine = own(url)
    answers = engine.answers([replace(ask, length=4 if ask.number == 0 else 10**6) for ask in asks(3, 4, 1)], 3)
    assert next(answers).number == 0
    answers.close()  # type: ignore[attr-defined]
    assert len(list(engine.answers(asks(6, 5, 1), 6))) == 6  # and their slots are free again


def test_an_engine_that_is_down_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CampaignError, match=f"http://127.0.0.1:{port}: GET /v1/models: connection refused"):
        connect(f"http://127.0.0.1:{port}", "toy", 64, speculate=False, retries=0)


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


def test_a_parameter_that_the_engine_does_not_take_is_refused() -> None:
    with acting() as actor:
        engine = connect(actor.url, "toy", 64, speculate=True)
        with pytest.raises(CampaignError, match="ask 7 wants speculate, which vllm over HTTP does not take"):
            list(engine.answers([replace(TWO, speculate=False)], 1))
        with pytest.raises(CampaignError, match="two asks have one number"):
            list(engine.answers([TWO, TWO], 1))
        with pytest.raises(CampaignError, match="concurrency 0"):
            list(engine.answers([TWO], 0))
        assert not actor.bodies


def test_texts_find_ids_where_none_are_told(url: str) -> None:
    texts = {f"t{token}": token for token in range(64)}
    plan = asks(2, 15, 31, top_p=0.8)
    wanted = tokens_of(in_process([replace(ask, ignore_eos=False) for ask in plan]))
    engine = connect(url, "toy", 64, speculate=False, dialect="openai", texts=texts)
    assert [answer.tokens for answer in engine.answers(plan, 1)] == wanted
    less = connect(url, "toy", 64, speculate=False, dialect="openai", texts={"t0": 0})
    with pytest.raises(CampaignError, match="have texts that the tokenizer does not know"):
        list(less.answers(plan, 1))


def test_a_key_is_sent_and_never_shown() -> None:
    seen = []

    def refuse(wire: socket.socket) -> bool:
        seen.append(1)
        return REPLACED["500"](wire)

    with acting(refuse) as actor:
        engine = connect(actor.url, "toy", 64, speculate=False, retries=0, key="sesame")
        with pytest.raises(CampaignError) as caught:
            list(engine.answers([TWO], 1))
        assert "sesame" not in str(caught.value)
        assert "sesame" not in repr(engine.facts)
