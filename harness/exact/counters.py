"""The ledger of random words: every (key, counter, word) that the default campaign consumes, and that none is twice.

It is the reference's ledger. Its random source is recorded while the campaign runs as `pp3 qualify` runs it, under a
seed of its own: pairs at temperature 0 with the sampled rows among them, then every sampled request of each target,
depth and batch size. The kernels are not recorded; that they consume the same words rests on their outputs being the
same bits. What must be found is counted by a walk written here, from tickets and weights, without proposal or verifier.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness import run
from pp3.harness.campaign import Campaign, of_document, pair_shards
from pp3.harness.exact.enumeration import Enumeration, Values
from pp3.harness.paired import SAMPLED_EVERY, rows_for
from pp3.harness.samplers.contract import INVALIDATED, Batch, Description, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import BASE_POSITION, Seed
from pp3.kernels import addressing, reference
from pp3.kernels.addressing import U32, U64, Purpose, request_key
from pp3.targets import Target, invalidated

CLAIM = (
    "on the reference no (key, counter, word) is consumed twice in the default campaign, none at temperature 0, "
    "and a million near keys differ"
)
DOCUMENT: dict[str, Any] = {}  # the default campaign
WORDS = 4  # of a block
NEAR = 1_000_000
SEED = Seed(b"pp3 ledger of counters, 32 bytes")
SEED_EXTREMES = ((0, 1), (-1, -1), ((1 << 63) - 1, -1), (-(1 << 63), 1), (1 << 32, 1))
Entries = npt.NDArray[np.uint64]  # [n, 4] key, round, position, word


def expect() -> Values:
    """What the walk counts, all of it distinct."""
    campaign = of_document(DOCUMENT, "default")
    proposed = judged = emitted = 0
    for target, depth, requests, void in sampled_requests(campaign):
        proposed += depth * len(requests)
        judged += judgements(target, depth, requests, void)
        emitted += len(requests)
    consumed = proposed + judged + 2 * emitted
    return {
        "consumed": [consumed],
        "consumed/proposal": [proposed, 0, 0, 0],
        "consumed/verify": [judged, emitted, emitted, 0],
        "distinct": [consumed],
        "elsewhere": [0],
        "greedy": [0],
        "greedy-rows": [2 * campaign.spec.paired],
        "near-keys": [NEAR, NEAR],
        "sampled-rows": [emitted],
    }


def observe() -> Enumeration:
    """Run the campaign with its random source recorded, and make the million keys."""
    ledger = record()
    consumed = sum(int(counts.sum()) for counts in ledger.counts.values())
    values: Values = {
        "consumed": [consumed],
        "consumed/proposal": ledger.counts[Purpose.PROPOSAL].tolist(),
        "consumed/verify": ledger.counts[Purpose.VERIFY].tolist(),
        "distinct": [distinct(np.concatenate(ledger.entries))],
        "elsewhere": [ledger.elsewhere],
        "greedy": [ledger.greedy],
        "greedy-rows": [ledger.greedy_rows],
        "near-keys": [NEAR, len({*near_keys()})],
        "sampled-rows": [ledger.sampled_rows],
    }
    return Enumeration(id="counters", claim=CLAIM, compared=consumed + NEAR, values=values)


def record() -> "Ledger":
    """The ledger of the default campaign on the reference."""
    ledger = Ledger()
    measured = run.Measured(sampler=ledger.describe())
    run._campaign(of_document(DOCUMENT, "default"), SEED, ledger, measured, lambda stage, done, total: None)
    return ledger


class Ledger:
    """The reference as a sampler, and what it consumed of its random source."""

    def __init__(self) -> None:
        self.entries: list[Entries] = []
        self.counts = {purpose: np.zeros(WORDS, np.int64) for purpose in Purpose}  # by word
        self.elsewhere = 0  # entries read that the emissions do not call for, or the reverse
        self.greedy = 0  # entries read by rows at temperature 0, and such rows that failed
        self.greedy_rows = self.sampled_rows = 0

    def describe(self) -> Description:
        """See the contract."""
        return ReferenceSampler().describe()

    def run(self, batch: Batch) -> Emission:
        """See the contract."""
        with recorded() as blocks:
            emission = ReferenceSampler().run(batch)
        read = _read(blocks)
        called = consumed_by(batch, emission)
        self.entries.append(read)
        for purpose, counts in self.counts.items():
            mine = np.isin(read[:, 0], np.unique(batch.keys(purpose)))
            counts += np.bincount(read[mine, 3].astype(np.int64), minlength=WORDS)
        self.elsewhere += 2 * distinct(np.concatenate([read, called])) - distinct(read) - distinct(called)
        greedy = ~batch.sampled  # the requests of a batch are fewer than rounds, so a round is one of them
        self.greedy += int(np.isin(read[:, 1], batch.rounds[greedy]).sum())
        self.greedy += int((emission.status[greedy] != reference.OK).sum())
        self.greedy_rows += int(greedy.sum())
        self.sampled_rows += int(batch.sampled.sum())
        return emission


class Block:
    """Words [n, 4] of the blocks at known addresses, and which of the four were taken."""

    def __init__(self, address: tuple[U64, U64, U64], words: U32) -> None:
        self.address, self.words = address, words
        self.taken: set[int] = set()

    def __getitem__(self, at: tuple[slice, int]) -> U32:
        """Take one word of every block. ValueError for part of the blocks."""
        rows, word = at
        if rows != slice(None):
            raise ValueError(f"words are taken at {at!r}; the ledger follows only block[:, word]")
        self.taken.add(word)
        return self.words[:, word]


@contextmanager
def recorded() -> Iterator[list[Block]]:
    """Record every call of the reference's random source and the words taken of it."""
    blocks: list[Block] = []
    words = addressing.words

    def recording(keys: U64, rounds: U64, positions: U64) -> Any:
        blocks.append(Block((keys, rounds, positions), words(keys, rounds, positions)))
        return blocks[-1]

    addressing.words = recording
    try:
        yield blocks
    finally:
        addressing.words = words


