"""What an engine adapter must offer: requests of token ids in, token ids and what the engine said about them out.

An engine is a whole serving stack (scheduler, batch, slots, filters, sampler). The harness knows the law of its model
(checkpoint.py) and judges only token counts. No text of a prompt or an answer is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

LEFT_OUT = "left out"  # of Facts.settings: parameters that whoever runs it gives no request
LOST, REFUSED = "lost", "refused"  # attempts that were replaced: their answer did not come whole, or was not begun


class Finish(Enum):
    """Why an answer ended."""

    LENGTH = "length"
    STOP = "stop"
    ABORTED = "aborted"


class Logprobs(Enum):
    """Which law an answer's log-probabilities are of."""

    MODEL = "model"  # the checkpoint's, whatever the request's parameters
    TEMPERED = "tempered"  # after bias, penalty and temperature, before filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request: prompt token ids and every parameter that changes the law."""

    number: int  # its place in the plan; answers are matched by it
    prompt: tuple[int, ...]
    length: int  # tokens to generate at most
    temperature: float = 1.0  # 0 is greedy
    seed: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token to what is added to its logit
    repetition_penalty: float | None = None
    logprobs: int | None = None  # of the sampled token and so many alternatives
    stop: tuple[int, ...] = ()  # token ids that end an answer (emitted or not: the engine declares it)
    ignore_eos: bool = True
    speculate: bool = True  # False asks for the plain path where the engine can choose by request
    abort_after: int | None = None  # tokens after which the caller hangs up


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one request."""

    number: int
    tokens: tuple[int, ...]
    finish: Finish
    logprobs: tuple[float, ...] | None = None  # of each emitted token
    steps: tuple[int, ...] | None = None  # tokens emitted by each speculation step, where the engine tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is bound into the receipt."""

    name: str  # "transformers", "openai-completions", ...
    version: str
    speculative: bool
    supports: frozenset[
        str
    ]  # parameters of Ask that it takes: "seed", "top_k", "logit_bias", "abort_after", "steps", ...
    vocab: int
    settings: Mapping[str, str]  # dtype, device, attention, server build: what can change a number
    stop_emitted: bool  # whether the stop token is part of the answer
    replays: frozenset[str] = frozenset()  # where an equal seed gives equal tokens: "alone", "batch", "order", "slot"
    most_concurrent: int = 0  # requests that it can have in flight; 0: no limit
    filters: str | None = None  # its line of filter_rules.ENGINES; None: it is not known
    logprobs_of: Logprobs = Logprobs.MODEL


class Engine(Protocol):
    """One engine, loaded. Errors of transport raise CampaignError after bounded retries; nothing is answered twice."""

    facts: Facts

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """Answer every ask once, in any order, at most `concurrency` in flight, batched together where it can."""
        ...

    def close(self) -> None:
        """Release the model or the connections."""
        ...
