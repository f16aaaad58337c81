"""From the counts of a trial to a verdict: a pure function of the plan and the integers, for anyone to repeat."""

from dataclasses import dataclass

from pp3.harness.battery import Slack, TestResult, judge, number
from pp3.harness.cells import Event
from pp3.harness.design import Method
from pp3.harness.samplers.contract import Kind, Rule
from pp3.harness.tally import BREACHES
from pp3.harness.tolerance import Weighed, Worth
from pp3.harness.trial import findings
from pp3.harness.trial.findings import Effect
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial
from pp3.harness.trial.problems import names, required
from pp3.harness.verdict import CONTRACT, Verdict, is_tolerated, on_level, open_one, tolerated_one, unkept, weighed

BEYOND = 1e-3  # of alpha, for what rounding may explain: beside the weights, and only where laws travel as logits
UNREACHED = 2  # events without a cell for one draft rejected: what replaced it, and the two together
REJECTING = (Event.LENGTH, Event.RESIDUAL)  # of equal laws, certain but for the rounding of their carriers


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJudgement:
    """The derived part of a trial's receipt."""

    tests: list[TestResult]
    deviations: list[Weighed]  # the significant ones, beside the tolerance
    effects: dict[str, Effect]
    resolution: float
    verdict: Verdict
    reasons: list[str]
    hints: list[str]  # not in a receipt: what the targets of the reasons are for
    sentence: str


