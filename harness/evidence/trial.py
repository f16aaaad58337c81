"""The receipt of a trial: build it from what a sampler's processes found, and check it from its integers alone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pp3 import __version__
from pp3.harness import canonical, edition
from pp3.harness.battery import number
from pp3.harness.cells import Cell, Event
from pp3.harness.edition import Edition
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import execution as pieces
from pp3.harness.evidence import image, provenance, tiling
from pp3.harness.evidence.receipt import NON_CLAIMS, utc
from pp3.harness.evidence.rows import STATISTICS, TEST, compare, compare_maps
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT
from pp3.harness.evidence.step import at, ok, same_verdict, spent
from pp3.harness.evidence.verified import Step
from pp3.harness.overlay import judge as overlays
from pp3.harness.overlay.problems import trial as overlay_trial
from pp3.harness.places import first_part
from pp3.harness.samplers.contract import Description
from pp3.harness.seeds import RULE, Seed
from pp3.harness.tally import BREACHES, range_of
from pp3.harness.trial.device import name_of
from pp3.harness.trial.judge import TrialJudgement, all_counts, conclude, effect_plain
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import Trial, TrialSpec, make
from pp3.harness.trial.problems import Problem

COUNTS = "recompute counts"
WHOLE = (Event.LENGTH, Event.JOINT, Event.TOKEN)  # of a pattern or a case, which have equal shares of the requests
STEPS = ("plan", "laws", COUNTS, "recompute statistics")


def judge(found: Found) -> TrialJudgement:
    """The verdict on what was found."""
    return conclude(found.trial, found.measured, name_of(found.device))


def build(
    found: Found,
    counter: int,
    chosen: str,
    started: datetime,
    judged: TrialJudgement,
    execution: dict[str, Any] | None = None,
    overlay: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The statement of one trial; with how it was run, if in pieces (shapes.ExecutionShape), and the overlays that were
    tried, if any (shapes.OverlayShape)."""
    trial, who, measured = found.trial, found.trial.who, found.measured
    loaded = found.sources.image
    kind = provenance.kind_of({"kind": "trial", "overlay": overlay, "sampler": {"image": loaded}})
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources(kind),
        "predicate": {
            "assurance": "self-attested",
            "breaches": measured.breaches,
            "broken": measured.broken,
            "cells": cells_plain(all_counts(trial, measured.counts), all_counts(trial, measured.first)),
            "deviations": [one.plain() for one in judged.deviations],
            "effects": {check: effect_plain(effect) for check, effect in judged.effects.items()},
            "environment": provenance.environment(),
            **({"execution": execution} if execution else {}),
            "kind": "trial",
            "nonClaims": list(NON_CLAIMS),
            **({"overlay": overlay} if overlay else {}),
            "plan": trial.plan,
            "planSha256": trial.plan_sha256,
            "profile": str(who.kind),
            "reasons": judged.reasons,
            "resolution": number(judged.resolution),
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": {
                "device": found.device,
                "files": found.sources.files,
                "image": loaded,
                "module": who.module,
                "name": who.name,
                "packages": found.sources.packages,
                "version": who.version,
            },
            "seed": {
                "chosen": chosen,
                "counter": counter,
                "rule": RULE,
                "sha256": Seed.of(trial.plan_sha256, counter).value.hex(),
            },
            "sentence": judged.sentence,
            "strays": measured.strays,
            "tests": [test.plain() for test in judged.tests],
            "tool": {"name": "pp3", "version": __version__},
            "verdict": judged.verdict.value,
        },
    }


def cells_plain(counts: dict[str, list[int]], first: dict[str, list[int]]) -> list[dict[str, Any]]:
    """Counts of every cell, and those of the first half of the requests."""
    return [{"counts": found, "first": first[cell], "id": cell} for cell, found in counts.items()]


