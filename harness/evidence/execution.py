"""How a campaign in pieces was run, in receipt form: made of what a folder of pieces holds, and checked again."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import VerificationError
from pp3.harness.shards.cut import cut


def plain(attempts: int, devices: Iterable[str], repeated: int, unequal: Iterable[str]) -> dict[str, Any]:
    """shapes.ExecutionShape: `devices` names that of every piece."""
    by_device = Counter(devices)
    return {
        "attempts": attempts,
        "devices": dict(sorted(by_device.items())),
        "pieces": by_device.total(),
        "repeated": repeated,
        "unequal": sorted(unequal),
    }


def check(campaign: Campaign, predicate: dict[str, Any]) -> int:
    """The number of pieces. VerificationError unless they are those of the plan, each run on one device."""
    said = predicate["execution"]
    names = {piece.name for piece in cut(campaign, Backend(predicate["sampler"]["backend"]))}
    ran = sum(said["devices"].values())
    if said["pieces"] != len(names) or ran != len(names):
        raise VerificationError(f"{said['pieces']} pieces, {ran} of them run; the plan is cut into {len(names)}")
    if said["repeated"] > len(names):
        raise VerificationError(f"{said['repeated']} of {len(names)} pieces are said to be repeated")
    foreign = sorted(set(said["unequal"]) - names)
    if foreign:
        raise VerificationError(f"{foreign[0]!r} is no piece of the plan")
    if said["unequal"] != sorted(set(said["unequal"])):
        raise VerificationError("unequal pieces are not sorted, each once")
    return len(names)
