"""Editions of the rules that turn a plan into checks: a receipt is held to that of its plan, a new plan has the last.

What changed from one to the next:

    2   pairs of requests are expected where they lie, class by class (harness/places.py), and cells that get none are
        in no check; a trial whose plan gives no weights divides alpha among the families that its profile has
"""

from enum import IntEnum

from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError

KEY = "battery"  # of a plan; the first edition's plans have none


class Edition(IntEnum):
    """Which rules a plan is judged by."""

    SPREAD = 1  # pairs of requests count as spread evenly over the classes, families as if all were there
    PLACED = 2


LAST = Edition.PLACED


def of_plan(edition: Edition) -> dict[str, int]:
    """What a plan says of its edition."""
    return {KEY: edition.value} if edition > Edition.SPREAD else {}


def checked(number: int, where: str) -> Edition:
    """The edition of a number. CampaignError if there is none."""
    try:
        return Edition(number)
    except ValueError:
        raise CampaignError(
            f"{where}: {KEY} = {echo(number)}; editions are {Edition.SPREAD} to {LAST}, and a new plan has {LAST}"
        ) from None
