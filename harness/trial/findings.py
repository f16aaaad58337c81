"""How a finding is said to whoever wrote the sampler: which law, of which target, where, by how much."""

from dataclasses import dataclass

import numpy as np

from pp3.harness.battery import TestResult, expected_of, grouped
from pp3.harness.cells import Event
from pp3.harness.dependence import BUCKETS
from pp3.harness.design import Check, Method
from pp3.harness.joint import tokens_of
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plain import NEUTRAL
from pp3.harness.trial.plan import Trial
from pp3.harness.trial.problems import Problem
from pp3.targets.filtered import Case, cases

TINY = 1e-300  # below it a double has no digits left
MOST = 3  # outcomes, and targets, that are named one by one
MOST_LINES = 8  # reasons that are said
ALL_ROWS = "rows of many settings in one batch: what hangs together between requests shows"
PLACE = {
    Event.PROPOSAL: "drafts at position {}",
    Event.TOKEN: "tokens emitted at position {}",
    Event.KEPT: "drafts kept at position {}",
    Event.ACCEPT: "whether a draft is kept, given the draft, at position {}",
    Event.RESIDUAL: "tokens that replace a rejected draft at position {}",
    Event.FULL_TARGET: "tokens for an invalidated draft at position {}",
    Event.BONUS: "bonus tokens, all drafts kept",
    Event.LENGTH: "numbers of kept drafts",
    Event.JOINT: "whole rounds",
    Event.PREFIX: "a token, given the one before it, at position {}",
    Event.RECOVERY: "the token that replaces a draft, given the draft, at position {}",
    Event.PAIR: "first tokens of neighbouring requests",
    Event.LENGTH_PAIR: "numbers of kept drafts of neighbouring requests",
    Event.REPEAT: "a stretch of first tokens that occurs twice",
    Event.RARE: "outcomes one by one",
    Event.FIT: "the fit of all laws together",
}
EQUAL = {
    "requests": "equal first tokens of requests at a distance of {}",
    "positions": "equal tokens at position {} and the one before",
    "rows": "equal first tokens of a row in two launches",
    "slots": "equal first tokens of a slot in two launches",
    "carried": "a slot's first token equal to its second of the launch before",
    "identities": "equal first tokens of neighbouring identities",
}
BREACHES = {
    "failed": "rows with a status that is not 0",
    "illegal-token": "tokens or drafts outside the vocabulary",
    "illegal-length": "num_sampled outside 1 to depth + 1",
    "draft-not-echoed": "kept tokens that are not the draft that was verified",
    "unreachable": "events that the law cannot reach",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How far the counts of a check lie from its law."""

    tv: float  # total variation of its groups, weighted by events; noise included
    outcome: str  # the group that deviates most
    observed: float
    expected: float


def effect_of(check: Check, counts: dict[str, list[int]], vocab: int, depth: int) -> Effect:
    """Over all cells of a check, each stratum given its own number of events."""
    off, total, furthest = 0.0, 0.0, 0.0
    worst = Effect(tv=0.0, outcome="none", observed=0.0, expected=0.0)
    for pooled in check.cells:
        observed = grouped(pooled, counts[pooled.cell.id])
        expected = expected_of(pooled, observed)
        total += float(observed.sum())
        if not expected.any():
            continue
        off += float(np.abs(observed - expected).sum()) / 2
        score = np.abs(observed - expected) / np.sqrt(np.where(expected > 0, expected, 1.0))
        if score.max() > furthest:
            furthest, at = float(score.max()), int(score.argmax())
            where = f" in context {pooled.cell.context}" if pooled.cell.context > 0 and not pooled.cell.pattern else ""
            atoms = pooled.cell.atoms[pooled.groups == at].tolist()
            worst = Effect(
                tv=0.0,
                outcome=outcome_name(check.event, atoms, vocab, depth) + where,
                observed=float(observed[at] * pooled.probabilities[at] / expected[at]),
                expected=float(pooled.probabilities[at]),
            )
    tv = off / total if total else 0.0
    return Effect(tv=tv, outcome=worst.outcome, observed=worst.observed, expected=worst.expected)


def deviation(trial: Trial, check: Check, test: TestResult, effect: Effect | None, found: Measured) -> str:
    """One failed check in words."""
    if test.method is Method.FIT:
        how = "too good" if test.g < test.df else "too bad"
        return f"{PLACE[test.event]} is {how}: {_strength(test)} ({test.id})"
    problem = _problem(trial, test)
    plain = problem.target.labels and test.event is Event.TOKEN
    place = "drawn tokens" if plain else place_of(test)
    what = f"{named(problem, test)}, {place}"
    if test.forbidden or (effect is None and not test.significant):
        total = sum(sum(found.counts.get(cell, ())) for cell in check.counted)
        return f"{what}: {test.forbidden:,} of {total:,} have probability 0{_strays(check, found, problem)} ({test.id})"
    if test.method is Method.REPEAT:
        return f"{what} within a window, where chance would hardly let one: p {_small(test.p)} ({test.id})"
    if effect is None:
        return f"{what}: {test.worst}, p {_small(test.p)}, level {test.alpha:.2g} ({test.id})"
    said = f"{effect.outcome} came {effect.observed:.4g}, the law says {effect.expected:.4g}"
    return (
        f"{what}: off by about {effect.tv:.2g} in total variation, {test.detectable.size:.2g} would be seen; "
        f"{said} ({test.id}: {_strength(test)})"
    )


def _strength(test: TestResult) -> str:
    return f"G = {test.g:.3g} on {test.df} df, p {_small(test.p)}, level {test.alpha:.2g}"


def place_of(test: TestResult) -> str:
    """What a check looks at, in words."""
    name, _, where = test.id.rpartition("/")[2].partition("-")
    if test.event in (Event.MATCH, Event.ROUND):
        return EQUAL[name].format(where)
    return PLACE[test.event].format(test.id.rpartition("-")[2])


def named(problem: Problem, test: TestResult) -> str:
    """The target of a check; of a plain sampler the case with its settings."""
    case = _case(problem, test)
    if case is None:
        return problem.name
    settings = [f"{key} {getattr(case.settings, key):g}" for key in NEUTRAL if _used(case, key)]
    return f"{problem.name}, case {case.name} ({', '.join(settings) or 'no filter'})"


def hints(trial: Trial, tests: list[TestResult]) -> list[str]:
    """What the targets and cases of checks are for, each once."""
    found = {}
    for test in tests:
        if test.event is Event.FIT:
            continue
        problem = _problem(trial, test)
        case = _case(problem, test)
        if problem.target.labels and case is None:  # all cases together
            continue
        name = f"{problem.name}, case {case.name}" if case else problem.name
        found[name] = case.why if case else ALL_ROWS if problem.target.labels else problem.target.pair.why
    return [f"{name}: {why}" for name, why in found.items()]


def lines(reasons: list[str], hints: list[str]) -> list[str]:
    """What follows the sentence of a verdict: other reasons, the strongest first, and what their targets are for."""
    more = len(reasons) - MOST_LINES
    return [
        *(f"  also: {reason}" for reason in reasons[1:MOST_LINES]),
        *([f"  and {more} more"] if more > 0 else []),
        *(f"  about {hint}" for hint in hints[:MOST]),
    ]


def breach(key: str, count: int) -> str:
    """A broken rule, from its key problem/breach."""
    problem, _, kind = key.partition("/")
    return f"{problem}: {count:,} {BREACHES[kind]}"


def _problem(trial: Trial, test: TestResult) -> Problem:
    return next(problem for problem in trial.problems if problem.name == test.id.partition("/")[0])


def _case(problem: Problem, test: TestResult) -> Case | None:
    name = test.id.rpartition("/")[2]
    return next((case for case in cases() if case.name == name), None) if problem.target.labels else None


def _used(case: Case, key: str) -> bool:
    return bool(getattr(case.settings, key) != NEUTRAL[key])


def _strays(check: Check, found: Measured, problem: Problem) -> str:
    """The impossible outcomes that came most often."""
    counts: dict[int, int] = {}
    for stray in found.strays:
        if stray["cell"] in check.counted:
            counts[stray["outcome"]] = counts.get(stray["outcome"], 0) + stray["count"]
    most = sorted(counts.items(), key=lambda item: -item[1])
    said = [
        f"{outcome_name(check.event, [outcome], problem.vocab, problem.depth)} ({count:,} times)"
        for outcome, count in most[:MOST]
    ]
    return f": {', '.join(said)}" + (f" and {len(most) - MOST} more" if len(most) > MOST else "") if said else ""


def outcome_name(event: Event, atoms: list[int], vocab: int, depth: int) -> str:
    """Pooled outcomes of a cell in words."""
    many = {Event.LENGTH: "lengths", Event.JOINT: "rounds", Event.ACCEPT: "outcomes"}.get(event, "tokens")
    if event in (Event.PREFIX, Event.RECOVERY, Event.PAIR):
        many = "pairs of ranges of ids"
    if event is Event.LENGTH_PAIR:
        many = "pairs of lengths"
    if len(atoms) > MOST:
        return f"one of {len(atoms)} pooled {many}"
    return " or ".join(_one(event, atom, vocab, depth) for atom in atoms)


def _one(event: Event, atom: int, vocab: int, depth: int) -> str:
    match event:
        case Event.LENGTH:
            return f"{atom} kept"
        case Event.JOINT:
            return f"round {tokens_of(atom, vocab)}"
        case Event.ACCEPT:
            return f"draft {atom // 2} {'kept' if atom % 2 else 'rejected'}"
        case Event.PREFIX | Event.RECOVERY | Event.PAIR:
            return f"id range {atom % BUCKETS} of {BUCKETS} after range {atom // BUCKETS}"
        case Event.LENGTH_PAIR:
            return f"{atom % (depth + 1)} kept after {atom // (depth + 1)}"
        case Event.MATCH | Event.ROUND:
            return "equal tokens" if atom else "different tokens"
        case Event.REPEAT:
            return "a repeated stretch" if atom else "a stretch met once"
    return f"token {atom}"


def _small(p: float) -> str:
    return f"= {p:.2g}" if p >= TINY else f"< {TINY:g}"
