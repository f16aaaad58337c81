"""Moments as receipts and file names hold them: UTC, to the second."""

from datetime import UTC, datetime

FORM = "%Y-%m-%dT%H:%M:%SZ"


def utc(moment: datetime) -> str:
    """A moment as receipts hold it."""
    return moment.astimezone(UTC).strftime(FORM)


def moment(text: str) -> datetime:
    """The moment that a receipt holds. ValueError if it is none."""
    return datetime.strptime(text, FORM).replace(tzinfo=UTC)


def stamp(moment: str) -> str:
    """A UTC moment as it stands in a file name."""
    return moment.replace("-", "").replace(":", "")
