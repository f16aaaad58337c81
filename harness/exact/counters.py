"""The ledger of random words: which (key, counter, word) a campaign consumes, and that none is consumed twice.

Which words decide is derived from what was emitted: a proposal reads word 0, a judged draft word 0, an emitted token
words 1 and 2. The reference's random source is recorded, and must be read at just those blocks; the kernels read the
same, since their outputs are the same bits.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pp3.harness.campaign import of_document
from pp3.harness.exact.enumeration import Enumeration, Values
from pp3.harness.run import sampled_batch
from pp3.harness.samplers.contract import WANTED, Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import addressing, reference
from pp3.kernels.addressing import U32, U64, Purpose, request_key

CLAIM = "no (key, counter, word) is consumed twice in a campaign, none at temperature 0, and a million near keys differ"
REQUESTS = 2000  # of each target and depth
NEAR = 1_000_000
SEED = Seed(b"pp3 ledger of counters, 32 bytes")
SEED_EXTREMES = ((0, 1), (-1, -1), ((1 << 63) - 1, -1), (-(1 << 63), 1), (1 << 32, 1))
Block = tuple[U64, U64, U64]


def expect() -> Values:
    """Every consumed address distinct; the same numbers whoever counts them."""
    consumed, _, _ = ledger()
    return {"consumed": [consumed], "distinct": [consumed], "elsewhere": [0], "greedy": [0], "near-keys": [NEAR, NEAR]}


def observe() -> Enumeration:
    """Record a campaign's blocks and count the distinct ones."""
    consumed, distinct, elsewhere = ledger()
    values: Values = {
        "consumed": [consumed],
        "distinct": [distinct],
        "elsewhere": [elsewhere],
        "greedy": [greedy_blocks()],
        "near-keys": [NEAR, len({*near_keys()})],
    }
    return Enumeration(id="counters", claim=CLAIM, compared=consumed + NEAR, values=values)


def ledger() -> tuple[int, int, int]:
    """Words consumed by REQUESTS requests of every target and depth, how many differ, and blocks read elsewhere."""
    rows = []
    first = elsewhere = 0
    for target in of_document({}, "default").targets:
        for depth in (4, 5):
            batch = sampled_batch(target, depth, 4, SEED, first, first + REQUESTS)
            first += REQUESTS
            with recorded() as blocks:
                emission = ReferenceSampler().run(batch)
            rows.append(_consumed(batch, emission))
            read = {tuple(row) for block in blocks for row in np.stack(block, axis=1).tolist()}
            elsewhere += len(read ^ {tuple(row) for row in rows[-1][:, :3].tolist()})
    whole = np.concatenate(rows)
    return len(whole), len(np.unique(whole, axis=0)), elsewhere


def _consumed(batch: Batch, emission: Emission) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Rows (key, round, position, word) that decide something in a batch of sampled requests."""
    n, depth = len(batch), batch.depth
    kept = emission.num_sampled - 1
    void = np.concatenate([batch.given == -1, np.zeros((n, 1), np.bool_)], axis=1)
    parts = []
    for purpose, word, uses in (
        (Purpose.PROPOSAL, 0, [np.ones(n, np.bool_)] * depth),
        (Purpose.VERIFY, 0, [(kept >= j) & ~void[:, j] for j in range(depth)]),
        (Purpose.VERIFY, 1, [kept == j for j in range(depth + 1)]),
        (Purpose.VERIFY, 2, [kept == j for j in range(depth + 1)]),
    ):
        keys = batch.keys(purpose)
        for j, used in enumerate(uses):
            position = batch.positions + np.uint64(j)
            fields = (keys, batch.rounds, position, np.full(n, word, np.uint64))
            parts.append(np.stack(fields, axis=1)[used])
    return np.concatenate(parts)


def greedy_blocks() -> int:
    """Blocks that the reference computes for a batch at temperature 0, as recorded at its random source."""
    target = of_document({}, "default").targets[0]
    batch = Batch(
        target=target,
        depth=4,
        seed=SEED,
        requests=np.arange(64),
        sampled=np.zeros(64, np.bool_),
        given=np.full((64, 4), WANTED, np.int32),
        rows_per_launch=4,
    )
    with recorded() as blocks:
        emission = ReferenceSampler().run(batch)
    return sum(len(keys) for keys, _, _ in blocks) + int((emission.status != reference.OK).sum())


@contextmanager
def recorded() -> Iterator[list[Block]]:
    """Record every call of the reference's random source."""
    blocks: list[Block] = []
    words = addressing.words

    def recording(keys: U64, rounds: U64, positions: U64) -> U32:
        blocks.append((keys, rounds, positions))
        return words(keys, rounds, positions)

    addressing.words = recording
    try:
        yield blocks
    finally:
        addressing.words = words


def near_keys() -> Iterator[int]:
    """Keys of neighbouring sessions, slots, generations and seeds, with the extremes of each: a million."""
    near = [extreme + step for extreme, sign in SEED_EXTREMES for step in range(0, 50 * sign, sign)]
    for session, slot, generation in itertools.product(range(10), range(4), range(50)):
        for seed, purpose in itertools.product(near, Purpose):
            yield request_key(session.to_bytes(16, "little"), slot, (generation - 25) % (1 << 32), seed, purpose)
