"""Changes of a trial's statement, and the step of verification that must refuse each."""

from typing import Any

from altered import Change, Statement, both, edit, one_more, reseal_plan

from pp3.harness.battery import number
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.trial.device import name_of
from pp3.harness.trial.judge import conclude, effect_plain
from pp3.harness.trial.measured import Measured


def rejudge(statement: Statement) -> None:
    """Make everything derived follow from changed integers."""
    p = statement["predicate"]
    trial = trial_receipt.trial_of(p)
    counts = {cell["id"]: cell["counts"] for cell in p["cells"]}
    first = {cell["id"]: cell["first"] for cell in p["cells"]}
    measured = Measured(counts=counts, first=first, strays=p["strays"], breaches=p["breaches"], broken=p["broken"])
    judged = conclude(trial, measured, name_of(p["sampler"]["device"]))
    p["tests"] = [test.plain() for test in judged.tests]
    p["deviations"] = [one.plain() for one in judged.deviations]
    p["effects"] = {check: effect_plain(effect) for check, effect in judged.effects.items()}
    p["verdict"], p["reasons"], p["sentence"] = judged.verdict.value, judged.reasons, judged.sentence
    p["resolution"] = number(judged.resolution)


def cell(statement: Statement, name: str) -> Any:
    """The counts of a cell."""
    return next(c["counts"] for c in statement["predicate"]["cells"] if c["id"] == name)


def move(name: str, amount: int = 1) -> Change:
    """Events from the fullest atom of a cell to the next, so that every sum stays."""

    def change(statement: Statement) -> None:
        counts = cell(statement, name)
        fullest, second = sorted(range(len(counts) - 1), key=lambda atom: -counts[atom])[:2]
        counts[fullest] -= amount
        counts[second] += amount

    return change


def add(name: str, atom: int, amount: int) -> Change:
    """Events that come from nowhere."""

    def change(statement: Statement) -> None:
        cell(statement, name)[atom] += amount

    return change


def drop(name: str) -> Change:
    """A cell goes."""
    return edit("cells", to=lambda cells: [one for one in cells if one["id"] != name])


def stray(name: str, outcome: int, count: int) -> dict[str, Any]:
    """A named impossible outcome."""
    return {"cell": name, "count": count, "outcome": outcome}


