"""A planted fault: a sampler wrong in one step, where that shows, and the check that must catch it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pp3.harness.samplers.contract import Kind, Sampler

MADE = "made for this battery"


class Shows(StrEnum):
    """In what a fault differs from what it claims to be."""

    LAW = "law"  # in the law of one round, which laws.py knows
    ROUND = "round"  # within a round: how its tokens hang together, the law of each being another matter
    STREAM = "stream"  # in how requests hang together
    CONTRACT = "contract"  # in what the contract asks for besides a law
    EXACT = "exact"  # in what no number of requests shows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fault:
    """What is planted, and how it is run.

    `others` may fire as well. `sole`: at this number of requests no check but the witness and `others` is likely to;
    a sum of all statistics holds what each of them holds, and may fire too where it has few to add.
    Pairs of neighbouring requests are an even number and the next.
    """

    id: str  # of the catalogue, K<cause>-<number>, and a variant after a slash; or dose-..., sole-...
    report: str  # where the like of it was seen
    about: str
    cause: str
    sampler: Callable[[], Sampler]
    targets: tuple[str, ...]
    witness: str
    shows: Shows = Shows.LAW
    requests: int = 20_000  # of each law
    others: tuple[str, ...] = ()
    sole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Control:
    """A right sampler that looks wrong: it must pass."""

    id: str
    about: str
    sampler: Callable[[], Sampler]
    targets: tuple[str, ...] = ()  # none: all of its kind
    requests: int = 20_000


def planting(cause: str) -> Callable[..., Fault]:
    """A function that plants faults of one cause."""

    def plant(id: str, of: type[Any], witness: str, report: str, targets: tuple[str, ...], **more: Any) -> Fault:
        """A fault as its sampler's docstring describes it; `kind` is what the sampler does, a verifier by default."""
        kind = more.pop("kind", Kind.VERIFIER)
        about = " ".join((of.__doc__ or "").split())
        said = {"id": id, "report": report, "about": about, "cause": cause, "witness": witness, "targets": targets}
        return Fault(**said | {"sampler": lambda: of(kind)} | more)

    return plant
