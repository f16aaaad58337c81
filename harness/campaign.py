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
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pp3 import targets
from pp3.harness import canonical
from pp3.harness.errors import CampaignError
from pp3.harness.samplers.contract import Description
from pp3.targets import Target
from pp3.targets.target import POSITIONS

DEFAULT = "default"
LARGEST_REQUESTS = 1 << 40
BATCH_LIMIT = 64
DEPTHS = (4, 5)


class RowSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One conditional law and its draft logits; tokens not listed have weight 0 and logit -inf."""

    ids: list[int]
    weights: list[int]
    draft_ids: list[int]
    draft_logits: list[float]


class TargetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target defined in the campaign file."""

    name: str
    vocab: int
    rows: list[RowSpec]
    contexts: list[int] | None = None
    patterns: list[str] = msgspec.field(default_factory=lambda: ["none"])


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a campaign file; each has a default."""

    name: str = DEFAULT
    targets: list[str] = msgspec.field(default_factory=lambda: list(targets.NAMES))
    requests: int = 20_000
    paired: int = 100_000
    batch_sizes: list[int] = msgspec.field(default_factory=lambda: [1, 2, 3, 4])
    depths: list[int] = msgspec.field(default_factory=lambda: [4, 5])
    alpha: float = 1e-5
    pool: int = 100
    power: float = 0.999
    target: list[TargetSpec] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A checked campaign."""

    spec: CampaignSpec
    targets: tuple[Target, ...]

    @property
    def plan(self) -> dict[str, Any]:
        """Everything fixed before the run, in plain values."""
        return {
            "alpha": repr(self.spec.alpha),
            "batchSizes": list(self.spec.batch_sizes),
            "depths": list(self.spec.depths),
            "name": self.spec.name,
            "paired": self.spec.paired,
            "pool": self.spec.pool,
            "power": repr(self.spec.power),
            "requests": self.spec.requests,
            "targets": [
                {"lawSha256": target.digest(), "name": target.name, **_definition(self.spec, target.name)}
                for target in self.targets
            ],
        }

    def requests_of(self, depth: int, batch_size: int) -> int:
        """Requests of each target in this cell: equal shares, the remainder to the first."""
        cells = [(d, b) for d in self.spec.depths for b in self.spec.batch_sizes]
        share, rest = divmod(self.spec.requests, len(cells))
        return share + (cells.index((depth, batch_size)) < rest)


def load(path: Path | None, requests: int | None = None) -> Campaign:
    """Read a campaign file, or the default campaign. CampaignError names the value and the way out."""
    try:
        document = tomllib.loads(path.read_text("utf-8")) if path else {}
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give the path of a campaign file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: not TOML: {error}") from None
    if requests is not None:
        document["requests"] = requests
    return of_document(document, str(path or "default campaign"))


def of_document(document: dict[str, Any], where: str) -> Campaign:
    """Check a campaign given as a TOML document."""
    try:
        spec = msgspec.convert(document, CampaignSpec)
    except msgspec.ValidationError as error:
        raise CampaignError(f"{where}: {_explain(str(error), document)}") from None
    _check(spec, where)
    own = {}
    for definition in spec.target:
        if definition.name in targets.NAMES or definition.name in own:
            raise CampaignError(f"{where}: target name {definition.name!r} is taken; choose another")
        own[definition.name] = _build(definition, where)
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
            raise CampaignError(f"{where}: {key} = {value!r}; it must be {limit}")

    need(0 < spec.requests <= LARGEST_REQUESTS, "requests", spec.requests, f"from 1 to {LARGEST_REQUESTS}")
    need(0 <= spec.paired <= LARGEST_REQUESTS, "paired", spec.paired, f"from 0 to {LARGEST_REQUESTS}")
    need(bool(spec.targets), "targets", spec.targets, "at least one name")
    need(bool(spec.name), "name", spec.name, "not empty")
    need(0 < spec.alpha < 1, "alpha", spec.alpha, "between 0 and 1, exclusive")
    need(0 < spec.power < 1, "power", spec.power, "between 0 and 1, exclusive")
    need(20 <= spec.pool <= 10**9, "pool", spec.pool, "at least 20, or the tail of G is off (study of the battery)")
    for key, values, allowed in (
        ("batch_sizes", spec.batch_sizes, range(1, BATCH_LIMIT + 1)),
        ("depths", spec.depths, DEPTHS),
    ):
        need(bool(values) and len(set(values)) == len(values), key, values, "distinct and not empty")
        need(all(value in allowed for value in values), key, values, f"within {min(allowed)} to {max(allowed)}")
    need(len(set(spec.targets)) == len(spec.targets), "targets", spec.targets, "distinct")


