"""The plan of a trial: who is tried on what, with how many requests and which error budget, fixed before the run."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from pp3.harness import canonical, edition, promise
from pp3.harness.design import Check, Group, checks, families
from pp3.harness.echo import echo
from pp3.harness.edition import LAST, Edition
from pp3.harness.errors import CampaignError
from pp3.harness.places import Part, first_part
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.trial.problems import Problem, choose, names
from pp3.harness.weights import ALPHA, POWER, checked, usual

QUICK, FULL = 20_000, 2_000_000
LARGEST_REQUESTS = 1 << 40
Progress = Callable[[str, int, int], None]  # stage, done, total


class TrialSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a trial in a campaign file; each has a default."""

    sampler: str = ""
    targets: list[str] = msgspec.field(default_factory=list)  # default: all of the sampler's kind
    requests: int = QUICK  # of each law
    alpha: float = ALPHA
    pool: int = 100
    power: float = POWER
    detect: float = 0.0  # total variation of a first token's law that must be seen; 0 promises nothing
    tolerance: float = 0.0  # total variation that a reviewer tolerates
    weights: dict[str, float] = msgspec.field(default_factory=dict)  # shares of alpha by family of checks
    battery: int = LAST  # edition of the rules; older ones are for plans of older receipts


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A checked plan."""

    spec: TrialSpec
    who: Description
    problems: list[Problem]
    left_out: dict[str, str] = field(default_factory=dict)
    halves: dict[str, int] = field(default_factory=dict)  # requests of each problem's first part, once that is known

    @property
    def plan(self) -> dict[str, Any]:
        """Everything fixed before the run, in plain values."""
        return {
            "alpha": repr(self.spec.alpha),
            "declared": declared(self.who),
            "detect": repr(self.spec.detect),
            "notApplicable": dict(sorted(self.left_out.items())),
            "pool": self.spec.pool,
            "power": repr(self.spec.power),
            "requests": self.spec.requests,
            "targets": [{"lawSha256": problem.law_sha256, "name": problem.name} for problem in self.problems],
            "tolerance": repr(self.spec.tolerance),
            "weights": {family: repr(share) for family, share in self.weights.items()},
            **edition.of_plan(self.edition),
        }

    @property
    def edition(self) -> Edition:
        """The rules that it is judged by."""
        return edition.checked(self.spec.battery, self.spec.sampler)

    @cached_property
    def weights(self) -> dict[str, float]:
        """Share of alpha of every family of checks; those that are not given, of the families that there are."""
        if self.spec.weights or self.edition is Edition.SPREAD:
            return checked(self.spec.weights, self.spec.sampler)
        return usual(families(self.groups))

    @cached_property
    def groups(self) -> list[Group]:
        """What is counted, problem by problem, each in two parts: the second begins with a launch, about halfway."""
        return [Group(cells=p.cells, depth=p.depth, parts=self._parts(p)) for p in self.problems]

    def _parts(self, problem: Problem) -> tuple[Part, Part]:
        first, end = self.span_of(problem)
        known = problem.name in self.halves
        half = self.halves[problem.name] if known else (end - first) // 2
        return (
            Part(first=first, requests=half),
            Part(first=first + half if known else None, requests=end - first - half),
        )

    def split(self, first: Mapping[str, Sequence[int]]) -> "Trial":
        """The trial with the halves that the counts of its first parts say: how launches fell decides no outcome."""
        if self.edition is Edition.SPREAD:
            return self
        return replace(
            self, halves={p.name: min(first_part(p.cells, first), self.requests_of(p)) for p in self.problems}
        )

    @property
    def plan_sha256(self) -> str:
        """Digest of the plan, from which the seed follows."""
        return canonical.sha256(self.plan)

    @property
    def requests(self) -> int:
        """Requests of all problems."""
        return sum(map(self.requests_of, self.problems))

    def requests_of(self, problem: Problem) -> int:
        """Requests of one problem."""
        return self.spec.requests * problem.share

    def span_of(self, problem: Problem) -> tuple[int, int]:
        """Request numbers [first, end) of one problem: those of different problems are different."""
        first = sum(map(self.requests_of, self.problems[: self.problems.index(problem)]))
        return first, first + self.requests_of(problem)

    @cached_property
    def checks(self) -> list[Check]:
        """Every statistical check, with its part of alpha."""
        return checks(self.groups, self.spec.alpha, self.spec.pool, self.weights, self.edition)

    @cached_property
    def resolution(self) -> float:
        """Total variation of a first token's law that each target would show, with the planned power.

        Where every law has one outcome, that of which one request in all is likely to show an impossible one.
        """
        return promise.resolution(self.checks, self.spec.power, self.spec.requests)


def declared(who: Description) -> dict[str, Any]:
    """What a sampler declares, in plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(who)
    plain["files"] = [list(pair) for pair in who.files]
    plain["filters"] = list(who.filters)
    return {key: value for key, value in plain.items() if key not in ("files", "module", "backend")}


