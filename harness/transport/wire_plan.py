"""A campaign whose proposals go over the wire: the plan of any campaign, the place of the proxy, the rates of faults.

A target all of whose drafts are there gets a second pattern, in which every draft is lost on the way; the others keep
their patterns, and a request whose first draft is -1 by its pattern loses its proposal likewise.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pp3.harness import campaign as campaigns
from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError
from pp3.harness.transport.faults import OUT_OF, SHARES
from pp3.harness.transport.place import Place
from pp3.targets import Target

KEY = "path"
WIRE_BATCHES = range(1, 5)
LOST = "none", "every"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WireCampaign(Campaign):
    """A checked campaign over the wire."""

    place: Place

    @property
    def plan(self) -> dict[str, Any]:
        """See Campaign."""
        rates = {kind.value: f"{share}/{OUT_OF}" for kind, share in SHARES.items()}
        return super().plan | {KEY: {"carrier": "wire", "faults": rates, "proxy": self.place.value}}


def over_wire(campaign: Campaign, place: Place) -> WireCampaign:
    """The same campaign over the wire. CampaignError for a batch size that no frame can carry."""
    for size in campaign.spec.batch_sizes:
        if size not in WIRE_BATCHES:
            raise CampaignError(
                f"batch_sizes = {campaign.spec.batch_sizes}; a frame of the wire carries 1 to {max(WIRE_BATCHES)} rows"
            )
    return WireCampaign(spec=campaign.spec, targets=tuple(map(_losing, campaign.targets)), place=place)


def load(path: Path | None, place: Place, instead: Mapping[str, Any] = MappingProxyType({})) -> WireCampaign:
    """Read a campaign file, or the default campaign, to be run over the wire."""
    return over_wire(campaigns.load(path, instead), place)


def of_any_plan(plan: dict[str, Any]) -> Campaign:
    """The campaign of a receipt's plan, over the wire where the plan says so. CampaignError if it cannot be."""
    campaign = campaigns.of_plan(plan)
    if KEY not in plan:
        return campaign
    try:
        return over_wire(campaign, Place(plan[KEY]["proxy"]))
    except (KeyError, TypeError, ValueError):
        raise CampaignError(f"plan: {KEY} = {plan[KEY]!r}; it must name a proxy: {', '.join(Place)}") from None


def _losing(target: Target) -> Target:
    return dataclasses.replace(target, patterns=LOST) if target.patterns == LOST[:1] else target
