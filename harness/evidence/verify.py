"""Verify a receipt without trusting who made it: no torch, no triton, no GPU.

Steps, one line each: the bytes, the name, the shape, the plan and the seed, the laws rebuilt from our own targets, the
counts and every statistic recomputed, the verdict, the non-claims, and the sources in a tree if one is given. A step is
ok, FAIL, or skip with its reason; a skip is never ok.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.battery import number
from pp3.harness.campaign import Campaign, check_sampler, of_plan, our_limits, plan_sha256
from pp3.harness.errors import PP3Error, VerificationError
from pp3.harness.evidence import kernels, provenance, survey, trial
from pp3.harness.evidence.counts import COUNTS, Counted, counts_of
from pp3.harness.evidence.receipt import NON_CLAIMS, stamp
from pp3.harness.evidence.shapes import check_shape
from pp3.harness.exact import oracle, suite
from pp3.harness.run import KNOWN_ANSWERS
from pp3.harness.seeds import RULE, Seed
from pp3.harness.trial.judge import TrialJudgement, effect_plain
from pp3.harness.verdict import Judgement, conclude

STATISTICS = "recompute statistics"
TOLERANCE = 1e-5  # of numbers stored to six digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a verification."""

    name: str
    outcome: str  # ok, FAIL or skip
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of a receipt."""

    sha256: str
    verdict: str
    steps: list[Step]
    current: str  # yes, no or unchecked

    @property
    def ok(self) -> bool:
        """Every step that ran holds; stale sources are told apart by `current`."""
        return all(step.outcome != "FAIL" for step in self.steps)

    @property
    def sentence(self) -> str:
        """The last line."""
        if self.ok:
            return (
                f"VERIFIED verdict={self.verdict} sha256={self.sha256} assurance=self-attested current={self.current}"
            )
        failed = next(step for step in self.steps if step.outcome == "FAIL")
        return f"NOT VERIFIED at {failed.name}: {failed.detail}"


def verify(path: Path, content: bytes, source: Path | None = None) -> Verified:
    """Run every step on the bytes of a receipt; stops at the first that fails."""
    steps: list[Step] = []
    digest = hashlib.sha256(content).hexdigest()
    verdict, current = "unknown", "unchecked"
    try:
        for step in _steps(path, content, digest, source):
            steps.append(step)
            if step.name == "verdict":
                verdict = step.detail
            if step.name == "sources" and step.outcome == "ok":
                current = "yes" if step.detail.startswith("all") else "no"
    except PP3Error as error:
        name, _, detail = str(error).partition(": ")
        authentic = any(step.name == "shape" for step in steps)
        steps.append(Step(name=name, outcome="FAIL", detail=detail + (_made_elsewhere(content) if authentic else "")))
    return Verified(sha256=digest, verdict=verdict, steps=steps, current=current)


def _made_elsewhere(content: bytes) -> str:
    """What to add where a value recomputes to another, if the sources that made it are not these."""
    statement = canonical.decode(content)
    kind, subject = provenance.kind_of(statement["predicate"]), statement["subject"]
    stale = provenance.stale(kind, subject, provenance.TREE) if kind in provenance.ROOTS else []
    if not stale:
        return ""
    return f" (made by other sources: {len(stale)} of {len(subject)} differ here; the pp3 that made it verifies it)"


def _steps(path: Path, content: bytes, digest: str, source: Path | None) -> Iterator[Step]:
    statement = _at("bytes", canonical.decode, content)
    yield ok("bytes", f"canonical, {len(content):,} bytes")
    if path.stem.rpartition("-")[2] != digest:
        raise VerificationError(f"name: the bytes hash to {digest}, the name says {path.stem.rpartition('-')[2]}")
    yield ok("name", f"sha256 {digest}")
    _at("shape", check_shape, statement)
    predicate = statement["predicate"]
    if not path.name.startswith(f"{stamp(predicate['run'].get('startedUtc', ''))}-"):
        raise VerificationError(
            f"shape: started {predicate['run'].get('startedUtc')!r}, the name says {path.name[:16]}"
        )
    if predicate["kind"] in ("oracle", "exhaustive"):
        _exact_shape(predicate)
    yield ok("shape", "in-toto statement, urn:pp3:receipt:v1")
    if predicate["kind"] == "survey":
        for outcome, name, detail in survey.steps(path, predicate, statement["subject"]):
            yield Step(name=name, outcome=outcome, detail=detail)
        return
    yield from {"qualify": _qualify, "trial": _trial}.get(predicate["kind"], _exact)(predicate)
    if predicate["nonClaims"] != list(NON_CLAIMS):
        raise VerificationError("non-claims: not the fixed ones; nothing may be left out")
    yield ok("non-claims", f"{len(NON_CLAIMS)} stated")
    if source is None:
        yield Step(name="sources", outcome="skip", detail="no --source tree given")
        return
    stale = provenance.stale(provenance.kind_of(predicate), statement["subject"], source)
    total = len(statement["subject"])
    yield ok("sources", f"{len(stale)} of {total} differ: {stale[0]}" if stale else f"all {total} equal the tree")


def ok(name: str, detail: str) -> Step:
    """A step that holds."""
    return Step(name=name, outcome="ok", detail=detail)


def _exact_shape(predicate: dict[str, Any]) -> None:
    """What a receipt of exact results must hold beside them."""
    profile, tool, shown = predicate["profile"], predicate["tool"].get("name"), predicate["kernels"]
    if (profile, tool) != ("exact", "pp3"):
        raise VerificationError(f"shape: profile {profile!r}, tool {tool!r}; want exact, pp3")
    answers = [row["file"] for row in shown["conform"]]
    if answers != list(KNOWN_ANSWERS) or shown["bits"] or "missing" in shown:
        raise VerificationError(
            f"shape: known answers of {answers}; want {list(KNOWN_ANSWERS)}, no bits, nothing missing"
        )


def _exact(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of exact results: every stored integer against the one it must be."""
    who = (predicate["sampler"], predicate["kernels"])
    if predicate["kind"] == "oracle":
        concluded = _at("recompute policies", oracle.conclude, predicate["policies"], *who)
        yield ok("recompute policies", f"{len(predicate['policies'])} bridged again from the stored tickets")
    else:
        rows = predicate["enumerations"]
        concluded = _at("recompute enumerations", suite.conclude, rows, *who)
        values = sum(len(row["values"]) for row in rows)
        yield ok("recompute enumerations", f"{values:,} entries of {len(rows)} enumerations")
    _same_verdict(concluded, predicate)
    yield ok("verdict", concluded.verdict.value)


