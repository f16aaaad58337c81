"""What each dialect reads. Replies marked real were recorded from the engine that is named."""

import inspect
import math
import re
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.engine import server
from pp3.harness.engine.completions import LONGEST_PAUSE, PATIENCE, PAUSE, connect
from pp3.harness.engine.contract import Finish
from pp3.harness.engine.dialect import Dialect, Part
from pp3.harness.engine.dialect_native import LlamaCpp, Sglang
from pp3.harness.engine.dialect_openai import OpenAI, Vllm
from pp3.harness.engine.meeting import OWNERS
from pp3.harness.engine.transport import RETRIED, AttemptError
from pp3.harness.filters import ENGINES

VLLM = {  # real: vLLM 0.32.0
    "id": "cmpl-adf8301e1b191f6e",
    "object": "text_completion",
    "model": "toy",
    "choices": [
        {
            "index": 0,
            "text": " t47 t25 t54 t21",
            "logprobs": {
                "text_offset": [0, 11, 22, 33],
                "token_logprobs": [-3.7245519161224365, -4.542275905609131, -2.9158358573913574, -4.654655456542969],
                "tokens": ["t47", "t25", "t54", "t21"],
                "top_logprobs": [],
            },
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": [47, 25, 54, 21],
            "prompt_token_ids": [5, 9],
        }
    ],
    "usage": {"prompt_tokens": 2, "total_tokens": 6, "completion_tokens": 4},
}
LLAMA = {  # real: llama.cpp build 11549
    "index": 0,
    "content": "t6t20",
    "tokens": [6, 20],
    "stop": True,
    "tokens_predicted": 2,
    "tokens_evaluated": 2,
    "stop_type": "limit",
    "completion_probabilities": [
        {"id": 6, "token": "t6", "logprob": -2.7955965995788574, "top_logprobs": [{"id": 3, "logprob": -2.31768}]},
        {"id": 20, "token": "t20", "logprob": -2.596313238143921, "top_logprobs": [{"id": 20, "logprob": -2.596313}]},
    ],
}
LLAMA_EVENT = {"index": 0, "content": "t6", "tokens": [6], "stop": False, "id_slot": -1, "tokens_predicted": 1}  # real
LLAMA_END = {"tokens": [59, 59, 63], "stop": True, "tokens_predicted": 3, "stop_type": "eos"}  # real, shortened
SGLANG = {
    "output_ids": [8, 3],
    "meta_info": {
        "completion_tokens": 2,
        "finish_reason": {"type": "stop", "matched": 3},
        "output_token_logprobs": [[-0.25, 8, None], [-1.5, 3, None]],
    },
}
PARTS: dict[str, tuple[Dialect, Any, Part]] = {
    "vllm": (
        Vllm(),
        VLLM,
        Part(
            tokens=(47, 25, 54, 21),
            logprobs=(-3.7245519161224365, -4.542275905609131, -2.9158358573913574, -4.654655456542969),
            finish=Finish.LENGTH,
            counted=4,
            read=(5, 9),
            read_count=2,
        ),
    ),
    "llama.cpp": (
        LlamaCpp(),
        LLAMA,
        Part(
            tokens=(6, 20),
            logprobs=(-2.7955965995788574, -2.596313238143921),
            finish=Finish.LENGTH,
            counted=2,
            read_count=2,
        ),
    ),
    "llama.cpp-event": (LlamaCpp(), LLAMA_EVENT, Part(tokens=(6,))),
    "llama.cpp-end": (LlamaCpp(), LLAMA_END, Part(tokens=(59, 59, 63), finish=Finish.STOP, counted=3)),
    "sglang": (
        Sglang(),
        SGLANG,
        Part(tokens=(8, 3), logprobs=(-0.25, -1.5), finish=Finish.STOP, counted=2, from_start=True),
    ),
    "openai": (
        OpenAI(texts={"a": 1, " b": 2}),
        {"choices": [{"finish_reason": "stop", "logprobs": {"tokens": ["a", " b"], "token_logprobs": [-1.0, None]}}]},
        Part(tokens=(1, 2), logprobs=(-1.0, -math.inf), finish=Finish.STOP),
    ),
}


@pytest.mark.parametrize(("dialect", "reply", "part"), PARTS.values(), ids=PARTS)
def test_a_reply_is_read(dialect: Dialect, reply: Any, part: Part) -> None:
    assert dialect.part(reply) == part


