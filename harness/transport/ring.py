"""What the engine tells the proxy of a round: an entry a page, 32 words of i64, in a page of their own.

    0 stamp | 1 round | 2 n | 3 depth | 4 mode | 5 to 8 slots | 9 on: n rows of seed, T > 0, generation, position

The stamp is the ticket of the round and is written last, by whoever writes the rows: the host, or a GPU's copy engine
after the rows in the same stream (gather.py). An entry belongs to the engine until its command is sent and to the
proxy until the record of its page comes back.
"""

import os
import time
from typing import Any

from pp3.harness.transport.frame import MAX_ROWS, Mode
from pp3.harness.transport.layout import PAGE_BYTES, Bytes
from pp3.harness.transport.step import Row, Step

WORDS = 32
STAMP, ROUND, COUNT, DEPTH, MODE, SLOTS_AT, ROWS_AT = 0, 1, 2, 3, 4, 5, 9
ROW_WORDS = 4
ENTRIES = PAGE_BYTES // (8 * WORDS)


class Ring:
    """The entries of a page; each is used by its owner alone."""

    def __init__(self, content: Bytes) -> None:
        self._words: Any = content.view("<i8").reshape(ENTRIES, WORDS)

    def put(self, entry: int, ticket: int, step: Step) -> None:
        """Write a whole step from the host."""
        rows = [word for row in step.rows for word in (row.seed, row.sampled, row.generation, _signed(row.position))]
        slots = [row.slot for row in step.rows]
        self.begin(entry, step.round, step.depth, step.mode, slots)
        self._words[entry, ROWS_AT : ROWS_AT + len(rows)] = rows
        self._words[entry, STAMP] = ticket

    def begin(self, entry: int, number: int, depth: int, mode: Mode, slots: list[int]) -> None:
        """Write what the host knows of a round; the rows and the stamp follow."""
        padded = slots + [0] * (MAX_ROWS - len(slots))
        self._words[entry, STAMP:ROWS_AT] = [0, _signed(number), len(slots), depth, mode, *padded]

    def rows(self, entry: int, n: int) -> Any:
        """The words of n rows, [n, 4] i64: seed, T > 0, generation, position."""
        return self._words[entry, ROWS_AT : ROWS_AT + ROW_WORDS * n].reshape(n, ROW_WORDS)

    def stamp(self, entry: int) -> Any:
        """The stamp, [1] i64."""
        return self._words[entry, STAMP : STAMP + 1]

    def take(self, entry: int, ticket: int, patience: float) -> Step | None:
        """The step of an entry once it bears its stamp; None if that takes longer than `patience` seconds."""
        deadline = None
        while self._words[entry, STAMP] != ticket:
            now = time.monotonic()
            deadline = deadline or now + patience
            if now > deadline:
                return None
            os.sched_yield()
        words = self._words[entry].tolist()
        n = words[COUNT]
        rows = []
        for i in range(n):
            seed, sampled, generation, position = words[ROWS_AT + ROW_WORDS * i : ROWS_AT + ROW_WORDS * (i + 1)]
            rows.append(
                Row(
                    slot=words[SLOTS_AT + i],
                    generation=generation,
                    position=position % (1 << 64),
                    seed=seed,
                    sampled=bool(sampled),
                )
            )
        mode, depth = Mode(words[MODE]), words[DEPTH]
        return Step(mode=mode, round=words[ROUND] % (1 << 64), depth=depth, rows=tuple(rows))

    @property
    def size(self) -> int:
        """Bytes of the page."""
        return int(self._words.nbytes)

    def close(self) -> None:
        """Let go of the memory."""
        del self._words


def _signed(value: int) -> int:
    """A u64 in the words of an i64."""
    return value - (1 << 64) if value >> 63 else value
