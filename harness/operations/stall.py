"""How long a campaign in pieces waits for any piece to end: told, or longer than what its pieces have taken so far.

A start that waited in vain says how long it waited; the next one waits twice as long, so that no piece, however long it
takes, is given up for ever.
"""

import math
from dataclasses import dataclass

from pp3.harness.errors import CampaignError
from pp3.harness.operations.folder import Folder

LEAST = 3600  # seconds
TIMES = 10  # the longest piece so far
AGAIN = 2  # times what an earlier start has waited in vain
TOLD = "stallTimeout"  # in what a start leaves: the limit that it was given, in seconds
LONGEST = 10**9  # seconds: thirty years


@dataclass(slots=True, kw_only=True)
class Stall:
    """The limit of one start, which grows with its pieces unless it was given."""

    given: int = 0  # seconds; 0 if it was not
    least: int = LEAST

    @property
    def seconds(self) -> int:
        """Without any piece that ends, after which this start gives up."""
        return self.given or self.least

    def took(self, seconds: float) -> None:
        """A piece has ended, after so many seconds of its own."""
        self.least = min(LONGEST, max(self.least, math.ceil(TIMES * seconds)))


def check(given: int | None) -> None:
    """CampaignError for a limit that is none."""
    if given is not None and not 0 < given <= LONGEST:
        raise CampaignError(f"--stall-timeout {given}: give seconds, from 1 to {LONGEST:,}")


def of_folder(folder: Folder, given: int | None) -> Stall:
    """The limit of the next start: the one that is given, else that of the last start that was given one, else LEAST;
    not below TIMES the longest piece that is there, nor AGAIN what a start has waited in vain."""
    if given is not None:
        return Stall(given=given)
    told = [start[TOLD] for start in folder.starts() if start.get(TOLD)]
    waited = [AGAIN * seconds for seconds in folder.waited()]
    found = Stall(least=min(LONGEST, max([told[-1] if told else LEAST, *waited])))
    for _, part in folder.parts():
        found.took(part["nanoseconds"] / 1e9)
    return found
