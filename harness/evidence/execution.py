"""How a campaign in pieces was run, in receipt form: made of what a folder of pieces holds, and checked again."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import VerificationError
from pp3.harness.shards.cut import cut

AGAIN = "it came to other counts when it was run again"


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
    backend = Backend(predicate["sampler"]["backend"])
    return _check([piece.name for piece in cut(campaign, backend)], predicate["execution"])


def check_trial(predicate: dict[str, Any]) -> int:
    """The same of a trial, whose targets are its pieces; one that came to other counts again must be broken by that."""
    said, targets = predicate["execution"], [target["name"] for target in predicate["plan"]["targets"]]
    for target in targets:
        if (target_piece(target) in said["unequal"]) != (predicate["broken"].get(target) == AGAIN):
            raise VerificationError(f"{target} must be broken if it came to other counts again, and only then")
    return _check([target_piece(target) for target in targets], said)


def target_piece(target: str) -> str:
    """Name of the piece that is a target; fit for a file."""
    return f"target,{target.replace('/', ',')}"


def _check(names: list[str], said: dict[str, Any]) -> int:
    ran = sum(said["devices"].values())
    if said["pieces"] != len(names) or ran != len(names):
        raise VerificationError(f"{said['pieces']} pieces, {ran} of them run; the plan is cut into {len(names)}")
    if said["repeated"] > len(names):
        raise VerificationError(f"{said['repeated']} of {len(names)} pieces are said to be repeated")
    foreign = sorted(set(said["unequal"]) - set(names))
    if foreign:
        raise VerificationError(f"{foreign[0]!r} is no piece of the plan")
    if said["unequal"] != sorted(set(said["unequal"])):
        raise VerificationError("the unequal pieces are not sorted, each once")
    return len(names)
