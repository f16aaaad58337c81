"""Under which conditions an engine is judged: parameters, company and order of its requests, and what each must show.

A condition that an engine cannot meet is left out with the reason. One that the profile requires makes the verdict
INCONCLUSIVE where it is missing, so that declaring less cannot buy a PASS.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from pp3.harness.engine.contract import LEFT_OUT, Facts
from pp3.harness.engine.law import Law, Setting, clear_min_p, clear_top_k, clear_top_p, error, law_of
from pp3.targets.chains import Chain

PLAIN = "/plain"  # ends the name of a condition that asks a speculative engine for its path without drafts
STREAM, SHORT, GREEDY_LENGTH, STOP_LENGTH = 256, 32, 24, 64  # tokens a request
STARTS = 8  # tokens of a request whose positions are judged one by one
SHARE = 20  # the stream has so many times the tokens of any other condition
LEAST_TOKENS = 2_048  # of a condition
GREEDY_ASKS, REPLAYED, TOLD = 256, 64, 128  # requests of the conditions that are compared exactly
HANGS_UP = 5  # tokens after which a caller hangs up, in one request of three
COOL, WARM = 0.7, 1.3
PENALTY = 1.5
FAVOURED, HINDERED, BANNED = 1.5, -2.0, -100.0  # added to logits
NOT_OFFERED = "the engine does not offer {}"
WITHHELD = "{} is left out by --without"
BOTH = ("starts", "cool", "top-k", "top-p", "min-p", "bias", "penalty", "end")  # with and without drafts
ALONE_ONLY = "the engine answers one request at a time"
TOO_NEAR = "at every {} some token lies within the rounding of the border"


class Kind(StrEnum):
    """What a condition is judged by."""

    LAW = "law"  # tokens given the class of the one before
    PENALTY = "penalty"  # tokens given all before them
    PENALTY_END = "penalty-end"  # likewise, of sequences that end
    GREEDY = "greedy"
    END = "end"  # of a sequence, by the model's own token
    STOP = "stop"  # by tokens of the request
    REPLAY = "replay"
    LOGPROB = "logprob"


class Order(StrEnum):
    """How requests arrive."""

    NUMBERED = "numbered"
    ALONE = "alone"  # one after the other
    CHURN = "churn"  # of different lengths, so that slots change hands
    REVERSED = "reversed"


ENDED = (Kind.END, Kind.PENALTY_END)  # begin at a door
PENALISED = (Kind.PENALTY, Kind.PENALTY_END)
EXACT = (Kind.GREEDY, Kind.REPLAY, Kind.LOGPROB)  # nothing of them is a matter of chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Requests of one kind."""

    name: str
    why: str
    kind: Kind = Kind.LAW
    settings: tuple[Setting, ...] = (Setting(),)  # dealt to requests in turn
    length: int = SHORT
    asks: int
    prompts: tuple[int, int] = (4, 4)  # fewest and most tokens
    order: Order = Order.NUMBERED
    speculate: bool = True
    seeded: bool = False
    hangs_up: bool = False
    stops: tuple[int, ...] = ()
    needs: frozenset[str] = frozenset()
    required: bool = False

    @property
    def concurrent(self) -> bool:
        """Whether its requests are in company."""
        return self.order is not Order.ALONE


