"""The plan of an engine's qualification: model, conditions, cells and error budget, fixed before the first request."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from pp3.harness import canonical
from pp3.harness.bounds import detectable_tv, smallest_shift
from pp3.harness.echo import echo
from pp3.harness.engine import checkpoint
from pp3.harness.engine.cells import Cell, Look, cells_of
from pp3.harness.engine.conditions import Condition, choose
from pp3.harness.engine.contract import Facts, Logprobs
from pp3.harness.engine.law import Law, Setting, error, logits_of, most_tokens
from pp3.harness.engine.tensors import Loaded
from pp3.harness.errors import CampaignError
from pp3.harness.weights import ALPHA, POWER
from pp3.targets import chains
from pp3.targets.chains import Chain

TOKENS, LEAST_TOKENS = 1_000_000, 20_000
MOST_CONCURRENT = 1_024
CONCURRENCY = 16
IDS, TEXT = PROMPTS = ("ids", "text")


class EngineSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user chooses."""

    target: str
    draft: bool = False
    tokens: int = TOKENS  # of the stream; every other condition has a twentieth
    dtype: str = Loaded.FLOAT32.value
    concurrency: int = CONCURRENCY
    prompts: str = IDS  # how they are sent
    alpha: float = ALPHA
    pool: int = 100
    power: float = POWER


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
    """A cell with its part of alpha."""

    cell: Cell
    alpha: float
    reason: str

    @property
    def id(self) -> str:
        """The cell's."""
        return self.cell.id


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A checked plan."""

    spec: EngineSpec
    facts: Facts
    chain: Chain
    logits: Law
    draft: Law  # logits of the proposal
    conditions: list[Condition]
    left_out: Mapping[str, str]

    @property
    def concurrency(self) -> int:
        """Requests in flight."""
        return concurrency_of(self.spec, self.facts)

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell, condition by condition."""
        return [
            cell
            for condition in self.conditions
            for cell in cells_of(self.chain, self.logits, condition, self.facts, self.spec.pool, self.concurrency)
        ]

    @cached_property
    def checks(self) -> list[Check]:
        """Every cell as a check; those that can decide share alpha equally."""
        reasons = ["" if cell.df > 0 else "too few events for two groups" for cell in self.cells]
        able = sum(not reason for reason in reasons)
        return [
            Check(cell=cell, alpha=0.0 if reason else self.spec.alpha / able, reason=reason)
            for cell, reason in zip(self.cells, reasons, strict=True)
        ]

    @property
    def resolution(self) -> float:
        """Total variation of the ranks of the stream's tokens that is seen with the planned power."""
        return next((seen(c, self.spec.power) for c in self.checks if c.id == f"stream/{Look.RANK}"), 1.0)

    @property
    def error(self) -> float:
        """Largest relative error of a probability that the engine's arithmetic may make, at temperature 1."""
        return error(self.logits, Setting())

    @property
    def plain(self) -> dict[str, Any]:
        """Everything fixed before the run."""
        roles = ("target", "draft") if self.spec.draft else ("target",)
        return {
            "alpha": repr(self.spec.alpha),
            "checkpoints": {role: checkpoint.digests_of(self.spec.target, role) for role in roles},
            "concurrency": self.spec.concurrency,
            "conditions": [condition_plain(condition) for condition in self.conditions],
            "declared": facts_plain(self.facts),
            "dtype": self.spec.dtype,
            "lawError": f"{self.error:.3g}",
            "lawSha256": self.chain.digest(),
            "notApplicable": dict(sorted(self.left_out.items())),
            "pool": self.spec.pool,
            "power": repr(self.spec.power),
            "target": self.spec.target,
            "tokens": self.spec.tokens,
            **({} if self.spec.prompts == IDS else {"prompts": self.spec.prompts}),
        }

    @property
    def sha256(self) -> str:
        """Digest of the plan, from which the seed follows."""
        return canonical.sha256(self.plain)


def seen(check: Check, power: float) -> float:
    """Smallest total variation that a check sees, whatever its direction, at the planned size; 1 if it sees none."""
    cell = check.cell
    if not check.alpha or cell.events < 1:
        return 1.0
    if len(cell.probabilities) == 2 and cell.df == 1:
        return smallest_shift(check.alpha, float(cell.probabilities[0]), int(cell.events), power)
    return detectable_tv(check.alpha, cell.df, cell.events, power)


def concurrency_of(spec: EngineSpec, facts: Facts) -> int:
    """Requests in flight: as many as asked for, or as the engine can have."""
    return min(spec.concurrency, facts.most_concurrent or spec.concurrency)


