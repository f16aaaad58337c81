"""What verify refuses of the counts of a small receipt and of what follows from them, to the word."""

import copy
from collections.abc import Callable

import pytest
from built import Statement
from decided import (
    Change,
    Predicate,
    more,
    named,
    put,
    said,
    sealed,
    small_of,
    stray,
)

from pp3.harness.campaign import Campaign
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed

UNDECIDED = [
    f"sparse-tail/depth-{depth}/{what}: too few events for two groups of cells"
    for depth in (4, 5)
    for what in ("bonus", "residual/position-0")
]


@pytest.fixture(scope="module")
def small(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """Of two targets, depths and batch sizes; copy before changing."""
    return small_of(measure)


def fewer(p: Predicate) -> None:
    """One draft fewer in the first half, of an atom that was met there."""
    first = p["cells"][0]["first"]
    first[first.index(max(first))] -= 1


DECIDED: dict[str, tuple[Change, str]] = {
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
