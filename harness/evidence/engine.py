"""The receipt of an engine's qualification: build it from what was counted, and check it from its integers alone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.battery import number
from pp3.harness.echo import echo
from pp3.harness.engine.cells import Cell, Look
from pp3.harness.engine.conditions import Condition, Kind, Order
from pp3.harness.engine.contract import LOST, REFUSED
from pp3.harness.engine.judge import Judgement, conclude, exact_checks
from pp3.harness.engine.plan import Plan, of_plan
from pp3.harness.engine.tally import BREACHES, LENGTH, TIES, Found
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, utc
from pp3.harness.evidence.rows import STATISTICS, TEST, compare
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT
from pp3.harness.evidence.step import at, ok, same_verdict, spent
from pp3.harness.evidence.verified import Step
from pp3.harness.seeds import RULE, Seed

COUNTS = "recompute counts"
STEPS = ("plan", "laws", COUNTS, "recompute statistics")
WEIGHTS = {"checks": 1.0}  # every check that decides has an equal share


def build(
    plan: Plan, counter: int, chosen: str, started: datetime, found: Found, judged: Judgement, attempts: int
) -> dict[str, Any]:
    """The statement of one qualification of an engine."""
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources(provenance.kind_of({"kind": "engine", "sampler": sampler_of(plan)})),
        "predicate": {
            "assurance": "self-attested",
            "attempts": attempts,
            "breaches": {name: found.breaches[name] for name in BREACHES if found.breaches.get(name)},
            "cells": [{"counts": found.counts.get(cell.id, [0] * cell.size), "id": cell.id} for cell in plan.cells],
            "environment": provenance.environment(),
            "exact": [
                {"compared": compared, "id": name, "wrong": wrong}
                for name in (*exact_checks(plan), TIES)
                for compared, wrong in [found.exact.get(name, [0, 0])]
            ],
            "kind": "engine",
            "nonClaims": list(NON_CLAIMS),
            "plan": plan.plain,
            "planSha256": plan.sha256,
            "profile": "engine",
            "replaced": {name: found.replaced.get(name, 0) for name in (LOST, REFUSED)},
            "reasons": judged.reasons,
            "resolution": number(judged.resolution),
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": sampler_of(plan),
            "seed": {
                "chosen": chosen,
                "counter": counter,
                "rule": RULE,
                "sha256": Seed.of(plan.sha256, counter).value.hex(),
            },
            "sentence": judged.sentence,
            "tests": [test.plain() for test in judged.tests],
            "tokens": found.tokens,
            "tool": {"name": "pp3", "version": __version__},
            "verdict": judged.verdict.value,
        },
    }


def sampler_of(plan: Plan) -> dict[str, Any]:
    """Who was judged: the engine that the plan's declaration names, and where it says to run."""
    return {"device": dict(sorted(plan.facts.settings.items())), "name": plan.facts.name, "version": plan.facts.version}


def plan_of(predicate: dict[str, Any]) -> Plan:
    """The plan of a receipt, built again. VerificationError if it is another one."""
    plan = of_plan(predicate["plan"])
    said = predicate["plan"]
    if canonical.sha256(said) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(said)}, not {predicate['planSha256']}")
    mine = plan.plain
    odd = [key for key in sorted(mine.keys() | said.keys()) if mine.get(key) != said.get(key) and key not in LAWS]
    if odd:
        raise VerificationError(
            f"plan: its {odd[0]} rebuilds to {echo(mine.get(odd[0]))}, it says {echo(said.get(odd[0]))}"
        )
    seed = predicate["seed"]
    if seed["rule"] != RULE:
        raise VerificationError(f"plan: the seed rule must read {RULE!r}")
    drawn = Seed.of(predicate["planSha256"], seed["counter"]).value.hex()
    if drawn != seed["sha256"]:
        raise VerificationError(f"plan: the seed of this plan and counter is {drawn}, not {seed['sha256']}")
    if predicate["sampler"] != sampler_of(plan) or predicate["profile"] != "engine":
        raise VerificationError("plan: sampler and profile are not those that the plan declares")
    return plan


LAWS = ("checkpoints", "lawSha256")


def check_laws(plan: Plan, predicate: dict[str, Any]) -> None:
    """The chain and every file of its checkpoints, made again here."""
    for key in LAWS:
        mine, said = plan.plain[key], predicate["plan"][key]
        if mine != said:
            raise VerificationError(f"laws: {key} of {plan.spec.target} is {said} there, {mine} here")