def make(spec: EngineSpec, facts: Facts) -> Plan:
    """A checked plan. CampaignError names the value and what would work."""

    def need(fine: bool, option: str, value: Any, limit: str) -> None:
        if not fine:
            raise CampaignError(f"{option} {echo(value)}: it must be {limit}")

    need(spec.target in chains.NAMES, "--checkpoint of", spec.target, f"one of {', '.join(chains.NAMES)}")
    dtypes = [dtype.value for dtype in Loaded]
    need(spec.dtype in dtypes, "--dtype", spec.dtype, f"one of {', '.join(dtypes)}")
    need(1 <= spec.concurrency <= MOST_CONCURRENT, "--concurrency", spec.concurrency, f"from 1 to {MOST_CONCURRENT}")
    need(spec.prompts in PROMPTS, "--prompts", spec.prompts, f"one of {', '.join(PROMPTS)}")
    need(
        1e-30 <= spec.alpha < spec.power < 1, "alpha", spec.alpha, f"at least 1e-30 and below the power ({spec.power})"
    )
    need(20 <= spec.pool <= 10**9, "pool", spec.pool, "at least 20, or the tail of G is off, and at most 10^9")
    chain = chains.build(spec.target)
    logits, draft = (
        logits_of(checkpoint.tensors_of(chain, role), chain, Loaded(spec.dtype), checkpoint.EPSILON)
        for role in checkpoint.ROLES
    )
    most = most_tokens(logits)
    need(LEAST_TOKENS <= spec.tokens <= most, "--tokens", spec.tokens, f"from {LEAST_TOKENS} to {most}")
    if facts.vocab < chain.vocab:
        raise CampaignError(
            f"{facts.name} has {facts.vocab} tokens, {spec.target} has {chain.vocab}: it serves another model"
        )
    if facts.speculative and not spec.draft:
        raise CampaignError(f"{facts.name} speculates; name its draft model with --draft-checkpoint")
    conditions, left_out = choose(chain, logits, facts, spec.tokens, concurrency_of(spec, facts))
    return Plan(
        spec=spec, facts=facts, chain=chain, logits=logits, draft=draft, conditions=conditions, left_out=left_out
    )


def facts_plain(facts: Facts) -> dict[str, Any]:
    """What an engine says of itself, in plain values."""
    return {
        "filters": facts.filters or "",
        "logprobsOf": facts.logprobs_of.value,
        "mostConcurrent": facts.most_concurrent,
        "name": facts.name,
        "replays": sorted(facts.replays),
        "settings": dict(sorted(facts.settings.items())),
        "speculative": facts.speculative,
        "stopEmitted": facts.stop_emitted,
        "supports": sorted(facts.supports),
        "version": facts.version,
        "vocab": facts.vocab,
    }


def facts_of(plain: Mapping[str, Any]) -> Facts:
    """The same, back."""
    return Facts(
        name=plain["name"],
        version=plain["version"],
        speculative=plain["speculative"],
        supports=frozenset(plain["supports"]),
        vocab=plain["vocab"],
        settings=dict(plain["settings"]),
        stop_emitted=plain["stopEmitted"],
        replays=frozenset(plain["replays"]),
        most_concurrent=plain["mostConcurrent"],
        filters=plain["filters"] or None,
        logprobs_of=Logprobs(plain["logprobsOf"]),
    )


def condition_plain(condition: Condition) -> dict[str, Any]:
    """Every parameter of a condition's requests."""
    return {
        "asks": condition.asks,
        "hangsUp": condition.hangs_up,
        "kind": condition.kind.value,
        "length": condition.length,
        "name": condition.name,
        "order": condition.order.value,
        "prompts": list(condition.prompts),
        "required": condition.required,
        "seeded": condition.seeded,
        "settings": [setting_plain(setting) for setting in condition.settings],
        "speculate": condition.speculate,
        "stops": list(condition.stops),
    }


def setting_plain(setting: Setting) -> dict[str, str]:
    """Parameters that are given."""
    given = {
        "logitBias": ", ".join(f"{token}: {added!r}" for token, added in sorted(setting.logit_bias.items())),
        "minP": setting.min_p,
        "name": setting.name,
        "repetitionPenalty": setting.repetition_penalty,
        "temperature": setting.temperature,
        "topK": setting.top_k,
        "topP": setting.top_p,
    }
    return {
        name: value if isinstance(value, str) else repr(value)
        for name, value in given.items()
        if value not in (None, "")
    }


def of_plan(plain: Mapping[str, Any]) -> Plan:
    """The plan of a receipt, built again from what was chosen and what the engine declares."""
    spec = EngineSpec(
        target=plain["target"],
        draft="draft" in plain["checkpoints"],
        tokens=plain["tokens"],
        dtype=plain["dtype"],
        concurrency=plain["concurrency"],
        prompts=plain.get("prompts", IDS),
        alpha=float(plain["alpha"]),
        pool=plain["pool"],
        power=float(plain["power"]),
    )
    return make(spec, facts_of(plain["declared"]))