def _read(blocks: list[Block]) -> Entries:
    """Entries of recorded blocks; of one that nothing is taken of, all four words."""
    parts = [np.zeros((0, 4), np.uint64)]
    for block in blocks:
        keys, rounds, positions = block.address
        for word in sorted(block.taken) or range(WORDS):
            parts.append(np.stack([keys, rounds, positions, np.full(len(keys), word, np.uint64)], axis=1))
    return np.concatenate(parts)


def consumed_by(batch: Batch, emission: Emission) -> Entries:
    """What the emissions call for: word 0 of every proposal and judged draft, words 1 and 2 of an emitted token."""
    kept = emission.num_sampled - 1
    judged = np.cumprod(batch.given != INVALIDATED, axis=1).astype(np.bool_)  # before the first void draft
    columns = range(batch.depth)
    parts = []
    for purpose, word, uses in (
        (Purpose.PROPOSAL, 0, [batch.sampled for _ in columns]),
        (Purpose.VERIFY, 0, [batch.sampled & (kept >= j) & judged[:, j] for j in columns]),
        (Purpose.VERIFY, 1, [batch.sampled & (kept == j) for j in range(batch.depth + 1)]),
        (Purpose.VERIFY, 2, [batch.sampled & (kept == j) for j in range(batch.depth + 1)]),
    ):
        keys = batch.keys(purpose)
        for j, used in enumerate(uses):
            fields = (keys, batch.rounds, batch.positions + np.uint64(j), np.full(len(batch), word, np.uint64))
            parts.append(np.stack(fields, axis=1)[used])
    return np.concatenate(parts)


def distinct(entries: Entries) -> int:
    """How many entries differ."""
    if not len(entries):
        return 0
    ordered = entries[np.lexsort(entries.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


def sampled_requests(
    campaign: Campaign,
) -> Iterator[tuple[Target, int, npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Target, depth, numbers [n] and void drafts [n, depth] of every sampled request: those among pairs come first."""
    first = 0
    for target, depth, pairs in pair_shards(campaign):
        rows = np.arange(rows_for(pairs))
        sampled = np.setdiff1d(rows, rows[rows % SAMPLED_EVERY != 1][:pairs])
        yield target, depth, first + sampled, np.zeros((len(sampled), depth), np.bool_)
        first += len(rows)
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            patterns = np.array([invalidated(pattern, depth) for pattern in target.patterns])
            for size in campaign.spec.batch_sizes:
                requests = first + np.arange(campaign.requests_of(depth, size))
                yield target, depth, requests, patterns[requests % len(patterns)]
                first += len(requests)


def judgements(target: Target, depth: int, requests: npt.NDArray[np.int64], void: npt.NDArray[np.bool_]) -> int:
    """Drafts judged in these sampled rounds: a draft is kept where w0 * tickets < weight * 2^32, both of 2^24."""
    supports = reference.allocate(target.draft_logits)
    running = np.cumsum(supports.tickets, axis=1)
    rounds = SEED.rounds(requests)
    alive = np.ones(len(requests), np.bool_)
    context = np.zeros(len(requests), np.int64)
    judged = 0
    for j in range(depth):
        row = target.row_of[j, context]
        position = np.full(len(requests), BASE_POSITION + j, np.uint64)
        draw, w0 = (addressing.words(SEED.keys(requests, purpose), rounds, position)[:, 0] for purpose in Purpose)
        place = (running[row] <= (draw >> np.uint32(8))[:, None]).sum(axis=1)
        token = supports.ids[row, place]
        alive &= ~void[:, j]
        judged += int(alive.sum())
        alive &= w0.astype(np.int64) * supports.tickets[row, place] < target.weights[row, token] << 32
        context = target.context_of[token]
    return judged


def near_keys() -> Iterator[int]:
    """Keys of neighbouring sessions, slots, generations and seeds, with the extremes of each: a million."""
    near = [extreme + step for extreme, sign in SEED_EXTREMES for step in range(0, 50 * sign, sign)]
    for session, slot, generation in itertools.product(range(10), range(4), range(50)):
        for seed, purpose in itertools.product(near, Purpose):
            yield request_key(session.to_bytes(16, "little"), slot, (generation - 25) % (1 << 32), seed, purpose)
