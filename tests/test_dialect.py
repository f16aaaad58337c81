"""What each dialect sends."""

from typing import Any

import pytest

from pp3.harness.engine.contract import Ask
from pp3.harness.engine.dialect import Dialect
from pp3.harness.engine.dialect_native import LlamaCpp, Sglang
from pp3.harness.engine.dialect_openai import OpenAI, Vllm

BARE = Ask(number=0, prompt=(5, 9), length=4)
FULL = Ask(
    number=0,
    prompt=(5, 9),
    length=4,
    temperature=0.5,
    seed=7,
    top_k=3,
    top_p=0.9,
    min_p=0.1,
    logit_bias={4: 1.5},
    repetition_penalty=1.2,
    logprobs=0,
    stop=(3,),
    ignore_eos=False,
    abort_after=2,
)
OFF = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "ignore_eos": True}
BODIES: dict[str, tuple[Dialect, Ask, dict[str, Any]]] = {
    "vllm-bare": (
        Vllm(),
        BARE,
        {
            **OFF,
            "model": "toy",
            "prompt": [5, 9],
            "max_tokens": 4,
            "top_k": 0,
            "repetition_penalty": 1.0,
            "stop_token_ids": [],
            "skip_special_tokens": False,
            "add_special_tokens": False,
            "return_token_ids": True,
            "stream": False,
        },
    ),
    "vllm-full": (
        Vllm(),
        FULL,
        {
            "model": "toy",
            "prompt": [5, 9],
            "max_tokens": 4,
            "temperature": 0.5,
            "seed": 7,
            "top_k": 3,
            "top_p": 0.9,
            "min_p": 0.1,
            "logit_bias": {"4": 1.5},
            "repetition_penalty": 1.2,
            "logprobs": 0,
            "stop_token_ids": [3],
            "ignore_eos": False,
            "skip_special_tokens": False,
            "add_special_tokens": False,
            "return_token_ids": True,
            "stream": True,
        },
    ),
    "llama.cpp-bare": (
        LlamaCpp(),
        BARE,
        {
            **OFF,
            "prompt": [5, 9],
            "n_predict": 4,
            "top_k": 0,
            "repeat_penalty": 1.0,
            "repeat_last_n": 0,
            "seed": -1,
            "return_tokens": True,
            "stream": False,
        },
    ),
    "llama.cpp-full": (
        LlamaCpp(),
        FULL,
        {
            "prompt": [5, 9],
            "n_predict": 4,
            "temperature": 0.5,
            "seed": 7,
            "top_k": 3,
            "top_p": 0.9,
            "min_p": 0.1,
            "logit_bias": [[4, 1.5]],
            "repeat_penalty": 1.2,
            "repeat_last_n": 6,
            "n_probs": 1,
            "ignore_eos": False,
            "return_tokens": True,
            "stream": True,
        },
    ),
    "sglang-full": (
        Sglang(),
        FULL,
        {
            "input_ids": [5, 9],
            "stream": True,
            "return_logprob": True,
            "top_logprobs_num": 0,
            "sampling_params": {
                "max_new_tokens": 4,
                "temperature": 0.5,
                "sampling_seed": 7,
                "top_k": 3,
                "top_p": 0.9,
                "min_p": 0.1,
                "logit_bias": {"4": 1.5},
                "repetition_penalty": 1.2,
                "stop_token_ids": [3],
                "ignore_eos": False,
                "skip_special_tokens": False,
                "no_stop_trim": True,
            },
        },
    ),
    "openai-bare": (
        OpenAI(texts={"a": 0}),
        BARE,
        {
            "model": "toy",
            "prompt": [5, 9],
            "max_tokens": 4,
            "temperature": 1.0,
            "top_p": 1.0,
            "logprobs": 1,
            "stream": False,
        },
    ),
}


@pytest.mark.parametrize(("dialect", "ask", "body"), BODIES.values(), ids=BODIES)
def test_a_request_says_every_parameter(dialect: Dialect, ask: Ask, body: dict[str, Any]) -> None:
    assert dialect.body(ask, "toy") == body


def test_what_an_engine_does_not_offer_while_it_speculates_is_not_asked_for() -> None:
    assert Vllm().supports(False) - Vllm().supports(True) == {"min_p", "logit_bias"}
    assert Vllm(own=True).supports(True) - Vllm(own=True).supports(False) == {"speculate", "steps"}
    assert "stop" not in LlamaCpp().supports(True)
    assert Sglang().supports(True) == Sglang().supports(False)


def test_only_our_own_server_is_asked_for_steps() -> None:
    own = Vllm(own=True).body(BARE, "toy")
    assert own == {**Vllm().body(BARE, "toy"), "speculate": True, "return_steps": True}
