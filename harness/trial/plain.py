"""Plain and filtered sampling: rows of one vocabulary under many settings, dealt to the requests of a batch in turn.

A row's settings and the order of its tokens are its own, so that what is read from another row, or applied on one path
only, shows. A case whose outcome the rounding of the sampler's own carrier decides is left out, and said so.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness import canonical
from pp3.harness.filters import Hit, Order, Outcome, Rules, Ties, law_of_logits, law_of_probs
from pp3.harness.samplers.contract import Carrier, Description
from pp3.harness.trial.seen import freeze
from pp3.targets.filtered import Case, cases
from pp3.targets.target import ONE

Weights = npt.NDArray[np.int64]
NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowTables:
    """The carriers and settings of each row, as a plain sampler is given them."""

    logits: npt.NDArray[np.float32]  # [rows, vocab], before temperature
    probs: npt.NDArray[np.float32]  # [rows, vocab], after temperature, before filters
    temperature: npt.NDArray[np.float32]  # [rows]
    top_k: npt.NDArray[np.int32] | None  # [rows]; None where no row has one
    top_p: npt.NDArray[np.float32] | None
    min_p: npt.NDArray[np.float32] | None

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeenRows:
    """Rows as a sampler saw them: harness/oracle.Judged with no drafts."""

    name: str
    tables: RowTables
    weights: Weights
    labels: tuple[str, ...]
    lump: Weights  # [rows, vocab] the token that a token is counted as
    row_of: Weights
    context_of: Weights
    starts: int
    total: int = 1
    patterns: tuple[str, ...] = ("none",)
    block: bool = False
    compares: bool = False

    def proposal_weights(self) -> Weights:
        """Nothing is drafted."""
        return self.weights

    def kept_weights(self) -> Weights:
        """Nothing is drafted."""
        return self.weights

    def void_weights(self) -> Weights:
        """Nothing is drafted."""
        return self.weights


@cache
def by_vocab() -> dict[str, list[Case]]:
    """Cases of one vocabulary together, the ids of each shifted by one more: a batch mixes laws and settings."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        mine = found[f"rows-of-{len(case.weights)}"]
        mine.append(replace(case, weights=np.roll(case.weights, len(mine))))
    return dict(found)


NAMES = tuple(by_vocab())


def rows(name: str, who: Description, left: dict[str, str]) -> SeenRows | str:
    """The cases of one vocabulary that a sampler's declarations cover; why another is left out goes to `left`."""
    vocab = len(by_vocab()[name][0].weights)
    if not who.min_vocab <= vocab <= who.max_vocab:
        return f"vocabulary {vocab}; the sampler declares {who.min_vocab} to {who.max_vocab}"
    fitting: list[tuple[Case, Outcome]] = []
    for case in by_vocab()[name]:
        found = _law(case, who)
        if isinstance(found, str):
            left[f"{name}/{case.name}"] = found
        else:
            fitting.append((case, found))
    if not fitting:
        return "no case of it applies"
    settings = [case.settings for case, _ in fitting]
    carried = RowTables(
        logits=np.stack([case.logits for case, _ in fitting]),
        probs=np.stack([heated(case) for case, _ in fitting]),
        temperature=np.array([one.temperature for one in settings], np.float32),
        top_k=_column(settings, "top_k", np.int32),
        top_p=_column(settings, "top_p", np.float32),
        min_p=_column(settings, "min_p", np.float32),
    )
    return SeenRows(
        name=name,
        tables=carried,
        weights=np.stack([outcome.weights for _, outcome in fitting]),
        labels=tuple(case.name for case, _ in fitting),
        lump=np.stack([outcome.cell_of for _, outcome in fitting]),
        row_of=np.arange(len(fitting))[None, :],
        context_of=np.zeros(vocab, np.int64),
        starts=len(fitting),
    )


def digest(name: str) -> str:
    """SHA-256 of everything that defines the laws of a vocabulary's cases."""
    return canonical.sha256(
        [
            {
                "name": case.name,
                "settings": {key: repr(getattr(case.settings, key)) for key in NEUTRAL},
                "weights": case.weights.tolist(),
            }
            for case in by_vocab()[name]
        ]
    )


def _law(case: Case, who: Description) -> Outcome | str:
    """What a sampler is held to on a case, or why it is not."""
    by_probs = who.target_carrier == Carrier.PROBS
    settings = case.settings
    for name, neutral in NEUTRAL.items():
        used = getattr(settings, name) != neutral
        if used and name not in who.filters and not (name == "temperature" and by_probs):
            return f"{name} is not declared"
    if not settings.temperature and not who.greedy:
        return "temperature 0 is not declared"
    rules = Rules(order=Order(who.order), ties=Ties(who.ties), top_p_ties=Ties(who.top_p_ties), hit=Hit(who.top_p_hit))
    if not by_probs:
        found = law_of_logits(case.logits, settings, rules)
    elif settings.temperature in (0, 1):
        found = law_of_probs(case.weights, settings, rules)
    else:  # the temperature is in the probabilities already
        found = law_of_probs(heated(case), replace(settings, temperature=1.0), rules)
    return found.law if len(found.outcomes) == 1 else "FP32 rounding decides it"


def heated(case: Case) -> npt.NDArray[np.float32]:
    """Probabilities [vocab] after temperature; at 0 those of temperature 1."""
    if case.settings.temperature in (0, 1):
        return case.probs
    with np.errstate(divide="ignore"):
        wide = np.log(case.weights / ONE) / np.float32(case.settings.temperature).astype(np.float64)
    mass = np.exp(wide - wide.max())
    probs: npt.NDArray[np.float32] = (mass / mass.sum()).astype(np.float32)
    return probs


def _column(settings: list[Any], name: str, dtype: Any) -> Any:
    values = [getattr(one, name) for one in settings]
    return None if all(value == NEUTRAL[name] for value in values) else np.array(values, dtype)