def _build(spec: TargetSpec, where: str) -> Target:
    """A target of a campaign file."""
    if not 1 <= spec.vocab <= 1 << 24:
        raise CampaignError(f"{where}: target {spec.name!r}: vocab = {spec.vocab}; it must be from 1 to {1 << 24}")
    weights = np.zeros((len(spec.rows), spec.vocab), np.int64)
    logits = np.full((len(spec.rows), spec.vocab), -np.inf, np.float32)
    for number, row in enumerate(spec.rows):
        pairs = (
            ("ids", row.ids, "weights", row.weights),
            ("draft_ids", row.draft_ids, "draft_logits", row.draft_logits),
        )
        for ids_key, ids, key, values in pairs:
            place = f"{where}: target {spec.name!r}: row {number}"
            if len(ids) != len(values):
                raise CampaignError(f"{place}: {len(ids)} {ids_key} and {len(values)} {key}; give one for each")
            wrong = [token for token in ids if not 0 <= token < spec.vocab]
            if wrong or len(set(ids)) != len(ids):
                raise CampaignError(f"{place}: {ids_key} {wrong or ids} must be distinct and below {spec.vocab}")
            if not all(math.isfinite(value) for value in values):
                raise CampaignError(f"{place}: {key} must be finite; leave a token out for -inf")
        if any(abs(weight) > 1 << 24 for weight in row.weights):
            raise CampaignError(f"{where}: target {spec.name!r}: row {number}: weights must lie in 0 to {1 << 24}")
        weights[number, row.ids] = row.weights
        logits[number, row.draft_ids] = row.draft_logits
    contexts = spec.contexts
    by_context = np.tile(np.arange(len(spec.rows)), (POSITIONS, 1))
    if contexts is None and len(spec.rows) not in (1, POSITIONS):
        raise CampaignError(
            f"{where}: target {spec.name!r}: {len(spec.rows)} rows; give 1, {POSITIONS} (one a position), or contexts"
        )
    by_position = np.zeros((POSITIONS, 1), np.int64) if len(spec.rows) == 1 else np.arange(POSITIONS)[:, None]
    try:
        return Target(
            name=spec.name,
            why="defined in the campaign",
            weights=weights,
            draft_logits=logits,
            row_of=by_position if contexts is None else by_context,
            context_of=np.zeros(spec.vocab, np.int64) if contexts is None else np.array(contexts, np.int64),
            patterns=tuple(spec.patterns),
        )
    except ValueError as error:
        raise CampaignError(f"{where}: {error}") from None


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


def _explain(message: str, document: dict[str, Any]) -> str:
    """msgspec's message, with the nearest key for a misspelt one and the value for a wrong type."""
    if "unknown field" in message:
        key = message.split("`")[1]
        fields = [f.name for kind in (CampaignSpec, TargetSpec, RowSpec) for f in msgspec.structs.fields(kind)]
        near = difflib.get_close_matches(key, fields, 1)
        return f"unknown key {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(fields)}")
    if "`$." in message:
        key = message.rsplit("`$.", 1)[1].rstrip("`")
        if key in document:
            return f"{key} = {document[key]!r}: {message.split(' - ')[0]}"
    return message


def plan_sha256(campaign: Campaign) -> str:
    """Digest of the plan, from which the seed follows."""
    return canonical.sha256(campaign.plan)
