"""Paired temperature-0 requests: every emitted token and length against the point-mass path.

A temperature-0 request is run in a launch mixed with sampled rows, with the proposal's carrier; the same request and
drafts are run again without a carrier, each draft a point mass; and the walk is done here from the target's argmax.
All three must agree. Nothing is random, so what counts is which inputs are met: drafts are the argmax, its rivals,
tokens without mass, the sampler's own, and -1, dealt by a hash of the seed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.samplers.contract import INVALIDATED, WANTED, Batch, Emission, Sampler
from pp3.harness.seeds import Seed, integers
from pp3.kernels.reference import Supports, allocate
from pp3.targets import Target

MIXED_ROWS, ALONE_ROWS = 257, 1021  # rows a launch: mixed with sampled ones, and on the point-mass path
SAMPLED_EVERY = 4  # one row in four is sampled
Array = npt.NDArray[Any]


@dataclass(slots=True, kw_only=True)
class PairTally:
    """Pairs compared, pairs that differ, and the first that does."""

    pairs: int = 0
    mismatches: int = 0
    first: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {"first": self.first, "mismatches": self.mismatches, "pairs": self.pairs}


def run(sampler: Sampler, target: Target, depth: int, seed: Seed, first_request: int, pairs: int) -> PairTally:
    """Compare `pairs` requests of one target and depth; request numbers from first_request on."""
    n = rows_for(pairs)
    sampled = np.arange(n) % SAMPLED_EVERY == 1
    greedy = np.flatnonzero(~sampled)[:pairs]
    sampled[np.flatnonzero(~sampled)[pairs:]] = True
    supports = allocate(target.draft_logits)
    given, expected_tokens, expected_lengths = _deal(target, depth, supports, seed, first_request, n)
    given[sampled] = WANTED
    batch = Batch(
        target=target,
        depth=depth,
        seed=seed,
        requests=first_request + np.arange(n),
        sampled=sampled,
        given=given,
        rows_per_launch=MIXED_ROWS,
    )
    mixed = _host(sampler.run(batch))
    point = batch.take(greedy, ALONE_ROWS)
    alone = _host(sampler.run(replace(point, carrier=False)))
    tally = PairTally(pairs=len(greedy))
    tokens, lengths = mixed[0][greedy], mixed[1][greedy]
    differ = np.zeros(len(greedy), np.bool_)
    for path, got_tokens, got_lengths in (
        ("mixed against point-mass", alone[0], alone[1]),
        ("mixed against the argmax walk", expected_tokens[greedy], expected_lengths[greedy]),
    ):
        live = np.arange(depth + 1) < np.maximum(lengths, got_lengths)[:, None]
        wrong = (lengths != got_lengths) | ((tokens != got_tokens) & live).any(axis=1)
        differ |= wrong
        if wrong.any() and not tally.first:
            at = int(np.flatnonzero(wrong)[0])
            tally.first = {
                "drafts": point.given[at].tolist(),
                "expected": got_tokens[at].tolist(),
                "got": tokens[at].tolist(),
                "path": path,
                "request": int(batch.requests[greedy[at]]),
            }
    tally.mismatches = int(differ.sum())
    return tally


def rows_for(pairs: int) -> int:
    """Rows that hold `pairs` temperature-0 requests and the sampled ones among them."""
    return -(-pairs * SAMPLED_EVERY // (SAMPLED_EVERY - 1)) + 1 if pairs else 0


def _deal(
    target: Target, depth: int, supports: Supports, seed: Seed, first_request: int, n: int
) -> tuple[Array, Array, Array]:
    """Drafts for every request, and the tokens [n, depth + 1] and lengths that the argmax walk gives."""
    label = f"paired/{target.name}/{depth}/{first_request}"
    choice = integers(seed, label, n * depth).reshape(n, depth)
    best = target.weights.argmax(axis=1)
    tokens = np.full((n, depth + 1), -1, np.int64)
    lengths = np.zeros(n, np.int32)
    given = np.full((n, depth), WANTED, np.int32)
    alive = np.ones(n, np.bool_)
    context = own_context = np.zeros(n, np.int64)
    for j in range(depth + 1):
        argmax = best[target.row_of[j, context]]
        tokens[alive, j] = argmax[alive]
        lengths += alive
        if j == depth:
            break
        own_row = target.row_of[j, own_context]
        own = supports.first[own_row]
        own_context = target.context_of[own]
        kind, pick = choice[:, j] % 16, (choice[:, j] >> np.uint64(8)).astype(np.int64)
        drawable = supports.ids[own_row, pick % supports.ids.shape[1]]
        drafts = np.select(
            [kind < 9, kind < 11, kind < 13, kind < 15], [argmax, own, drawable, pick % target.vocab], INVALIDATED
        )
        given[:, j] = np.where((kind >= 9) & (kind < 11), WANTED, drafts)
        alive = alive & (drafts == argmax)
        context = target.context_of[np.maximum(drafts, 0)]
    return given, tokens, lengths


def _host(emission: Emission) -> tuple[Array, Array]:
    """Tokens and lengths on the host; a failed request has length 0."""
    fields = (emission.tokens, emission.num_sampled)
    return tuple(field if isinstance(field, np.ndarray) else field.cpu().numpy() for field in fields)  # type: ignore[return-value]  # two of them
