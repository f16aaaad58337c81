"""What a path did, held against what its plan and seed imply: which requests were to be lost, and how.

Everything but what the engine counted is recomputed, so that a receipt cannot say that less was injected.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness import paired
from pp3.harness.campaign import SHARD, pair_shards
from pp3.harness.errors import VerificationError
from pp3.harness.places import halves
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import INVALIDATED, WANTED
from pp3.harness.seeds import Seed
from pp3.harness.transport.faults import KINDS, Dealt, deal
from pp3.harness.transport.path import LOSSES, SEEN, UNEXPECTED
from pp3.harness.transport.wire_plan import WireCampaign
from pp3.kernels.reference import allocate
from pp3.targets import Target

Array = npt.NDArray[Any]
DERIVED = ("frames", "injected", "rows", "sampled")


def implied(campaign: WireCampaign, seed: Seed) -> dict[str, Any]:
    """The derived part of Journey.plain()."""
    return summed(_batches(campaign, seed))


def summed(batches: Iterable[tuple[Dealt, Array]]) -> dict[str, Any]:
    """The derived part of Journey.plain(), of batches in frames and which of their requests [n] bool are sampled."""
    injected: Counter[str] = Counter()
    frames = rows = sampled = 0
    for dealt, warm in batches:
        injected.update(dealt.injected())
        frames += len(dealt.frames)
        rows += len(warm)
        sampled += int(warm.sum())
    return {
        "frames": frames,
        "injected": {kind.value: injected[kind.value] for kind in KINDS},
        "rows": rows,
        "sampled": sampled,
    }


def check(campaign: WireCampaign, seed: Seed, said: dict[str, Any]) -> int:
    """The number of requests that were to be lost. VerificationError unless the derived part is that of the plan."""
    return compare(implied(campaign, seed), said)


def compare(wanted: dict[str, Any], said: dict[str, Any]) -> int:
    """The number of requests that were to be lost. VerificationError unless what is said is what is implied."""
    for key in DERIVED:
        if said[key] != wanted[key]:
            raise VerificationError(f"{key} are {said[key]}; plan and seed imply {wanted[key]}")
    if set(said["counted"]) != set(SEEN):
        raise VerificationError(f"counted must name {', '.join(SEEN)}")
    return sum(wanted["injected"].values())


def findings(said: dict[str, Any]) -> list[str]:
    """What is against a path: losses that are not those injected, and rows that arrived as others than were sent."""
    wanted = dict.fromkeys(SEEN, 0)
    for kind in KINDS:
        wanted[LOSSES[kind]] += said["injected"][kind.value]
    found = [
        f"{said['counted'][seen]:,} requests were lost as {seen}, {count:,} were injected"
        for seen, count in wanted.items()
        if seen != UNEXPECTED and said["counted"][seen] != count
    ]
    if said["counted"][UNEXPECTED]:
        found.append(f"{said['counted'][UNEXPECTED]:,} requests were lost otherwise than injected, or not at all")
    if said["altered"]:
        found.append(f"{said['altered']:,} proposals arrived as others than were sent")
    return found


def _batches(campaign: WireCampaign, seed: Seed) -> Iterator[tuple[Dealt, Array]]:
    """Every batch that goes over the path, in frames, and which of its requests are sampled: run.py's order."""
    first = 0
    for target, depth, pairs in pair_shards(campaign):
        n = paired.rows_for(pairs)
        if n:
            given, warm = greedy_rows(target, depth, seed, first, pairs)
            label = f"{target.name}/{depth}/{first}"
            yield deal(seed, label, given[:, 0] == INVALIDATED, paired.MIXED_ROWS), warm
        first += n
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            for size in campaign.spec.batch_sizes:
                last = first + campaign.requests_of(depth, size)
                for low, high in halves(first, last):
                    for start in range(low, high, SHARD):
                        batch = sampled_batch(target, depth, size, seed, start, min(start + SHARD, high))
                        label = f"{target.name}/{depth}/{start}"
                        yield deal(seed, label, batch.given[:, 0] == INVALIDATED, size), batch.sampled
                first = last


def greedy_rows(target: Target, depth: int, seed: Seed, first: int, pairs: int) -> tuple[Array, Array]:
    """What a batch of temperature-0 pairs gives [n, depth], and which of its rows [n] are sampled: paired.run's."""
    n = paired.rows_for(pairs)
    warm = np.arange(n) % paired.SAMPLED_EVERY == 1
    warm[np.flatnonzero(~warm)[pairs:]] = True
    given, _, _ = paired._deal(target, depth, allocate(target.draft_logits), seed, first, n)
    given[warm] = WANTED
    return given, warm
