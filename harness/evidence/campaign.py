"""The receipt of a campaign, checked from its integers alone: the plan and the seed, the laws rebuilt from our own
targets, the counts and every statistic recomputed, the error budget, the verdict."""

from collections.abc import Iterator
from typing import Any

from pp3.harness import canonical
from pp3.harness.campaign import Campaign, check_sampler, our_limits, plan_sha256
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import execution, kernels
from pp3.harness.evidence.counts import COUNTS, Counted, counts_of
from pp3.harness.evidence.rows import STATISTICS, TEST, compare
from pp3.harness.evidence.step import at, ok, same_verdict, spent
from pp3.harness.evidence.verified import Step
from pp3.harness.seeds import RULE, Seed
from pp3.harness.transport.wire_plan import WireCampaign, of_any_plan
from pp3.harness.verdict import Judgement, conclude


def recomputed(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a campaign, over the wire or not: whatever follows from its plan and its integers."""
    if predicate["seed"]["rule"] != RULE:
        raise VerificationError(f"plan: the seed rule must read {RULE!r}")
    campaign = _plan(predicate)
    yield ok("plan", f"digest and seed of counter {predicate['seed']['counter']} recomputed")
    at("laws", _laws, campaign, predicate)
    yield ok("laws", f"{len(campaign.targets)} targets rebuilt from their names and definitions")
    at("kernels", kernels.check, campaign, predicate)
    rows = sum(row["rows"] for row in predicate["kernels"]["bits"])
    yield ok("kernels", f"{rows:,} rows of bits, and known answers, as the plan implies")
    if "execution" in predicate:
        pieces = at("pieces", execution.check, campaign, predicate)
        yield ok("pieces", f"{pieces:,}, as the plan is cut")
    if isinstance(campaign, WireCampaign):
        from pp3.harness.transport import losses

        seed = Seed.of(predicate["planSha256"], predicate["seed"]["counter"])
        lost = at("path", losses.check, campaign, seed, predicate["path"])
        yield ok("path", f"{lost:,} of {predicate['path']['rows']:,} requests were to be lost, as plan and seed imply")
    counts, first = at(COUNTS, counts_of, campaign, predicate)
    yield ok(COUNTS, f"{len(counts):,} cells tile {campaign.spec.requests * len(campaign.targets):,} requests")
    judgement = at(STATISTICS, _conclude, campaign, counts, first, predicate)
    compare(TEST, [test.plain() for test in judgement.tests], predicate["tests"])
    compare("deviation", [one.plain() for one in judgement.deviations], predicate["deviations"])
    compare("seed family", judgement.seed_family, predicate["seedFamily"])
    compare("sees", [judgement.sees], [predicate["sees"]])
    yield ok(STATISTICS, f"{len(judgement.tests)} checks")
    spec = predicate["plan"]
    yield spent(float(spec["alpha"]), spec["weights"], judgement.tests, predicate["tests"])
    yield same_verdict(judgement, predicate)


def _plan(predicate: dict[str, Any]) -> Campaign:
    campaign: Campaign = at("plan", of_any_plan, predicate["plan"])
    if isinstance(campaign, WireCampaign) != (predicate["kind"] == "wire"):
        raise VerificationError(f"plan: a receipt of kind {predicate['kind']} whose plan is of another kind")
    if canonical.sha256(predicate["plan"]) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(predicate['plan'])}, not {predicate['planSha256']}")
    names = [target["name"] for target in predicate["plan"]["targets"]]
    laws = {target.name: target.digest() for target in campaign.targets}
    claimed = {target["name"]: target.get("lawSha256") for target in predicate["plan"]["targets"]}
    if laws == claimed and plan_sha256(campaign) != predicate["planSha256"]:
        raise VerificationError(f"plan: its values rebuild to another plan for {', '.join(names)}")
    seed = at("plan", Seed.of, predicate["planSha256"], predicate["seed"]["counter"])
    if seed.value.hex() != predicate["seed"]["sha256"]:
        raise VerificationError(
            f"plan: the seed of this plan and counter is {seed.value.hex()}, not {predicate['seed']['sha256']}"
        )
    return campaign


def _laws(campaign: Campaign, predicate: dict[str, Any]) -> None:
    """Every law is ours by digest, within what the sampler declares."""
    for target, claimed in zip(campaign.targets, predicate["plan"]["targets"], strict=True):
        if target.digest() != claimed.get("lawSha256"):
            raise VerificationError(f"laws: {target.name} is {claimed.get('lawSha256')} there, {target.digest()} here")
    check_sampler(campaign, our_limits())


def _conclude(campaign: Campaign, counts: Counted, first: Counted, predicate: dict[str, Any]) -> Judgement:
    parts = (
        counts,
        first,
        predicate["breaches"],
        predicate["paired"],
        predicate["kernels"],
        predicate["sampler"],
        predicate.get("execution", {}).get("unequal", ()),
    )
    if isinstance(campaign, WireCampaign):
        from pp3.harness.transport.verdict import conclude_path

        return conclude_path(campaign, predicate["path"], *parts)
    return conclude(campaign, *parts)
