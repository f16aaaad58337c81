"""A campaign: what is run, at which sizes, with which error budget. Read from TOML, checked here, trusted elsewhere.

Its plan is the same in plain values, hashed before the run; the seed follows from that digest. A target is named, or
defined in the file:

    targets = ["sparse-tail", "mine"]

    [[target]]
    name = "mine"
    vocab = 64
    rows = [                      # one row a position (six), one for all, or one a context
        { ids = [3, 7], weights = [8388608, 8388608], draft_ids = [3, 9], draft_logits = [1.0, 0.5] },
    ]
    contexts = [0, 1, ...]        # optional: the class of each token; rows are then by context
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from pp3 import targets
from pp3.harness import canonical, edition
from pp3.harness.document import explain, promised, read
from pp3.harness.echo import echo
from pp3.harness.edition import LAST, Edition
from pp3.harness.errors import CampaignError
from pp3.harness.samplers.contract import Description
from pp3.harness.target_file import RowSpec, TargetSpec, build_target
from pp3.harness.weights import ALPHA, POWER, checked
from pp3.targets import Target

DEFAULT = "default"
LARGEST_REQUESTS = 1 << 40
BATCH_LIMIT = 1 << 18
DEPTHS = (4, 5)
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a campaign file; each has a default."""

    name: str = DEFAULT
    targets: list[str] = msgspec.field(default_factory=lambda: list(targets.NAMES))
    requests: int = 20_000
    paired: int = 100_000
    batch_sizes: list[int] = msgspec.field(default_factory=lambda: [1, 2, 3, 4])
    depths: list[int] = msgspec.field(default_factory=lambda: [4, 5])
    alpha: float = ALPHA
    pool: int = 100
    power: float = POWER
    detect: float = 0.0  # total variation of a first token's law that must be seen; 0 promises nothing
    tolerance: float = 0.0  # total variation that a reviewer tolerates
    weights: dict[str, float] = msgspec.field(default_factory=dict)  # shares of alpha by family of checks
    battery: int = LAST  # edition of the rules; older ones are for plans of older receipts
    target: list[TargetSpec] = msgspec.field(default_factory=list)


KINDS = (CampaignSpec, TargetSpec, RowSpec)  # of a file, of the tables in its lists, of the tables in theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A checked campaign."""

    spec: CampaignSpec
    targets: tuple[Target, ...]

    @property
    def weights(self) -> dict[str, float]:
        """Share of alpha of every family of checks."""
        return checked(self.spec.weights, self.spec.name)

    @property
    def edition(self) -> Edition:
        """The rules that it is judged by."""
        return edition.checked(self.spec.battery, self.spec.name)

    @property
    def plan(self) -> dict[str, Any]:
        """Everything fixed before the run, in plain values."""
        return {
            "alpha": repr(self.spec.alpha),
            "batchSizes": list(self.spec.batch_sizes),
            "depths": list(self.spec.depths),
            "detect": repr(self.spec.detect),
            "name": self.spec.name,
            "paired": self.spec.paired,
            "pool": self.spec.pool,
            "power": repr(self.spec.power),
            "requests": self.spec.requests,
            "targets": [
                {"lawSha256": target.digest(), "name": target.name, **_definition(self.spec, target.name)}
                for target in self.targets
            ],
            "tolerance": repr(self.spec.tolerance),
            "weights": {family: repr(share) for family, share in self.weights.items()},
            **edition.of_plan(self.edition),
        }

    def requests_of(self, depth: int, batch_size: int) -> int:
        """Requests of each target in this cell: equal shares, the remainder to the first."""
        cells = [(d, b) for d in self.spec.depths for b in self.spec.batch_sizes]
        share, rest = divmod(self.spec.requests, len(cells))
        return share + (cells.index((depth, batch_size)) < rest)


SHARD = 1 << 17  # pairs at once, and of what pieces are multiples


def pair_shards(campaign: Campaign) -> list[tuple[Target, int, int]]:
    """Target, depth and number of temperature-0 pairs of every shard, in order: equal shares, the rest to the first."""
    groups = [(target, depth) for target in campaign.targets for depth in campaign.spec.depths]
    share, rest = divmod(campaign.spec.paired, len(groups))
    shards = []
    for number, (target, depth) in enumerate(groups):
        pairs = share + (number < rest)
        shards += [(target, depth, min(SHARD, pairs - first)) for first in range(0, pairs, SHARD)]
    return shards


def parts_of(campaign: Campaign) -> list[tuple[str, int]]:
    """Name and depth of everything that a campaign runs, in order."""
    return [(target.name, depth) for target in campaign.targets for depth in campaign.spec.depths]


def load(path: Path | None, instead: Mapping[str, Any] = MappingProxyType({})) -> Campaign:
    """Read a campaign file, or the default campaign, with other values `instead`.

    CampaignError names the value and the way out.
    """
    document = read(path) if path else {}
    document |= promised(document, str(path)) | dict(instead)
    return of_document(document, str(path or "default campaign"))