def trial_of(predicate: dict[str, Any]) -> Trial:
    """The trial of a receipt's plan, its laws rebuilt here. VerificationError if it is another plan."""
    plan = predicate["plan"]
    declared = dict(plan["declared"]) | {"module": predicate["sampler"]["module"]}
    declared["filters"] = tuple(declared["filters"])
    spec = TrialSpec(
        sampler=predicate["sampler"]["name"],
        targets=[*(target["name"] for target in plan["targets"]), *(n for n in plan["notApplicable"] if "/" not in n)],
        requests=plan["requests"],
        alpha=float(plan["alpha"]),
        pool=plan["pool"],
        power=float(plan["power"]),
        detect=float(plan["detect"]),
        tolerance=float(plan["tolerance"]),
        weights={family: float(share) for family, share in plan["weights"].items()},
        battery=plan.get(edition.KEY, Edition.SPREAD),
    )
    who = Description(**declared)
    trial = overlay_trial(spec, who) if predicate.get("overlay") else make(spec, who, "plan")
    if canonical.sha256(plan) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(plan)}, not {predicate['planSha256']}")
    built, said = _but_laws(trial.plan), _but_laws(plan)
    odd = [key for key in sorted(built.keys() | said.keys()) if built.get(key) != said.get(key)]
    if odd:
        raise VerificationError(f"plan: its {odd[0]} rebuilds to {built.get(odd[0])!r}, not {said.get(odd[0])!r}")
    seed = Seed.of(predicate["planSha256"], predicate["seed"]["counter"])
    if seed.value.hex() != predicate["seed"]["sha256"] or predicate["seed"]["rule"] != RULE:
        raise VerificationError("plan: the seed is not that of this plan and counter")
    mine = (trial.who.name, trial.who.version, str(trial.who.kind))
    named = (predicate["sampler"]["name"], predicate["sampler"]["version"], predicate["profile"])
    if mine != named:
        raise VerificationError(f"plan: declares {mine}, the receipt says {named}")
    return trial


def as_run(predicate: dict[str, Any]) -> Trial:
    """The trial of a receipt's plan with the parts that its requests came in, as it was judged."""
    trial = trial_of(predicate)
    return trial.split(all_counts(trial, {row["id"]: row["first"] for row in predicate["cells"]}))


def check_laws(trial: Trial, predicate: dict[str, Any]) -> None:
    """Every law is ours by digest."""
    for mine, said in zip(trial.plan["targets"], predicate["plan"]["targets"], strict=True):
        if mine != said:
            raise VerificationError(f"laws: {mine['name']} is {said.get('lawSha256')} there, {mine['lawSha256']} here")


def counts_of(trial: Trial, predicate: dict[str, Any]) -> Measured:
    """Every cell of the plan exactly once; each problem that was not broken adds up to its requests."""
    found = {row["id"]: row["counts"] for row in predicate["cells"]}
    if len(found) != len(predicate["cells"]):
        raise VerificationError(f"{COUNTS}: a cell is there twice")
    cells = {cell.id: cell for problem in trial.problems for cell in problem.cells}
    for name in sorted(found.keys() ^ cells.keys()):
        raise VerificationError(f"{COUNTS}: cell {name} is {'foreign' if name in found else 'missing'}")
    if list(found) != list(cells):
        raise VerificationError(f"{COUNTS}: the cells are not in the order of the plan")
    for name, counts in found.items():
        if len(counts) != len(cells[name].atoms) + 1:
            raise VerificationError(f"{COUNTS}: {name} has {len(counts)} counts, its law {len(cells[name].atoms) + 1}")
    first = {row["id"]: row["first"] for row in predicate["cells"]}
    tiling.check_halves(found, first, COUNTS)
    problems = {problem.name: problem for problem in trial.problems}
    _strays(problems, cells, found, predicate["strays"])
    for name in predicate["broken"]:
        if name not in problems:
            raise VerificationError(f"{COUNTS}: {name} is broken and no target of the plan")
    partly = set(predicate["broken"])
    for key, count in predicate["breaches"].items():
        name, _, kind = key.partition("/")
        if name not in problems or kind not in BREACHES or not count:
            raise VerificationError(f"{COUNTS}: {count} of {key} is no breach of a target of the plan")
        partly.add(name)
    for problem in trial.problems:
        half, requests = first_part(problem.cells, first), trial.requests_of(problem)
        partial = problem.name in partly
        _tile(problem, [half, requests - half], found, partial)
        _tile(problem, [half], first, partial)
    return Measured(
        counts=found,
        first=first,
        strays=predicate["strays"],
        breaches=predicate["breaches"],
        broken=predicate["broken"],
    )


