"""The sampled requests of a campaign, in batches: which are run together, and what each is."""

from collections.abc import Iterator

import numpy as np

from pp3.harness.ahead import ahead
from pp3.harness.backends import Backend
from pp3.harness.samplers.contract import INVALIDATED, WANTED, Batch, Sampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import pattern_of
from pp3.targets import Target, invalidated

SHARD, SMALL = 1 << 18, 1 << 14  # requests at once, on a GPU and elsewhere, where they should fit a cache


def batches(
    sampler: Sampler, target: Target, depth: int, size: int, seed: Seed, low: int, high: int
) -> Iterator[Batch]:
    """Requests [low, high) in batches of whole launches; on a GPU each is made while the one before it runs."""
    gpu = sampler.describe().backend == Backend.CUDA
    most = SHARD if gpu else min(SHARD, SMALL)
    step = max(size, most // size * size)
    made = (
        sampled_batch(target, depth, size, seed, first, min(first + step, high)) for first in range(low, high, step)
    )
    return ahead(made) if gpu and high - low > step else made


def sampled_batch(target: Target, depth: int, size: int, seed: Seed, first: int, last: int) -> Batch:
    """Requests [first, last): all sampled, drafts invalidated by the target's patterns in turn."""
    requests = np.arange(first, last)
    void = np.array([invalidated(pattern, depth) for pattern in target.patterns])
    given = np.where(void, INVALIDATED, WANTED).astype(np.int32)  # of each pattern
    return Batch(
        target=target,
        depth=depth,
        seed=seed,
        requests=requests,
        sampled=np.ones(len(requests), np.bool_),
        given=given[pattern_of(target, requests)],
        rows_per_launch=size,
    )