def check(spec: TrialSpec, where: str) -> None:
    """Check what does not depend on the sampler. CampaignError names the value and what would work."""

    def need(fine: bool, key: str, value: Any, limit: str) -> None:
        if not fine:
            raise CampaignError(f"{where}: {key} = {echo(value)}; it must be {limit}")

    need(0 < spec.requests <= LARGEST_REQUESTS, "requests", spec.requests, f"from 1 to {LARGEST_REQUESTS}")
    need(1e-30 <= spec.alpha < 1, "alpha", spec.alpha, "at least 1e-30 and below 1")
    need(spec.alpha < spec.power < 1, "power", spec.power, f"between alpha ({spec.alpha}) and 1, exclusive")
    need(20 <= spec.pool <= 10**9, "pool", spec.pool, "at least 20, or the tail of G is off, and at most 10^9")
    need(0 <= spec.detect < 1, "detect", spec.detect, "0 (no promise) or a total variation below 1")
    need(0 <= spec.tolerance < 1, "tolerance", spec.tolerance, "0 (none) or a total variation below 1")
    checked(spec.weights, where)
    edition.checked(spec.battery, where)
    need(len(set(spec.targets)) == len(spec.targets), "targets", spec.targets, "distinct")


def make(spec: TrialSpec, who: Description, where: str) -> Trial:
    """A checked plan. CampaignError names the value and what would work."""
    check(spec, where)
    if who.target_carrier not in (Carrier.PROBS, Carrier.LOGITS):
        raise CampaignError(
            f"{where}: {who.name} declares target_carrier = {str(who.target_carrier)!r}; a target travels as "
            f"{Carrier.PROBS.value!r} or {Carrier.LOGITS.value!r}"
        )
    known = names(Kind(who.kind))
    for name in spec.targets:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"a {Kind(who.kind).value} has {', '.join(known)}"
            raise CampaignError(f"{where}: unknown target {echo(name)}; {hint}")
    try:
        problems, left_out = choose(who, spec.targets or known)
    except ValueError as error:  # an order or a tie rule that there is not
        raise CampaignError(f"{where}: {who.name} declares what cannot be: {error}") from None
    if not problems:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items() if "/" not in name)
        raise CampaignError(f"{where}: no target applies to {who.name}: {reasons}")
    return Trial(spec=spec, who=who, problems=problems, left_out=left_out)


def with_enough(trial: Trial, where: str) -> Trial:
    """The trial with as many requests as its `detect` needs, if it has too few; CampaignError if nobody has so many."""
    spec = trial.spec
    if not spec.detect or trial.resolution <= spec.detect:
        return trial

    def sized(requests: int) -> Trial:
        larger = msgspec.structs.replace(spec, requests=requests)
        return Trial(spec=larger, who=trial.who, problems=trial.problems, left_out=trial.left_out)

    return sized(promise.enough(spec.requests, spec.detect, lambda n: sized(n).checks, spec.power, where))
