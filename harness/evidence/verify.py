"""Verify a receipt without trusting who made it: no torch, no triton, no GPU.

Steps, one line each: the bytes, the name, the shape, the plan and the seed, the laws rebuilt from our own targets, the
counts and every statistic recomputed, the error budget, the verdict, the non-claims; then what the reviewer brings, in
review.py: the ledger, a signature, the sources in a tree, what is expected. A step is ok, FAIL, or skip with its
reason; a skip is never ok.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.battery import number
from pp3.harness.calibrate.judge import Conclusion as Calibrated
from pp3.harness.campaign import Campaign, check_sampler, our_limits, plan_sha256
from pp3.harness.engine.judge import Judgement as EngineJudgement
from pp3.harness.errors import PP3Error, ReceiptError, VerificationError
from pp3.harness.evidence import calibration, engine, execution, kernels, probe, provenance, survey, trial
from pp3.harness.evidence.counts import COUNTS, Counted, counts_of
from pp3.harness.evidence.receipt import NON_CLAIMS, read, stamp
from pp3.harness.evidence.review import STALE, Review
from pp3.harness.evidence.review import standing as ledger_standing
from pp3.harness.evidence.review import steps as review_steps
from pp3.harness.evidence.rows import BUDGET, STATISTICS, TEST, budget, compare, compare_maps
from pp3.harness.evidence.shapes import PREDICATE, check_shape
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.exact import oracle, suite
from pp3.harness.probe import figures
from pp3.harness.run import KNOWN_ANSWERS
from pp3.harness.seeds import RULE, Seed
from pp3.harness.transport.wire_plan import WireCampaign, of_any_plan
from pp3.harness.trial.judge import TrialJudgement, effect_plain
from pp3.harness.verdict import Judgement, conclude

__all__ = ["Step", "Verified", "check_name", "verify"]


def verify(path: Path, content: bytes, source: Path | None = None, review: Review | None = None) -> Verified:
    """Run every step on the bytes of a receipt; stops at the first that fails.

    A superseded receipt that other sources made need not follow here: its bytes are those that the ledger records, and
    what does not recompute is skipped. It is never verified by that.
    """
    review = review or Review(source=source)
    digest = hashlib.sha256(content).hexdigest()
    steps: list[Step] = []
    elsewhere, by = False, ""
    statement: dict[str, Any] = {}
    try:
        statement = _at("bytes", canonical.decode, content)
        steps.append(ok("bytes", f"canonical, {len(content):,} bytes"))
        for step in _authentic(path, statement, digest):
            steps.append(step)
        standing = _at("ledger", ledger_standing, path, digest, statement["predicate"]["verdict"], review.ledger)
        by = standing.by
        try:
            for step in _recomputed(path, statement):
                steps.append(step)
        except PP3Error as error:
            name, detail = _named(error)
            made = _made_elsewhere(path, statement)
            elsewhere = bool(made)
            steps.append(
                Step(name=name, outcome="skip" if made and by else "FAIL", detail=detail.removesuffix(made) + made)
            )
        if not any(step.outcome == "FAIL" for step in steps):
            for outcome, name, said in chain([standing.step], review_steps(path, content, statement, review)):
                steps.append(Step(name=name, outcome=outcome, detail=said))
    except (ReceiptError, VerificationError) as error:
        name, detail = _named(error)
        steps.append(Step(name=name, outcome="FAIL", detail=detail))
    found = {step.name: step.detail for step in steps if step.outcome == "ok"}
    verdict = found.get("verdict") or (str(statement["predicate"]["verdict"]) if by else "unknown")
    stale = any(step.name == "sources" and step.detail.startswith(STALE) for step in steps)
    current = "no" if stale else "yes" if "sources" in found else "unchecked"
    return Verified(sha256=digest, verdict=verdict, steps=steps, current=current, by=by, elsewhere=elsewhere)


def _named(error: PP3Error) -> tuple[str, str]:
    """The step that an error names first, and what it says of it."""
    name, _, detail = str(error).partition(": ")
    return name, detail


def _made_elsewhere(path: Path, statement: dict[str, Any]) -> str:
    """What to add where a value recomputes to another, if the sources that made it are not these."""
    kind, subject = provenance.kind_of(statement["predicate"]), statement["subject"]
    if kind == "survey":
        trials = [path.parent / one["name"] for one in subject]
        return next((_made_elsewhere(trial, read(trial)[1]) for trial in trials if trial.is_file()), "")
    stale = provenance.stale(kind, subject, provenance.TREE) if kind in provenance.ROOTS else []
    if not stale:
        return ""
    return f" (made by other sources: {len(stale)} of {len(subject)} differ here; the pp3 that made it verifies it)"


def _authentic(path: Path, statement: Any, digest: str) -> Iterator[Step]:
    """The steps that need nothing but the digest, the name and the shape."""
    check_name(path, digest)
    yield ok("name", f"sha256 {digest}")
    _at("shape", check_shape, statement)
    predicate = statement["predicate"]
    if not path.name.startswith(f"{stamp(predicate['run'].get('startedUtc', ''))}-"):
        raise VerificationError(
            f"shape: started {predicate['run'].get('startedUtc')!r}, the name says {path.name[:16]}"
        )
    if predicate["kind"] in ("oracle", "exhaustive"):
        _exact_shape(predicate)
    yield ok("shape", f"in-toto statement, {PREDICATE}")


def check_name(path: Path, digest: str) -> None:
    """VerificationError unless the digest of the bytes is the one in the name."""
    if path.stem.rpartition("-")[2] != digest:
        raise VerificationError(f"name: the bytes hash to {digest}, the name says {path.stem.rpartition('-')[2]}")


def _recomputed(path: Path, statement: dict[str, Any]) -> Iterator[Step]:
    """The steps of each kind: whatever follows from the plan and the integers."""
    predicate = statement["predicate"]
    if predicate["kind"] == "survey":
        for outcome, name, detail in survey.steps(path, predicate, statement["subject"]):
            yield Step(name=name, outcome=outcome, detail=detail)
        return
    kinds: dict[str, Callable[[dict[str, Any]], Iterator[Step]]] = {
        "qualify": _qualify,
        "wire": _qualify,
        "trial": _trial,
        "engine": _engine,
        "probe": _stepped(probe),
        "calibration": _stepped(calibration),
    }
    yield from kinds.get(predicate["kind"], _exact)(predicate)
    if predicate["nonClaims"] != list(NON_CLAIMS):
        raise VerificationError("non-claims: not the fixed ones; nothing may be left out")
    yield ok("non-claims", f"{len(NON_CLAIMS)} stated")


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
    _at("kernels", kernels.check_answers, predicate["kernels"]["conform"])
    yield ok("kernels", "known answers of the files installed here")
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
    if "execution" in predicate:
        pieces = _at("pieces", execution.check, campaign, predicate)
        yield ok("pieces", f"{pieces:,}, as the plan is cut")
    if isinstance(campaign, WireCampaign):
        from pp3.harness.transport import losses

        seed = Seed.of(predicate["planSha256"], predicate["seed"]["counter"])
        lost = _at("path", losses.check, campaign, seed, predicate["path"])
        yield ok("path", f"{lost:,} of {predicate['path']['rows']:,} requests were to be lost, as plan and seed imply")
    counts, first = _at(COUNTS, counts_of, campaign, predicate)
    yield ok(COUNTS, f"{len(counts):,} cells tile {campaign.spec.requests * len(campaign.targets):,} requests")
    judgement = _at(STATISTICS, _conclude, campaign, counts, first, predicate)
    compare(TEST, [test.plain() for test in judgement.tests], predicate["tests"])
    compare("deviation", [one.plain() for one in judgement.deviations], predicate["deviations"])
    compare("seed family", judgement.seed_family, predicate["seedFamily"])
    compare("sees", [judgement.sees], [predicate["sees"]])
    yield ok(STATISTICS, f"{len(judgement.tests)} checks")
    yield ok(BUDGET, _budget(judgement, predicate))
    _same_verdict(judgement, predicate)
    yield ok("verdict", judgement.verdict.value)


def _trial(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a trial of any sampler."""
    found = trial.steps(predicate)
    for name in trial.STEPS[:-1]:
        detail, _ = _at(name, next, found)
        yield ok(name, detail)
    if "execution" in predicate:
        yield ok("pieces", f"{_at('pieces', execution.check_trial, predicate):,}, one a target")
    detail, judged = _at(STATISTICS, next, found)
    compare(TEST, [test.plain() for test in judged.tests], predicate["tests"])
    compare("deviation", [one.plain() for one in judged.deviations], predicate["deviations"])
    effects = {check: effect_plain(effect) for check, effect in judged.effects.items()}
    compare_maps("effect", effects, predicate["effects"])
    compare("resolution", [{"resolution": number(judged.resolution)}], [{"resolution": predicate["resolution"]}])
    yield ok(STATISTICS, detail)
    yield ok(BUDGET, _budget(judged, predicate))
    _same_verdict(judged, predicate)
    yield ok("verdict", judged.verdict.value)


