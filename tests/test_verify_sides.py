"""What verify decides by a digest, an order or a number of its own, met from both sides: below it and above.

A digest that differs may sort before the right one or behind it, and what is refused one way must be the other way too.
"""

import copy
import hashlib
from pathlib import Path

import pytest
from built import Measure, Statement, qualified
from decided import NOWHERE, STAMP, Change, Predicate, name_of, said

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.evidence import kernels
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.evidence.verify import verify

PLAN = {"targets": ["disjoint"], "requests": 501, "paired": 21, "depths": [4], "batch_sizes": [3, 2]}  # sizes falling
SIDES = ("0" * 64, "f" * 64)  # of every digest


@pytest.fixture(scope="module")
def small(measure: Measure) -> Statement:
    """A receipt of one target; copy before changing."""
    return qualified(PLAN, measure)


def sealed(statement: Statement, change: Change = lambda p: None) -> Verified:
    """Verify a changed copy as a forger would write it: canonical, under its own digest."""
    changed = copy.deepcopy(statement)
    change(changed["predicate"])
    content = canonical.encode(changed)
    return verify(NOWHERE / name_of(content), content)


def test_batch_sizes_may_fall(small: Statement) -> None:
    """The plan has them in any order, and each is counted by itself."""
    assert [cell["batch"] for cell in small["predicate"]["cells"]][:: len(small["predicate"]["cells"]) - 1] == [3, 2]
    assert sealed(small).ok, said(sealed(small))


@pytest.mark.parametrize("digest", SIDES)
def test_another_digest_of_the_plan(digest: str, small: Statement) -> None:
    found = sealed(small, lambda p: p.update(planSha256=digest))
    assert said(found) == f"plan: hashes to {small['predicate']['planSha256']}, not {digest}"


@pytest.mark.parametrize("rule", ["by hand", "the seed"])
def test_another_rule_of_the_seed(rule: str, small: Statement) -> None:
    assert said(sealed(small, lambda p: p["seed"].update(rule=rule))).startswith(
        "plan: the seed rule must read 'sha256("
    )


def test_values_of_the_plan_are_spelled_one_way(small: Statement) -> None:
    """Whatever digest another spelling comes to."""
    mine, sides = small["predicate"]["planSha256"], set()
    for spelled in ("0.00001", "1e-5", "1.0e-05", "1.00e-05", "0.000010", "10e-06"):

        def change(p: Predicate, spelled: str = spelled) -> None:
            p["plan"]["alpha"] = spelled
            p["planSha256"] = canonical.sha256(p["plan"])
            sides.add(p["planSha256"] > mine)

        assert said(sealed(small, change)) == "plan: its values rebuild to another plan for disjoint"
    assert sides == {False, True}


@pytest.mark.parametrize("first", ["length", "token"])
def test_cells_are_in_the_order_of_the_plan(first: str, small: Statement) -> None:
    """One that sorts before the first of the plan, a proposal, is not in its place, nor one that sorts behind it."""

    def change(p: Predicate) -> None:
        at = next(at for at, cell in enumerate(p["cells"]) if f"/{first}/" in cell["id"])
        p["cells"].insert(0, p["cells"].pop(at))

    assert said(sealed(small, change)) == "recompute counts: the cells are not in the order of the plan"


def test_of_many_cells_amiss_the_first_of_the_plan_is_named(small: Statement) -> None:
    """Missing ones in the order of the plan, then foreign ones in that of the receipt: the same in every process."""
    ids = [cell["id"] for cell in small["predicate"]["cells"]]

    def foreign(p: Predicate) -> None:
        p["cells"] += [{"batch": 3, "counts": [], "first": [], "id": f"wish-{n}"} for n in range(40)]

    def missing(p: Predicate) -> None:
        foreign(p)
        del p["cells"][5:45]

    assert said(sealed(small, foreign)) == "recompute counts: cell wish-0 at batch 3 is foreign"
    assert said(sealed(small, missing)) == f"recompute counts: cell {ids[5]} at batch 3 is missing"


