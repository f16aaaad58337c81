"""The first request of a campaign whose outcome its law forbids, found by running it on the CPU reference again."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pp3.harness.campaign import SHARD, Campaign, pair_shards
from pp3.harness.design import cells_of, lags_of
from pp3.harness.paired import rows_for
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.kernels.addressing import Purpose
from pp3.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Offender:
    """One request: what addresses its draws, what it was given, what it emitted. Tables hold what is not 0."""

    request: int
    draft_key: int  # of Philox, for drafts
    key: int  # for verification
    round: int
    position: int  # of the first draft
    tickets: list[dict[int, int]]  # of each draft: the proposal's law over 2^24
    weights: list[dict[int, int]]  # of each token that may be emitted: the target's law over 2^24
    proposed: list[int]
    drafts: list[int]  # as verified
    tokens: list[int]


def first_offender(campaign: Campaign, seed: Seed, cell: str, size: int, outcome: int) -> Offender | None:
    """The first request that the reference sends to a forbidden outcome of a cell; None if there is none.

    None, too, for an outcome that more than one request makes.
    """
    name, depth_name, _ = cell.split("/", 2)
    depth = int(depth_name.removeprefix("depth-"))
    target = next(target for target in campaign.targets if target.name == name)
    first, end = span_of(campaign, name, depth, size)

    def seen(low: int, high: int) -> bool:
        tally = Tally(target, depth, cells_of(target, depth, lags_of(campaign)))
        batch = sampled_batch(target, depth, size, seed, low, high)
        tally.add(batch, ReferenceSampler().run(batch))
        tally.flush()
        return any((where, what) == (cell, outcome) for where, what, _ in tally.strays())

    for low in range(first, end, SHARD):
        high = min(low + SHARD, end)
        if not seen(low, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if seen(low, middle):
                high = middle
            elif seen(middle, high):
                low = middle
            else:
                return None
        return _of_request(target, depth, size, seed, low)
    return None


def span_of(campaign: Campaign, name: str, depth: int, size: int) -> tuple[int, int]:
    """Request numbers [first, end) of one target, depth and number of rows a launch."""
    first = sum(rows_for(pairs) for _, _, pairs in pair_shards(campaign))
    for target in campaign.targets:
        for each_depth in campaign.spec.depths:
            for each_size in campaign.spec.batch_sizes:
                end = first + campaign.requests_of(each_depth, each_size)
                if (target.name, each_depth, each_size) == (name, depth, size):
                    return first, end
                first = end
    raise KeyError((name, depth, size))


def _of_request(target: Target, depth: int, size: int, seed: Seed, request: int) -> Offender:
    batch = sampled_batch(target, depth, size, seed, request, request + 1)
    emission = ReferenceSampler().run(batch)
    proposed, drafts = emission.proposed[0].tolist(), emission.drafts[0].tolist()
    columns = np.arange(depth + 1)

    def rows(before: list[int]) -> Any:
        contexts = [0, *(int(target.context_of[token if 0 <= token < target.vocab else 0]) for token in before)]
        return target.row_of[columns, contexts]

    tickets, weights = target.proposal_weights()[rows(proposed)[:-1]], target.weights[rows(drafts)]
    return Offender(
        request=request,
        draft_key=int(batch.keys(Purpose.PROPOSAL)[0]),
        key=int(batch.keys(Purpose.VERIFY)[0]),
        round=int(batch.rounds[0]),
        position=int(batch.positions[0]),
        tickets=[_sparse(row) for row in tickets],
        weights=[_sparse(row) for row in weights],
        proposed=proposed,
        drafts=drafts,
        tokens=emission.tokens[0, : int(emission.num_sampled[0])].tolist(),
    )


def _sparse(row: Any) -> dict[int, int]:
    return {int(token): int(row[token]) for token in np.flatnonzero(row)}
