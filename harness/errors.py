"""Errors that end a command, each with the exit code of the one table in docs/exit-codes.md."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, the same for every command."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    INCONCLUSIVE = 3
    NOTHING_RAN = 4
    UNAVAILABLE = 69
    INTERNAL = 70
    IO = 74
    LOCKED = 75
    INTERRUPTED = 130


class PP3Error(Exception):
    """A message for the user: the value, the limit and the way out."""

    exit_code = Exit.INTERNAL

    def __init__(self, message: str, exit_code: Exit | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class CampaignError(PP3Error):
    """Bad input: a campaign, an option or a file that cannot be used."""

    exit_code = Exit.USAGE


class WireError(PP3Error):
    """A frame that is refused."""

    exit_code = Exit.NEGATIVE


class ReceiptError(PP3Error):
    """A receipt that is malformed."""

    exit_code = Exit.NEGATIVE


class VerificationError(PP3Error):
    """A receipt that is well formed and untrue."""

    exit_code = Exit.NEGATIVE
