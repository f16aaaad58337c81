"""Rounds whose every row carries a nonce: tokens, ids and tickets follow from seed, round, slot and generation alone.

So a row that is consumed tells whether it is this round's: a stale or foreign one would have other values.
"""

import hashlib
import random
from typing import Any

import numpy as np

from pp3.harness.transport import wire
from pp3.harness.transport.frame import SUPPORT, Mode, Status
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.remote import Drafted
from pp3.harness.transport.step import Row, Step

VOCAB, DEPTH = 4_096, 5
MINE = Hello(mode=Mode.SAMPLED, target=bytes([1]) * 32, draft=bytes([2]) * 32, markov=bytes([3]) * 32)
ONE = 1 << 24


def random_step(rng: random.Random, number: int, generations: list[int], depth: int = DEPTH) -> Step:
    """1 to 4 rows in random slots; each slot's generation goes on."""
    slots = rng.sample(range(4), rng.randint(1, 4))
    for slot in slots:
        generations[slot] += 1
    rows = tuple(
        Row(
            slot=slot,
            generation=generations[slot],
            position=rng.getrandbits(64),
            seed=rng.getrandbits(64) - (1 << 63),
            sampled=rng.random() < 0.7,
        )
        for slot in slots
    )
    return Step(mode=Mode.SAMPLED, round=number, depth=depth, rows=rows)


def law_of(step: Step, row: Row) -> tuple[Any, Any, Any, Any]:
    """Tokens [depth], confidence [depth], ids and tickets [depth, 32] that a row's nonce gives."""
    nonce = f"{row.seed}/{step.round}/{row.slot}/{row.generation}/{row.position}"
    seed = hashlib.sha256(nonce.encode()).digest()
    generator = np.random.default_rng(int.from_bytes(seed, "little"))
    depth = step.depth
    ids = np.sort(generator.permuted(np.tile(np.arange(VOCAB), (depth, 1)), axis=1)[:, :SUPPORT], axis=1)
    tickets = generator.integers(1, ONE // SUPPORT, (depth, SUPPORT))
    tickets[:, 0] += ONE - tickets.sum(axis=1)
    tokens = ids[np.arange(depth), generator.integers(0, SUPPORT, depth)]
    return tokens, generator.random(depth, np.float32), ids, tickets


def reply_to(step: Step, status: list[int] | None = None) -> wire.Reply:
    """What the drafter answers."""
    laws = [law_of(step, row) for row in step.rows]
    tokens, confidence, ids, tickets = (np.stack(parts) for parts in zip(*laws, strict=True))
    return wire.reply_of(step, np.array(status or [0] * step.n), tokens, confidence, ids, tickets)


def check(step: Step, found: Drafted, failed: set[int] = frozenset()) -> None:  # type: ignore[assignment]  # empty
    """Every row is this round's own, or has nothing; those of `failed` have nothing."""
    assert found.ids is not None
    assert found.q is not None
    for i, row in enumerate(step.rows):
        tokens, _, ids, tickets = law_of(step, row)
        if found.status[i] != Status.OK:
            assert (found.drafts[i] == -1).all()
            assert not found.with_law[i]
        else:
            assert i not in failed
            assert (found.drafts[i] == tokens).all(), "a stale or foreign token"
            assert found.with_law[i] == row.sampled
        if found.with_law[i]:
            assert (found.ids[i] == ids).all(), "a stale or foreign support"
            assert (found.q[i] == tickets / ONE).all(), "a stale or foreign q"
        else:
            assert not found.q[i].any()
