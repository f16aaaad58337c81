"""A stream: the requests of one problem as rounds of identities, which take slots and leave them to others.

Batches of one size are dealt to epochs of ROUNDS rounds. In an epoch the same identities come back: each keeps its
class (the context in which it starts, with its temperature and settings), its seed and its slot, and rows change hands
from round to round; where a batch's size is no multiple of the number of classes, a row changes its class too. The next
epoch's identities are new and take the same slots. A smaller batch begins an epoch of its own.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import Seed, integers

ROUNDS = 4  # of an epoch
LEAST_SLOTS = 16
LEAST_PERIODS = 8  # rows a batch, in periods, so that the spare slots hold who sits out
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """Who is in a batch, by row."""

    round_number: int  # rounds that these identities had before
    identities: Integers  # [n], all different
    slots: Integers  # [n], all different, below num_slots
    generation: Integers  # [n] identities that had the row's slot before
    num_slots: int  # of the whole stream; some are never used

    def __post_init__(self) -> None:
        for array in (self.identities, self.slots, self.generation):
            array.flags.writeable = False

    def take(self, which: Integers) -> "Turn":
        """Those of some rows."""
        rows = {name: getattr(self, name)[which] for name in ("identities", "slots", "generation")}
        return replace(self, **rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Requests from number `first` on, `rows` a batch; the class of request r is r // patterns % starts."""

    seed: Seed
    name: str  # of the problem
    first: int
    rows: int
    patterns: int = 1
    starts: int = 1

    @property
    def period(self) -> int:
        """Requests after which the classes come again."""
        return self.patterns * self.starts if self.starts > 1 else 1

    @property
    def rounds(self) -> int:
        """Rounds of an epoch: one if batches are too small, or cut a class, so that nobody could come back to all."""
        whole = self.starts == 1 or self.rows % self.patterns == 0
        return ROUNDS if whole and self.rows >= max(2, LEAST_PERIODS * self.period) else 1

    @property
    def pool(self) -> int:
        """Identities of an epoch, as many of each class: those that find no row of theirs sit a round out."""
        return -(-self.rows // self.period) * self.period if self.rounds > 1 else self.rows

    def turn(self, low: int, n: int) -> Turn:
        """Who is in the batch of the n requests from number `low` on."""
        number = (low - self.first) // self.rows
        epoch, last = divmod(number, self.rounds) if n == self.rows else (-(-number // self.rounds), 0)
        beginning = low - last * n
        who = _who(self, beginning, last, n)
        return Turn(
            round_number=last,
            identities=beginning + who,
            slots=_slots(self, beginning)[who],
            generation=np.full(n, epoch),
            num_slots=slots_for(self.rows),
        )

    def classes_of(self, low: int, n: int) -> npt.NDArray[Any]:
        """Classes of the n requests from number `low` on: small integers are sorted fast."""
        classes = np.arange(low, low + n) // self.patterns % self.starts
        return classes.astype(np.int16 if self.starts < 1 << 15 else np.int64)

    def random(self, label: str) -> np.random.Generator:
        """A generator of this problem for choices that are no draws of the sampler."""
        return generator(self.seed, f"{self.name}/{self.first}/{label}")


@lru_cache(maxsize=2)
def _slots(stream: Stream, beginning: int) -> Integers:
    """The slots of the identities of the epoch that begins at this request."""
    slots = stream.random("slots").permutation(slots_for(stream.rows))[: stream.pool]
    return slots[stream.random(f"slots/{beginning}").permutation(stream.pool)]


@lru_cache(maxsize=2)
def _who(stream: Stream, beginning: int, last: int, n: int) -> Integers:
    """Which of its epoch's identities each row [n] of round `last` is; no row is who it was the round before."""
    who, low = np.arange(n), beginning + last * n
    if last and stream.rows % stream.period == 0:  # a row's class stays
        before = _who(stream, beginning, last - 1, n)
        return before[cycle(stream.classes_of(beginning, n), stream.random(f"rows/{low}"))]
    if last:
        pool = stream.random(f"rows/{low}").permutation(stream.pool)
        pool = pool[np.argsort(stream.classes_of(beginning, stream.pool)[pool], kind="stable")].reshape(
            stream.starts, -1
        )
        classes = stream.classes_of(low, n)
        order = np.argsort(classes, kind="stable")
        counts = np.bincount(classes, minlength=stream.starts)
        who[order] = pool[classes[order], np.arange(n) - (np.cumsum(counts) - counts)[classes[order]]]
    return who


def alone(seed: Seed, name: str, requests: Integers) -> Turn:
    """A batch [n] that is no part of a stream: every request is an identity in its first round."""
    count = slots_for(len(requests))
    return Turn(
        round_number=0,
        identities=requests.copy(),
        slots=generator(seed, f"{name}/alone/{requests[:1].tolist()}").permutation(count)[: len(requests)],
        generation=np.zeros(len(requests), np.int64),
        num_slots=count,
    )


def slots_for(rows: int) -> int:
    """Slots of per-request state for batches of so many rows."""
    return max(LEAST_SLOTS, rows + rows // 8)


def cycle(classes: npt.NDArray[Any], chance: np.random.Generator) -> Integers:
    """The row that each row [n] takes over: one random cycle through the rows of each class."""
    order = chance.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    begins = np.flatnonzero(np.diff(classes[order], prepend=-1))
    following = np.roll(order, -1)
    following[np.append(begins[1:], len(order)) - 1] = order[begins]
    source = np.empty_like(order)
    source[order] = following
    return source


def generator(seed: Seed, label: str) -> np.random.Generator:
    """A generator for choices that are no draws of the sampler."""
    return np.random.default_rng(int(integers(seed, f"stream/{label}", 1)[0]))
