"""What a qualification of any kind concludes."""

from enum import StrEnum

MARGIN = 1e-5  # a p-value this near its level, relatively, decides nothing


class Verdict(StrEnum):
    """What a campaign concludes."""

    PASS = "PASS"
    TOLERATED = "TOLERATED"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
