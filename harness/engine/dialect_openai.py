"""OpenAI's completions: as vLLM extends them, which our own server speaks too, and as OpenAI wrote them.

Run on the real thing: vLLM 0.32.0.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pp3.harness.engine.contract import Ask, Logprobs
from pp3.harness.engine.dialect import ALONE, EVERYWHERE, Body, Part, finish_of, floats, integers, refusal
from pp3.harness.engine.transport import AttemptError


@dataclass(frozen=True, slots=True, kw_only=True)
class Vllm:
    """vLLM's /v1/completions; our own server speaks it too, and tells speculation steps and takes `speculate`."""

    name: str = "vllm"
    path: str = "/v1/completions"
    about: str | None = "/version"
    own: bool = False  # our own server
    prompt_keys: tuple[str, str] = ("prompt", "prompt")
    tokenize: tuple[str, str] | None = ("/tokenize", "prompt")
    told_at: str | None = "/metrics"
    stop_emitted: bool = True
    replays: frozenset[str] = ALONE
    logprobs_of: Logprobs = Logprobs.MODEL  # --logprobs-mode raw_logprobs, the default
    filters: str | None = None  # by platform: vllm-torch on a CPU, vllm-triton or vllm-flashinfer on a GPU

    def supports(self, speculative: bool) -> frozenset[str]:
        """See Dialect. vLLM refuses min_p and logit_bias while it speculates."""
        offered = EVERYWHERE | {"top_k", "min_p", "repetition_penalty", "stop"}
        if self.own:
            return offered | {"speculate", "steps"} if speculative else offered
        return offered - {"min_p", "logit_bias"} if speculative else offered

    def body(self, ask: Ask, model: str) -> Body:
        """See Dialect."""
        body = _openai(ask, model)
        body |= {
            "prompt": list(ask.prompt),
            "top_k": ask.top_k or 0,
            "min_p": ask.min_p or 0.0,
            "repetition_penalty": 1.0 if ask.repetition_penalty is None else ask.repetition_penalty,
            "stop_token_ids": list(ask.stop),
            "ignore_eos": ask.ignore_eos,
            "skip_special_tokens": False,
            "add_special_tokens": False,
            "return_token_ids": True,
        }
        if self.own:
            body |= {"speculate": ask.speculate, "return_steps": True}
        return body

    def part(self, reply: Any) -> Part:
        """See Dialect."""
        choice = _choice(reply)
        tokens = choice.get("token_ids")
        if tokens is None:
            raise AttemptError("the answer has no token_ids; vLLM tells them from 0.10.2 on", again=False)
        given = choice.get("logprobs")
        return Part(
            tokens=integers(tokens),
            logprobs=None if given is None else floats(given["token_logprobs"]),
            finish=finish_of(choice["finish_reason"]),
            steps=integers(choice["steps"]) if choice.get("steps") is not None else None,
            counted=_usage(reply, "completion_tokens"),
            read=integers(choice["prompt_token_ids"]) if choice.get("prompt_token_ids") is not None else None,
            read_count=_usage(reply, "prompt_tokens"),
        )

    def speculates(self, content: bytes) -> bool | None:
        """See Dialect. vLLM has counters of drafts where it speculates, and no others by that name."""
        if self.own:
            return int(json.loads(content)["settings"]["depth"]) > 0
        return b"vllm:spec_decode" in content if b"vllm:" in content else None

    def settings(self, about: Any) -> tuple[str, dict[str, str]]:
        """See Dialect."""
        return str(about["version"]), {key: str(value) for key, value in about.get("settings", {}).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI:
    """The protocol as OpenAI wrote it: token ids are found by their texts, which the checkpoint's tokenizer gives."""

    texts: Mapping[str, int] = field(default_factory=dict)  # text to token id, one to one
    name: str = "openai"
    path: str = "/v1/completions"
    about: str | None = None
    prompt_keys: tuple[str, str] = ("prompt", "prompt")
    tokenize: tuple[str, str] | None = None
    told_at: str | None = None
    stop_emitted: bool = False
    replays: frozenset[str] = frozenset()
    logprobs_of: Logprobs = Logprobs.MODEL
    filters: str | None = None

    def supports(self, speculative: bool) -> frozenset[str]:
        """See Dialect."""
        return EVERYWHERE

    def body(self, ask: Ask, model: str) -> Body:
        """See Dialect."""
        return _openai(ask, model) | {"prompt": list(ask.prompt), "logprobs": max(1, ask.logprobs or 0)}

    def part(self, reply: Any) -> Part:
        """See Dialect."""
        choice = _choice(reply)
        given = choice["logprobs"]
        if given is None:
            raise AttemptError("the answer has no logprobs, and ids are found by the texts in them", again=False)
        unknown = [text for text in given["tokens"] if text not in self.texts]
        if unknown:
            raise AttemptError(
                f"{len(unknown)} of {len(given['tokens'])} tokens have texts that the tokenizer does not know; "
                "this is another tokenizer, or the engine trims them",
                again=False,
            )
        return Part(
            tokens=tuple(self.texts[text] for text in given["tokens"]),
            logprobs=floats(given["token_logprobs"]),
            finish=finish_of(choice["finish_reason"]),
            counted=_usage(reply, "completion_tokens"),
            read_count=_usage(reply, "prompt_tokens"),
        )

    def speculates(self, content: bytes) -> bool | None:
        """See Dialect."""
        return None

    def settings(self, about: Any) -> tuple[str, dict[str, str]]:
        """See Dialect."""
        return "unknown", {}


def _openai(ask: Ask, model: str) -> Body:
    body: Body = {
        "model": model,
        "max_tokens": ask.length,
        "temperature": ask.temperature,
        "top_p": 1.0 if ask.top_p is None else ask.top_p,
        "stream": ask.abort_after is not None,
    }
    if ask.seed is not None:
        body["seed"] = ask.seed
    if ask.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in ask.logit_bias.items()}
    if ask.logprobs is not None:
        body["logprobs"] = ask.logprobs
    return body


def _usage(reply: Any, key: str) -> int | None:
    told = (reply.get("usage") or {}).get(key)
    return None if told is None else int(told)


def _choice(reply: Any) -> Any:
    if "error" in reply:
        raise refusal(reply)
    (choice,) = reply["choices"]
    return choice
