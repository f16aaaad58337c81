"""The receipt of a calibration: build it from what null campaigns came to, and work out all that follows from it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.battery import number
from pp3.harness.calibrate import far
from pp3.harness.calibrate.found import Battery, battery_of
from pp3.harness.calibrate.judge import Conclusion, conclude
from pp3.harness.calibrate.plan import ALPHAS, BINS, FAMILY_BINS, RATES, Level, Plan, of_plan
from pp3.harness.campaign import our_limits
from pp3.harness.design import Check, Method
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, utc
from pp3.harness.evidence.rows import compare, equal
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT
from pp3.harness.evidence.step import each
from pp3.harness.evidence.verified import Step
from pp3.harness.seeds import RULE, Seed

KIND = "calibration"
JUDGED = "pp3-battery"
COUNTS, TAILS = "recompute counts", "recompute tails"
STEPS = ("plan", COUNTS, TAILS, "recompute statistics", "verdict")
Row = dict[str, Any]


def build(
    plan: Plan,
    counter: int,
    chosen: str,
    started: datetime,
    levels: Mapping[Level, Row],
    tails: list[Row],
    identity: dict[str, str],
) -> Row:
    """The statement of one calibration: of each level its integers, and the far tail of every check."""
    judged = conclude(plan, levels, tails)
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources(KIND),
        "predicate": {
            "assurance": "self-attested",
            "environment": provenance.environment(),
            "figures": judged.figures,
            "kernels": {"bits": [], "conform": [], "identity": identity},
            "kind": KIND,
            "levels": [levels[level] | {"level": level.value} for level in Level],
            "nonClaims": list(NON_CLAIMS),
            "plan": plan.plain,
            "planSha256": plan.sha256,
            "profile": KIND,
            "reasons": judged.reasons,
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": sampler(__version__),
            "seed": {
                "chosen": chosen,
                "counter": counter,
                "rule": RULE,
                "sha256": Seed.of(plan.sha256, counter).value.hex(),
            },
            "sentence": judged.sentence,
            "tails": tails,
            "tool": {"name": "pp3", "version": __version__},
            "verdict": judged.verdict.value,
        },
    }


def sampler(version: str) -> Row:
    """Who was judged: the battery, by null campaigns of what the reference declares."""
    who = our_limits()
    return {
        "backend": "reference",
        "maxVocab": who.max_vocab,
        "minVocab": who.min_vocab,
        "name": JUDGED,
        "version": version,
    }


def plan_of(predicate: Row) -> Plan:
    """The plan of a receipt, built again. VerificationError if it is another one."""
    plan, said = of_plan(predicate["plan"]), predicate["plan"]
    if canonical.sha256(said) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(said)}, not {predicate['planSha256']}")
    if plan.sha256 != predicate["planSha256"]:
        raise VerificationError("plan: its values rebuild to another plan")
    seed, kernels = predicate["seed"], predicate["kernels"]
    if seed["rule"] != RULE:
        raise VerificationError(f"plan: the seed rule must read {RULE!r}")
    drawn = Seed.of(predicate["planSha256"], seed["counter"]).value.hex()
    if drawn != seed["sha256"]:
        raise VerificationError(f"plan: the seed of this plan and counter is {drawn}, not {seed['sha256']}")
    if predicate["sampler"] != sampler(predicate["sampler"]["version"]) or predicate["profile"] != KIND:
        raise VerificationError("plan: sampler and profile are not the battery's")
    if kernels["bits"] or kernels["conform"] or "missing" in kernels:
        raise VerificationError("plan: nothing is shown of the kernels by a calibration")
    return plan


def steps(predicate: Row) -> Iterator[tuple[str, str, Conclusion | None]]:
    """Name and detail of each step that holds, the last with the verdict. VerificationError names one that does not."""
    plan = plan_of(predicate)
    yield "plan", f"digest and seed of counter {predicate['seed']['counter']} recomputed", None
    levels = {Level(one["level"]): one for one in predicate["levels"]}
    if [one["level"] for one in predicate["levels"]] != [level.value for level in Level]:
        raise VerificationError(f"{COUNTS}: the levels must be {', '.join(Level)}, each once")
    for level, found in levels.items():
        _counts(level, plan, found)
    yield COUNTS, f"{sum(one['campaigns'] for one in levels.values()):,} null campaigns add up, kind by kind", None
    _tails(plan, predicate["tails"])
    again = sum(one["how"] != "weighted" for one in predicate["tails"])
    yield TAILS, f"{len(predicate['tails']):,} checks; {again:,} enumerated or bounded", None
    judged = conclude(plan, levels, predicate["tails"])
    if judged.figures.keys() != predicate["figures"].keys():
        raise VerificationError(f"recompute statistics: figures must be {', '.join(sorted(judged.figures))}")
    for name, rows in judged.figures.items():
        compare(name, rows, predicate["figures"][name])
    yield "recompute statistics", f"{sum(map(len, judged.figures.values())):,} rates, bands and tests", None
    yield "verdict", "", judged


def _counts(level: Level, plan: Plan, found: Row) -> None:
    """The integers of a level: as many as were planned, of the kinds that its battery has, in agreement."""
    campaigns, battery = plan.campaigns[level], battery_of(plan.of[level])

    def need(fine: bool, what: str) -> None:
        if not fine:
            raise VerificationError(f"{COUNTS}: {level}: {what}")

    need(found["campaigns"] == campaigns, f"{found['campaigns']} campaigns, the plan has {campaigns}")
    need(found["distinct"] <= campaigns, f"{found['distinct']} distinct of {campaigns}")
    need(len(found["family"]) == FAMILY_BINS and sum(found["family"]) == campaigns, "family p-values do not add up")
    below = [sum(found["family"][: round(alpha * FAMILY_BINS)]) for alpha in ALPHAS]
    need(found["rejected"] == below, f"rejected are {found['rejected']}, family p-values say {below}")
    wanted = battery.kinds if campaigns else {}
    need([kind["id"] for kind in found["kinds"]] == sorted(wanted), "the kinds are not those of its battery")
    for kind in found["kinds"]:
        _kind(battery, wanted[kind["id"]], campaigns, kind, need)


def _kind(battery: Battery, members: list[int], campaigns: int, kind: Row, need: Any) -> None:
    tried, below, pit = kind["tried"], kind["below"], kind["pit"]
    spread = 0 if battery.checks[members[0]].method is Method.REPEAT else campaigns
    need(tried == campaigns * len(members), f"{kind['id']}: {tried} p-values of {len(members)} checks")
    need(len(pit) == BINS and sum(pit) == spread, f"{kind['id']}: transforms do not add up to {spread}")
    falling = [tried, *below] == sorted([tried, *below], reverse=True)
    need(len(below) == len(RATES) and falling, f"{kind['id']}: {below} are at most {RATES}")


def _tails(plan: Plan, said: list[Row]) -> None:
    """Every check that decides far out, in order, at its level; what is enumerated or bounded worked out again."""
    checks = [(level, check) for level in Level for check in far.checks_of(plan.of[level])]
    if [(level.value, check.id) for level, check in checks] != [(one["level"], one["id"]) for one in said]:
        raise VerificationError(f"{TAILS}: the checks are not those of the plan")
    for (level, check), one in zip(checks, said, strict=True):
        mine = _tail(plan, level, check, one)
        odd = [key for key, value in mine.items() if not equal(value, one[key])]
        if odd:
            raise VerificationError(f"{TAILS}: {check.id}: {odd[0]} comes to {mine[odd[0]]}, it says {one[odd[0]]}")


def _tail(plan: Plan, level: Level, check: Check, said: Row) -> Row:
    """What follows of one tail without drawing again; estimates must at least be probabilities."""
    if check.method in (Method.G, Method.FIT):
        for key in ("chance", "error", *(["exact"] if said["exact"] else [])):
            value = float(said[key])
            if number(value) != said[key] or not 0 <= value <= 1:
                raise VerificationError(f"{TAILS}: {check.id}: {key} is {said[key]}, which is no probability")
        how = "tilted" if check.method is Method.FIT else "weighted"
        return {"alpha": number(check.alpha), "how": how} | ({"exact": ""} if how == "tilted" else {})
    found = far.bounded(check, plan.of[level])
    return {"alpha": number(check.alpha), "chance": number(found.chance), "error": "0", "exact": "", "how": found.how}


def recomputed(predicate: Row) -> Iterator[Step]:
    """The steps of a calibration."""
    yield from each(STEPS, steps(predicate), predicate)