TOKEN, LENGTH, BONUS = (
    "near/depth-4/token/position-0/context-0",
    "near/depth-4/length/none",
    "near/depth-4/bonus/position-4/context-0",
)
JOINT, RESIDUAL = "whole/depth-2/joint/none", "near/depth-4/residual/position-0/context-0"
TAMPERED: dict[str, tuple[Change, str]] = {
    "an unknown field": (edit("mood", to="good"), "shape"),
    "a negative count": (edit("cells", 0, "counts", 0, to=-1), "shape"),
    "a stray that never came": (edit("strays", to=[stray(TOKEN, 3, 0)]), "shape"),
    "another profile": (edit("profile", to="plain"), "plan"),
    "another alpha": (edit("plan", "alpha", to="0.0001"), "plan"),
    "another alpha, sealed anew": (both(edit("plan", "alpha", to="0.0001"), reseal_plan), "recompute statistics"),
    "an alpha out of range, sealed anew": (both(edit("plan", "alpha", to="2.0"), reseal_plan), "plan"),
    "a number of another spelling, sealed anew": (both(edit("plan", "power", to="0.9990"), reseal_plan), "plan"),
    "more requests": (both(edit("plan", "requests", to=30_000), reseal_plan), "recompute counts"),
    "a promise that was not made": (both(edit("plan", "detect", to="0.01"), reseal_plan), "verdict"),
    "another declaration": (edit("plan", "declared", "void", to="unsupported"), "plan"),
    "another declaration, sealed anew": (both(edit("plan", "declared", "void", to="unsupported"), reseal_plan), "plan"),
    "a law of another carrier, sealed anew": (
        both(
            edit("plan", "declared", "target_carrier", to="logits"),
            edit("plan", "declared", "draft_carrier", to="logits"),
            reseal_plan,
        ),
        "recompute statistics",
    ),
    "another rule, sealed anew": (
        both(edit("plan", "declared", "rule", to="sample-match"), reseal_plan),
        "recompute counts",
    ),
    "a rule that there is not": (both(edit("plan", "declared", "rule", to="mine"), reseal_plan), "plan"),
    "a carrier that there is not here": (
        both(edit("plan", "declared", "target_carrier", to="tickets"), reseal_plan),
        "plan",
    ),
    "a declaration too many": (both(edit("plan", "declared", "kindness", to="great"), reseal_plan), "plan"),
    "a key too many": (both(edit("plan", "more", to=1), reseal_plan), "plan"),
    "a key too few": (both(lambda s: s["predicate"]["plan"].pop("pool"), reseal_plan), "plan"),
    "an invented reason not to be tried": (
        both(edit("plan", "notApplicable", "mixed-greedy", to="tired"), reseal_plan),
        "plan",
    ),
    "a target that is said not to apply": (
        both(
            edit("plan", "targets", to=lambda targets: [t for t in targets if t["name"] != "void"]),
            edit("plan", "notApplicable", "void", to="invalidated drafts; the sampler declares that it takes none"),
            reseal_plan,
        ),
        "plan",
    ),
    "a target that there is not": (both(edit("plan", "targets", 0, "name", to="nearly"), reseal_plan), "plan"),
    "targets in another order": (
        both(edit("plan", "targets", to=lambda t: t[::-1]), reseal_plan),
        "recompute counts",
    ),
    "a target twice": (both(edit("plan", "targets", to=lambda t: [*t, t[0]]), reseal_plan), "plan"),
    "a target dropped with its counts": (
        both(
            edit("plan", "targets", to=lambda t: t[1:]),
            edit("cells", to=lambda cells: [c for c in cells if not c["id"].startswith("near/")]),
            reseal_plan,
        ),
        "recompute statistics",
    ),
    "another law": (edit("plan", "targets", 0, "lawSha256", to="0" * 64), "plan"),
    "another law, sealed anew": (both(edit("plan", "targets", 0, "lawSha256", to="0" * 64), reseal_plan), "laws"),
    "another counter": (edit("seed", "counter", to=8), "plan"),
    "another seed": (edit("seed", "sha256", to="0" * 64), "plan"),
    "another rule of seeds": (edit("seed", "rule", to="as I like"), "plan"),
    "another name": (edit("sampler", "name", to="mine"), "plan"),
    "another version": (edit("sampler", "version", to="9"), "plan"),
    "a count changed": (add(TOKEN, 0, 1), "recompute counts"),
    "a request that has no round": (add(JOINT, 0, -1), "recompute counts"),
    "a bonus that no length has": (both(add(BONUS, 0, 1), add(BONUS, 1, 0)), "recompute counts"),
    "a residual that no length has": (add(RESIDUAL, 0, -1), "recompute counts"),
    "a longer round that has no token": (move(LENGTH), "recompute counts"),
    "a cell dropped": (drop(BONUS), "recompute counts"),
    "a cell twice": (edit("cells", to=lambda cells: [*cells, cells[0]]), "recompute counts"),
    "a cell of another law": (edit("cells", 0, "id", to="near/depth-4/token/position-9/context-0"), "recompute counts"),
    "a count too many in a cell": (edit("cells", 0, "counts", to=lambda counts: [*counts, 0]), "recompute counts"),
    "a stray hidden": (both(add(LENGTH, -1, 1), add(LENGTH, 0, -1)), "recompute counts"),
    "a stray that the law allows": (
        both(add(TOKEN, -1, 1), add(TOKEN, 0, -1), edit("strays", to=[stray(TOKEN, 3, 1)])),
        "recompute counts",
    ),
    "a stray beyond the vocabulary": (
        both(add(TOKEN, -1, 1), add(TOKEN, 0, -1), edit("strays", to=[stray(TOKEN, 20, 1)])),
        "recompute counts",
    ),
    "a stray of no cell": (edit("strays", to=[stray("near", 3, 1)]), "recompute counts"),
    "a breach that is none": (edit("breaches", to={"near/rudeness": 1}), "recompute counts"),
    "a breach of no target": (edit("breaches", to={"nearly/failed": 1}), "recompute counts"),
    "a breach that never was": (edit("breaches", to={"near/failed": 0}), "recompute counts"),
    "a break of no target": (edit("broken", to={"nearly": "raised"}), "recompute counts"),
    "events moved within a cell": (both(move(TOKEN, 300)), "recompute statistics"),
    "a breach that took no count away": (edit("breaches", to={"near/failed": 1}), "verdict"),
    "a break that took no count away": (edit("broken", to={"near": "raised"}), "verdict"),
    **{
        f"one more in {event}": (one_more(event), "recompute counts")
        for event in ("kept", "accept", "residual", "recovery", "prefix", "match/positions", "match/requests-1")
    },
    **{
        f"one more in {event}": (one_more(event), "recompute counts")
        for event in ("match/requests-128", "pair", "length-pair", "repeat", "joint", "length", "bonus")
    },
    "one more in a slot's rounds": (one_more("round-match/slots"), "recompute statistics"),
    "a first half larger than the whole": (edit("cells", 0, "first", 0, to=10**9), "recompute counts"),
    "a first half of another length": (edit("cells", 0, "first", to=lambda old: old[1:]), "recompute counts"),
    "a first half of nothing": (
        edit("cells", to=lambda cells: [c | {"first": [0] * len(c["first"])} for c in cells]),
        "recompute counts",
    ),
    "a first half of everything": (
        edit("cells", to=lambda cells: [c | {"first": c["counts"]} for c in cells]),
        "recompute counts",
    ),
    "a deviation made up": (
        edit("deviations", to=[{"high": "0.01", "id": "fit", "low": "0", "worth": "tolerated"}]),
        "recompute statistics",
    ),
    "weights that do not sum to 1": (both(edit("plan", "weights", "law", to="0.4"), reseal_plan), "plan"),
    "weights written otherwise": (both(edit("plan", "weights", "law", to="0.50"), reseal_plan), "plan"),
    "other weights": (
        both(
            edit("plan", "weights", "law", to="0.45"),
            edit("plan", "weights", "conditional", to="0.25"),
            reseal_plan,
        ),
        "recompute statistics",
    ),
    "a tolerance of 1": (both(edit("plan", "tolerance", to="1.0"), reseal_plan), "plan"),
    "a tolerance written otherwise": (both(edit("plan", "tolerance", to="0"), reseal_plan), "plan"),
    "another statistic": (edit("tests", 0, "g", to="1.5"), "recompute statistics"),
    "another level": (edit("tests", 0, "alpha", to="0.1"), "error budget"),
    "another outcome": (edit("tests", 0, "outcome", to="fail"), "recompute statistics"),
    "a test less": (edit("tests", to=lambda tests: tests[1:]), "recompute statistics"),
    "a test that is not required": (edit("tests", 0, "required", to=False), "recompute statistics"),
    "a larger effect": (edit("effects", "near/depth-4/token/position-0", "tv", to="0.5"), "recompute statistics"),
    "another worst outcome": (
        edit("effects", "near/depth-4/token/position-0", "outcome", to="token 99"),
        "recompute statistics",
    ),
    "an effect less": (edit("effects", to=lambda e: dict(list(e.items())[1:])), "recompute statistics"),
    "a finer resolution": (edit("resolution", to="0.001"), "recompute statistics"),
    "another verdict": (edit("verdict", to="FAIL"), "verdict"),
    "a reason invented": (edit("reasons", to=["none"]), "verdict"),
    "another sentence": (edit("sentence", to=lambda said: said.replace("on a CPU", "on an H200")), "verdict"),
    "another device": (edit("sampler", "device", "backend", to="cuda"), "verdict"),
    "a claim left out": (edit("nonClaims", to=lambda claims: claims[1:]), "non-claims"),
}