def conclude(trial: Trial, found: Measured, where: str) -> TrialJudgement:
    """Judge everything a trial found; `where` names the device."""
    counts, first, tolerance = all_counts(trial, found.counts), all_counts(trial, found.first), trial.spec.tolerance
    trial = trial.split(first)
    level = trial.spec.alpha * BEYOND
    slack = {p.name: Slack(chance=p.slack, level=level) for p in trial.problems if p.slack}
    tests = [judge(check, counts, trial.spec.power, slack.get(check.target)) for check in trial.checks]
    sizes = {problem.name: (problem.vocab, problem.depth) for problem in trial.problems}
    effects = {
        c.id: findings.effect_of(c, counts, *sizes[c.target])
        for c in trial.checks
        if c.df and c.method is not Method.FIT
    }
    deviations = weighed(trial.checks, tests, counts, first, tolerance)
    worth = {one.id: one.worth for one in deviations}
    invalid = [f"{p.name}: {found.broken[p.name]}" for p in trial.problems if p.name in found.broken]
    failed: list[str] = []
    for problem in trial.problems:
        for kind in BREACHES:
            seen = found.breaches.get(f"{problem.name}/{kind}", 0)
            drafts = trial.requests_of(problem) * problem.depth
            rounded = kind == "unreachable" and problem.name in slack
            if seen and not (rounded and slack[problem.name].explains(-(-seen // UNREACHED), drafts)):
                said = findings.breach(f"{problem.name}/{kind}", seen)
                (invalid if kind in CONTRACT else failed).append(said)
    planned = {check.id: check for check in trial.checks}
    strongest = _by_strength(trial, tests, counts, effects)
    failed += [
        findings.deviation(trial, planned[test.id], test, effects.get(test.id), found)
        for test in strongest
        if worth[test.id] is Worth.FAIL
    ]
    missing = [f"{n}: {trial.left_out[n]}, and a PASS needs it" for n in required(trial.who) if n in trial.left_out]
    missing += [
        f"{test.id}: {test.reason}"
        for test in tests
        if _needed(test, tests) and not (test.event in REJECTING and planned[test.id].target in slack)
    ]
    missing += [f"{test.id}: p = {test.p:.2g} lies on its level" for test in tests if on_level(test)]
    missing += [open_one(one, tolerance) for one in deviations if one.worth is Worth.OPEN]
    tolerated = [tolerated_one(one, tolerance) for one in deviations if is_tolerated(one)]
    missing += unkept(trial.resolution, trial.spec.detect)
    findings_of = {
        Verdict.INVALID: invalid,
        Verdict.FAIL: failed,
        Verdict.INCONCLUSIVE: missing,
        Verdict.TOLERATED: tolerated,
    }
    verdict = next((verdict for verdict, texts in findings_of.items() if texts), Verdict.PASS)
    reasons = invalid + failed + missing + tolerated
    return TrialJudgement(
        tests=tests,
        deviations=deviations,
        effects=effects,
        resolution=trial.resolution,
        verdict=verdict,
        reasons=reasons,
        hints=findings.hints(trial, strongest) if verdict is Verdict.FAIL else [],
        sentence=_sentence(trial, verdict, reasons, sum(test.decides for test in tests), where),
    )


def _needed(test: TestResult, tests: list[TestResult]) -> bool:
    """Whether a PASS lacks this check: a bonus that one target hardly meets is judged on another."""
    judged = test.event is Event.BONUS and any(other.event is Event.BONUS and other.decides for other in tests)
    return test.required and test.outcome == "unresolved" and not judged


def all_counts(trial: Trial, found: dict[str, list[int]]) -> dict[str, list[int]]:
    """Every cell of the plan; none of a problem that its process did not live to report."""
    return {
        cell.id: found.get(cell.id, [0] * (len(cell.atoms) + 1)) for problem in trial.problems for cell in problem.cells
    }


def effect_plain(effect: Effect) -> dict[str, str]:
    """Receipt form."""
    return {
        "expected": number(effect.expected),
        "observed": number(effect.observed),
        "outcome": effect.outcome,
        "tv": number(effect.tv),
    }


def _by_strength(
    trial: Trial, tests: list[TestResult], counts: dict[str, list[int]], effects: dict[str, Effect]
) -> list[TestResult]:
    """Failed checks: the largest shares of impossible outcomes first, then what lies furthest below its level; those
    that sum up many laws come last."""

    def strength(test: TestResult) -> tuple[bool, float, float, float]:
        total = sum(sum(counts[cell]) for cell in planned[test.id].counted)
        level = test.p / test.alpha if test.alpha else 1.0
        size = effects[test.id].tv if test.id in effects else 0.0
        return test.event in (Event.RARE, Event.FIT), -test.forbidden / max(total, 1), level, -size

    planned = {check.id: check for check in trial.checks}
    return sorted((test for test in tests if test.outcome == "fail"), key=strength)


def _sentence(trial: Trial, verdict: Verdict, reasons: list[str], deciding: int, where: str) -> str:
    version = "" if trial.who.version == "unknown" else f" {trial.who.version}"
    who = f"{trial.who.name}{version} on {where}"
    count, known = len(trial.problems), len(names(Kind(trial.who.kind)))
    asked = count + sum("/" not in name for name in trial.left_out)
    chosen = f" (chosen from {known})" if asked < known else ""
    scale = f"{count} target{'s' * (count != 1)}{chosen} in {trial.requests:,} requests"
    lossy = " Declared lossy: a negative control." if trial.who.rule == Rule.LOSSY else ""
    attested = f"{lossy} Self-attested."
    if verdict is Verdict.PASS:
        return (
            f"PASS: no evidence against {who} emitting the law it declares, on {scale} "
            f"(family alpha {trial.spec.alpha:g} over {deciding} checks; an error of {trial.resolution:.4f} in total "
            f"variation of a first token's law would be seen with power {trial.spec.power:g}).{attested}"
        )
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    said = {
        Verdict.FAIL: "does not emit the law it declares, on",
        Verdict.INVALID: "broke the sampler contract on",
        Verdict.INCONCLUSIVE: "is not decided on",
        Verdict.TOLERATED: "deviates from the law it declares within the tolerance, on",
    }[verdict]
    return f"{verdict.value}: {who} {said} {scale}: {reasons[0]}{more}.{attested}"