REFUSED: dict[str, tuple[Dialect, Any, str]] = {
    "vllm-old": (Vllm(), {"choices": [{"text": "a", "finish_reason": "stop"}]}, "no token_ids"),
    "vllm-float": (Vllm(), {"choices": [{"token_ids": [1.0], "finish_reason": "stop"}]}, "a token id is no integer"),
    "vllm-reason": (
        Vllm(),
        {"choices": [{"token_ids": [1], "finish_reason": "error"}]},
        "ended an answer with 'error'",
    ),
    "sglang-abort": (
        Sglang(),
        {
            "output_ids": [1],
            "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "abort", "message": "no memory"}},
        },
        "gave the request up: no memory",
    ),
    "llama.cpp-error": (LlamaCpp(), {"error": {"message": "context shift"}}, "the engine says: context shift"),
    "openai-none": (OpenAI(texts={}), {"choices": [{"finish_reason": "stop", "logprobs": None}]}, "no logprobs"),
    "openai-other": (
        OpenAI(texts={"a": 0}),
        {"choices": [{"finish_reason": "stop", "logprobs": {"tokens": ["a", "b"], "token_logprobs": [0, 0]}}]},
        "1 of 2 tokens have texts that the tokenizer does not know",
    ),
}


@pytest.mark.parametrize(("dialect", "reply", "said"), REFUSED.values(), ids=REFUSED)
def test_a_reply_that_cannot_be_counted_is_refused(dialect: Dialect, reply: Any, said: str) -> None:
    with pytest.raises(AttemptError, match=said):
        dialect.part(reply)


def test_what_can_change_a_number_is_told() -> None:
    assert Vllm().settings({"version": "0.32.0"}) == ("0.32.0", {})
    assert Sglang().settings({"version": "0.5.23", "dtype": "float32", "host": "x"}) == ("0.5.23", {"dtype": "float32"})
    props = {
        "build_info": "b11549",
        "model_path": "/somewhere",
        "model_ftype": "all F32",
        "total_slots": 4,
        "default_generation_settings": {"params": {"samplers": ["top_k", "temperature"]}},
    }
    assert LlamaCpp().settings(props) == (
        "b11549",
        {"dtype": "all F32", "samplers": "top_k temperature", "slots": "4"},
    )


SPECULATES: dict[str, tuple[Dialect, bytes, bool | None]] = {
    "vllm": (Vllm(), b"vllm:spec_decode_num_drafts_total{} 0.0", True),
    "vllm-plain": (Vllm(), b"vllm:num_requests_running{} 0.0", False),
    "vllm-no-counters": (Vllm(), b"", None),
    "ours": (OWNERS["pp3"], b'{"settings": {"depth": 3}}', True),
    "ours-plain": (OWNERS["pp3"], b'{"settings": {"depth": 0}}', False),
    "llama.cpp": (LlamaCpp(), b'[{"id": 0, "speculative": true}]', True),  # real, shortened
    "llama.cpp-plain": (LlamaCpp(), b'[{"id": 0, "speculative": false}]', False),  # real, shortened
    "llama.cpp-none": (LlamaCpp(), b"[]", None),
    "sglang": (Sglang(), b'{"speculative_algorithm": "STANDALONE"}', True),
    "sglang-plain": (Sglang(), b'{"speculative_algorithm": null}', False),
    "sglang-other": (Sglang(), b"{}", None),
    "openai": (OpenAI(), b"{}", None),
}


@pytest.mark.parametrize(("dialect", "content", "told"), SPECULATES.values(), ids=SPECULATES)
def test_whether_it_speculates_is_told(dialect: Dialect, content: bytes, told: bool | None) -> None:
    assert dialect.speculates(content) is told


def test_the_page_says_what_is_so() -> None:
    """docs/engine-http.md: limits, dialects, filters, the server's options and the examples."""
    folder = Path(__file__).resolve().parents[1] / "docs"
    page = (folder / "engine-http.md").read_text("utf-8")
    flat = " ".join(page.split())
    codes = re.search(r"a timeout, ([\d, and]+), a reply", flat)
    assert codes
    assert {int(code) for code in re.findall(r"\d+", codes[1])} == RETRIED
    assert f"after {PAUSE:g} s, doubled each time up to {LONGEST_PAUSE:g} s" in flat
    assert f"`Retry-After` says, up to {PATIENCE:g} s" in flat
    assert f"at most `retries` times ({inspect.signature(connect).parameters['retries'].default})" in flat
    told = {name for dialect in OWNERS.values() for name in (dialect.filters,) if name}
    assert told <= {name for name in ENGINES if f"`{name}`" in page}
    options = {option for param in server.main.params for option in param.opts}
    line = re.search(r"`python -m pp3\.harness\.engine\.server ([^`]*)`", page)
    assert line
    assert set(re.findall(r"--[a-z]+", line[1])) <= options
    examples = set(re.findall(r"\(examples/([\w.]+)\)", page))
    assert examples == {"llama_cpp_logprobs.py", "llama_cpp_server.py", "vllm_expand.py"}
    assert all((folder / "examples" / name).is_file() for name in examples)