def _qualify(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a campaign."""
    if predicate["seed"]["rule"] != RULE:
        raise VerificationError(f"plan: the seed rule must read {RULE!r}")
    campaign = _plan(predicate)
    yield ok("plan", f"digest and seed of counter {predicate['seed']['counter']} recomputed")
    _at("laws", _laws, campaign, predicate)
    yield ok("laws", f"{len(campaign.targets)} targets rebuilt from their names and definitions")
    _at("kernels", kernels.check, campaign, predicate)
    rows = sum(row["rows"] for row in predicate["kernels"]["bits"])
    yield ok("kernels", f"{rows:,} rows of bits, and known answers, as the plan implies")
    counts, first = _at(COUNTS, counts_of, campaign, predicate)
    yield ok(COUNTS, f"{len(counts):,} cells tile {campaign.spec.requests * len(campaign.targets):,} requests")
    judgement = _at(STATISTICS, _conclude, campaign, counts, first, predicate)
    _compare("test", [test.plain() for test in judgement.tests], predicate["tests"])
    _compare("deviation", [one.plain() for one in judgement.deviations], predicate["deviations"])
    _compare("seed family", judgement.seed_family, predicate["seedFamily"])
    _compare("sees", [judgement.sees], [predicate["sees"]])
    yield ok(STATISTICS, f"{len(judgement.tests)} checks")
    _same_verdict(judgement, predicate)
    yield ok("verdict", judgement.verdict.value)


def _trial(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a trial of any sampler."""
    found = trial.steps(predicate)
    for name in trial.STEPS[:-1]:
        detail, _ = _at(name, next, found)
        yield ok(name, detail)
    detail, judged = _at(STATISTICS, next, found)
    _compare("test", [test.plain() for test in judged.tests], predicate["tests"])
    _compare("deviation", [one.plain() for one in judged.deviations], predicate["deviations"])
    effects = {check: effect_plain(effect) for check, effect in judged.effects.items()}
    _compare("effect", [effects.get(key, {}) for key in sorted(effects)], _sorted(predicate["effects"], effects))
    _compare("resolution", [{"resolution": number(judged.resolution)}], [{"resolution": predicate["resolution"]}])
    yield ok(STATISTICS, detail)
    _same_verdict(judged, predicate)
    yield ok("verdict", judged.verdict.value)


def _sorted(said: dict[str, Any], mine: dict[str, Any]) -> list[dict[str, Any]]:
    if said.keys() != mine.keys():
        raise VerificationError(f"{STATISTICS}: effects of {len(said)} checks, the plan has {len(mine)}")
    return [said[key] for key in sorted(said)]


def _same_verdict(
    mine: Judgement | TrialJudgement | suite.Conclusion | oracle.Conclusion, predicate: dict[str, Any]
) -> None:
    for name, recomputed in (("verdict", mine.verdict.value), ("reasons", mine.reasons), ("sentence", mine.sentence)):
        if recomputed != predicate[name]:
            raise VerificationError(
                f"verdict: {name} recomputes to {recomputed!r}, the receipt says {predicate[name]!r}"
            )


def _at(step: str, function: Any, *arguments: Any) -> Any:
    """Name the step in the error of a function that raises, for values no honest receipt holds too."""
    try:
        return function(*arguments)
    except PP3Error as error:
        said = str(error)
        raise VerificationError(said if said.startswith(f"{step}: ") else f"{step}: {said}") from None
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise VerificationError(f"{step}: {type(error).__name__}: {error}") from None


def _plan(predicate: dict[str, Any]) -> Campaign:
    campaign: Campaign = _at("plan", of_plan, predicate["plan"])
    if canonical.sha256(predicate["plan"]) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(predicate['plan'])}, not {predicate['planSha256']}")
    names = [target["name"] for target in predicate["plan"]["targets"]]
    laws = {target.name: target.digest() for target in campaign.targets}
    claimed = {target["name"]: target.get("lawSha256") for target in predicate["plan"]["targets"]}
    if laws == claimed and plan_sha256(campaign) != predicate["planSha256"]:
        raise VerificationError(f"plan: its values rebuild to another plan for {', '.join(names)}")
    seed = _at("plan", Seed.of, predicate["planSha256"], predicate["seed"]["counter"])
    if seed.value.hex() != predicate["seed"]["sha256"]:
        raise VerificationError(
            f"plan: the seed of this plan and counter is {seed.value.hex()}, not {predicate['seed']['sha256']}"
        )
    return campaign


