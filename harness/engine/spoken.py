"""What our own server understands and says: vLLM's dialect, read strictly, so that no parameter is lost unsaid."""

import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pp3.harness.engine.contract import Ask, Finish
from pp3.harness.engine.runner import Emitted

WORDS = (
    "model prompt max_tokens temperature top_p top_k min_p seed logit_bias logprobs stop_token_ids ignore_eos stream "
    "repetition_penalty return_token_ids return_steps speculate skip_special_tokens add_special_tokens n"
)
KNOWN = frozenset(WORDS.split())


class RefusalError(Exception):
    """A request that is not served."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


def ask_of(body: Any, model: str, vocab: int) -> Ask:
    """The request. Raises RefusalError for a parameter that is unknown or out of range."""
    if not isinstance(body, dict):
        raise RefusalError("the body is no object")
    unknown = sorted(body.keys() - KNOWN)
    if unknown:
        raise RefusalError(f"{unknown[0]} is not known here")
    if body.get("model") != model:
        raise RefusalError(f"the model {body.get('model')!r} does not exist; {model!r} does", HTTPStatus.NOT_FOUND)
    if body.get("n", 1) != 1:
        raise RefusalError("n must be 1")
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        prompt = tokens_of(prompt)
    stop, bias = body.get("stop_token_ids") or [], _bias(body.get("logit_bias") or {})
    for name, tokens in (("prompt", prompt), ("stop_token_ids", stop), ("logit_bias", bias)):
        if tokens is None or not all(type(token) is int and 0 <= token < vocab for token in tokens):
            raise RefusalError(f"{name} must be token ids from 0 to {vocab - 1}, or words t0 to t{vocab - 1}")
    if not prompt:
        raise RefusalError("the prompt is empty")
    return Ask(
        number=0,
        prompt=tuple(prompt),
        length=_whole(body, "max_tokens", 16, 1),
        temperature=_number(body, "temperature", 1.0, 0.0, math.inf),
        seed=None if body.get("seed") is None else _whole(body, "seed", 0, -(2**63)),
        top_k=_whole(body, "top_k", 0, -1) if (body.get("top_k") or 0) > 0 else None,
        top_p=_number(body, "top_p", 1.0, 2.0**-24, 1.0),
        min_p=_number(body, "min_p", 0.0, 0.0, 1.0),
        logit_bias=bias,
        repetition_penalty=_number(body, "repetition_penalty", 1.0, 2.0**-24, math.inf),
        logprobs=None if body.get("logprobs") is None else _whole(body, "logprobs", 0, 0),
        stop=tuple(stop),
        ignore_eos=bool(body.get("ignore_eos", False)),
        speculate=bool(body.get("speculate", True)),
    )


def tokens_of(text: str) -> list[int]:
    """Words t0, t1, ... as token ids; -1 for any other."""
    return [int(word[1:]) if word[:1] == "t" and word[1:].isdigit() else -1 for word in text.split()]


def completion(steps: Sequence[Emitted], ask: Ask, model: str) -> dict[str, Any]:
    """A whole answer."""
    tokens = [token for step in steps for token in step.tokens]
    return {
        "object": "text_completion",
        "model": model,
        "choices": [_choice(steps, ask)],
        "usage": {"prompt_tokens": len(ask.prompt), "completion_tokens": len(tokens)},
    }


def event(step: Emitted, ask: Ask, model: str) -> dict[str, Any]:
    """One step of a streamed answer."""
    return {
        "object": "text_completion",
        "model": model,
        "choices": [_choice([step], ask)],
    }


def _choice(steps: Sequence[Emitted], ask: Ask) -> dict[str, Any]:
    tokens = [token for step in steps for token in step.tokens]
    finish = steps[-1].finish
    said: dict[str, Any] = {
        "index": 0,
        "text": " ".join(f"t{token}" for token in tokens),
        "token_ids": tokens,
        "prompt_token_ids": list(ask.prompt),
        "steps": [len(step.tokens) for step in steps],
        "finish_reason": None if finish is None else {Finish.LENGTH: "length", Finish.STOP: "stop"}[finish],
        "logprobs": None,
    }
    if ask.logprobs is not None:
        values = [value for step in steps for value in step.logprobs]
        said["logprobs"] = {
            "tokens": [f"t{token}" for token in tokens],
            "token_logprobs": [value if math.isfinite(value) else None for value in values],
        }
    return said


def _bias(given: Any) -> dict[int, float]:
    try:
        return {int(token): float(value) for token, value in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise RefusalError("logit_bias must be an object of token ids and numbers") from error


def _whole(body: dict[str, Any], name: str, default: int, least: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or value < least or value >= 2**63:
        raise RefusalError(f"{name} must be a whole number of at least {least}")
    return value


def _number(body: dict[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise RefusalError(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)
