"""The contract of a sampler under test: one object with `describe()` and `run(batch)`.

A batch is one round of many requests; one after the other they are rounds of one stream (harness/samplers/stream.py).
The harness computes the law from the raw carriers; the sampler must not change them. Importing this module loads
neither torch nor triton; a batch makes its tensors when they are first asked for.
"""

import difflib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.stream import Turn, alone
from pp3.harness.seeds import BASE_POSITION, Seed
from pp3.kernels.addressing import Purpose
from pp3.targets import Target

TENSORS = "pp3.harness.samplers.tensors"  # by name: our own samplers do without, and their receipts do not bind it
WANTED = -2  # in `given`: draft this position yourself
INVALIDATED = -1  # in `given`: this draft is void
ABSENT = -3  # in `given`: this request has no such draft


class Kind(StrEnum):
    """What a sampler does."""

    PLAIN = "plain"  # draws one token from each row of logits
    PROPOSAL = "proposal"  # drafts `depth` tokens
    VERIFIER = "verifier"  # judges given drafts and emits
    PIPELINE = "pipeline"  # drafts, then judges its own drafts and emits
    ENGINE = "engine"  # the same, and nobody sees its drafts


class Carrier(StrEnum):
    """What a law travels in."""

    PROBS = "probs"  # probabilities, after temperature and filters
    LOGITS = "logits"  # draft logits before temperature; target logits are processed
    SCALED_LOGITS = "scaled-logits"  # draft logits divided by the temperature
    TICKETS = "tickets"  # 32 ids and integer shares of 2^24
    ONE_HOT = "one-hot"  # no draft law: each draft counts as a point mass


class Randomness(StrEnum):
    """Where a sampler's random numbers come from."""

    ADDRESSED = "addressed"  # Philox as in semantics section 1: any word can be chosen
    INJECTED = "injected"  # the batch's coins
    KEYED = "keyed"  # the batch's seeds and pos
    GENERATOR = "generator"  # the batch's torch.Generator
    GLOBAL = "global"  # torch's own


class Void(StrEnum):
    """What a verifier emits for an invalidated draft."""

    FULL_TARGET = "full-target"
    RESIDUAL = "residual"
    UNSUPPORTED = "unsupported"


