"""A small campaign over the wire."""

from typing import Any

from pp3.harness import campaign as campaigns
from pp3.harness.transport import wire_plan
from pp3.harness.transport.place import Place

SMALL = {"targets": ["disjoint", "invalidated"], "requests": 400, "paired": 60, "depths": [4], "batch_sizes": [1, 3]}


def campaign(place: Place = Place.THREAD, **changes: Any) -> wire_plan.WireCampaign:
    """A small one."""
    return wire_plan.over_wire(campaigns.of_document(SMALL | changes, "test"), place)
