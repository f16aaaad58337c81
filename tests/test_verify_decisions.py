"""What verify decides of a small receipt, and says: one thing changed, sealed anew, and the whole reason that follows.

The suites of test_verify.py and test_tamper.py ask at which step a change is refused; here each limit is met from both
sides, and every word is held.
"""

import copy
import hashlib
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, plan_sha256
from pp3.harness.errors import Exit, VerificationError
from pp3.harness.evidence import kernels, provenance, receipt, rows, step
from pp3.harness.evidence.review import Review
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.evidence.verify import verify
from pp3.harness.run import Measured, _campaign
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import cut
from pp3.harness.transport import command as over_wire
from pp3.harness.transport import wire_plan
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import ReferenceStage
from pp3.harness.verdict import conclude

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "20260102T030405Z"
COUNTER = 7
PLAN = {"targets": ["disjoint", "sparse-tail"], "requests": 501, "paired": 21, "depths": [4, 5], "batch_sizes": [2, 3]}
WIRE_PLAN = {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}
NOWHERE = Path("/nowhere") / "receipts"
Predicate = dict[str, Any]
Statement = dict[str, Any]
Change = Callable[[Predicate], object]


@pytest.fixture(scope="module")
def small(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """Of two targets, depths and batch sizes; copy before changing."""
    campaign = campaigns.of_document(dict(PLAN), "test")
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    measured = measure(campaign, drawn)
    who = receipt.sampler_of(measured.sampler, Backend(measured.sampler.backend))
    parts = (measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels)
    judged = conclude(campaign, *parts, who)
    return receipt.build(campaign, drawn, COUNTER, "given", STARTED, measured, judged)


@pytest.fixture(scope="module")
def wired(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """The same over the wire, of one target; copy before changing."""
    campaign = wire_plan.over_wire(campaigns.of_document(dict(WIRE_PLAN), "test"), Place.THREAD)
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    beside, sampler = measure(campaign, drawn), PathSampler(ReferenceStage(), campaign.place)
    measured = Measured(sampler=beside.sampler, kernels=beside.kernels, timings=beside.timings)
    _campaign(campaign, drawn, sampler, measured, lambda *_: None)
    sampler.close()
    path = sampler.journey.plain()
    judged = over_wire.judge(campaign, measured, path)
    return over_wire.build(campaign, drawn, COUNTER, "given", STARTED, measured, path, judged)


def name_of(content: bytes) -> str:
    """The name of a receipt of these bytes."""
    return f"{STAMP}-{hashlib.sha256(content).hexdigest()}.json"


def sealed(statement: Statement, review: Review | None = None, folder: Path = NOWHERE) -> Verified:
    """Verify a statement as a forger would write it: canonical, under its own digest."""
    content = canonical.encode(statement)
    return verify(folder / name_of(content), content, review=review)


def reseal(p: Predicate) -> Predicate:
    """Make the plan's digest and the seed follow from a changed plan; the predicate, as all below give it."""
    p["planSha256"] = canonical.sha256(p["plan"])
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    return p


def put(place: Any, key: str | int, value: Any) -> Any:
    """Set what stands there; the place."""
    place[key] = value
    return place


def named(changed: Statement, before: Statement) -> dict[str, str]:
    """What reasons name: the digests of the plan, the seed and the laws, and the first cell."""
    p, old = changed["predicate"], before["predicate"]
    return {
        "plan": canonical.sha256(p["plan"]),
        "before": old["planSha256"],
        "seed": Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex(),
        "drawn": old["seed"]["sha256"],
        "first_law": old["plan"]["targets"][0]["lawSha256"],
        "law": old["plan"]["targets"][1]["lawSha256"],
        "zeros": ZEROS,
        "cell": CELL,
    }


def said(found: Verified) -> str:
    """The step that fails and its reason."""
    return "" if found.failed is None else f"{found.failed.name}: {found.failed.detail}"


def test_each_step_says_what_it_held(small: Statement) -> None:
    """In order, to the word."""
    content = canonical.encode(small)
    found = sealed(small)
    assert [(one.name, one.outcome, one.detail) for one in found.steps] == [
        ("bytes", "ok", f"canonical, {len(content):,} bytes"),
        ("name", "ok", f"sha256 {hashlib.sha256(content).hexdigest()}"),
        ("shape", "ok", "in-toto statement, urn:pp3:receipt:v1"),
        ("plan", "ok", "digest and seed of counter 7 recomputed"),
        ("laws", "ok", "2 targets rebuilt from their names and definitions"),
        ("kernels", "ok", "1,456 rows of bits, and known answers, as the plan implies"),
        ("recompute counts", "ok", "286 cells tile 1,002 requests"),
        ("recompute statistics", "ok", "148 checks"),
        ("error budget", "ok", "levels of 35 checks add up to 9.99999e-06 of 1e-05; weights sum to 1"),
        ("verdict", "ok", "INCONCLUSIVE"),
        ("non-claims", "ok", "4 stated"),
        ("ledger", "skip", "not recorded in receipts/LEDGER"),
        ("signature", "skip", "no --key given"),
        ("sources", "skip", "no --source tree given"),
    ]
    assert (found.verdict, found.current, found.by, found.elsewhere) == ("INCONCLUSIVE", "unchecked", "", False)


def test_a_receipt_over_the_wire_holds_its_path_too(wired: Statement) -> None:
    """Between the kernels and the counts."""
    found = sealed(wired)
    names = [one.name for one in found.steps]
    assert names[names.index("kernels") + 1 : names.index("recompute counts")] == ["path"]
    assert next(one.detail for one in found.steps if one.name == "path") == (
        "251 of 528 requests were to be lost, as plan and seed imply"
    )
    assert found.ok
    assert found.verdict == "PASS"


def stray(p: Predicate, outcome: int = 3, count: int = 1, more: int = 1) -> Predicate:
    """A forbidden outcome in the first cell, counted `more` times and named `count` times."""
    cell = p["cells"][0]
    cell["counts"][-1] += more
    p["strays"].append({"batch": cell["batch"], "cell": cell["id"], "count": count, "outcome": outcome})
    return p


def rewritten(p: Predicate, **plan: Any) -> None:
    """Values of the plan, sealed anew."""
    p["plan"].update(plan)
    reseal(p)


def on_a_gpu(p: Predicate, **identity: str) -> Predicate:
    """The same run as if on a GPU of this identity, with the groups of bits of one."""
    p["sampler"]["backend"] = "cuda"
    groups = kernels.expected_bits(campaigns.of_plan(p["plan"]), True)
    p["kernels"]["bits"] = [
        {"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": n} for name, n in groups
    ]
    p["kernels"]["identity"] = {"backend": "cuda"} | identity
    return p


def in_pieces(p: Predicate, pieces: int = 0, ran: int = 0, repeated: int | None = None, unequal: Any = ()) -> Predicate:
    """As if run in pieces: so many more or fewer than the plan is cut into, all of them repeated or none."""
    n = len(cut(campaigns.of_plan(p["plan"]), Backend.REFERENCE))
    p["execution"] = {
        "attempts": 1,
        "devices": {"cpu": 1, "gpu": n - 1 + ran},
        "pieces": n + pieces,
        "repeated": 0 if repeated is None else n + repeated,
        "unequal": list(unequal),
    }
    return p


def more(p: Predicate, event: str, last: bool = False) -> Predicate:
    """One event more in the first cell of a kind, or in the last."""
    cells = [cell for cell in p["cells"] if f"/{event}/" in cell["id"]]
    cells[-1 if last else 0]["counts"][0] += 1
    return p


def fewer(p: Predicate) -> None:
    """One draft fewer in the first half, of an atom that was met there."""
    first = p["cells"][0]["first"]
    first[first.index(max(first))] -= 1


COMPILED = {"gpu": "X", "torch": "2", "triton": "3", "compiled_kernels_sha256": "0" * 64}
UNDECIDED = [
    f"sparse-tail/depth-{depth}/{what}: too few events for two groups of cells"
    for depth in (4, 5)
    for what in ("bonus", "residual/position-0")
]
ZEROS = "0" * 64
PIECE = "paired,disjoint,depth-4,0-9"
CELL = "disjoint/depth-4/proposal/position-0/context-0"
DECIDED: dict[str, tuple[Change, str]] = {
    # shape
    "no start": (lambda p: p["run"].pop("startedUtc"), "shape: started None, the name says 20260102T030405Z"),
    "another start": (
        lambda p: p["run"].update(startedUtc="2026-01-02T03:04:06Z"),
        "shape: started '2026-01-02T03:04:06Z', the name says 20260102T030405Z",
    ),
    "a count below 0": (
        lambda p: put(p["cells"][0]["counts"], 0, -1),
        "shape: Expected `int` >= 0 - at `$.cells[0].counts[0]`",
    ),
    "a batch below 0": (lambda p: p["cells"][0].update(batch=-1), "shape: Expected `int` >= 0 - at `$.cells[0].batch`"),
    "a forbidden outcome that was not met": (
        lambda p: stray(p, count=0, more=0),
        "shape: Expected `int` >= 1 - at `$.strays[0].count`",
    ),
    "a timing of 0 ns": (
        lambda p: put(p["timings"][0]["samples"], 0, 0),
        "shape: Expected `int` >= 1 - at `$.timings[0].samples[0]`",
    ),
    "no timings of a kind": (
        lambda p: p["timings"][0].update(samples=[]),
        "shape: Expected `array` of length >= 1 - at `$.timings[0].samples`",
    ),
    "an unknown kind": (
        lambda p: p.update(kind="wish"),
        "shape: kind 'wish'; this version reads qualify, wire, exhaustive, oracle, trial, engine, survey, "
        "probe, calibration",
    ),
    "a kind that is no text": (
        lambda p: p.update(kind=1),
        "shape: kind 1; this version reads qualify, wire, exhaustive, oracle, trial, engine, survey, probe, "
        "calibration",
    ),
    # plan
    "another rule of the seed": (
        lambda p: p["seed"].update(rule="by hand"),
        "plan: the seed rule must read 'sha256(planSha256 bytes || counter u64 little-endian); session = "
        "first 16 bytes; request r: key index r >> 20'",
    ),
    "another plan than its digest": (lambda p: p["plan"].update(requests=502), "plan: hashes to {plan}, not {before}"),
    "a value of the plan spelled otherwise": (
        lambda p: rewritten(p, alpha="0.00001"),
        "plan: its values rebuild to another plan for disjoint, sparse-tail",
    ),
    "a plan without a key": (lambda p: (p["plan"].pop("pool"), reseal(p)), "plan: KeyError: 'pool'"),
    "a plan that cannot be": (
        lambda p: rewritten(p, requests=0),
        "plan: requests = 0; it must be from 1 to 1099511627776",
    ),
    "another seed": (
        lambda p: p["seed"].update(sha256=ZEROS),
        "plan: the seed of this plan and counter is {seed}, not {zeros}",
    ),
    "another counter": (
        lambda p: p["seed"].update(counter=8),
        "plan: the seed of this plan and counter is {seed}, not {drawn}",
    ),
    # laws
    "another law of the second target": (
        lambda p: (p["plan"]["targets"][1].update(lawSha256=ZEROS), reseal(p)),
        "laws: sparse-tail is {zeros} there, {law} here",
    ),
    "no law": (
        lambda p: (p["plan"]["targets"][0].pop("lawSha256"), reseal(p)),
        "laws: disjoint is None there, {first_law} here",
    ),
    # kernels
    "a group of bits left out": (
        lambda p: p["kernels"]["bits"].pop(),
        "kernels: the groups of bits are not those of the plan",
    ),
    "a group of bits of more rows": (
        lambda p: p["kernels"]["bits"][0].update(rows=57),
        "kernels: the groups of bits are not those of the plan",
    ),
    "a row failed more than there are": (
        lambda p: p["kernels"]["bits"][3].update(failedRows=57),
        "kernels: propose/bf16/vocab-97/tau-0.0 has more failed rows than rows",
    ),
    "answers of one file": (
        lambda p: p["kernels"]["conform"].pop(),
        "kernels: known answers of ['propose.json'], not those installed here",
    ),
    "answers of another file": (
        lambda p: p["kernels"]["conform"][0].update(sha256=ZEROS),
        "kernels: known answers of ['propose.json', 'verify.json'], not those installed here",
    ),
    "an identity of no backend": (
        lambda p: p["kernels"]["identity"].clear(),
        "kernels: the identity is that of None; want interpreter",
    ),
    "bits alone, of no backend": (
        lambda p: p["kernels"].update(conform=[], identity={}),
        "kernels: the identity is that of None; want interpreter",
    ),
    "answers alone, of no backend": (
        lambda p: p["kernels"].update(bits=[], identity={}),
        "kernels: the identity is that of None; want interpreter",
    ),
    "a GPU of nothing compiled": (lambda p: on_a_gpu(p), "kernels: the identity names no gpu"),
    "a GPU without its digest of kernels": (
        lambda p: on_a_gpu(p, **COMPILED | {"compiled_kernels_sha256": ""}),
        "kernels: the identity names no compiled_kernels_sha256",
    ),
    "a GPU without a name": (lambda p: on_a_gpu(p, **COMPILED | {"gpu": ""}), "kernels: the identity names no gpu"),
    "a GPU that is an interpreter": (
        lambda p: on_a_gpu(p, **COMPILED | {"backend": "interpreter"}),
        "kernels: the identity is that of interpreter; want cuda",
    ),
    "a GPU's identity, interpreted": (
        lambda p: p["kernels"]["identity"].update(backend="cuda"),
        "kernels: the identity is that of cuda; want interpreter",
    ),
    "a GPU's rows of bits, interpreted": (
        lambda p: (on_a_gpu(p, backend="interpreter"), p["sampler"].update(backend="reference")),
        "kernels: the groups of bits are not those of the plan",
    ),
    # how it was run, in pieces
    "pieces fewer": (lambda p: in_pieces(p, pieces=-1), "pieces: 24 pieces, 25 of them run; the plan is cut into 25"),
    "a piece not run": (lambda p: in_pieces(p, ran=-1), "pieces: 25 pieces, 24 of them run; the plan is cut into 25"),
    "more repeated than there are": (
        lambda p: in_pieces(p, repeated=+1),
        "pieces: 26 of 25 pieces are said to be repeated",
    ),
    "a foreign piece": (lambda p: in_pieces(p, unequal=["wish"]), "pieces: 'wish' is no piece of the plan"),
    "a piece twice": (
        lambda p: in_pieces(p, unequal=[PIECE, PIECE]),
        "pieces: the unequal pieces are not sorted, each once",
    ),
    "pieces out of order": (
        lambda p: in_pieces(p, unequal=[PIECE, "kernels,verify"]),
        "pieces: the unequal pieces are not sorted, each once",
    ),
    "a piece of other counts": (
        lambda p: in_pieces(p, unequal=[PIECE]),
        "verdict: verdict recomputes to 'INVALID', the receipt says 'INCONCLUSIVE'",
    ),
    "a start below 1": (
        lambda p: (in_pieces(p), p["execution"].update(attempts=0)),
        "shape: Expected `int` >= 1 - at `$.execution.attempts`",
    ),
    # counts
    "a cell twice": (lambda p: p["cells"].append(p["cells"][0]), "recompute counts: a cell is there twice"),
    "a cell less": (
        lambda p: p["cells"].pop(),
        "recompute counts: cell sparse-tail/depth-5/length-pair/requests-1/class-0 at batch 3 is missing",
    ),
    "a foreign cell more": (
        lambda p: p["cells"].append({"batch": 2, "counts": [], "first": [], "id": "wish"}),
        "recompute counts: cell wish at batch 2 is foreign",
    ),
    "two cells exchanged": (
        lambda p: p["cells"].insert(0, p["cells"].pop(1)),
        "recompute counts: the cells are not in the order of the plan",
    ),
    "a count more than atoms": (
        lambda p: p["cells"][0]["counts"].append(0),
        "recompute counts: {cell} at batch 2 needs 33 counts of 0 or more",
    ),
    "a count fewer than atoms": (
        lambda p: p["cells"][0]["counts"].pop(),
        "recompute counts: {cell} at batch 2 needs 33 counts of 0 or more",
    ),
    "a breach unnamed": (
        lambda p: p["breaches"].pop("failed"),
        "recompute counts: breaches must name failed, illegal-token, illegal-length, draft-not-echoed, unreachable",
    ),
    "a breach more": (
        lambda p: p["breaches"].update(late=0),
        "recompute counts: breaches must name failed, illegal-token, illegal-length, draft-not-echoed, unreachable",
    ),
    "an allowed outcome named as forbidden": (
        lambda p: stray(p, outcome=96),
        "recompute counts: stray 96 of {cell} at batch 2 is none",
    ),
    "a forbidden outcome of no cell": (
        lambda p: p["strays"].append({"batch": 4, "cell": p["cells"][0]["id"], "count": 1, "outcome": 3}),
        "recompute counts: stray 3 of {cell} at batch 4 is none",
    ),
    "a forbidden outcome not counted": (
        lambda p: stray(p, more=0),
        "recompute counts: {cell} has 0 forbidden outcomes, 1 are named",
    ),
    "a forbidden outcome not named": (
        lambda p: put(p["cells"][0]["counts"], -1, 1),
        "recompute counts: {cell} has 1 forbidden outcomes, 0 are named",
    ),
    "two named where one is counted": (
        lambda p: (stray(p, more=1), stray(p, outcome=5, more=0)),
        "recompute counts: {cell} has 1 forbidden outcomes, 2 are named",
    ),
    "three named once, two counted": (
        lambda p: stray(p, count=3, more=2),
        "recompute counts: {cell} has 2 forbidden outcomes, 3 are named",
    ),
    "two forbidden outcomes, and too many": (
        lambda p: (stray(p), stray(p, outcome=5, count=2, more=2)),
        "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 129, must be 126",
    ),
    "pairs fewer than planned": (
        lambda p: p["paired"][0].update(pairs=p["paired"][0]["pairs"] - 1),
        "recompute counts: the paired shards are not those of 21 pairs",
    ),
    "pairs of another depth": (
        lambda p: p["paired"][0].update(depth=5),
        "recompute counts: the paired shards are not those of 21 pairs",
    ),
    "a shard of pairs left out": (
        lambda p: p["paired"].pop(),
        "recompute counts: the paired shards are not those of 21 pairs",
    ),
    "an answer more than there are": (
        lambda p: p["kernels"]["conform"][0].update(passed=79),
        "recompute counts: more known answers passed than there are",
    ),
    "a first half larger by one": (
        lambda p: put(p["cells"][0]["first"], 0, p["cells"][0]["counts"][0] + 1),
        "recompute counts: {cell}: its first half is no part of its counts",
    ),
    "a first half of one atom fewer": (
        lambda p: p["cells"][0]["first"].pop(),
        "recompute counts: {cell}: its first half is no part of its counts",
    ),
    "no first half": (lambda p: p["cells"][0].pop("first"), "recompute counts: KeyError: 'first'"),
    "one draft more": (
        lambda p: put(p["cells"][0]["counts"], 0, p["cells"][0]["counts"][0] + 1),
        "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 127, must be 126",
    ),
    "one draft more in the last group": (
        lambda p: more(p, "proposal", last=True),
        "recompute counts: sparse-tail/depth-5 at batch 3: drafts at 4 add up to 126, must be 125",
    ),
    "one of the first half fewer": (
        lambda p: fewer(p),
        "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 62, must be 63",
    ),
    # statistics
    "a test less": (lambda p: p["tests"].pop(), "recompute statistics: 147 test rows, the plan has 148"),
    "a test of another event": (
        lambda p: p["tests"][0].update(event="token"),
        "recompute statistics: disjoint/depth-4/proposal/position-0: event comes to proposal, the receipt says token",
    ),
    "a field of a test more": (
        lambda p: p["tests"][1].update(waived="yes"),
        "recompute statistics: disjoint/depth-4/proposal/position-1: waived comes to nothing, the receipt says yes",
    ),
    "a field of a test less": (
        lambda p: p["tests"][2].pop("df"),
        "recompute statistics: disjoint/depth-4/proposal/position-2: df comes to 1, the receipt says nothing",
    ),
    "no level": (
        lambda p: p["tests"][0].pop("alpha"),
        "recompute statistics: disjoint/depth-4/proposal/position-0: alpha comes to 2.08333e-07, the receipt "
        "says nothing",
    ),
    "a number of a test as text": (
        lambda p: p["tests"][0].update(df=str(p["tests"][0]["df"])),
        "recompute statistics: disjoint/depth-4/proposal/position-0: df comes to 1, the receipt says 1",
    ),
    "a truth as a number": (
        lambda p: p["tests"][0].update(required=1),
        "recompute statistics: disjoint/depth-4/proposal/position-0: required comes to True, the receipt says 1",
    ),
    "a deviation more": (
        lambda p: p["deviations"].append({"high": "0.1", "id": "x", "low": "0.0", "worth": "fail"}),
        "recompute statistics: 1 deviation rows, the plan has 0",
    ),
    "a family of seeds less": (
        lambda p: p["seedFamily"].pop(),
        "recompute statistics: 1 seed family rows, the plan has 2",
    ),
    "another p-value of a family": (
        lambda p: p["seedFamily"][1].update(pearsonP="0.5"),
        "recompute statistics: sparse-tail: pearsonP comes to 0.0854132, the receipt says 0.5",
    ),
    "another effect that is seen": (
        lambda p: p["sees"].update(token="0.1"),
        "recompute statistics: sees: token comes to 0.261899, the receipt says 0.1",
    ),
    # the budget
    "another level": (
        lambda p: p["tests"][0].update(alpha="0.5"),
        "error budget: disjoint/depth-4/proposal/position-0 has the level 0.5, the plan gives it 2.08333e-07",
    ),
    "a level of the last check": (
        lambda p: p["tests"][-1].update(alpha="1"),
        "error budget: fit has the level 1, the plan gives it 5e-07",
    ),
    # the verdict
    "another verdict": (
        lambda p: p.update(verdict="PASS"),
        "verdict: verdict recomputes to 'INCONCLUSIVE', the receipt says 'PASS'",
    ),
    "a reason less": (
        lambda p: p["reasons"].pop(),
        f"verdict: reasons recomputes to {UNDECIDED}, the receipt says {UNDECIDED[:-1]}",
    ),
    "another sentence": (
        lambda p: p.update(sentence="PASS: it is."),
        "verdict: sentence recomputes to 'INCONCLUSIVE: the NumPy reference of pp3-top32 0.1.0 is not decided on "
        f"2 targets in 1,002 requests: {UNDECIDED[0]} (and 3 more). Self-attested.', the receipt says 'PASS: it is.'",
    ),
    "a breach": (
        lambda p: p["breaches"].update(failed=1),
        "verdict: verdict recomputes to 'INVALID', the receipt says 'INCONCLUSIVE'",
    ),
    "all rows of a group failed": (
        lambda p: p["kernels"]["bits"][3].update(failedRows=56, mismatches=56),
        "verdict: verdict recomputes to 'FAIL', the receipt says 'INCONCLUSIVE'",
    ),
    "an answer missed": (
        lambda p: p["kernels"]["conform"][0].update(passed=77),
        "verdict: verdict recomputes to 'FAIL', the receipt says 'INCONCLUSIVE'",
    ),
    "a pair that differs": (
        lambda p: p["paired"][0].update(mismatches=1),
        "verdict: verdict recomputes to 'FAIL', the receipt says 'INCONCLUSIVE'",
    ),
    "a forbidden outcome, breached": (
        lambda p: (stray(p), p["breaches"].update({"illegal-token": 1})),
        "recompute statistics: disjoint/depth-4/proposal/position-0: forbidden comes to 1, the receipt says 0",
    ),
    # the non-claims
    "a non-claim less": (lambda p: p["nonClaims"].pop(), "non-claims: not the fixed ones; nothing may be left out"),
    "two non-claims exchanged": (
        lambda p: p["nonClaims"].reverse(),
        "non-claims: not the fixed ones; nothing may be left out",
    ),
}


@pytest.mark.parametrize(("change", "reason"), DECIDED.values(), ids=DECIDED)
def test_a_change_is_refused_for_its_reason(change: Change, reason: str, small: Statement) -> None:
    """To the word: another limit, or another value in it, would be another sentence."""
    statement = copy.deepcopy(small)
    change(statement["predicate"])
    assert said(sealed(statement)) == reason.format(**named(statement, small))


HELD: dict[str, tuple[Change, str]] = {
    "a GPU's compiled kernels": (lambda p: on_a_gpu(p, **COMPILED), "kernels"),
    "a GPU's, from before wide rows": (
        lambda p: (on_a_gpu(p, **COMPILED), p["kernels"].update(bits=earlier(p))),
        "kernels",
    ),
    "no kernels at all": (lambda p: p["kernels"].update(bits=[], conform=[], identity={}), "kernels"),
    "bits and no answers": (lambda p: p["kernels"].update(conform=[]), "kernels"),
    "answers and no bits": (lambda p: p["kernels"].update(bits=[]), "kernels"),
    "every row of a group failed": (lambda p: p["kernels"]["bits"][3].update(failedRows=56), "kernels"),
    "pieces, none repeated": (lambda p: in_pieces(p), "pieces"),
    "pieces, all repeated": (lambda p: in_pieces(p, repeated=0), "pieces"),
    "a piece of other counts": (lambda p: in_pieces(p, unequal=[PIECE]), "pieces"),
    "no answer of a file right": (lambda p: p["kernels"]["conform"][0].update(passed=0), "recompute counts"),
    "cells that do not tile, in a breach": (
        lambda p: (p["breaches"].update(failed=1), more(p, "proposal")),
        "recompute counts",
    ),
    "a level off by less than its digits": (lambda p: p["tests"][0].update(alpha="2.08334e-07"), "non-claims"),
    "a number off by less than its digits": (lambda p: nudge(p["seedFamily"][1], "pearsonP"), "non-claims"),
}


def earlier(p: Predicate) -> list[dict[str, Any]]:
    """The groups of bits of a GPU without those of wide rows."""
    groups = kernels.expected_bits(campaigns.of_plan(p["plan"]), True, wide=False)
    return [{"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": n} for name, n in groups]


def nudge(row: dict[str, Any], field: str) -> None:
    """One unit of the sixth digit more, which is less than a relative 1e-5 of it."""
    row[field] = canonical.number(float(row[field]) * (1 + 6e-6))


@pytest.mark.parametrize(("change", "step"), HELD.values(), ids=HELD)
def test_a_step_holds_what_it_may(change: Change, step: str, small: Statement) -> None:
    """The other side of each limit; a later step may know better."""
    statement = copy.deepcopy(small)
    change(statement["predicate"])
    found = sealed(statement)
    assert (step, "ok") in [(one.name, one.outcome) for one in found.steps], said(found)


ON_THE_WIRE: dict[str, tuple[Change, str]] = {
    "a row less": (lambda p: p["path"].update(rows=527), "path: rows are 527; plan and seed imply 528"),
    "a frame less": (lambda p: p["path"].update(frames=259), "path: frames are 259; plan and seed imply 260"),
    "a kind of loss unnamed": (lambda p: p["path"]["counted"].pop("foreign"), "path: counted must name "),
    "a row altered": (
        lambda p: p["path"].update(altered=1),
        "verdict: verdict recomputes to 'FAIL', the receipt says 'PASS'",
    ),
    "a loss not counted": (
        lambda p: p["path"]["counted"].update(failed=111),
        "verdict: verdict recomputes to 'FAIL', the receipt says 'PASS'",
    ),
}


@pytest.mark.parametrize(("change", "reason"), ON_THE_WIRE.values(), ids=ON_THE_WIRE)
def test_a_changed_path_is_refused(change: Change, reason: str, wired: Statement) -> None:
    """What was injected follows from plan and seed; what was counted decides the verdict."""
    statement = copy.deepcopy(wired)
    change(statement["predicate"])
    assert said(sealed(statement)).startswith(reason)


@pytest.mark.parametrize(("to", "plan"), [("wire", "qualify"), ("qualify", "wire")])
def test_a_plan_is_of_the_kind_of_its_receipt(to: str, plan: str, small: Statement, wired: Statement) -> None:
    """Whichever is the other; and that other sources made it is said, as a kind binds its own."""
    statement = copy.deepcopy(small if plan == "qualify" else wired)
    path = statement["predicate"].pop("path", wired["predicate"]["path"])
    statement["predicate"].update({"kind": to} | ({"path": path} if to == "wire" else {}))
    stale = len(provenance.stale(to, statement["subject"], provenance.TREE))
    assert said(sealed(statement)) == (
        f"plan: a receipt of kind {to} whose plan is of another kind"
        f" (made by other sources: {stale} of {len(statement['subject'])} differ here;"
        " the pp3 that made it verifies it)"
    )


@pytest.fixture
def elsewhere(small: Statement) -> Statement:
    """As another source made it, and a count that does not follow here."""
    statement = copy.deepcopy(small)
    statement["subject"][0]["digest"]["sha256"] = ZEROS
    more(statement["predicate"], "proposal")
    return statement


BY = "1" * 64


def recorded(statement: Statement, tmp_path: Path, verdict: str = "INCONCLUSIVE", superseded: bool = True) -> Path:
    """A folder of receipts whose ledger records this one, and one that stands in its place."""
    digest = hashlib.sha256(canonical.encode(statement)).hexdigest()
    lines = [
        f"000001 {digest} evidence/qualify/{STAMP}-{digest}.json {verdict} counter=7",
        f"000002 {BY} evidence/qualify/{STAMP}-{BY}.json PASS",
        f"000003 {digest} superseded-by {BY} a reason",
    ]
    folder = tmp_path / "receipts"
    (folder / "evidence" / "qualify").mkdir(parents=True)
    (folder / "LEDGER").write_text("".join(f"{line}\n" for line in lines[: 3 if superseded else 2]))
    return folder / "evidence" / "qualify"


def test_what_other_sources_made_fails_and_says_so(elsewhere: Statement) -> None:
    """Not superseded: a failure all the same."""
    found, bound = sealed(elsewhere), len(elsewhere["subject"])
    assert found.elsewhere
    assert said(found) == (
        "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 127, must be 126"
        f" (made by other sources: 1 of {bound} differ here; the pp3 that made it verifies it)"
    )
    assert found.steps[-1] == found.failed
    assert found.verdict == "unknown"


def test_what_other_sources_made_is_skipped_where_superseded(elsewhere: Statement, tmp_path: Path) -> None:
    """Authentic by the ledger, not recomputed, never verified."""
    found = sealed(elsewhere, folder=recorded(elsewhere, tmp_path))
    assert found.elsewhere
    assert not found.ok
    assert found.failed is None
    assert found.by == BY
    outcomes = [(one.name, one.outcome) for one in found.steps]
    assert outcomes[-4:] == [
        ("recompute counts", "skip"),
        ("ledger", "ok"),
        ("signature", "skip"),
        ("sources", "skip"),
    ]
    assert found.sentence == (
        f"NOT RECOMPUTED verdict=INCONCLUSIVE sha256={found.sha256} assurance=self-attested"
        f": authentic, superseded by {BY}: diagnostic only"
    )


def test_what_these_sources_made_is_not_skipped_where_superseded(small: Statement, tmp_path: Path) -> None:
    """A count that does not follow is a failure, whatever the ledger says."""
    statement = copy.deepcopy(small)
    more(statement["predicate"], "proposal")
    found = sealed(statement, folder=recorded(statement, tmp_path))
    assert not found.elsewhere
    assert said(found) == "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 127, must be 126"
    assert found.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("verdict", "superseded", "outcome", "detail"),
    [
        ("INCONCLUSIVE", True, "ok", f"authentic, superseded by {BY}: diagnostic only (a reason)"),
        ("INCONCLUSIVE", False, "ok", "recorded as evidence/qualify/{name}, not superseded"),
        ("PASS", False, "FAIL", "records the verdict PASS, the receipt says INCONCLUSIVE"),
    ],
    ids=["superseded", "recorded", "of another verdict"],
)
def test_the_ledger_has_its_word(
    verdict: str, superseded: bool, outcome: str, detail: str, small: Statement, tmp_path: Path
) -> None:
    """And the exit code of the command follows."""
    folder = recorded(small, tmp_path, verdict, superseded)
    path = folder / name_of(canonical.encode(small))
    path.write_bytes(canonical.encode(small))
    found = sealed(small, folder=folder)
    step = next(one for one in found.steps if one.name == "ledger")
    assert (step.outcome, step.detail) == (outcome, detail.format(name=path.name))
    code = Exit.NEGATIVE if outcome == "FAIL" else Exit.INCONCLUSIVE if superseded else Exit.OK
    assert cli.run(["verify", str(path)]) == code
    assert (found.by == BY) == superseded


def bound(number: int, form: str = "{name}={digest}") -> Callable[[Statement], str]:
    """What is expected of a bound file."""

    def expected(statement: Statement) -> str:
        one = statement["subject"][number]
        return form.format(name=one["name"], digest=one["digest"]["sha256"])

    return expected


def test_an_expected_sampler_is_held_letter_for_letter(small: Statement) -> None:
    """By name, or by name and version."""
    for expected in ("pp3-top32", "pp3-top32==0.1.0"):
        found = sealed(small, Review(sampler=expected))
        assert found.steps[-1] == Step(name="expected sampler", outcome="ok", detail="pp3-top32==0.1.0")
        assert found.ok
    for expected in ("pp3-top3", "pp3-top32==0.1", "0.1.0", "PP3-top32"):
        found = sealed(small, Review(sampler=expected))
        assert said(found) == f"expected sampler: {expected}; the receipt is of pp3-top32==0.1.0"


def test_an_expected_source_is_held_by_its_digest(small: Statement) -> None:
    """Of the name that is given, if one is; each that is expected."""
    first, last = small["subject"][0], small["subject"][-1]
    digest, other = first["digest"]["sha256"], last["digest"]["sha256"]
    for expected in (bound(0)(small), bound(0, "{digest}")(small)):
        found = sealed(small, Review(sources=(expected, bound(-1)(small))))
        assert [one.detail for one in found.steps[-2:]] == [
            f"{first['name']} is {digest}",
            f"{last['name']} is {other}",
        ]
        assert {one.name for one in found.steps[-2:]} == {"expected source"}
    refused = {
        f"{first['name']}={other}": f"it is bound as {digest}",
        f"wish={digest}": "nothing so is bound",
        ZEROS: "nothing so is bound",
    }
    for expected, reason in refused.items():
        assert said(sealed(small, Review(sources=(expected,)))) == f"expected source: {expected}; {reason}"


def test_the_sources_are_held_against_a_tree(small: Statement, tmp_path: Path) -> None:
    """All of them; one that differs is named and makes the receipt stale, which is no failure."""
    shutil.copytree(provenance.TREE / "pp3", tmp_path / "pp3", ignore=shutil.ignore_patterns("__pycache__"))
    found, n = sealed(small, Review(source=tmp_path)), len(small["subject"])
    assert (found.steps[-1].outcome, found.steps[-1].detail) == ("ok", f"all {n} equal the tree")
    assert (found.current, found.elsewhere) == ("yes", False)
    with (tmp_path / small["subject"][3]["name"]).open("a") as file:
        file.write("# edited\n")
    found = sealed(small, Review(source=tmp_path))
    assert (found.steps[-1].outcome, found.steps[-1].detail) == (
        "skip",
        f"stale: 1 of {n} are others in the tree: {small['subject'][3]['name']}",
    )
    assert (found.current, found.ok) == ("no", True)


REPLAYS: dict[str, tuple[Change, str]] = {
    "a run of its own": (
        lambda p: p["seed"].update(chosen="given"),
        " is a run of its own ('given'); pp3 replay makes one",
    ),
    "another plan": (lambda p: p.update(planSha256=ZEROS), f" has another planSha256: {ZEROS}, not "),
    "another seed": (lambda p: p["seed"].update(sha256=ZEROS), f" has another seed: {ZEROS}, not "),
    "another count": (lambda p: more(p, "proposal"), ""),
}


@pytest.mark.parametrize(("change", "reason"), REPLAYS.values(), ids=REPLAYS)
def test_another_run_than_a_replay_is_refused(change: Change, reason: str, small: Statement, tmp_path: Path) -> None:
    """A receipt of the same plan and seed, marked as a replay, with the same integers."""
    again = copy.deepcopy(small)
    again["predicate"]["seed"]["chosen"] = "replay"
    fine = receipt.write(again, tmp_path)
    found = sealed(small, Review(replay=fine))
    assert [one.name for one in found.steps][-2:] == ["replay", "sources"]
    assert found.assurance == "replayed"
    change(again["predicate"])
    found = sealed(small, Review(replay=receipt.write(again, tmp_path)))
    assert found.failed is not None
    assert found.failed.name == "replay"
    assert reason in found.failed.detail


def test_a_name_that_is_not_the_digest_of_a_replay(small: Statement, tmp_path: Path) -> None:
    """Its bytes are no longer those it was named by."""
    again = copy.deepcopy(small)
    again["predicate"]["seed"]["chosen"] = "replay"
    path = receipt.write(again, tmp_path).rename(tmp_path / f"{STAMP}-{ZEROS}.json")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert said(sealed(small, Review(replay=path))) == f"replay: {path}: its bytes hash to {digest}, not to its name"


@pytest.mark.parametrize("error", [AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError])
def test_a_step_names_whatever_is_raised_in_it(error: type[Exception]) -> None:
    """By the step and its kind; a name that is there already is not said twice."""

    def fails(raised: Exception) -> None:
        raise raised

    with pytest.raises(VerificationError, match=rf"^step: {error.__name__}: 'why'$|^step: {error.__name__}: why$"):
        step.at("step", fails, error("why"))
    for words in ("why", "step: why"):
        with pytest.raises(VerificationError, match=r"^step: why$"):
            step.at("step", fails, VerificationError(words))
    with pytest.raises(RuntimeError):
        step.at("step", fails, RuntimeError("ours"))


MAPS: dict[str, tuple[dict[str, Any], str]] = {
    "one less": ({"a": {"n": 1}}, "recompute statistics: effects of 1 checks, the plan has 2"),
    "one more": ({"a": {"n": 1}, "b": {"n": 2}, "c": {}}, "recompute statistics: effects of 3 checks, the plan has 2"),
    "another": ({"a": {"n": 1}, "c": {"n": 2}}, "recompute statistics: effects of 2 checks, the plan has 2"),
    "a value": ({"a": {"n": 1}, "b": {"n": 1}}, "recompute statistics: effect: n comes to 2, the receipt says 1"),
}


@pytest.mark.parametrize(("claimed", "reason"), MAPS.values(), ids=MAPS)
def test_rows_under_names_are_compared_by_name(claimed: dict[str, Any], reason: str) -> None:
    """Whatever their order."""
    mine = {"b": {"n": 2}, "a": {"n": 1}}
    rows.compare_maps("effect", mine, {"a": {"n": 1}, "b": {"n": 2}})
    with pytest.raises(VerificationError) as found:
        rows.compare_maps("effect", mine, claimed)
    assert str(found.value) == reason
