"""`make bench`: what a round's frame costs to encode and to decode, beside the CRC alone, which is the floor.

Medians of one process; nothing here decides anything.
"""

import statistics
import time
import zlib
from collections.abc import Callable

import numpy as np

from pp3.harness.transport import step, wire
from pp3.harness.transport.frame import HEADER_BYTES, SUPPORT, Mode
from pp3.kernels.reference import ONE

REPEATS, LOOPS = 300, 20
VOCAB = 129_280
SESSION = bytes(range(16))


def largest_round(depth: int = 5, n: int = 4) -> tuple[step.Step, wire.Reply]:
    """A step of n sampled rows, and a reply to it whose tickets are unequal."""
    generator = np.random.default_rng(11)
    rows = tuple(
        step.Row(slot=slot, generation=slot + 7, position=2**40 + slot, seed=-5, sampled=True) for slot in range(n)
    )
    asked = step.Step(mode=Mode.SAMPLED, round=9, depth=depth, rows=rows)
    ids = np.sort(
        np.array([generator.choice(VOCAB, SUPPORT, replace=False) for _ in range(n * depth)]), axis=1
    ).reshape(n, depth, SUPPORT)
    tickets = generator.integers(1, ONE // SUPPORT, ids.shape)
    tickets[..., 0] += ONE - tickets.sum(axis=2)
    reply = wire.reply_of(asked, np.zeros(n, np.int32), ids[..., 3], np.full((n, depth), 0.5, np.float32), ids, tickets)
    return asked, reply


def median_us(work: Callable[[], object]) -> float:
    """Median microseconds of one call."""
    spent = []
    for _ in range(REPEATS):
        started = time.perf_counter_ns()
        for _ in range(LOOPS):
            work()
        spent.append((time.perf_counter_ns() - started) / LOOPS / 1000)
    return statistics.median(spent)


def main() -> None:
    """Print one line a measure."""
    asked, reply = largest_round()
    frame = wire.encode(reply, asked.round, SESSION, 77)
    held = wire.Asked.by(asked, SESSION, 77, VOCAB)
    body = memoryview(frame)[HEADER_BYTES:-4]
    print(f"4 rows, depth 5, {len(frame)} bytes; medians of {REPEATS} x {LOOPS} calls")
    for name, work in (
        ("encode", lambda: wire.encode(reply, asked.round, SESSION, 77)),
        ("decode", lambda: wire.decode(frame, held)),
        ("crc alone", lambda: zlib.crc32(body)),
    ):
        print(f"{name:10} {median_us(work):7.1f} us")


if __name__ == "__main__":
    main()
