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
    only: list[str]  # problems to run, or all; a name that no problem has runs none
    most: int = 0  # requests of each law that a promise may raise the plan to; 0: as many as it needs


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

    def joined(self, other: "Sources") -> "Sources":
        """What two processes of one sampler are made of: one may have loaded what the other had no need of."""
        files = {name: digest for one in (self, other) for name, digest in one.files}
        return Sources(
            files=[[name, files[name]] for name in sorted(files)],
            image=other.image or self.image,
            interpreted=other.interpreted or self.interpreted,
            packages=self.packages | other.packages,
        )


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