def steps(predicate: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Detail and result of each of STEPS; the last result is the judgement."""
    trial = trial_of(predicate)
    image.check(predicate["sampler"])
    overlay = predicate.get("overlay")
    if overlay:
        overlays.check(predicate, trial)
    yield f"digest and seed of counter {predicate['seed']['counter']} recomputed", trial
    check_laws(trial, predicate)
    yield f"{len(trial.problems)} laws rebuilt from their names and what the sampler declares", trial
    measured = counts_of(trial, predicate)
    whole = "" if not measured.broken else f", less what {len(measured.broken)} targets broke off"
    yield f"{len(measured.counts):,} cells tile {trial.requests:,} requests{whole}", measured
    where = name_of(predicate["sampler"]["device"])
    if overlay:
        judged = overlays.conclude(trial, measured, where, overlay["paired"], overlay["journey"])
    else:
        judged = conclude(trial, measured, where)
    yield f"{len(judged.tests)} checks", judged


def _but_laws(plan: dict[str, Any]) -> dict[str, Any]:
    return plan | {"targets": [target["name"] for target in plan["targets"]]}


def _strays(
    problems: dict[str, Problem], cells: dict[str, Cell], found: dict[str, list[int]], strays: list[dict[str, Any]]
) -> None:
    """What is counted as forbidden is named, outcome by outcome, and is forbidden."""
    named = dict.fromkeys(found, 0)
    seen = set()
    for stray in strays:
        cell = cells.get(stray["cell"])
        problem = None if cell is None else problems[cell.target]
        if (
            cell is None
            or problem is None
            or stray["outcome"] in cell.atoms
            or stray["outcome"] >= range_of(cell.event, problem.vocab, problem.depth)
        ):
            raise VerificationError(f"{COUNTS}: stray {stray['outcome']} of {stray['cell']} is none")
        if (cell.id, stray["outcome"]) in seen:
            raise VerificationError(f"{COUNTS}: stray {stray['outcome']} of {stray['cell']} is there twice")
        seen.add((cell.id, stray["outcome"]))
        named[cell.id] += stray["count"]
    for name, counts in found.items():
        if counts[-1] != named[name]:
            raise VerificationError(f"{COUNTS}: {name} has {counts[-1]} forbidden outcomes, {named[name]} named")


def _tile(problem: Problem, parts: list[int], found: dict[str, list[int]], partly: bool) -> None:
    """Each request has one length, one whole round, one first token and one draft a position; the rest follows.

    What is dealt to patterns or cases in turn adds up to equal shares of all requests, not of a part of them.
    """
    requests = sum(parts)
    checks = tiling.of(problem.cells, found, problem.depth, parts)
    checks += [
        (cell.id, sum(found[cell.id]), int(requests * cell.rate))
        for cell in problem.cells
        if cell.pattern and cell.event in WHOLE and len(parts) > 1  # a half has no equal shares of patterns
    ]
    for what, got, wanted in checks:
        if got > requests or (got != wanted and not partly):
            raise VerificationError(f"{COUNTS}: {problem.name}: {what} add up to {got:,}, must be {wanted:,}")


def recomputed(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a trial of any sampler."""
    found = steps(predicate)
    for name in STEPS[:-1]:
        detail, _ = at(name, next, found)
        yield ok(name, detail)
    if "execution" in predicate:
        yield ok("pieces", f"{at('pieces', pieces.check_trial, predicate):,}, one a target")
    detail, judged = at(STATISTICS, next, found)
    compare(TEST, [test.plain() for test in judged.tests], predicate["tests"])
    compare("deviation", [one.plain() for one in judged.deviations], predicate["deviations"])
    effects = {check: effect_plain(effect) for check, effect in judged.effects.items()}
    compare_maps("effect", effects, predicate["effects"])
    compare("resolution", [{"resolution": number(judged.resolution)}], [{"resolution": predicate["resolution"]}])
    yield ok(STATISTICS, detail)
    plan = predicate["plan"]
    yield spent(float(plan["alpha"]), plan["weights"], judged.tests, predicate["tests"])
    yield same_verdict(judged, predicate)
