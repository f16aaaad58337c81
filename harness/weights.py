"""How a campaign's error budget is divided: one family alpha over families of checks, fixed before the run."""

import math
from collections.abc import Collection, Mapping
from enum import StrEnum

from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError

ALPHA = 1e-5  # of a family of checks, unless a campaign says otherwise
POWER = 0.999  # with which a check sees the smallest effect that it states, likewise


class Family(StrEnum):
    """Checks that share a part of alpha equally."""

    LAW = "law"  # tokens, lengths, drafts, whole rounds
    CONDITIONAL = "conditional"  # what is kept, what replaces, the bonus, a token after another
    DEPENDENCE = "dependence"  # between requests, rounds, and a draft and what replaces it
    RARE = "rare"  # outcomes one by one
    FIT = "fit"  # all statistics together, too small a sum as well


DEFAULT = {
    Family.LAW.value: 0.5,
    Family.CONDITIONAL.value: 0.2,
    Family.DEPENDENCE.value: 0.2,
    Family.RARE.value: 0.05,
    Family.FIT.value: 0.05,
}
ROUNDING = 1e-9  # of a sum of five decimals


def usual(families: Collection[Family]) -> dict[str, float]:
    """The default, divided among these families alone; the default itself where there are none."""
    total = math.fsum(share for name, share in DEFAULT.items() if name in families)
    return {name: share / total * (name in families) for name, share in DEFAULT.items()} if total else dict(DEFAULT)


def checked(weights: Mapping[str, float], where: str) -> dict[str, float]:
    """Weights of every family, those not given at 0. CampaignError unless they are shares that sum to 1."""
    if not weights:
        return dict(DEFAULT)
    for name, weight in weights.items():
        if name not in DEFAULT:
            raise CampaignError(f"{where}: weights has {echo(name)}; its keys are {', '.join(DEFAULT)}")
        if not 0 <= weight <= 1:
            raise CampaignError(f"{where}: weights.{name} = {weight}; it must be a share from 0 to 1")
    total = math.fsum(weights.values())
    if abs(total - 1) > ROUNDING:
        said = f"divide each by {total:g}" if total else f"the default is {DEFAULT}"
        raise CampaignError(f"{where}: weights sum to {total:g}; they must sum to 1: {said}")
    return {name: float(weights.get(name, 0.0)) for name in DEFAULT}
