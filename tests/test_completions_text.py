"""The adapter and prompts as text: which tokenizer reads them, where they go, and what was read otherwise."""

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from acted_server import ANSWER, GOOD, TWO, Actor, acting, says

from pp3.harness.engine.completions import connect
from pp3.harness.errors import CampaignError

TEXTS = {f"t{token}": token for token in range(64)}


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
