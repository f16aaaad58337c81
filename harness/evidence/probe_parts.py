"""What the shape of a probe's receipt is made of: samples of time, and what follows from them."""

from typing import Annotated, Literal

import msgspec

from pp3.harness.evidence.parts import Count, Strict


class ContestantShape(Strict, frozen=True):
    """One contestant of a probe's case: nanoseconds of so many rounds, in the order measured."""

    id: str
    launches: Count
    method: Literal["graph", "events"]
    rounds: Annotated[int, msgspec.Meta(ge=1)]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class ProbedShape(Strict, frozen=True):
    """One case of a probe."""

    id: str
    timings: list[ContestantShape]


class FigureShape(Strict, frozen=True):
    """What follows of one contestant: quantiles of its samples, and its median round over the floor's and over ours."""

    id: str
    p05: Count
    median: Count
    p95: Count
    over_floor: str
    over_ours: str


class FiguresShape(Strict, frozen=True):
    """What follows of one case."""

    id: str
    bytes_moved: Count
    memory_ns: str
    lines: list[FigureShape]


class BandwidthShape(Strict, frozen=True):
    """Bytes moved a sample, and nanoseconds of each."""

    how: str
    bytes: Annotated[int, msgspec.Meta(ge=1)]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]