def found_of(plan: Plan, predicate: dict[str, Any]) -> Found:
    """The integers, held against the plan."""
    rows = {row["id"]: row["counts"] for row in predicate["cells"]}
    cells = {cell.id: cell for cell in plan.cells}
    if list(rows) != list(cells) or len(rows) != len(predicate["cells"]):
        odd = sorted(rows.keys() ^ cells.keys()) or ["their order"]
        raise VerificationError(f"{COUNTS}: the cells are not those of the plan: {odd[0]}")
    for name, counts in rows.items():
        if len(counts) != cells[name].size:
            raise VerificationError(f"{COUNTS}: {name} has {len(counts)} counts, its law {cells[name].size}")
    exact = {row["id"]: [row["compared"], row["wrong"]] for row in predicate["exact"]}
    wanted = [*exact_checks(plan), TIES]
    if list(exact) != wanted or len(exact) != len(predicate["exact"]):
        raise VerificationError(f"{COUNTS}: exact checks are {list(exact)}, the plan has {wanted}")
    for name, (compared, wrong) in exact.items():
        if wrong > compared:
            raise VerificationError(f"{COUNTS}: {name}: {wrong} of {compared} are wrong")
    for name, count in predicate["breaches"].items():
        if name not in BREACHES or not count:
            raise VerificationError(f"{COUNTS}: {count} of {name} is no breach")
    replaced = predicate.get("replaced", {})  # receipts before it was recorded lack it
    if any(replaced.values()) and "retries" not in plan.facts.settings:
        raise VerificationError(f"{COUNTS}: attempts were replaced, of an engine that is asked once")
    whole = not predicate["breaches"] and not exact[LENGTH][1]
    for condition in plan.conditions:
        _tile(condition, [cell for cell in plan.cells if cell.condition == condition.name], rows, whole)
    return Found(
        counts=rows,
        exact=exact,
        breaches=dict(predicate["breaches"]),
        replaced=dict(replaced),
        tokens=predicate["tokens"],
    )


def _tile(condition: Condition, cells: list[Cell], rows: dict[str, list[int]], whole: bool) -> None:
    """Cells that see every token of a setting have equal sums: those of requests that all had their length."""
    for setting in range(len(condition.settings)):
        mine = [cell for cell in cells if cell.setting == setting and cell.look in (Look.TOKEN, Look.RANK)]
        sums = {sum(rows[cell.id]) for cell in mine}
        planned = condition.asks // len(condition.settings) * condition.length
        fixed = (
            condition.kind in (Kind.LAW, Kind.PENALTY) and condition.order is not Order.CHURN and not condition.hangs_up
        )
        if len(sums) > 1 or (whole and fixed and mine and sums != {planned}):
            raise VerificationError(
                f"{COUNTS}: {condition.name}: tokens add up to {sorted(sums)}, must be {planned if fixed else 'equal'}"
            )


def steps(predicate: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Detail and result of each of STEPS; the last result is the judgement."""
    plan = plan_of(predicate)
    yield f"digest and seed of counter {predicate['seed']['counter']} recomputed", plan
    check_laws(plan, predicate)
    files = sum(len(one) for one in plan.plain["checkpoints"].values())
    yield f"{plan.spec.target} and {files} files of its checkpoints made again from its name", plan
    found = found_of(plan, predicate)
    yield f"{len(found.counts):,} cells of {len(plan.conditions)} conditions", found
    judged = conclude(plan, found.counts, found.exact, found.breaches, found.replaced)
    yield f"{len(judged.tests)} checks", judged


def recomputed(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a qualification of a whole engine."""
    found = steps(predicate)
    for name in STEPS[:-1]:
        detail, _ = at(name, next, found)
        yield ok(name, detail)
    detail, judged = at(STATISTICS, next, found)
    compare(TEST, [test.plain() for test in judged.tests], predicate["tests"])
    compare("resolution", [{"resolution": number(judged.resolution)}], [{"resolution": predicate["resolution"]}])
    yield ok(STATISTICS, detail)
    yield spent(float(predicate["plan"]["alpha"]), WEIGHTS, judged.tests, predicate["tests"])
    yield same_verdict(judged, predicate)
