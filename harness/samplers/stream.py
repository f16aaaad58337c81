"""A stream: the requests of one problem as rounds of identities, which take slots and leave them to others.

Batches of one size are dealt to epochs of ROUNDS rounds. In an epoch the same identities come back: each keeps its
class (the context in which it starts, with its temperature and settings), its seed and its slot, and stands in another
row than the round before. The next epoch's identities are new and take the same slots. A batch of another size begins
an epoch of its own. So (identity, round) never occurs twice.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pp3.harness.seeds import Seed, integers

ROUNDS = 4  # of an epoch
LEAST_SLOTS = 16
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
    """Requests from number `first` on, `rows` a batch; those of numbers r and r + period are of one class."""

    seed: Seed
    name: str  # of the problem
    first: int
    rows: int
    period: int = 1

    @property
    def rounds(self) -> int:
        """Rounds of an epoch: 1 if rows of one class do not come back, or are too few to change places."""
        return ROUNDS if self.rows % self.period == 0 and self.rows >= 2 * self.period else 1

    def turn(self, low: int, classes: Integers) -> Turn:
        """Who is in the batch whose first request has number `low`, from the class of each row [n]."""
        n, number = len(classes), (low - self.first) // self.rows
        epoch, last = divmod(number, self.rounds) if n == self.rows else (-(-number // self.rounds), 0)
        beginning = low - last * n
        who = np.arange(n)
        for earlier in range(1, last + 1):
            who = who[changed(classes, self._random(f"rows/{beginning + earlier * n}"))]
        slots = self._random("slots").permutation(slots_for(self.rows))[: self.rows]
        slots = slots[self._random(f"slots/{beginning}").permutation(self.rows)[:n]]
        return Turn(
            round_number=last,
            identities=beginning + who,
            slots=slots[who],
            generation=np.full(n, epoch),
            num_slots=slots_for(self.rows),
        )

    def _random(self, label: str) -> np.random.Generator:
        return random(self.seed, f"{self.name}/{self.first}/{label}")


def alone(seed: Seed, name: str, requests: Integers) -> Turn:
    """A batch [n] that is no part of a stream: every request is an identity in its first round."""
    count = slots_for(len(requests))
    return Turn(
        round_number=0,
        identities=requests.copy(),
        slots=random(seed, f"{name}/alone/{requests[:1].tolist()}").permutation(count)[: len(requests)],
        generation=np.zeros(len(requests), np.int64),
        num_slots=count,
    )


def slots_for(rows: int) -> int:
    """Slots of per-request state for batches of so many rows."""
    return max(LEAST_SLOTS, rows + rows // 8)


def changed(classes: Integers, random: np.random.Generator) -> Integers:
    """The row that each row's next one comes from, [n]: one random cycle through the rows of each class."""
    order = random.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    begins = np.flatnonzero(np.diff(classes[order], prepend=-1))
    following = np.roll(order, -1)
    following[np.append(begins[1:], len(order)) - 1] = order[begins]
    source = np.empty_like(order)
    source[order] = following
    return source


def random(seed: Seed, label: str) -> np.random.Generator:
    """A generator for choices that are no draws of the sampler."""
    return np.random.default_rng(int(integers(seed, f"stream/{label}", 1)[0]))
