"""The engines' own endpoints, where OpenAI's tells no token ids: SGLang's /generate and llama.cpp's /completion.

Run on the real thing: llama.cpp build 11549. Read, not run: SGLang 0.5.23.
"""

import json
from dataclasses import dataclass
from typing import Any

from pp3.harness.engine.contract import Ask, Logprobs
from pp3.harness.engine.dialect import ALONE, EVERYWHERE, Body, Part, finish_of, floats, integers, refusal
from pp3.harness.engine.transport import AttemptError

SGLANG_TELLS = (
    "dtype",
    "sampling_backend",
    "attention_backend",
    "enable_deterministic_inference",
    "speculative_algorithm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sglang:
    """SGLang's native /generate."""

    name: str = "sglang"
    path: str = "/generate"
    about: str | None = "/server_info"
    prompt_keys: tuple[str, str] = ("input_ids", "text")
    tokenize: tuple[str, str] | None = None
    told_at: str | None = "/server_info"
    stop_emitted: bool = True
    replays: frozenset[str] = frozenset()  # "alone" and more under --enable-deterministic-inference
    logprobs_of: Logprobs = Logprobs.TEMPERED  # unless SGLANG_RETURN_ORIGINAL_LOGPROB is set
    filters: str | None = None  # sglang-torch, flashinfer or flashinfer-joint

    def supports(self, speculative: bool) -> frozenset[str]:
        """See Dialect."""
        return EVERYWHERE | {"top_k", "min_p", "repetition_penalty", "stop"}

    def body(self, ask: Ask, model: str) -> Body:
        """See Dialect. `model` is checked beforehand: /generate takes none."""
        sampling: Body = {
            "max_new_tokens": ask.length,
            "temperature": ask.temperature,
            "top_k": ask.top_k or -1,
            "top_p": 1.0 if ask.top_p is None else ask.top_p,
            "min_p": ask.min_p or 0.0,
            "repetition_penalty": 1.0 if ask.repetition_penalty is None else ask.repetition_penalty,
            "stop_token_ids": list(ask.stop),
            "ignore_eos": ask.ignore_eos,
            "skip_special_tokens": False,
            "no_stop_trim": True,
        }
        if ask.seed is not None:
            sampling["sampling_seed"] = ask.seed  # obeyed under --enable-deterministic-inference only
        if ask.logit_bias:
            sampling["logit_bias"] = {str(token): bias for token, bias in ask.logit_bias.items()}
        body: Body = {
            "input_ids": list(ask.prompt),
            "sampling_params": sampling,
            "stream": ask.abort_after is not None,
        }
        if ask.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": ask.logprobs}
        return body

    def part(self, reply: Any) -> Part:
        """See Dialect. A stream tells all tokens so far, or under --incremental-streaming-output the new ones."""
        if "error" in reply:
            raise refusal(reply)
        meta = reply["meta_info"]
        tokens, counted = integers(reply["output_ids"]), int(meta["completion_tokens"])
        reason = meta["finish_reason"]
        if reason is not None and reason["type"] == "abort":
            raise AttemptError(f"the engine gave the request up: {str(reason.get('message', ''))[:300]}", again=True)
        given = meta.get("output_token_logprobs")
        return Part(
            tokens=tokens,
            logprobs=None if given is None else floats([one[0] for one in given]),
            finish=None if reason is None else finish_of(reason["type"]),
            counted=counted,
            from_start=len(tokens) == counted,
            read_count=int(meta["prompt_tokens"]) if "prompt_tokens" in meta else None,
        )

    def speculates(self, content: bytes) -> bool | None:
        """See Dialect."""
        told = json.loads(content)
        return told["speculative_algorithm"] is not None if "speculative_algorithm" in told else None

    def settings(self, about: Any) -> tuple[str, dict[str, str]]:
        """See Dialect."""
        return str(about["version"]), {key: str(about[key]) for key in SGLANG_TELLS if key in about}


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCpp:
    """llama.cpp's server: /completion. It knows no stop token ids, only its end token, and any model name will do."""

    name: str = "llama.cpp"
    path: str = "/completion"
    about: str | None = "/props"
    prompt_keys: tuple[str, str] = ("prompt", "prompt")
    tokenize: tuple[str, str] | None = ("/tokenize", "content")
    told_at: str | None = "/slots"
    stop_emitted: bool = True
    replays: frozenset[str] = ALONE
    logprobs_of: Logprobs = Logprobs.MODEL
    filters: str | None = "llama.cpp"

    def supports(self, speculative: bool) -> frozenset[str]:
        """See Dialect."""
        return EVERYWHERE | {"top_k", "min_p", "repetition_penalty"}

    def body(self, ask: Ask, model: str) -> Body:
        """See Dialect. What its defaults would filter is switched off; the order of its samplers is left as it is."""
        body: Body = {
            "prompt": list(ask.prompt),
            "n_predict": ask.length,
            "temperature": ask.temperature,
            "top_k": ask.top_k or 0,
            "top_p": 1.0 if ask.top_p is None else ask.top_p,
            "min_p": ask.min_p or 0.0,
            "repeat_penalty": 1.0 if ask.repetition_penalty is None else ask.repetition_penalty,
            "repeat_last_n": 0 if ask.repetition_penalty is None else len(ask.prompt) + ask.length,
            "seed": -1 if ask.seed is None else ask.seed,
            "ignore_eos": ask.ignore_eos,
            "return_tokens": True,
            "stream": ask.abort_after is not None,
        }
        if ask.logit_bias:
            body["logit_bias"] = [[token, bias] for token, bias in ask.logit_bias.items()]
        if ask.logprobs is not None:
            body["n_probs"] = max(1, ask.logprobs)
        return body

    def part(self, reply: Any) -> Part:
        """See Dialect."""
        if "error" in reply:
            raise refusal(reply)
        given, ended = reply.get("completion_probabilities"), bool(reply["stop"])
        tokens = integers(reply["tokens"])
        return Part(
            tokens=tokens,
            logprobs=None if given is None else floats([one["logprob"] for one in given[: len(tokens)]]),
            finish=finish_of(reply["stop_type"]) if ended else None,
            counted=int(reply["tokens_predicted"]) if ended else None,
            read_count=int(reply["tokens_evaluated"]) if ended and "tokens_evaluated" in reply else None,
        )

    def speculates(self, content: bytes) -> bool | None:
        """See Dialect."""
        told = [bool(slot["speculative"]) for slot in json.loads(content)]
        return any(told) if told else None

    def settings(self, about: Any) -> tuple[str, dict[str, str]]:
        """See Dialect."""
        defaults = about["default_generation_settings"]
        return str(about["build_info"]), {
            "dtype": str(about.get("model_ftype", "unknown")),
            "samplers": " ".join(defaults["params"]["samplers"]),
            "slots": str(about["total_slots"]),
        }
