"""What a page says above everything else of a receipt that does not verify, or that another stands in the place of."""

from dataclasses import dataclass
from pathlib import Path

from pp3.harness.evidence.verified import Verified
from pp3.harness.evidence.verify import verify
from pp3.harness.report.template import MARKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A banner."""

    title: str
    why: str
    superseded: bool  # authentic, but history: no more than a note

    @property
    def word(self) -> str:
        """What stands in the verdict's place."""
        return "SUPERSEDED" if self.superseded else "NOT VERIFIED"

    @property
    def tone(self) -> str:
        """Its class in the style sheet."""
        return "other" if self.superseded else "fail"

    @property
    def mark(self) -> str:
        """Its sign, beside the colour."""
        return MARKS[self.tone]

    @property
    def sentence(self) -> str:
        """In one line."""
        return f"{self.title} {self.why}"


def alarm_of(path: Path, content: bytes) -> Alarm | None:
    """What verifying a receipt where it lies gives cause to say; None if it verifies and none stands in its place."""
    return of_verified(verify(path, content))


def of_verified(found: Verified) -> Alarm | None:
    """What the steps of a verification give cause to say."""
    if found.failed:
        why = f"At {found.failed.name}: {found.failed.detail}. Nothing on this page is shown to hold."
        return Alarm(title="This receipt does not verify.", why=why, superseded=False)
    if found.by:
        why = f"The ledger puts {found.by} in its place. Its bytes are those recorded there; more is not said here."
        return Alarm(title="This receipt is superseded.", why=why, superseded=True)
    return None
