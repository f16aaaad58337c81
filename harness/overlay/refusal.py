"""Why an overlay is not made, or not used: every reason has a name."""

from enum import StrEnum

from pp3.harness.errors import CampaignError


class Reason(StrEnum):
    """The name that a refusal begins with."""

    VERSION = "version"  # a vLLM that no edits are written for
    SOURCE = "source"  # a file is missing, or not the release's
    PARSE = "parse"  # a file that cannot be parsed
    FUNCTION = "function"  # a named function is not there exactly once
    PLACE = "place"  # what an edit changes is not there exactly once
    TAKEN = "taken"  # a name that an edit brings is there already
    TOUCHED = "touched"  # something else than the named functions came out changed
    RESULT = "result"  # the edited file is not the one that was reviewed
    EXISTS = "exists"  # the folder to write is there already
    ATTESTATION = "attestation"  # an overlay folder is not as its attestation says


class OverlayError(CampaignError):
    """A refusal; nothing was written."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"overlay refused ({reason}): {message}")
        self.reason = reason