def test_forbidden_outcomes_of_a_cell_whose_others_were_all_met(small: Statement) -> None:
    """Three hundred of them, counted and named: what they come to is for a later step."""

    def change(p: Predicate) -> None:
        cell = next(cell for cell in p["cells"] if min(cell["counts"][:-1]) > 0)
        cell["counts"][-1] += 300
        p["breaches"]["illegal-token"] = 300
        p["strays"].append({"batch": cell["batch"], "cell": cell["id"], "count": 300, "outcome": 1 << 30})

    found = sealed(small, change)
    assert ("recompute counts", "ok") in [(one.name, one.outcome) for one in found.steps], said(found)


@pytest.mark.parametrize("digest", SIDES)
def test_answers_of_another_file(digest: str, small: Statement) -> None:
    found = sealed(small, lambda p: p["kernels"]["conform"][0].update(sha256=digest))
    assert said(found) == "kernels: known answers of ['propose.json', 'verify.json'], not those installed here"


def test_the_first_of_two_groups_with_too_many_failed_rows(small: Statement) -> None:
    def change(p: Predicate) -> None:
        for at in (3, 7):
            p["kernels"]["bits"][at]["failedRows"] = p["kernels"]["bits"][at]["rows"] + 1

    assert said(sealed(small, change)) == "kernels: propose/bf16/vocab-97/tau-0.0 has more failed rows than rows"


def test_groups_of_bits_are_those_that_a_gpu_ran() -> None:
    """As the newest committed receipt of one has them, which names what its kernels were compared in."""
    root = Path(__file__).resolve().parents[1] / "receipts" / "evidence" / "qualify"
    predicates = (
        canonical.decode(path.read_bytes())["predicate"] for path in sorted(root.glob("*.json"), reverse=True)
    )
    newest = next(p for p in predicates if p["sampler"]["backend"] == "cuda")
    ran = [(row["id"], row["rows"]) for row in newest["kernels"]["bits"]]
    assert ran
    assert kernels.expected_bits(campaigns.of_plan(newest["plan"]), True) == ran


@pytest.mark.parametrize("claim", ["A speedup is claimed.", ""])
def test_no_claim_is_added_to_the_non_claims(claim: str, small: Statement) -> None:
    found = sealed(small, lambda p: p["nonClaims"].append(claim))
    assert said(found) == "non-claims: not the fixed ones; nothing may be left out"


@pytest.mark.parametrize("digest", SIDES)
def test_another_digest_in_the_name(digest: str, small: Statement) -> None:
    """By the last part of it."""
    content = canonical.encode(small)
    mine = hashlib.sha256(content).hexdigest()
    found = verify(NOWHERE / f"{STAMP}-{digest}.json", content)
    assert said(found) == f"name: the bytes hash to {mine}, the name says {digest}"


def test_a_verdict_that_does_not_recompute_is_not_said(small: Statement) -> None:
    """Neither the one that the receipt says nor what it comes to."""
    found = sealed(small, lambda p: p.update(sentence="PASS: it is."))
    assert (found.failed is not None, found.verdict, found.ok) == (True, "unknown", False)


def of(*steps: tuple[str, str]) -> Verified:
    """What became of a receipt with these steps."""
    found = [Step(name=name, outcome=outcome, detail="why") for name, outcome in steps]
    return Verified(sha256="0" * 64, verdict="PASS", steps=found, current="unchecked")


def test_a_verdict_that_was_skipped_is_not_verified() -> None:
    """Nor one that was not come to; what is beside it may be skipped."""
    assert of(("verdict", "ok"), ("signature", "skip")).ok
    assert not of(("verdict", "skip"), ("signature", "ok")).ok
    assert not of(("verdict", "ok"), ("signature", "FAIL")).ok
    assert not of(("counts", "ok")).ok


@pytest.mark.parametrize("outcome", ["FAIL", "skip"])
def test_a_signature_that_does_not_hold_assures_nothing(outcome: str) -> None:
    """Also not where the assurance is read beside the failure; a replay likewise."""
    assert of(("signature", outcome), ("replay", outcome)).assurance == "self-attested"
    assert of(("signature", outcome), ("replay", "ok")).assurance == "replayed"
    assert of(("signature", "ok"), ("replay", outcome)).assurance == "signed"
