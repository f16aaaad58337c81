"""Verification: a real receipt holds without torch, and every tampering, sealed anew, is caught at its own step."""

import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, cli
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.evidence.receipt import stamp
from pp3.harness.evidence.verify import Verified, verify
from pp3.harness.seeds import Seed
from pp3.harness.verdict import conclude

ROOT = Path(__file__).resolve().parent.parent
REVIEWED = ("ledger", "signature", "sources")  # skipped where nothing is given
STEPS = [
    "bytes",
    "name",
    "shape",
    "plan",
    "laws",
    "kernels",
    "recompute counts",
    "recompute statistics",
    "error budget",
    "verdict",
    "non-claims",
    *REVIEWED,
]
FLIPS = 300
WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from pp3.harness.cli import main

main()
"""
Statement = dict[str, Any]
Change = Callable[[Statement], object]


@pytest.fixture
def statement(real_receipt: Path) -> Statement:
    """The statement of the session's real receipt, a fresh copy."""
    return dict(canonical.decode(real_receipt.read_bytes()))


def sealed(statement: Statement, source: Path | None = None) -> Verified:
    """Verify a statement after writing it canonically under its new digest, as a forger would."""
    content = canonical.encode(statement)
    run = statement["predicate"].get("run") if isinstance(statement.get("predicate"), dict) else None
    moment = stamp(str(run.get("startedUtc"))) if isinstance(run, dict) else "unknown"
    return verify(Path(f"{moment}-{hashlib.sha256(content).hexdigest()}.json"), content, source)


def reseal_plan(statement: Statement) -> None:
    """Make the plan's digest and the seed follow from a changed plan, as a forger would."""
    predicate = statement["predicate"]
    predicate["planSha256"] = canonical.sha256(predicate["plan"])
    predicate["seed"]["sha256"] = Seed.of(predicate["planSha256"], predicate["seed"]["counter"]).value.hex()


def rejudge(statement: Statement) -> None:
    """Make everything derived follow from changed integers, as a forger would."""
    predicate = statement["predicate"]
    judgement = conclude(
        campaigns.of_plan(predicate["plan"]),
        {(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]},
        {(cell["id"], cell["batch"]): cell["first"] for cell in predicate["cells"]},
        predicate["breaches"],
        predicate["paired"],
        predicate["kernels"],
        predicate["sampler"],
    )
    predicate["tests"] = [test.plain() for test in judgement.tests]
    predicate["deviations"] = [one.plain() for one in judgement.deviations]
    predicate["seedFamily"], predicate["sees"] = judgement.seed_family, judgement.sees
    predicate["verdict"], predicate["reasons"] = judgement.verdict.value, judgement.reasons
    predicate["sentence"] = judgement.sentence


def cell(statement: Statement, event: str) -> dict[str, Any]:
    """The first cell of a kind with two counted atoms or more."""
    cells: list[dict[str, Any]] = statement["predicate"]["cells"]
    return next(c for c in cells if f"/{event}/" in c["id"] and sum(n > 100 for n in c["counts"][:-1]) > 1)


def fullest(statement: Statement, event: str) -> dict[str, Any]:
    """The cell of a kind whose first atom was met most often in the first half."""
    cells: list[dict[str, Any]] = statement["predicate"]["cells"]
    return max((c for c in cells if f"/{event}/" in c["id"]), key=lambda c: c["first"][0])


def move(statement: Statement, event: str) -> None:
    """One event from the cell's fullest atom to its next, so that every sum stays."""
    counts = cell(statement, event)["counts"]
    fullest, second = sorted(range(len(counts)), key=lambda atom: -counts[atom])[:2]
    counts[fullest] -= 1
    counts[second] += 1


def more(event: str) -> Change:
    """One event more in the first cell of a kind."""

    def change(statement: Statement) -> None:
        cells = statement["predicate"]["cells"]
        next(c for c in cells if f"/{event}/" in c["id"])["counts"][0] += 1

    return change


