"""One line of a diagnosis."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is."""

    OK = "ok"
    NOTE = "note"  # something works less well, or not here; a campaign on a CPU does
    PROBLEM = "problem"  # what was asked for cannot run


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was looked at, how it is, and a command that mends it. Names no host, no user and no home."""

    name: str
    state: State
    said: str
    fix: str = ""  # to type; "" where nothing is to be mended

    def plain(self) -> dict[str, str]:
        """JSON form."""
        return {"name": self.name, "state": self.state.value, "said": self.said, "fix": self.fix}


def fine(name: str, said: str) -> Line:
    """A line of what is as it should be."""
    return Line(name=name, state=State.OK, said=said)


def note(name: str, said: str, fix: str = "") -> Line:
    """A line of what a campaign on a CPU can do without."""
    return Line(name=name, state=State.NOTE, said=said, fix=fix)


def problem(name: str, said: str, fix: str) -> Line:
    """A line of what is needed and not there."""
    return Line(name=name, state=State.PROBLEM, said=said, fix=fix)