class Rule(StrEnum):
    """How drafts are judged."""

    STANDARD = "standard"  # min(1, P/Q), then (P - Q)+
    BLOCK = "block"  # Sun et al. 2024
    SAMPLE_MATCH = "sample-match"  # draw from the target, keep the draft if it is equal
    LOSSY = "lossy"  # another law than the target's, by design: a negative control


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Who a sampler is and what it declares; only name and kind are needed. ValueError for an unknown declaration.

    The harness finds and hashes the source files itself.
    """

    name: str
    kind: Kind | str
    version: str = "unknown"
    backend: str = ""  # reference, interpreter, cuda or cpu; by default the device it was given
    module: str = ""  # the module whose imports determine the numbers; by default the sampler's own
    files: tuple[tuple[str, str], ...] = ()  # further source files, as (name, SHA-256)
    target_carrier: Carrier | str = Carrier.LOGITS
    draft_carrier: Carrier | str = Carrier.PROBS
    randomness: Randomness | str = Randomness.GENERATOR
    row_key: str = "request"  # what the random numbers of a row follow from: request or slot
    rule: Rule | str = Rule.STANDARD
    void: Void | str = Void.FULL_TARGET
    filters: tuple[str, ...] = ()  # of temperature, top_k, top_p, min_p: what a plain sampler applies
    order: str = "top-k-first"  # of its filters; harness/filter_rules.py says who uses which
    ties: str = "value-only"  # at the border of top-k: value-only, lower-id or all-kept
    top_p_ties: str = "value-only"  # at the border of top-p
    top_p_hit: str = "stops"  # what follows a sum that equals top_p: stops or goes-on
    greedy: bool = False  # whether temperature 0 means the argmax
    ragged: bool = False  # whether it takes requests with fewer drafts than the batch's depth
    rows_per_launch: int = 0  # 0: as many as the harness likes
    min_vocab: int = 2
    max_vocab: int = 1 << 31

    def __post_init__(self) -> None:
        for field in ("name", "version"):
            object.__setattr__(self, field, str(getattr(self, field)))  # torch's version is a class of its own
        for field, kind in DECLARED.items():
            value = getattr(self, field)
            if value not in list(kind):
                raise ValueError(f"{field} = {value!r}; choose from {', '.join(kind)}")
        if self.row_key not in ROW_KEYS:
            raise ValueError(f"row_key = {self.row_key!r}; choose from {', '.join(ROW_KEYS)}")
        if not self.name or len(self.name) > LONGEST_NAME:
            raise ValueError(f"name = {self.name!r}; give 1 to {LONGEST_NAME} characters")


DECLARED: dict[str, type[StrEnum]] = {
    "kind": Kind,
    "target_carrier": Carrier,
    "draft_carrier": Carrier,
    "randomness": Randomness,
    "rule": Rule,
    "void": Void,
}
ROW_KEYS = ("request", "slot")
LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One round of n requests of one target and one depth, to be run `rows_per_launch` at a time.

    Tensors are on `device`, by row; T is the temperature, V the vocabulary, K the depth:

        temperature, top_p, min_p  [n] fp32 (T = 0: greedy); top_k [n] int32; None where the campaign sets none
        identities                 [n] int64: which request of the stream a row is; its slot, seed and temperature stay
        round_number               int: how many rounds the identities had before
        seeds, pos                 [n] int64: pos goes on by K + 1 a round
        slots                      [n] int64, all different, below num_slots
        generation                 [n] int64: how many requests had the row's slot before
        logits, probs              [n, V] fp32: what a plain sampler draws from, before and after temperature
        draft_ids                  [n, K] int32, -1 where invalidated or absent: what a verifier judges
        num_drafts                 [n] int32 (NumPy; tensors.num_drafts on the device): how many drafts a request has
        draft_probs, draft_logits  [n, K, V] fp32, after and before temperature
        target_probs, target_logits  [n, K + 1, V] fp32, both processed: temperature and filters are in them
        coins, final_coins         [n, K], [n] fp32 in [0, 1)
        generator                  torch.Generator

    A pipeline asks for rows as its drafts unfold: draft_logits_after(j, previous), target_logits_after(drafts).
    """

    target: Any  # harness/oracle.Judged
    depth: int
    seed: Seed
    requests: npt.NDArray[np.int64]  # [n] request numbers: identity and address of every draw
    sampled: npt.NDArray[np.bool_]  # [n] temperature > 0
    given: npt.NDArray[np.int32]  # [n, depth] WANTED, INVALIDATED, ABSENT or a draft token
    rows_per_launch: int
    carrier: bool = True  # False: the point-mass path, each draft a point mass
    device: str = "cpu"
    turn: Turn | None = None  # identities, slots and round; by default every request is new

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def rounds(self) -> npt.NDArray[np.uint64]:
        """Round of each request, [n]; with keys and positions, the address of its words."""
        return self.seed.rounds(self.requests)

    @cached_property
    def num_drafts(self) -> npt.NDArray[np.int32]:
        """Drafts of each request, [n]: those after them are ABSENT."""
        count: npt.NDArray[np.int32] = (self.given != ABSENT).sum(axis=1, dtype=np.int32)
        count.flags.writeable = False
        return count

    @cached_property
    def held(self) -> Turn:
        """Who is in the batch: `turn`, or each request alone in a round of its own."""
        return self.turn or alone(self.seed, self.target.name, self.requests)

    @property
    def positions(self) -> npt.NDArray[np.uint64]:
        """Position of each request's first draft, [n]."""
        return np.full(len(self), BASE_POSITION, np.uint64)

    def keys(self, purpose: Purpose) -> npt.NDArray[np.uint64]:
        """Philox key of each request, [n]."""
        return self.seed.keys(self.requests, purpose)

    def take(self, which: npt.NDArray[np.int64], rows_per_launch: int) -> "Batch":
        """The same requests in another choice, order or launch size; each is who it was, where it was."""
        return replace(
            self,
            requests=self.requests[which],
            sampled=self.sampled[which],
            given=self.given[which],
            rows_per_launch=rows_per_launch,
            turn=None if self.turn is None else self.turn.take(which),
        )

    @cached_property
    def tensors(self) -> Any:
        """The tensors of this batch, harness/samplers/tensors.py. Needs torch."""
        return import_module(TENSORS).Tensors(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        tensors = self.tensors
        if not hasattr(type(tensors), name) and name not in vars(tensors):
            near = difflib.get_close_matches(name, dir(type(tensors)), 1)
            raise AttributeError(f"a batch has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return getattr(tensors, name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Emission:
    """What a batch came to: NumPy arrays, or tensors on the sampler's device."""

    tokens: Any  # [n, depth + 1] int; only columns below num_sampled are read
    num_sampled: Any = None  # [n] int, 1 to depth + 1
    drafts: Any = None  # [n, depth] int, as verified
    proposed: Any = None  # [n, depth] int, before `given` replaced any
    status: Any = None  # [n] int, 0 is ok
    support: Any = None  # [n, depth, 32] int32
    tickets: Any = None  # [n, depth, 32] int32


@runtime_checkable
class Sampler(Protocol):
    """A sampler under test. `run` may return an Emission, or plain tokens [n] or [n, 1] of a plain sampler, or
    (tokens, num_sampled) of a verifier. One that keeps state has `reset()` too."""

    def describe(self) -> Description:
        """Who it is."""

    def run(self, batch: Batch) -> Any:
        """Emit one round for every request."""


def target_table(target: Target) -> npt.NDArray[np.float32]:
    """The carrier of the target law: its rows as probabilities, then the same rows at temperature 0, [2 * rows, V].

    A temperature-0 row is one-hot at the argmax, lower id on ties.
    """
    probs = (target.weights / 2.0**24).astype(np.float32)
    greedy = np.zeros_like(probs)
    np.put_along_axis(greedy, target.weights.argmax(axis=1)[:, None], np.float32(1), axis=1)
    return np.concatenate([probs, greedy])
