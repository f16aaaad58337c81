"""What a trial's process is told, and what it says: one JSON line a message."""

from typing import Any

import msgspec


class Order(msgspec.Struct, frozen=True):
    """What to run and where to report."""

    sampler: str
    image: str | None
    device: str
    spec: dict[str, Any]
    given: bool  # whether the number of requests is the user's
    counter: int
    where: str  # named in errors
    report: int  # file descriptor
    only: list[str]  # problems to run, or all


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """It cannot begin, and why."""

    message: str
    code: int


class Who(msgspec.Struct, frozen=True, tag="who"):
    """The sampler is there and the plan is made."""

    declared: dict[str, Any]
    device: dict[str, str]
    plan_sha256: str
    requests: int


class Sources(msgspec.Struct, frozen=True, tag="sources"):
    """What the sampler is made of, as far as it is loaded."""

    files: list[list[str]]
    packages: dict[str, str]
    image: dict[str, Any] | None = None  # how a vLLM image was loaded: harness/image/load.Loaded.plain
    interpreted: bool = False  # whether Triton's interpreter has run a kernel of it


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A problem has begun."""

    problem: str


class Progressed(msgspec.Struct, frozen=True, tag="progressed"):
    """Requests that are done."""

    stage: str
    done: int
    total: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A problem has ended, and what was found: the fields of Measured."""

    problem: str
    found: dict[str, Any]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Everything is said."""


Message = Refused | Who | Sources | Begun | Progressed | Ended | Done
