"""What a round over the wire costs: in place (the floor: encode and decode), through a thread, through a process.

The drafter answers at once, in a thread of the engine's process, with a reply that was made before. So what is
measured is the path alone. Timings lie beside the counts and decide nothing.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

from pp3.harness.transport import step, wire
from pp3.harness.transport.bench import SESSION, VOCAB, largest_round
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.place import Place
from pp3.harness.transport.remote import RemoteRound
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.worker import Worker

SAMPLES, WARM = 400, 100
SECONDS = 10.0
IDENTITY = bytes(32)


def measure(samples: int = SAMPLES, n: int = 4, depth: int = 5) -> list[dict[str, Any]]:
    """Nanoseconds of each round, in receipt form: id, unit, samples in the order measured."""
    asked, reply = largest_round(depth, n)
    held = wire.Asked.by(asked, SESSION, 1, VOCAB)

    def in_place() -> None:
        step.decode(step.encode(asked, SESSION, 1), Mode.SAMPLED, depth, SESSION, 1)
        wire.decode(wire.encode(reply, asked.round, SESSION, 1), held)

    found = {"floor": _timed(in_place, samples)}
    mine = Hello(mode=Mode.SAMPLED, target=IDENTITY, draft=IDENTITY, markov=IDENTITY)
    for place in Place:
        worker = Worker(mine, depth, lambda _: reply)
        channel = Channel(Terms(mine=mine, session=SESSION, depth=depth, vocab=VOCAB), place, worker.dial, SECONDS)
        channel.wait_ready()
        remote = RemoteRound(channel)
        found[place.value] = _timed(lambda remote=remote: remote.run(asked), samples)  # type: ignore[misc]  # bound
        channel.close()
        worker.join()
    return [
        {"id": f"path/depth-{depth}/rows-{n}/{name}", "samples": spent, "unit": "ns"} for name, spent in found.items()
    ]


def _timed(work: Callable[[], object], samples: int) -> list[int]:
    for _ in range(WARM):
        work()
    spent = []
    for _ in range(samples):
        started = time.perf_counter_ns()
        work()
        spent.append(max(1, time.perf_counter_ns() - started))
    return spent


def main() -> None:
    """Print one line a place."""
    for row in measure():
        print(f"{row['id']:30} {statistics.median(row['samples']) / 1000:7.1f} us (median of {len(row['samples'])})")


if __name__ == "__main__":
    main()
