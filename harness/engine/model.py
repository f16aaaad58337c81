"""The model that our own server serves: a Markov law of the next token, and the logits that its drafter draws from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.contract import Ask
from pp3.harness.errors import CampaignError
from pp3.kernels.reference import MIN_VOCAB, Supports, allocate
from pp3.targets import chains, toy
from pp3.targets.target import ONE

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
FAINT = -30.0  # draft logit of a token that the proposal never draws
MARKOV = ("context",)  # of the targets whose law depends on the previous token alone
NAMES = (*chains.NAMES, *MARKOV)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """Laws over 2^24 by class of the previous token, and the tickets of each class's drafts."""

    name: str
    weights: Integers  # [classes, vocab]
    supports: Supports  # [classes, 32]
    class_of: Integers  # [vocab]
    end: int | None  # the token that ends a sequence

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return len(self.class_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The parameters of a request that change a law. Defaults change nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()
    penalty: float = 1.0

    @classmethod
    def of(cls, ask: Ask) -> "Rule":
        """What a request asks for."""
        return cls(
            temperature=ask.temperature,
            top_k=ask.top_k or 0,
            top_p=1.0 if ask.top_p is None else ask.top_p,
            min_p=ask.min_p or 0.0,
            bias=tuple(sorted(ask.logit_bias.items())),
            penalty=1.0 if ask.repetition_penalty is None else ask.repetition_penalty,
        )


NEUTRAL = Rule()


def load(name: str) -> Model:
    """The model of a target. Raises CampaignError for a name not in NAMES."""
    if name in chains.NAMES:
        chain = chains.build(name)
        return Model(
            name=name,
            weights=chain.weights,
            supports=allocate(_logits(chain.draft_weights)),
            class_of=chain.class_of,
            end=chain.end,
        )
    if name in MARKOV:
        target = toy.build(name)
        rows = target.row_of[0]
        return Model(
            name=name,
            weights=target.weights[rows],
            supports=allocate(target.draft_logits[rows]),
            class_of=target.context_of,
            end=None,
        )
    raise CampaignError(f"target {name!r} is no Markov chain; choose from {', '.join(NAMES)}")


def law(weights: Integers, rule: Rule, seen: Sequence[int] = ()) -> npt.NDArray[np.float32]:
    """[vocab] of one row of weights over 2^24: exact where the rule changes nothing, one-hot at temperature 0.

    Bias, repetition penalty on the tokens `seen`, temperature, min-p, top-k, top-p: vLLM's order and ties
    (filter_rules.ENGINES["vllm-torch"]).
    """
    if rule == NEUTRAL:
        return _single(weights / ONE)
    with np.errstate(divide="ignore"):
        logits = np.log(weights / ONE)
    for token, bias in rule.bias:
        logits[token] += bias
    if rule.penalty != 1:
        at = np.unique(np.asarray(seen, np.int64))
        logits[at] = np.where(logits[at] > 0, logits[at] / rule.penalty, logits[at] * rule.penalty)
    if rule.temperature == 0:
        return _single(np.arange(len(logits)) == logits.argmax())
    heated = (logits - logits.max()) / rule.temperature
    probs = np.exp(heated)
    kept = probs >= rule.min_p * probs.max()
    if 0 < rule.top_k < int(kept.sum()):
        kept &= probs >= np.sort(probs[kept])[-rule.top_k]
    if rule.top_p < 1:
        kept &= _nucleus(np.where(kept, probs, 0.0), rule.top_p)
    probs[~kept] = 0
    return _single(probs / probs.sum())


def _single(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    return values.astype(np.float32)


def _nucleus(probs: Floats, share: float) -> npt.NDArray[np.bool_]:
    """The likeliest tokens, up to and with the one that brings their share to `share`."""
    order = np.argsort(-probs, kind="stable")
    before = np.cumsum(probs[order]) - probs[order]
    kept = np.zeros(len(probs), np.bool_)
    kept[order] = before < share * probs.sum()
    return kept


def _logits(weights: Integers) -> npt.NDArray[np.float32]:
    """Draft logits of a proposal's weights [rows, vocab]; the vocabulary is large enough for a support."""
    if weights.shape[1] < MIN_VOCAB:
        raise CampaignError(f"a vocabulary of {weights.shape[1]}; the drafter needs {MIN_VOCAB}")
    return np.where(weights > 0, np.log(np.maximum(weights, 1) / ONE), FAINT).astype(np.float32)