def of_document(document: dict[str, Any], where: str) -> Campaign:
    """Check a campaign given as a TOML document."""
    try:
        spec = msgspec.convert(document, CampaignSpec)
    except msgspec.ValidationError as error:
        raise CampaignError(f"{where}: {explain(str(error), document, KINDS)}") from None
    _check(spec, where)
    own = {}
    for definition in spec.target:
        if definition.name in targets.NAMES or definition.name in own:
            raise CampaignError(f"{where}: target name {definition.name!r} is taken; choose another")
        own[definition.name] = build_target(definition, where)
    chosen = []
    for name in spec.targets:
        if name not in own and name not in targets.NAMES:
            near = difflib.get_close_matches(name, [*targets.NAMES, *own], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join([*targets.NAMES, *own])}"
            raise CampaignError(f"{where}: unknown target {name!r}; {hint}")
        chosen.append(own[name] if name in own else targets.build(name))
    unused = sorted(set(own) - set(spec.targets))
    if unused:
        raise CampaignError(f"{where}: target {unused[0]!r} is defined and not listed in targets; list it or remove it")
    return Campaign(spec=spec, targets=tuple(chosen))


def of_plan(plan: dict[str, Any]) -> Campaign:
    """The campaign of a receipt's plan, rebuilt from our own targets; the caller compares the digests."""
    document = {
        "name": plan["name"],
        "targets": [target["name"] for target in plan["targets"]],
        "requests": plan["requests"],
        "paired": plan["paired"],
        "batch_sizes": plan["batchSizes"],
        "depths": plan["depths"],
        "alpha": float(plan["alpha"]),
        "pool": plan["pool"],
        "power": float(plan["power"]),
        "detect": float(plan["detect"]),
        "tolerance": float(plan["tolerance"]),
        "weights": {family: float(share) for family, share in plan["weights"].items()},
        edition.KEY: plan.get(edition.KEY, Edition.SPREAD),
        "target": [_from_plan(target["definition"]) for target in plan["targets"] if "definition" in target],
    }
    return of_document(document, "plan")


def check_sampler(campaign: Campaign, who: Description) -> None:
    """CampaignError unless the sampler declares every vocabulary of the campaign."""
    for target in campaign.targets:
        if not who.min_vocab <= target.vocab <= who.max_vocab:
            raise CampaignError(
                f"target {target.name} has a vocabulary of {target.vocab}; "
                f"{who.name} declares {who.min_vocab} to {who.max_vocab}"
            )


def our_limits() -> Description:
    """What our own sampler declares, on any backend, without loading torch."""
    from pp3.harness.samplers.reference import ReferenceSampler

    return ReferenceSampler().describe()


def _check(spec: CampaignSpec, where: str) -> None:
    def need(fine: bool, key: str, value: Any, limit: str) -> None:
        if not fine:
            raise CampaignError(f"{where}: {key} = {echo(value)}; it must be {limit}")

    need(0 < spec.requests <= LARGEST_REQUESTS, "requests", spec.requests, f"from 1 to {LARGEST_REQUESTS}")
    need(0 <= spec.paired <= LARGEST_REQUESTS, "paired", spec.paired, f"from 0 to {LARGEST_REQUESTS}")
    need(bool(spec.targets), "targets", spec.targets, "at least one name")
    for name in (spec.name, *spec.targets, *(definition.name for definition in spec.target)):
        need(NAME.fullmatch(name) is not None, "name", name, "1 to 64 letters, digits, dots, dashes or underscores")
    need(1e-30 <= spec.alpha < 1, "alpha", spec.alpha, "at least 1e-30 and below 1")
    need(spec.alpha < spec.power < 1, "power", spec.power, f"between alpha ({spec.alpha}) and 1, exclusive")
    need(20 <= spec.pool <= 10**9, "pool", spec.pool, "at least 20, or the tail of G is off (study of the battery)")
    need(0 <= spec.detect < 1, "detect", spec.detect, "0 (no promise) or a total variation below 1")
    need(0 <= spec.tolerance < 1, "tolerance", spec.tolerance, "0 (none) or a total variation below 1")
    checked(spec.weights, where)
    edition.checked(spec.battery, where)
    for key, values, allowed in (
        ("batch_sizes", spec.batch_sizes, range(1, BATCH_LIMIT + 1)),
        ("depths", spec.depths, DEPTHS),
    ):
        need(bool(values) and len(set(values)) == len(values), key, values, "distinct and not empty")
        need(all(value in allowed for value in values), key, values, f"within {min(allowed)} to {max(allowed)}")
    need(len(set(spec.targets)) == len(spec.targets), "targets", spec.targets, "distinct")


def _definition(spec: CampaignSpec, name: str) -> dict[str, Any]:
    """A target of the file in plan values: logits become the repr of the double."""
    for definition in spec.target:
        if definition.name == name:
            plain = msgspec.to_builtins(definition)
            for row in plain["rows"]:
                row["draft_logits"] = [repr(value) for value in row["draft_logits"]]
            return {"definition": plain}
    return {}


def _from_plan(definition: dict[str, Any]) -> dict[str, Any]:
    rows = [row | {"draft_logits": [float(value) for value in row["draft_logits"]]} for row in definition["rows"]]
    return definition | {"rows": rows}


def plan_sha256(campaign: Campaign) -> str:
    """Digest of the plan, from which the seed follows."""
    return canonical.sha256(campaign.plan)