def _laws(campaign: Campaign, predicate: dict[str, Any]) -> None:
    """Every law is ours by digest, within what the sampler declares."""
    for target, claimed in zip(campaign.targets, predicate["plan"]["targets"], strict=True):
        if target.digest() != claimed.get("lawSha256"):
            raise VerificationError(f"laws: {target.name} is {claimed.get('lawSha256')} there, {target.digest()} here")
    check_sampler(campaign, our_limits())


def _conclude(campaign: Campaign, counts: Counted, first: Counted, predicate: dict[str, Any]) -> Judgement:
    return conclude(
        campaign, counts, first, predicate["breaches"], predicate["paired"], predicate["kernels"], predicate["sampler"]
    )


def _compare(what: str, mine: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    """Field by field: the same rows, each with the same fields and equal values."""
    if len(mine) != len(said):
        raise VerificationError(f"{STATISTICS}: {len(said)} {what} rows, the plan has {len(mine)}")
    for one, other in zip(mine, said, strict=True):
        name = one.get("id", one.get("target", what))
        for field in one.keys() | other.keys():
            if field not in one or not _equal(one[field], other.get(field)):
                recomputed, claimed = one.get(field, "nothing"), other.get(field, "nothing")
                raise VerificationError(
                    f"{STATISTICS}: {name}: {field} comes to {recomputed}, the receipt says {claimed}"
                )


def _equal(mine: Any, said: Any) -> bool:
    """Equal, or two numbers written to six digits that are equal within their last."""
    if mine == said:
        return type(mine) is type(said)
    try:
        one, other = float(mine), float(said)
    except (TypeError, ValueError):
        return False
    return isinstance(mine, str) and isinstance(said, str) and abs(one - other) <= TOLERANCE * abs(one)
