"""Receipts of small campaigns, as `pp3 qualify` builds them from what `measure` says."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, plan_sha256
from pp3.harness.evidence import receipt
from pp3.harness.run import Measured, _campaign
from pp3.harness.seeds import Seed
from pp3.harness.transport import command as over_wire
from pp3.harness.transport import wire_plan
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import ReferenceStage
from pp3.harness.verdict import conclude

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COUNTER = 7
Statement = dict[str, Any]
Measure = Callable[[Campaign, Seed], Measured]


def qualified(plan: Mapping[str, Any], measure: Measure) -> Statement:
    """Of a campaign of our own."""
    campaign = campaigns.of_document(dict(plan), "test")
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    measured = measure(campaign, drawn)
    who = receipt.sampler_of(measured.sampler, Backend(measured.sampler.backend))
    parts = (measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels)
    judged = conclude(campaign, *parts, who)
    return receipt.build(campaign, drawn, COUNTER, "given", STARTED, measured, judged)


def wired(plan: Mapping[str, Any], measure: Measure) -> Statement:
    """Of one over the wire."""
    campaign = wire_plan.over_wire(campaigns.of_document(dict(plan), "test"), Place.THREAD)
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    beside, sampler = measure(campaign, drawn), PathSampler(ReferenceStage(), campaign.place)
    measured = Measured(sampler=beside.sampler, kernels=beside.kernels, timings=beside.timings)
    _campaign(campaign, drawn, sampler, measured, lambda *_: None)
    sampler.close()
    path = sampler.journey.plain()
    judged = over_wire.judge(campaign, measured, path)
    return over_wire.build(campaign, drawn, COUNTER, "given", STARTED, measured, path, judged)
