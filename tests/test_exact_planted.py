"""Planted faults: each is caught by its check and by no campaign, nothing is caught without it, the page is current."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pp3 import targets
from pp3.harness.exact import planted
from pp3.harness.exact.planted import CHECKS, FAULTS, Edit, Fault, PlantedRow
from pp3.harness.verdict import Verdict
from pp3.kernels import addressing, reference

PAGE = Path(__file__).parent.parent / "docs" / "exact-faults.md"
BY_ID = {fault.id: fault for fault in FAULTS}
SLOW = ("counters", "pairs")  # checks of a second or more


def marked(fault: Fault) -> bool:
    """Whether a fault's check is left to the soak."""
    return fault.check in SLOW


def cases(chosen: Callable[[Fault], bool]) -> list[object]:
    """Faults as parameters; those chosen are soak."""
    return [pytest.param(fault, id=fault.id, marks=[pytest.mark.soak] if chosen(fault) else []) for fault in FAULTS]


def page_rows() -> dict[str, list[str]]:
    """The cells of the committed table by fault."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return {
        cells[0]: cells for cells in ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:])
    }


def test_every_exact_check_has_a_fault() -> None:
    assert sorted({fault.check for fault in FAULTS}) == sorted(CHECKS)
    assert len(BY_ID) == len(FAULTS)


@pytest.mark.parametrize("fault", cases(marked))
def test_the_check_catches_its_fault(fault: Fault) -> None:
    assert planted.differs(fault)


@pytest.mark.parametrize("fault", cases(marked))
def test_the_check_says_nothing_without_it(fault: Fault) -> None:
    assert planted.differs(replace(fault, edits=())) == []


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
@pytest.mark.parametrize("fault", cases(lambda fault: False))
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