def _stepped(of: Any) -> Callable[[dict[str, Any]], Iterator[Step]]:
    """The steps of a probe or a calibration, by its module."""

    def each(predicate: dict[str, Any]) -> Iterator[Step]:
        found = of.steps(predicate)
        for step in of.STEPS:
            name, detail, concluded = _at(step, next, found)
            if concluded is not None:
                _same_verdict(concluded, predicate)
            yield ok(name, detail or concluded.verdict.value)

    return each


def _engine(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a qualification of a whole engine."""
    found = engine.steps(predicate)
    for name in engine.STEPS[:-1]:
        detail, _ = _at(name, next, found)
        yield ok(name, detail)
    detail, judged = _at(STATISTICS, next, found)
    compare(TEST, [test.plain() for test in judged.tests], predicate["tests"])
    compare("resolution", [{"resolution": number(judged.resolution)}], [{"resolution": predicate["resolution"]}])
    yield ok(STATISTICS, detail)
    alpha = float(predicate["plan"]["alpha"])
    yield ok(BUDGET, str(_at(BUDGET, budget, alpha, engine.WEIGHTS, judged.tests, predicate["tests"])))
    _same_verdict(judged, predicate)
    yield ok("verdict", judged.verdict.value)


def _budget(mine: Judgement | TrialJudgement, predicate: dict[str, Any]) -> str:
    """What is said of the error budget that the plan divides."""
    weights = {family: float(share) for family, share in predicate["plan"]["weights"].items()}
    return str(_at(BUDGET, budget, float(predicate["plan"]["alpha"]), weights, mine.tests, predicate["tests"]))


def _same_verdict(
    mine: Judgement
    | TrialJudgement
    | EngineJudgement
    | suite.Conclusion
    | oracle.Conclusion
    | figures.Conclusion
    | Calibrated,
    predicate: dict[str, Any],
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
    campaign: Campaign = _at("plan", of_any_plan, predicate["plan"])
    if isinstance(campaign, WireCampaign) != (predicate["kind"] == "wire"):
        raise VerificationError(f"plan: a receipt of kind {predicate['kind']} whose plan is of another kind")
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
    parts = (
        counts,
        first,
        predicate["breaches"],
        predicate["paired"],
        predicate["kernels"],
        predicate["sampler"],
        predicate.get("execution", {}).get("unequal", ()),
    )
    if isinstance(campaign, WireCampaign):
        from pp3.harness.transport.verdict import conclude_path

        return conclude_path(campaign, predicate["path"], *parts)
    return conclude(campaign, *parts)
