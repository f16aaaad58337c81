"""Where a proxy runs."""

from enum import StrEnum


class Place(StrEnum):
    """A thread of the engine, or a process of its own."""

    THREAD = "thread"
    PROCESS = "process"
