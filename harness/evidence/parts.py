"""What the shapes of receipts are made of. Unknown fields are refused, no count is negative."""

from typing import Annotated, Any, Literal

import msgspec


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of receipt shapes: unknown fields are refused."""


Count = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class DigestShape(Strict, frozen=True):
    """Digest of one bound file."""

    sha256: Sha256


class SubjectShape(Strict, frozen=True):
    """One bound file."""

    name: str
    digest: DigestShape


class CellShape(Strict, frozen=True):
    """One histogram: a count an atom, then one for all that its law forbids."""

    id: str
    batch: Count
    counts: list[Count]
    first: list[Count] = []  # of the first half of the requests; older receipts have none


class DeviationShape(Strict, frozen=True):
    """A check that failed, between its bounds in total variation."""

    id: str
    worth: Literal["fail", "tolerated", "open"]
    low: str
    high: str


class StrayShape(Strict, frozen=True):
    """An outcome that a cell's law forbids, and how often it was seen."""

    cell: str
    batch: Count
    outcome: Count
    count: Annotated[int, msgspec.Meta(ge=1)]


class SeedShape(Strict, frozen=True):
    """How the run's random numbers were chosen."""

    rule: str
    counter: Count
    chosen: Literal["next", "given", "replay"]
    sha256: Sha256


class SamplerShape(Strict, frozen=True):
    """Who was judged."""

    name: str
    version: str
    backend: Literal["reference", "interpreter", "cuda"]
    min_vocab: Count
    max_vocab: Count


class BitsShape(Strict, frozen=True):
    """Rows of a backend compared with the reference."""

    id: str
    rows: Count
    failed_rows: Count
    mismatches: Count
    first: str


class AnswersShape(Strict, frozen=True):
    """One file of known answers."""

    file: str
    sha256: str
    passed: Count
    total: Count


class KernelsShape(Strict, frozen=True):
    """What was shown of the kernels."""

    bits: list[BitsShape]
    conform: list[AnswersShape]
    identity: dict[str, str]
    missing: str = ""


class PairedShape(Strict, frozen=True):
    """Temperature-0 pairs of one shard."""

    target: str
    depth: Count
    pairs: Count
    mismatches: Count
    first: dict[str, Any]


class TimingShape(Strict, frozen=True):
    """What was timed, in the order measured."""

    id: str
    unit: Literal["ns"]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class PathShape(Strict, frozen=True):
    """What became of the requests that went over a path: those that were to be lost, by how, and those that were."""

    frames: Count
    rows: Count
    sampled: Count  # of them at a temperature above 0
    injected: dict[str, Count]
    counted: dict[str, Count]
    altered: Count  # that arrived as others than were sent
    proxies: Count  # that were begun


class ExecutionShape(Strict, frozen=True):
    """How a campaign in pieces was run."""

    attempts: Annotated[int, msgspec.Meta(ge=1)]  # starts, of all its shards
    devices: dict[str, Count]  # pieces by the device that ran them
    pieces: Annotated[int, msgspec.Meta(ge=1)]
    repeated: Count  # pieces that were run more than once, with equal results
    unequal: list[str]  # pieces that came to other counts when they were run again


class EnumerationShape(Strict, frozen=True):
    """What one enumeration observed."""

    id: str
    claim: str
    compared: Count
    values: dict[str, list[int] | str]


class PolicyShape(Strict, frozen=True):
    """Tables of one policy as a device emitted them, and what follows from them."""

    survey: dict[str, Any]
    distances: list[dict[str, Any]]


class EngineSamplerShape(Strict, frozen=True):
    """Which engine was judged, as the plan declares it."""

    name: str
    version: str
    device: dict[str, str]


class EngineCellShape(Strict, frozen=True):
    """One histogram: a count a group, then one for strata that decide nothing, then one for what its law forbids."""

    id: str
    counts: list[Count]


class ReplacedShape(Strict, frozen=True):
    """Attempts at a request that another one replaced: the answer did not come whole, or was not begun."""

    lost: Count
    refused: Count


class ExactShape(Strict, frozen=True):
    """What was compared without any level."""

    id: str
    compared: Count
    wrong: Count


class CalibratedKindShape(Strict, frozen=True):
    """P-values of one kind of check: how many, how many are at most so small, and bins of their transforms."""

    id: str
    tried: Count
    below: list[Count]
    pit: list[Count]


class CalibratedShape(Strict, frozen=True):
    """Null campaigns of one level."""

    level: Literal["counts", "requests"]
    campaigns: Count
    distinct: Count  # that differ in their counts
    rejected: list[Count]  # at each alpha
    family: list[Count]  # bins of the smallest p-value over its share
    kinds: list[CalibratedKindShape]


class TailShape(Strict, frozen=True):
    """The chance that a check rejects a null at its level, far beyond what campaigns can count."""

    level: Literal["counts", "requests"]
    id: str
    alpha: str
    chance: str
    error: str
    exact: str
    how: Literal["bounded", "enumerated", "tilted", "weighted"]
