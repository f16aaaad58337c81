"""A small calibration, for tests of what follows from it: two campaigns of one target, a few hundred times."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from pp3.harness import campaign
from pp3.harness.calibrate import far, run
from pp3.harness.calibrate.found import Found
from pp3.harness.calibrate.plan import Level, Plan, make
from pp3.harness.evidence import calibration
from pp3.harness.seeds import Seed

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
COUNTER = 7
ONE = {"targets": ["disjoint"], "depths": [4], "batch_sizes": [2], "paired": 0}
IDENTITY = {"backend": "reference"}


def plan(campaigns: int = 1_000, requests_campaigns: int = 200) -> Plan:
    """Of one target at one depth."""
    return make(
        campaigns,
        requests_campaigns,
        {
            Level.COUNTS: campaign.of_document(ONE | {"name": "counted", "requests": 20_000}, "test"),
            Level.REQUESTS: campaign.of_document(ONE | {"name": "requested", "requests": 400}, "test"),
        },
    )


@cache
def found() -> tuple[dict[Level, Found], list[dict[str, Any]]]:
    """What it came to, run once; of exact tails only those of two groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(far, "FEASIBLE", 0)
        return run.run(plan(), Seed.of(plan().sha256, COUNTER), 1, lambda *_: None)


def statement() -> dict[str, Any]:
    """A receipt's statement."""
    levels, tails = found()
    plain = {level: one.plain() for level, one in levels.items()}
    return calibration.build(plan(), COUNTER, "given", STARTED, plain, tails, IDENTITY)
