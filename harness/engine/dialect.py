"""How an engine spells a request and its answer: what differs between engines, and what they share."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from pp3.harness.engine.contract import Ask, Finish, Logprobs
from pp3.harness.engine.transport import AttemptError

Body = dict[str, Any]
FINISHES = {"length": Finish.LENGTH, "limit": Finish.LENGTH, "stop": Finish.STOP, "eos": Finish.STOP}
ALONE = frozenset({"alone"})
EVERYWHERE = frozenset({"seed", "top_p", "logit_bias", "logprobs", "abort_after"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one reply, or one event of a stream, tells."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    finish: Finish | None = None  # None: there is more to come
    steps: tuple[int, ...] | None = None
    counted: int | None = None  # tokens that the engine says it made in all
    from_start: bool = False  # of a stream: tokens so far, not only the new ones
    read: tuple[int, ...] | None = None  # the prompt's tokens, as the engine says that it read them
    read_count: int | None = None  # how many these are


class Dialect(Protocol):
    """What differs between engines."""

    @property
    def name(self) -> str:
        """As a user chooses it."""

    @property
    def path(self) -> str:
        """Where a request is sent."""

    @property
    def about(self) -> str | None:
        """Where the version is told."""

    @property
    def prompt_keys(self) -> tuple[str, str]:
        """Where a body has its prompt: as token ids, as text."""

    @property
    def tokenize(self) -> tuple[str, str] | None:
        """Where a text is made tokens, and the key of the text in the body; None where it is not offered."""

    @property
    def told_at(self) -> str | None:
        """Where it is told whether the engine speculates."""

    @property
    def stop_emitted(self) -> bool:
        """See Facts."""

    @property
    def replays(self) -> frozenset[str]:
        """See Facts: what the engine's own documentation claims of its seeds."""

    @property
    def logprobs_of(self) -> Logprobs:
        """See Facts."""

    @property
    def filters(self) -> str | None:
        """See Facts; None where it depends on how the engine was started."""

    def supports(self, speculative: bool) -> frozenset[str]:
        """See Facts: of an engine that was started with speculation or without."""

    def body(self, ask: Ask, model: str) -> Body:
        """The JSON of a request."""

    def part(self, reply: Any) -> Part:
        """What a reply or an event says. Another shape raises AttemptError, KeyError, TypeError or ValueError."""

    def speculates(self, content: bytes) -> bool | None:
        """Whether the engine speculates, of what `told_at` answers; None if that does not say."""

    def settings(self, about: Any) -> tuple[str, dict[str, str]]:
        """Version, and what can change a number; of what `about` answers."""


def refusal(reply: Any) -> AttemptError:
    """What an engine says in the place of an answer, under HTTP 200."""
    error = reply["error"]
    return AttemptError(f"the engine says: {str(error.get('message', ''))[:300]}", again=False)


def integers(values: Any) -> tuple[int, ...]:
    """Token ids."""
    if not all(type(value) is int for value in values):
        raise AttemptError("a token id is no integer", again=False)
    return tuple(values)


def floats(values: Any) -> tuple[float, ...]:
    """Log-probabilities; JSON has no -inf."""
    return tuple(-math.inf if value is None else float(value) for value in values)


def finish_of(reason: str | None) -> Finish | None:
    """None while there is more to come."""
    if reason is None or reason in FINISHES:
        return None if reason is None else FINISHES[reason]
    raise AttemptError(
        f"the engine ended an answer with {reason!r}; known are {', '.join(FINISHES)}", again=reason == "abort"
    )
