"""The contract of a sampler under test: one object with `describe()` and `run(batch)`.

A batch is rounds of requests. The harness computes the law from the raw carriers; the sampler must not change them.
Importing this module loads neither torch nor triton.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import BASE_POSITION, Seed
from pp3.kernels.addressing import Purpose
from pp3.targets import Target

WANTED = -2  # in `given`: draft this position yourself
INVALIDATED = -1  # in `given`: this draft is void


class Kind(StrEnum):
    """What a sampler does."""

    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Who a sampler is and what it declares. The harness finds and hashes the sources."""

    name: str
    version: str
    kind: Kind
    backend: str  # reference, interpreter or cuda
    module: str  # the module whose imports determine the numbers
    min_vocab: int = 2
    max_vocab: int = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Requests of one target and one depth, to be run `rows_per_launch` at a time."""

    target: Target
    depth: int
    seed: Seed
    requests: npt.NDArray[np.int64]  # [n] request numbers: identity and address of every draw
    sampled: npt.NDArray[np.bool_]  # [n] temperature > 0
    given: npt.NDArray[np.int32]  # [n, depth] WANTED, INVALIDATED or a draft token
    rows_per_launch: int
    carrier: bool = True  # False: the point-mass path, each draft a point mass

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def positions(self) -> npt.NDArray[np.uint64]:
        """Position of each request's first draft, [n]."""
        return np.full(len(self), BASE_POSITION, np.uint64)

    @property
    def rounds(self) -> npt.NDArray[np.uint64]:
        """Round of each request, [n]."""
        return self.seed.rounds(self.requests)

    def keys(self, purpose: Purpose) -> npt.NDArray[np.uint64]:
        """Philox key of each request, [n]."""
        return self.seed.keys(self.requests, purpose)

    def take(self, which: npt.NDArray[np.int64], rows_per_launch: int) -> "Batch":
        """The same requests in another choice, order or launch size."""
        return Batch(
            target=self.target,
            depth=self.depth,
            seed=self.seed,
            requests=self.requests[which],
            sampled=self.sampled[which],
            given=self.given[which],
            rows_per_launch=rows_per_launch,
            carrier=self.carrier,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Emission:
    """What a batch came to: NumPy arrays, or tensors on the sampler's device."""

    status: Any  # [n] int32, 0 is ok
    tokens: Any  # [n, depth + 1] int32; only columns below num_sampled are read
    num_sampled: Any  # [n] int32
    proposed: Any  # [n, depth] int32, before `given` replaced any
    drafts: Any  # [n, depth] int32, as verified
    support: Any  # [n, depth, 32] int32
    tickets: Any  # [n, depth, 32] int32


@runtime_checkable
class Sampler(Protocol):
    """A sampler under test."""

    def describe(self) -> Description:
        """Who it is."""

    def run(self, batch: Batch) -> Emission:
        """Emit one round for every request."""


def target_table(target: Target) -> npt.NDArray[np.float32]:
    """The carrier of the target law: its rows as probabilities, then the same rows at temperature 0, [2 * rows, V].

    A temperature-0 row is one-hot at the argmax, lower id on ties.
    """
    probs = (target.weights / 2.0**24).astype(np.float32)
    greedy = np.zeros_like(probs)
    np.put_along_axis(greedy, target.weights.argmax(axis=1)[:, None], np.float32(1), axis=1)
    return np.concatenate([probs, greedy])
