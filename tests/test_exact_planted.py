"""Planted faults: each is caught by its check and by no campaign, nothing is caught without it, the page is current."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pp3 import targets
from pp3.harness.bridge import Use
from pp3.harness.emission import Device
from pp3.harness.exact import edges, planted, planted_checks, suite
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.planted import PlantedRow
from pp3.harness.exact.planted_checks import CHECKS
from pp3.harness.exact.planted_faults import FAULTS, Edit, Fault
from pp3.harness.verdict import Verdict
from pp3.kernels import addressing, reference

PAGE = Path(__file__).parent.parent / "docs" / "exact-faults.md"
BY_ID = {fault.id: fault for fault in FAULTS}
SLOW = ("draws", "counters: keys", "invariance: proposal", "invariance: verifier", "pairs")  # a second or more
PARTS = {"acceptance": Use.ACCEPTANCE, "residual": Use.RESIDUAL, "bonus": Use.WHOLE}  # of the measured bridges


def soak_if(slow: bool) -> list[pytest.MarkDecorator]:
    """The mark of what is left to the soak."""
    return [pytest.mark.soak] if slow else []


def page_rows() -> dict[str, list[str]]:
    """The cells of the committed table by fault."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return {
        cells[0]: cells for cells in ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:])
    }


def test_every_exact_check_has_a_fault() -> None:
    assert sorted({fault.check for fault in FAULTS}) == sorted(CHECKS)
    assert len(BY_ID) == len(FAULTS)


def test_every_enumeration_and_the_bridge_has_a_check() -> None:
    """And every kind of edge, of ledger, of invariance and of the bridge a check of its own."""
    assert {check.partition(":")[0] for check in CHECKS} == {*suite.IDS, "bridge"}
    kinds = {check for check in CHECKS if ":" in check}
    assert {kind.partition(": ")[2] for kind in kinds if kind.startswith("edges")} == {
        "acceptance",
        *(kind.replace("-", " ") for kind in edges.KINDS),
    }
    assert {kind.partition(": ")[2] for kind in kinds if kind.startswith("bridge")} == {"draws", *PARTS}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.id, marks=soak_if(fault.check in SLOW)) for fault in FAULTS]
)
def test_the_check_catches_its_fault(fault: Fault) -> None:
    assert planted.differs(fault)


@pytest.mark.parametrize("name", [pytest.param(name, marks=soak_if(name in SLOW)) for name in CHECKS])
def test_the_check_says_nothing_without_a_fault(name: str) -> None:
    """And looks at something."""
    expected = CHECKS[name].expect()
    assert expected
    assert differences(CHECKS[name].observe(), expected) == []


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.check.partition(": ")[2] in PARTS], ids=lambda f: f.id
)
def test_a_part_of_a_round_is_caught_where_it_is(fault: Fault) -> None:
    """A check of another part of the verifier says nothing of it."""
    kind, _, part = fault.check.partition(": ")
    for other in PARTS.keys() - {part}:
        assert planted.differs(replace(fault, check=f"{kind}: {other}")) == []


@pytest.mark.parametrize("kind", ["residual", "bonus"])
def test_the_measured_laws_are_those_of_the_semantics(kind: str) -> None:
    """Every count of the 2^64 values of w64, found by halving."""
    for pair in edges.pairs((planted_checks.MEASURED,)):
        law = edges.law(pair, kind)
        shares = {token: int(law[token]) for token in np.flatnonzero(law).tolist()}
        assert shares
        assert planted_checks._hits(pair, kind) == Device().draw(shares)[0]


def qualified(fault: Fault) -> PlantedRow:
    """A row whose message and verdict are the page's."""
    row = planted.row(fault)
    assert row.message
    assert row.verdict is Verdict.PASS
    assert row.ratio > 1
    cells = page_rows()[fault.id]
    assert cells[1:5] == [fault.wrong, fault.check, f"`{row.message}`", "PASS"]
    return row


def test_a_campaign_misses_what_the_tree_sees() -> None:
    qualified(BY_ID["words-of-the-next-position"])


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_campaign_misses_every_fault(fault: Fault) -> None:
    qualified(fault)


def test_the_page_has_a_row_a_fault() -> None:
    rows = page_rows()
    assert list(rows) == [fault.id for fault in FAULTS]
    for fault in FAULTS:
        assert rows[fault.id][1:3] == [fault.wrong, fault.check]
        assert rows[fault.id][4] == "PASS"
    assert PAGE.read_text("utf-8").startswith(planted.page([]))


def test_the_table_says_what_was_not_caught() -> None:
    row = PlantedRow(fault=FAULTS[0], message="", verdict=Verdict.PASS, ratio=1234.5)
    last = planted.table([row]).splitlines()[-1]
    assert last == f"| {FAULTS[0].id} | {FAULTS[0].wrong} | {FAULTS[0].check} | not caught | PASS | 1,234 |"


def test_edits_are_taken_back() -> None:
    """Also after an exception, and wherever a function was imported."""
    places = [
        (owner, edit.function) for fault in FAULTS for edit in fault.edits for owner in (edit.owner, *edit.importers)
    ]
    before = [getattr(owner, name) for owner, name in places]
    for fault in FAULTS:
        with contextlib.suppress(KeyError), planted.planted(fault):
            for edit in fault.edits:
                for owner in (edit.owner, *edit.importers):
                    assert getattr(owner, edit.function) is not before[places.index((owner, edit.function))]
            raise KeyError
        assert [getattr(owner, name) for owner, name in places] == before


def test_an_edit_of_a_text_that_is_gone_is_refused() -> None:
    fault = replace(FAULTS[0], edits=(Edit("words", "no such text", "", addressing),))
    with pytest.raises(ValueError, match="holds 'no such text' 0 times; want once"), planted.planted(fault):
        pass


def test_the_low_exponential_moves_tickets_of_the_campaign() -> None:
    """Unseen is not unmet: tickets of the campaign's own rows are others, by a few of 2^24."""
    moved = 0
    for name in targets.NAMES:
        logits = targets.build(name).draft_logits
        right = reference.allocate(logits).tickets
        with planted.planted(BY_ID["exponential-one-ulp-low"]):
            moved += int(np.abs(reference.allocate(logits).tickets - right).sum())
    assert 0 < moved < 100
