"""The adapter and servers that misbehave: attempts that are repeated, answers cut short, engines that are gone."""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from acted_server import ANSWER, GOOD, TWO, acting, breaks, chunked, part, says, whole

from pp3.harness.engine.completions import CompletionsEngine, connect
from pp3.harness.engine.contract import Answer, Ask, Finish
from pp3.harness.errors import CampaignError

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


def test_an_engine_that_is_down_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CampaignError, match=f"http://127.0.0.1:{port}: GET /v1/models: connection refused"):
        connect(f"http://127.0.0.1:{port}", "toy", 64, speculate=False, retries=0)


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