def choose(
    chain: Chain, logits: Law, facts: Facts, tokens: int, concurrency: int
) -> tuple[list[Condition], dict[str, str]]:
    """Every condition that the engine can meet, and why the others are left out."""
    chosen, left_out = [], dict[str, str]()
    settings, unclear = filters(chain, logits)
    for condition in _all(chain, settings, tokens, facts.stop_emitted):
        reason = _reason(condition, facts, concurrency)
        if reason:
            left_out[condition.name] = reason
            continue
        even = 2 * (concurrency if condition.concurrent else 1) * len(condition.settings)
        rounded = condition.asks if condition.kind in EXACT else -(-condition.asks // even) * even
        chosen.append(replace(condition, asks=rounded, speculate=facts.speculative))
        if facts.speculative and condition.name in BOTH:
            if "speculate" in facts.supports:
                chosen.append(replace(chosen[-1], name=f"{condition.name}{PLAIN}", speculate=False, required=False))
            else:
                left_out[f"{condition.name}{PLAIN}"] = NOT_OFFERED.format("a choice of speculation by request")
    return chosen, left_out | unclear


def _reason(condition: Condition, facts: Facts, concurrency: int) -> str:
    lacking = sorted(condition.needs - facts.supports)
    if lacking:
        withheld = set(lacking) <= set(facts.settings.get(LEFT_OUT, "").split(", "))
        return (WITHHELD if withheld else NOT_OFFERED).format(", ".join(lacking))
    if concurrency == 1 and condition.order in (Order.CHURN, Order.REVERSED):
        return ALONE_ONLY
    if concurrency == 1 and (condition.hangs_up or len(condition.settings) > 1):
        return ALONE_ONLY
    return ""


def _all(chain: Chain, settings: dict[str, Setting], tokens: int, emitted: bool) -> Iterator[Condition]:
    side = max(LEAST_TOKENS, tokens // SHARE)
    few = -(-side // SHORT)
    cool, warm = Setting(name="cool", temperature=COOL), Setting(name="warm", temperature=WARM)
    yield Condition(
        name="stream",
        why="long sequences of one law, in company",
        length=STREAM,
        asks=-(-tokens // STREAM),
        required=True,
    )
    yield Condition(
        name="starts",
        why="prompts of different lengths: what follows a prompt, and padding",
        length=STARTS,
        asks=-(-side // STARTS),
        prompts=(1, 9),
        required=True,
    )
    yield Condition(name="alone", why="one request at a time", asks=few, order=Order.ALONE, required=True)
    yield Condition(name="cool", why="a temperature", settings=(cool,), asks=few, required=True)
    for name, setting in settings.items():
        penalty = setting.repetition_penalty is not None
        yield Condition(
            name=name,
            why="a penalty for tokens that were seen" if penalty else "a parameter, on every path",
            kind=Kind.PENALTY if penalty else Kind.LAW,
            settings=(setting,),
            asks=few,
            needs=setting.needs,
        )
    yield Condition(
        name="penalty-end",
        why="a penalty in company: what pads a shorter prompt was not seen",
        kind=Kind.PENALTY_END,
        settings=(settings["penalty"],),
        asks=few,
        prompts=(1, 9),
        needs=settings["penalty"].needs,
    )
    yield Condition(
        name="company",
        why="requests of two temperatures in one batch",
        settings=(cool, warm),
        asks=few,
        required=True,
    )
    yield Condition(name="churn", why="slots change hands", asks=few, order=Order.CHURN, required=True)
    yield Condition(name="reversed", why="requests arrive the other way round", asks=few, order=Order.REVERSED)
    yield Condition(
        name="aborted",
        why="neighbours hang up",
        asks=few,
        hangs_up=True,
        needs=frozenset({"abort_after"}),
    )
    yield Condition(
        name="seeded",
        why="consecutive seeds: draws of different requests are independent",
        asks=few,
        seeded=True,
        needs=frozenset({"seed"}),
    )
    yield Condition(
        name="end",
        why="nothing follows the end of a sequence",
        kind=Kind.END,
        asks=few,
        required=True,
    )
    yield Condition(
        name="stop",
        why="nothing follows a stop token of the request",
        kind=Kind.STOP,
        length=STOP_LENGTH,
        asks=few,
        stops=tuple(_likely(chain, 3 if emitted else 1)),  # which of several it was is else unknown
        needs=frozenset({"stop"}),
    )
    yield Condition(
        name="greedy",
        why="temperature 0 is the likeliest token",
        kind=Kind.GREEDY,
        settings=(Setting(name="greedy", temperature=0.0),),
        length=GREEDY_LENGTH,
        asks=min(GREEDY_ASKS, chain.ordinary),
        prompts=(1, 1),
        required=True,
    )
    yield Condition(
        name="replay",
        why="an equal seed gives equal tokens",
        kind=Kind.REPLAY,
        length=GREEDY_LENGTH,
        asks=REPLAYED,
        seeded=True,
        needs=frozenset({"seed"}),
    )
    yield Condition(
        name="logprobs",
        why="what is said of a token's probability",
        kind=Kind.LOGPROB,
        length=GREEDY_LENGTH,
        asks=TOLD,
        needs=frozenset({"logprobs"}),
    )


def filters(chain: Chain, logits: Law) -> tuple[dict[str, Setting], dict[str, str]]:
    """Parameters whose borders no rounding can move, and why others are left out."""
    rows = logits[: chain.classes - 1, :]  # all but the doors
    plain = law_of(rows, Setting())
    near = error(logits, Setting(temperature=COOL))
    top_k = clear_top_k(law_of(rows, Setting(temperature=COOL)), range(5, 41), near)
    top_p = clear_top_p(plain, np.arange(0.5, 0.95, 0.005).round(3), near)
    min_p = clear_min_p(plain, np.arange(0.05, 0.6, 0.002).round(3), near)
    settings = {
        "top-k": None if top_k is None else Setting(name="top-k", temperature=COOL, top_k=top_k),
        "top-p": None if top_p is None else Setting(name="top-p", top_p=top_p),
        "min-p": None if min_p is None else Setting(name="min-p", min_p=min_p),
    }
    unclear = {name: TOO_NEAR.format(name) for name, setting in settings.items() if setting is None}
    found = {name: setting for name, setting in settings.items() if setting is not None}
    favoured, hindered, banned = _likely(chain, 3)
    bias = {favoured: FAVOURED, hindered: HINDERED, banned: BANNED}
    found["bias"] = Setting(name="bias", logit_bias=bias)
    found["penalty"] = Setting(name="penalty", repetition_penalty=PENALTY)
    return found, unclear


def _likely(chain: Chain, count: int) -> list[int]:
    """The ordinary tokens with most mass over all classes."""
    mass = chain.weights[: chain.classes - 1].sum(axis=0)
    return [int(token) for token in np.argsort(-mass, kind="stable")[:count]]
