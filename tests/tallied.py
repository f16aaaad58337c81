"""Requests of a small target and their tally, and emissions that are damaged."""

from dataclasses import replace
from typing import Any

import torch

from pp3.harness.design import cells_of
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.targets import Target

SEED = Seed(bytes(range(32)))
REQUESTS = 1003  # odd, and no multiple of the patterns
FIELDS = ("status", "tokens", "num_sampled", "proposed", "drafts", "support", "tickets")


def requests(target: Target, depth: int, first: int = 0, last: int = REQUESTS) -> tuple[Batch, Emission]:
    """What the reference emits for requests [first, last)."""
    batch = sampled_batch(target, depth, 4, SEED, first, last)
    return batch, ReferenceSampler().run(batch)


def tally_of(target: Target, depth: int, *parts: tuple[Batch, Emission]) -> Tally:
    """The tally of some batches."""
    tally = Tally(target, depth, cells_of(target, depth))
    for batch, emission in parts:
        tally.add(batch, emission)
    return tally


def on_torch(emission: Emission) -> Emission:
    """The same emission as tensors."""
    return Emission(**{name: torch.tensor(getattr(emission, name)) for name in FIELDS})


def damaged(emission: Emission, field: str, index: Any, value: int) -> Emission:
    """One entry of one field changed."""
    array = getattr(emission, field).copy()
    array[index] = value
    return replace(emission, **{field: array})


def other(emission: Emission, i: int) -> int:
    """Another token of the same request's support."""
    token = int(emission.tokens[i, 0])
    return next(int(t) for t in emission.support[i, 0] if t != token)