def edit(*path: str | int, to: Any) -> Change:
    """Set a value of the predicate, or give it to a function of the old one."""

    def change(statement: Statement) -> None:
        place = statement["predicate"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(statement: Statement) -> None:
        for one in changes:
            one(statement)

    return change


def in_test(field: str, to: Any) -> Change:
    """Change a field of the first check whose p-value is written with six digits."""

    def change(statement: Statement) -> None:
        tests = statement["predicate"]["tests"]
        test = next(t for t in tests if t["df"] and len(t["p"]) == 8 and t["p"][2] != "0")
        test[field] = to(test[field])

    return change


def fifth_digit(number: str) -> str:
    """0.123456 with its fifth significant digit changed."""
    return number[:6] + str((int(number[6]) + 2) % 10) + number[7:]


def add(*path: str | int, item: Any) -> Change:
    """Append to a list of the predicate; a function is given the list."""
    return edit(*path, to=lambda old: [*old, item(old) if callable(item) else item])


def drop(*path: str | int, at: int = 0) -> Change:
    """Remove one item of a list of the predicate."""
    return edit(*path, to=lambda old: old[:at] + old[at + 1 :])


def flipped(text: str) -> str:
    """A digest with its last digit changed."""
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def stray_row(statement: Statement) -> dict[str, Any]:
    """A row that names one forbidden outcome of a real cell."""
    some = cell(statement, "token")
    return {"batch": some["batch"], "cell": some["id"], "count": 1, "outcome": 96}


TAMPERED: dict[str, tuple[Change, str]] = {
    # what it says it is
    "another statement type": (lambda s: s.update(_type="https://in-toto.io/Statement/v2"), "shape"),
    "another predicate": (lambda s: s.update(predicateType="urn:pp3:receipt:v2"), "shape"),
    "an unknown field of the statement": (lambda s: s.update(signed="yes"), "shape"),
    "an unknown field of the predicate": (
        lambda s: s["predicate"].update(approved="yes"),
        "shape",
    ),
    "an unknown field of a cell": (edit("cells", 0, to=lambda old: old | {"weight": 1}), "shape"),
    "an unknown field of the seed": (edit("seed", to=lambda old: old | {"salt": ""}), "shape"),
    "a field of the predicate left out": (lambda s: s["predicate"].pop("breaches"), "shape"),
    "the non-claims left out": (lambda s: s["predicate"].pop("nonClaims"), "shape"),
    "a count as text": (edit("cells", 0, "counts", 0, to=str), "shape"),
    # what was planned
    "alpha of the plan": (edit("plan", "alpha", to="0.01"), "plan"),
    "requests of the plan": (edit("plan", "requests", to=19_999), "plan"),
    "alpha of the plan written otherwise": (both(edit("plan", "alpha", to="0.00001"), reseal_plan), "plan"),
    "an unknown key of the plan": (both(edit("plan", to=lambda old: old | {"reruns": 3}), reseal_plan), "plan"),
    "a key of the plan left out": (both(lambda s: s["predicate"]["plan"].pop("pool"), reseal_plan), "plan"),
    "a law's digest left out": (
        both(lambda s: s["predicate"]["plan"]["targets"][0].pop("lawSha256"), reseal_plan),
        "laws",
    ),
    "an unknown target": (both(edit("plan", "targets", 0, "name", to="mystery"), reseal_plan), "plan"),
    "a bad value of the plan": (both(edit("plan", "requests", to=0), reseal_plan), "plan"),
    "the weights of the plan": (edit("plan", "weights", "law", to="0.4"), "plan"),
    "weights that do not sum to 1": (both(edit("plan", "weights", "law", to="0.4"), reseal_plan), "plan"),
    "weights written otherwise": (both(edit("plan", "weights", "law", to="0.50"), reseal_plan), "plan"),
    "an unknown weight": (both(edit("plan", "weights", to=lambda old: old | {"luck": "0.0"}), reseal_plan), "plan"),
    "a weight left out": (both(lambda s: s["predicate"]["plan"]["weights"].pop("fit"), reseal_plan), "plan"),
    "the tolerance of the plan": (edit("plan", "tolerance", to="0.01"), "plan"),
    "a tolerance of 1": (both(edit("plan", "tolerance", to="1.0"), reseal_plan), "plan"),
    "a tolerance written otherwise": (both(edit("plan", "tolerance", to="0"), reseal_plan), "plan"),
    "the tolerance left out": (both(lambda s: s["predicate"]["plan"].pop("tolerance"), reseal_plan), "plan"),
    "what the plan promises": (edit("plan", "detect", to="0.01"), "plan"),
    "the plan's digest": (edit("planSha256", to=flipped), "plan"),
    "the plan and its digest, not the seed": (
        both(
            edit("plan", "alpha", to="0.01"),
            lambda s: s["predicate"].update(planSha256=canonical.sha256(s["predicate"]["plan"])),
        ),
        "plan",
    ),
    "the counter": (edit("seed", "counter", to=8), "plan"),
    "a negative counter": (edit("seed", "counter", to=-1), "shape"),
    "the seed": (edit("seed", "sha256", to=flipped), "plan"),
    "a law's digest": (edit("plan", "targets", 0, "lawSha256", to=flipped), "plan"),
    "a law's digest, the plan sealed anew": (
        both(edit("plan", "targets", 0, "lawSha256", to=flipped), reseal_plan),
        "laws",
    ),
    "two laws exchanged, the plan sealed anew": (
        both(
            edit(
                "plan",
                "targets",
                to=lambda old: [
                    one | {"lawSha256": other["lawSha256"]}
                    for one, other in zip(old, [old[1], old[0], *old[2:]], strict=True)
                ],
            ),
            reseal_plan,
        ),
        "laws",
    ),
    # what was counted
    "one count more": (
        lambda s: cell(s, "token")["counts"].__setitem__(0, cell(s, "token")["counts"][0] + 1),
        "recompute counts",
    ),
    "one length more": (
        lambda s: cell(s, "length")["counts"].__setitem__(0, cell(s, "length")["counts"][0] + 1),
        "recompute counts",
    ),
    "one proposal less": (
        edit("cells", 0, "counts", to=lambda old: [max(old) - 1 if n == max(old) else n for n in old]),
        "recompute counts",
    ),
    "a count moved between two lengths": (lambda s: move(s, "length"), "recompute counts"),
    "one kept draft more": (more("kept"), "recompute counts"),
    "one judged draft more": (more("accept"), "recompute counts"),
    "one replacement more": (more("residual"), "recompute counts"),
    "one draft and its replacement more": (more("recovery"), "recompute counts"),
    "one token after another more": (more("prefix"), "recompute counts"),
    "one pair of positions more": (more("match/positions"), "recompute counts"),
    "one pair of neighbours more": (more("match/requests-1"), "recompute counts"),
    "one distant pair more": (more("match/requests-128"), "recompute counts"),
    "one pair of first tokens more": (more("pair"), "recompute counts"),
    "one pair of lengths more": (more("length-pair"), "recompute counts"),
    "one stretch more": (more("repeat"), "recompute counts"),
    "one bonus more": (more("bonus"), "recompute counts"),
    "a first half larger than the whole": (edit("cells", 0, "first", 0, to=10**6), "recompute counts"),
    "a first half of one count more": (edit("cells", 0, "first", to=lambda old: [*old, 0]), "recompute counts"),
    "a first half left out": (lambda s: s["predicate"]["cells"][0].pop("first"), "recompute counts"),
    "a first half of nothing": (edit("cells", 0, "first", to=lambda old: [0] * len(old)), "recompute counts"),
    "a first half of everything": (
        lambda s: s["predicate"]["cells"][0].update(first=s["predicate"]["cells"][0]["counts"]),
        "recompute counts",
    ),
    "one pair of the first half fewer": (
        lambda s: fullest(s, "pair")["first"].__setitem__(0, fullest(s, "pair")["first"][0] - 1),
        "recompute counts",
    ),
    "a first half below 0": (edit("cells", 0, "first", 0, to=-1), "shape"),
    "a count below 0": (edit("cells", 0, "counts", 0, to=-1), "shape"),
    "a count too many": (edit("cells", 0, "counts", to=lambda old: [0, *old]), "recompute counts"),
    "no counts": (edit("cells", 0, "counts", to=[]), "recompute counts"),
    "a cell deleted": (drop("cells"), "recompute counts"),
    "a cell there twice": (add("cells", item=lambda old: old[0]), "recompute counts"),
    "a foreign cell": (
        add("cells", item={"batch": 1, "counts": [0, 0], "id": "sparse-tail/depth-4/wish"}),
        "recompute counts",
    ),
    "a foreign batch size": (edit("cells", 0, "batch", to=7), "recompute counts"),
    "a forbidden outcome that is not named": (
        lambda s: cell(s, "token")["counts"].__setitem__(-1, 1),
        "recompute counts",
    ),
    "a named forbidden outcome that is not counted": (
        lambda s: s["predicate"]["strays"].append(stray_row(s)),
        "recompute counts",
    ),
    "a forbidden outcome of a foreign cell": (
        add("strays", item={"batch": 1, "cell": "wish", "count": 1, "outcome": 3}),
        "recompute counts",
    ),
    "a forbidden outcome without its cell": (add("strays", item={"count": 0}), "shape"),
    "a forbidden outcome whose cell is a list": (
        add("strays", item={"batch": 1, "cell": [], "count": 0, "outcome": 3}),
        "shape",
    ),
    "an unknown breach": (edit("breaches", to=lambda old: old | {"late": 0}), "recompute counts"),
    "a breach left out": (lambda s: s["predicate"]["breaches"].pop("failed"), "recompute counts"),
    "fewer requests, the plan sealed anew": (
        both(edit("plan", "requests", to=19_999), reseal_plan),
        "recompute counts",
    ),
    "fewer batch sizes, the plan sealed anew": (
        both(edit("plan", "batchSizes", to=[1, 2, 3]), reseal_plan),
        "recompute counts",
    ),
    "other pairs than planned, the plan sealed anew": (
        both(edit("plan", "paired", to=10), reseal_plan),
        "recompute counts",
    ),
    "pairs left out, judged anew": (both(drop("paired"), rejudge), "recompute counts"),
    "pairs there twice, judged anew": (both(add("paired", item=lambda old: old[0]), rejudge), "recompute counts"),
    "pairs of another target": (edit("paired", 0, "target", to="wish"), "recompute counts"),
    "a row of pairs below 0, judged anew": (
        both(
            edit("paired", 0, "pairs", to=lambda n: -n),
            edit("paired", 1, "pairs", to=lambda n: 3 * n),
            rejudge,
        ),
        "shape",
    ),
    # what follows
    "a count moved between two tokens": (lambda s: move(s, "token"), "recompute statistics"),
    "a count moved between two proposals": (lambda s: move(s, "proposal"), "recompute statistics"),
    "a p-value in its fifth digit": (in_test("p", fifth_digit), "recompute statistics"),
    "G": (in_test("g", lambda old: str(float(old) + 1)), "recompute statistics"),
    "Pearson's statistic": (in_test("pearson", lambda old: str(float(old) + 1)), "recompute statistics"),
    "Pearson's p-value": (in_test("pearsonP", lambda old: "0.5"), "recompute statistics"),
    "the level of a check": (in_test("alpha", lambda old: "0.05"), "error budget"),
    "the degrees of freedom": (in_test("df", lambda old: old + 1), "recompute statistics"),
    "the events of a check": (in_test("events", lambda old: old + 1), "recompute statistics"),
    "what a check sees": (in_test("detectable", lambda old: "0.001"), "recompute statistics"),
    "what a check does not exclude": (in_test("excluded", lambda old: "0.001"), "recompute statistics"),
    "the unit of a check": (in_test("unit", lambda old: "ratio"), "recompute statistics"),
    "the method of a check": (in_test("method", lambda old: "fit"), "recompute statistics"),
    "the worst outcome of a check": (in_test("worst", lambda old: "none"), "recompute statistics"),
    "a deviation made up": (
        add("deviations", item={"high": "0.01", "id": "fit", "low": "0", "worth": "tolerated"}),
        "recompute statistics",
    ),
    "other weights, the plan sealed anew": (
        both(
            edit("plan", "weights", "law", to="0.45"),
            edit("plan", "weights", "conditional", to="0.25"),
            reseal_plan,
        ),
        "recompute statistics",
    ),
    "more than is seen promised, the plan sealed anew": (
        both(edit("plan", "detect", to="0.001"), reseal_plan),
        "verdict",
    ),
    "the outcome of a check": (in_test("outcome", lambda old: "certain"), "recompute statistics"),
    "that a check is required": (in_test("required", lambda old: not old), "recompute statistics"),
    "that a check is required, as a number": (in_test("required", int), "recompute statistics"),
    "an unknown field of a check": (edit("tests", 0, to=lambda old: old | {"waived": "yes"}), "recompute statistics"),
    "a check left out": (drop("tests"), "recompute statistics"),
    "a check there twice": (add("tests", item=lambda old: old[0]), "recompute statistics"),
    "two checks exchanged": (edit("tests", to=lambda old: [old[1], old[0], *old[2:]]), "recompute statistics"),
    "a p-value of the customer's family": (edit("seedFamily", 0, "pearsonP", to="0.5"), "recompute statistics"),
    "the reading of the customer's family": (
        edit("seedFamily", 0, "below", to=lambda old: not old),
        "recompute statistics",
    ),
    "a row of the customer's family left out": (drop("seedFamily"), "recompute statistics"),
    "what the campaign sees": (edit("sees", "token", to="0.0001"), "recompute statistics"),
    "an event the campaign sees left out": (lambda s: s["predicate"]["sees"].pop("token"), "recompute statistics"),
    "another alpha, the plan sealed anew": (
        both(edit("plan", "alpha", to="0.01"), reseal_plan),
        "recompute statistics",
    ),
    "bits of the kernels that are no rows": (edit("kernels", "bits", to=[1]), "shape"),
    "an identity that is no object, on a GPU": (
        both(edit("sampler", "backend", to="cuda"), edit("kernels", "identity", to="H200")),
        "shape",
    ),
    "the verdict": (edit("verdict", to="FAIL"), "verdict"),
    "an unknown verdict": (edit("verdict", to="EXCELLENT"), "verdict"),
    "the sentence": (edit("sentence", to=lambda old: old.replace("no evidence against", "proof of")), "verdict"),
    "a reason made up": (edit("reasons", to=["it rained"]), "verdict"),
    "a breach of the contract": (edit("breaches", "failed", to=1), "verdict"),
    "a temperature-0 mismatch": (edit("paired", 0, "mismatches", to=1), "verdict"),
    "a row of bits that differs": (edit("kernels", "bits", 0, "mismatches", to=1), "verdict"),
    "more rows of bits": (edit("kernels", "bits", 0, "rows", to=1_000_000), "kernels"),
    "one group of bits, of no rows": (edit("kernels", "bits", to=lambda old: [old[0] | {"rows": 0}]), "kernels"),
    "a group of bits left out": (drop("kernels", "bits"), "kernels"),
    "more failed rows than rows": (edit("kernels", "bits", 0, "failedRows", to=10**6), "kernels"),
    "a file of known answers left out": (drop("kernels", "conform"), "kernels"),
    "one made-up file of known answers": (
        edit("kernels", "conform", to=[{"file": "x", "passed": 1, "sha256": "", "total": 1}]),
        "kernels",
    ),
    "an identity of another backend": (edit("kernels", "identity", "backend", to="cuda"), "kernels"),
    "a GPU without its compiled kernels": (
        both(edit("sampler", "backend", to="cuda"), edit("kernels", "identity", to={"backend": "cuda", "gpu": "X"})),
        "kernels",
    ),
    "the bits of the kernels left out": (edit("kernels", "bits", to=[]), "verdict"),
    "a known answer missed": (edit("kernels", "conform", 0, "passed", to=0), "verdict"),
    "the name of the sampler": (edit("sampler", "name", to="another"), "verdict"),
    "the version of the sampler": (edit("sampler", "version", to="9.9"), "verdict"),
    "a non-claim left out": (drop("nonClaims"), "non-claims"),
    "a non-claim softened": (edit("nonClaims", 0, to="Not yet qualified for serving."), "non-claims"),
    "a claim among the non-claims": (add("nonClaims", item="A speedup is claimed."), "non-claims"),
}

BACKED_BY_NOTHING: dict[str, Change] = {
    "the assurance": edit("assurance", to="independently reproduced"),
    "the kind": edit("kind", to="oracle"),
    "the rule of the seed": edit("seed", "rule", to="chosen by hand"),
    "more answers passed than there are": edit("kernels", "conform", 0, "passed", to=1_000_000),
    "mismatches that are no number": edit("kernels", "bits", 0, "mismatches", to=""),
}


def test_a_real_receipt_verifies(real_receipt: Path) -> None:
    """Every step, in order; the sources are skipped, which is not ok."""
    found = verify(real_receipt, real_receipt.read_bytes())
    assert [(step.name, step.outcome) for step in found.steps] == [
        (name, "skip" if name in REVIEWED else "ok") for name in STEPS
    ]
    assert found.ok
    assert (found.verdict, found.current) == ("PASS", "unchecked")
    assert found.sha256 in real_receipt.name
    assert found.sentence == (f"VERIFIED verdict=PASS sha256={found.sha256} assurance=self-attested current=unchecked")


def test_it_verifies_without_torch_and_triton(real_receipt: Path) -> None:
    """In a process where neither can be imported, from another folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_TORCH, "verify", str(real_receipt)],
        cwd="/",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(STEPS) + 1
    assert lines[-1].startswith("VERIFIED verdict=PASS sha256=")


@pytest.mark.parametrize(("change", "step"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_caught_at_its_own_step(change: Change, step: str, statement: Statement) -> None:
    """Re-canonicalised and renamed to its new digest, so that only the step that knows better can see it."""
    before = copy.deepcopy(statement)
    change(statement)
    assert canonical.encode(statement) != canonical.encode(before)  # True and 1 are equal in Python, not in JSON
    found = sealed(statement)
    assert not found.ok
    assert found.steps[-1].outcome == "FAIL"
    assert (found.steps[-1].name, [one.name for one in found.steps[:-1]]) == (step, STEPS[: STEPS.index(step)])
    assert {one.outcome for one in found.steps[:-1]} <= {"ok"}
    assert found.sentence.startswith(f"NOT VERIFIED at {step}: ")
    assert "\n" not in found.sentence


@pytest.mark.parametrize("change", BACKED_BY_NOTHING.values(), ids=BACKED_BY_NOTHING)
def test_a_claim_that_nothing_backs_is_refused(change: Change, statement: Statement) -> None:
    """At whatever step."""
    change(statement)
    assert not sealed(statement).ok


def test_every_step_has_a_tampering_that_it_catches() -> None:
    """But for the bytes, the name and what a reviewer brings, which have tests of their own below."""
    assert {step for _, step in TAMPERED.values()} == {*STEPS[2 : -len(REVIEWED)]}


def test_a_target_that_no_sampler_runs_is_refused(statement: Statement) -> None:
    """A plan may be sealed with a vocabulary of 31; its laws cannot be rebuilt."""
    row = {"ids": [3], "weights": [1 << 24], "draft_ids": [3], "draft_logits": [1.0]}
    target = {"name": "tiny", "vocab": 31, "rows": [row]}
    statement["predicate"]["plan"] = campaigns.of_document({"targets": ["tiny"], "target": [target]}, "test").plan
    reseal_plan(statement)
    assert not sealed(statement).ok


def test_a_copied_verdict_does_not_verify(
    statement: Statement, receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """One run's judgement over another run's counts."""
    other = campaigns.load(None, {"requests": 20_001})
    predicate = canonical.decode(receipt_of(other, tmp_path).read_bytes())["predicate"]
    for field in ("tests", "deviations", "seedFamily", "sees", "verdict", "reasons", "sentence"):
        predicate[field] = statement["predicate"][field]
    statement["predicate"] = predicate
    assert sealed(statement).steps[-1].name == "recompute statistics"


def test_a_renamed_receipt_is_caught_at_its_name(real_receipt: Path) -> None:
    """The digest in the name is the first thing that is compared."""
    content = real_receipt.read_bytes()
    stem, _, digest = real_receipt.stem.rpartition("-")
    for name in (f"{stem}-{flipped(digest)}.json", f"{stem}.json", "receipt.json", f"{digest[:16]}.json"):
        found = verify(Path(name), content)
        assert [step.name for step in found.steps] == ["bytes", "name"]
        assert not found.ok


def test_no_single_bit_may_flip(real_receipt: Path, rng: np.random.Generator) -> None:
    """Anywhere in the file."""
    content = real_receipt.read_bytes()
    for place, bit in zip(rng.integers(0, len(content), FLIPS), rng.integers(0, 8, FLIPS), strict=True):
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        found = verify(real_receipt, bytes(changed))
        assert not found.ok, (place, bit)
        assert found.steps[-1].name in ("bytes", "name"), (place, bit)


@pytest.mark.parametrize("kept", [0, 1, 4096, -2, -1])
def test_a_truncated_receipt_is_caught_at_its_bytes(kept: int, real_receipt: Path) -> None:
    """And said to be truncated, in one line."""
    found = verify(real_receipt, real_receipt.read_bytes()[:kept])
    assert [(step.name, step.outcome) for step in found.steps] == [("bytes", "FAIL")]
    assert "truncated" in found.sentence


ODD: list[Any] = [None, True, -1, 2**53 - 1, "", "x", "1e400", [], [[]], {}, {"a": 1}]


def test_no_value_of_any_kind_makes_verification_raise(
    receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """Each value of a small receipt replaced by one of another kind and sealed anew: a verdict, never a crash."""
    campaign = campaigns.of_document(
        {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
    )
    statement = canonical.decode(receipt_of(campaign, tmp_path).read_bytes())
    crashes = []

    def attempt(name: str, seal: bool) -> None:
        forged = copy.deepcopy(statement)
        try:
            if seal:
                reseal_plan(forged)
            sealed(forged, ROOT)
        except Exception as error:
            crashes.append(f"{name}: {type(error).__name__}: {error}")

    def visit(place: Any, keys: list[Any], path: str) -> None:
        for key in keys:
            name, old = f"{path}.{key}", place[key]
            for odd in ODD:
                place[key] = odd
                attempt(f"{name} = {odd!r}", seal=False)
                if name.startswith("predicate.plan"):
                    attempt(f"{name} = {odd!r}, the plan sealed anew", seal=True)
            place[key] = old
            if isinstance(old, dict):
                visit(old, list(old), name)
            elif isinstance(old, list) and old:
                visit(old, [0], name)

    visit(statement, ["subject"], "statement")
    visit(statement["predicate"], list(statement["predicate"]), "predicate")
    assert crashes == []


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package with its links dereferenced."""
    shutil.copytree(ROOT / "pp3", tmp_path / "copy" / "pp3", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


def run_verify(*arguments: str | Path) -> int:
    """The command; its exit code."""
    return cli.run(["verify", *map(str, arguments)])


def test_the_tree_it_was_run_from_is_current(real_receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, current=yes."""
    assert run_verify(real_receipt, "--source", ROOT) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(" current=yes")
    assert "ok   sources: all " in lines[-2]


def test_a_plain_copy_is_current(real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links or not, the names are import-relative."""
    assert run_verify(real_receipt, "--source", copied) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1].endswith(" current=yes")


def test_an_edited_tree_is_not_current(real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bound file with one more line: verified all the same, exit 3, the file named."""
    with (copied / "pp3" / "kernels" / "verifier.py").open("a") as file:
        file.write("# edited\n")
    assert run_verify(real_receipt, "--source", copied) == Exit.INCONCLUSIVE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("VERIFIED verdict=PASS ")
    assert lines[-1].endswith(" current=no")
    assert " skip sources: stale: 1 of " in lines[-2]
    assert "pp3/kernels/verifier.py" in lines[-2]


def test_a_tree_without_a_bound_file_is_not_current(
    real_receipt: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the file named."""
    (copied / "pp3" / "targets" / "toy.py").unlink()
    assert run_verify(real_receipt, "--source", copied) == Exit.INCONCLUSIVE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(" current=no")
    assert "pp3/targets/toy.py" in lines[-2]


def test_an_empty_tree_is_not_current(real_receipt: Path, tmp_path: Path) -> None:
    """Every bound file is missing."""
    assert run_verify(real_receipt, "--source", tmp_path) == Exit.INCONCLUSIVE


def test_a_tree_that_is_not_there_is_a_usage_error(
    real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, not a stale receipt."""
    assert run_verify(real_receipt, "--source", tmp_path / "nowhere") == Exit.USAGE
    assert "no such folder" in capsys.readouterr().err


BINDS_LESS: dict[str, Change] = {
    "nothing": lambda s: s.update(subject=[]),
    "all but one file": lambda s: s["subject"].pop(),
    "a file that is nowhere, without a digest": lambda s: s["subject"].append({"digest": {}, "name": "pp3/wish.py"}),
    "a file outside the package": lambda s: s["subject"].append(
        {"digest": {"sha256": "0" * 64}, "name": "wish.py"},
    ),
    "a file up the tree": lambda s: s["subject"].append(
        {"digest": {"sha256": "0" * 64}, "name": "pp3/../../wish.py"},
    ),
}


@pytest.mark.parametrize("change", BINDS_LESS.values(), ids=BINDS_LESS)
def test_a_receipt_that_binds_other_files_is_never_current(change: Change, statement: Statement) -> None:
    """Leaving out a file may not turn a no into a yes."""
    change(statement)
    assert sealed(statement, ROOT).current != "yes"


@pytest.mark.parametrize(
    ("wanted", "code"), [("PASS", Exit.OK), ("FAIL", Exit.NEGATIVE)], ids=["the verdict it has", "another"]
)
def test_a_verdict_may_be_required(wanted: str, code: Exit, real_receipt: Path) -> None:
    """Without it an authentic FAIL would be exit 0."""
    assert run_verify(real_receipt, "--require-verdict", wanted) == code


def test_json_is_one_object(real_receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what was verified, step by step."""
    assert run_verify(real_receipt, "--json", "--source", ROOT) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["verified"], found["verdict"], found["current"]) == (True, "PASS", "yes")
    assert (found["assurance"], found["sha256"]) == ("self-attested", real_receipt.stem.rpartition("-")[2])
    assert [step["name"] for step in found["steps"]] == STEPS
