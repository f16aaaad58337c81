"""What verify decides of a small receipt, and says: one thing changed, sealed anew, and the whole reason that follows.

The suites of test_verify.py and test_tamper.py ask at which step a change is refused; here each limit is met from both
sides, and every word is held.
"""

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from built import Statement
from decided import (
    COMPILED,
    PIECE,
    Change,
    Predicate,
    in_pieces,
    more,
    on_a_gpu,
    said,
    sealed,
    small_of,
    wired_of,
)

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.campaign import Campaign
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import kernels, provenance, rows, step
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed


@pytest.fixture(scope="module")
def small(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """Of two targets, depths and batch sizes; copy before changing."""
    return small_of(measure)


@pytest.fixture(scope="module")
def wired(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """The same over the wire, of one target; copy before changing."""
    return wired_of(measure)


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
