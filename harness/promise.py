"""What a campaign promises to see, and whether it can: the total variation of a first token's law."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from pp3.harness.campaign import LARGEST_REQUESTS, Campaign
from pp3.harness.cells import Event
from pp3.harness.design import NO_SHARE, TOO_FEW, Check, design, families, groups
from pp3.harness.errors import CampaignError
from pp3.harness.power import detectable
from pp3.harness.weights import Family

USUAL_POOL = 100
PROMISED = (Event.TOKEN, Event.FULL_TARGET, Event.PROPOSAL, Event.JOINT)  # a first token, by itself or in its round

DIGITS = 4  # of a total variation that is said
SMALLEST = 8  # of one that nobody has too few requests for


def resolution(checks: Sequence[Check], power: float, requests: int) -> float:
    """Total variation of a first token's law that each target would show, with this power.

    Where every law has one outcome, that of which one of so many requests is likely to show an impossible one.
    """
    sizes = [detectable(check, power).size if check.decides else 1.0 for check in checks if _promised(check)]
    return max(sizes) if sizes else 1 - (1 - power) ** (1 / requests)


def short(checks: Sequence[Check]) -> bool:
    """Whether a promised check has too few events to decide anything."""
    return any(check.reason == TOO_FEW for check in checks if _promised(check))


def enough(requests: int, detect: float, checks_of: Callable[[int], Sequence[Check]], power: float, where: str) -> int:
    """So many requests, at least those given, that `detect` is seen; CampaignError if nobody has so many, or if no
    number is enough, since the checks that would see it have no share of alpha."""
    if any(check.reason == NO_SHARE for check in checks_of(requests) if _promised(check)):
        raise CampaignError(f"{where}: detect = {detect:g} is seen by checks of laws; give weights.law more than 0")
    while (seen := resolution(checks := checks_of(requests), power, requests)) > detect:
        if requests == LARGEST_REQUESTS:
            raise CampaignError(
                f"{where}: detect = {detect:g} needs more than {requests:,} requests of each law; "
                f"give {_rounded(seen, SMALLEST):.{SMALLEST}f} or more, which so many see"
            )
        factor = 1.25 if short(checks) else (seen / detect) ** 2
        requests = min(LARGEST_REQUESTS, int(requests * factor * 1.02) + 1)
    return requests


def _rounded(size: float, digits: int) -> float:
    """Upwards, so that what is said is accepted."""
    return float(math.ceil(size * 10**digits) / 10**digits)


def fillable(requests: int, pool: int, where: str) -> None:
    """CampaignError if so many requests of a law cannot fill two groups of a larger pool than the usual one.

    At the usual pool few requests still show impossible outcomes, and the rest is said to be undecided.
    """
    if pool > USUAL_POOL and requests < 2 * pool:
        raise CampaignError(
            f"{where}: pool = {pool:,} and requests = {requests:,}: no cell could have two groups of so many expected "
            f"events; give requests = {2 * pool:,} or more, or a pool of at most {max(USUAL_POOL, requests // 2):,}"
        )


def supported(there: Collection[Family], weights: Mapping[str, float], where: str) -> None:
    """CampaignError for a share of alpha given to a family of which a profile has no check that could spend it.

    Where no family has one, any division does.
    """
    for family, share in weights.items():
        if share and there and family not in there:
            raise CampaignError(
                f"{where}: weights.{family} = {share:g}, and this profile has no check of that family; give its share "
                f"to {', '.join(known.value for known in Family if known in there)}"
            )


def keep(campaign: Campaign, where: str) -> None:
    """CampaignError if a campaign cannot do what it asks for or see what it promises, with what would."""
    spec = campaign.spec
    fillable(spec.requests, spec.pool, where)
    supported(families(groups(campaign)), spec.weights, where)
    if not spec.detect:
        return

    def checks_of(requests: int) -> Sequence[Check]:
        larger = msgspec.structs.replace(spec, requests=requests)
        return design(Campaign(spec=larger, targets=campaign.targets))

    seen = resolution(checks_of(spec.requests), spec.power, spec.requests)
    if seen > spec.detect:
        needed = enough(spec.requests, spec.detect, checks_of, spec.power, where)
        said = _rounded(seen, DIGITS)
        raise CampaignError(
            f"{where}: detect = {spec.detect:g} cannot be seen with power {spec.power:g} by {spec.requests:,} requests "
            f"of each target: they see {said:.{DIGITS}f}; give requests = {needed:,} or a detect of {said:.{DIGITS}f}"
        )


def _promised(check: Check) -> bool:
    return check.required and check.event in PROMISED
