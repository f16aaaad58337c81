"""Faults at many seeds: how many are run of which, what they come to, and the table of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.errors import CampaignError
from pp3.harness.faults import matrix, seed_table, seeds
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.matrix import Order
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.seeds import ENOUGH, FAST, SLOW, Again, joined, more, verdict_of

ROOT = Path(__file__).resolve().parents[1]
ALL = matrix.every()


def law(id: str) -> Fault | Control:
    """A fault of a law, or a control."""
    found = ALL[id]
    assert isinstance(found, Fault | Control)
    return found


SWIFT = law("K8-037")


@pytest.fixture(scope="module")
def first() -> Row:
    """The row of a fault's first seed."""
    return seeds.first(SWIFT, "cpu")


@pytest.mark.parametrize(
    ("fast", "witness", "asked", "run"),
    [
        (True, "token", 1, 1),
        (True, "token", 2, 2),
        (True, "token", 100, 100),
        (False, "token", 100, SLOW),
        (False, "token", SLOW - 1, SLOW - 1),
        (False, "token", 1, 1),
        (True, "exact:draws", 100, 1),
        (False, "", 100, SLOW),
    ],
)
def test_how_many_seeds_are_run(first: Row, fast: bool, witness: str, asked: int, run: int) -> None:
    """Counters from 2 on, after the first."""
    counters = more(replace(first, fast=fast, witness=witness), asked)
    assert list(counters) == list(range(2, run + 1))


def test_fast_is_what_the_rule_says(first: Row) -> None:
    assert first.fast is (first.cpu_seconds <= FAST)
    assert first.cpu_seconds > 0
    assert (first.seeds, first.caught, first.verdict) == (1, 1, Outcome.CAUGHT)


@pytest.mark.parametrize(
    ("caught", "run", "verdict"),
    [
        (1, 1, Outcome.CAUGHT),
        (0, 1, Outcome.ESCAPED),
        (9, 10, Outcome.ESCAPED),
        (99, 100, Outcome.CAUGHT),
        (98, 100, Outcome.ESCAPED),
        (197, 199, Outcome.ESCAPED),
        (198, 200, Outcome.CAUGHT),
    ],
)
def test_ninety_nine_of_a_hundred_are_enough(caught: int, run: int, verdict: Outcome) -> None:
    assert ENOUGH == 99
    assert verdict_of(SWIFT, caught, run) is verdict


@pytest.mark.parametrize(("caught", "verdict"), [(100, Outcome.CONTROL_PASS), (99, Outcome.CONTROL_FAIL)])
def test_a_control_must_pass_all(caught: int, verdict: Outcome) -> None:
    assert verdict_of(law("C3"), caught, 100) is verdict


def test_seeds_are_joined(first: Row) -> None:
    """Those that missed are counted; processor seconds are their mean; everything else is the first seed's."""
    later = [Again(caught=number != 3, cpu_seconds=2.0) for number in range(4)]
    found = joined(SWIFT, first, later)
    assert (found.seeds, found.caught, found.verdict) == (5, 4, Outcome.ESCAPED)
    assert found.cpu_seconds == pytest.approx((first.cpu_seconds + 8) / 5)
    assert replace(found, seeds=1, caught=1, verdict=Outcome.CAUGHT) == first
    assert joined(SWIFT, first, []) is first


def test_processes_give_the_rows_that_one_gives() -> None:
    """Each seed anywhere, in the order that was asked for: faults, an enumeration."""
    wanted = [law(id) for id in ("K8-037", "K1-006", "K13-062")]
    order = Order(seeds=2)
    beside = list(matrix.rows(wanted, order, 2))
    assert beside == [matrix.row(one, order) for one in wanted]
    assert [row.seeds for row in beside] == [2, 1, 2]


def a_row(**more: Any) -> dict[str, Any]:
    """One of the JSON."""
    said = {"id": "K1-001", "witness": "token", "verdict": "CAUGHT", "requests": 20_000, "seeds": 100, "caught": 100}
    return said | {"cpu_seconds": 0.5, "fast": True} | more


ROWS = [
    a_row(),
    a_row(id="K1-002", caught=99),
    a_row(id="K1-003", seeds=10, caught=10, fast=False, cpu_seconds=4.25),
    a_row(id="C1", witness="", verdict="CONTROL-PASS"),
    a_row(id="K1-006", witness="exact:draws", seeds=1, caught=1),
    a_row(id="draw-le", witness="bits", requests=0, seeds=1, caught=1),
]


def test_the_table_says_the_number_run_for_each() -> None:
    """Faults of a law and controls alone: an enumeration has no seed, and a few rows have none either."""
    said = seed_table.section(ROWS)
    assert "| K1-002 | token | 99 | 100 | 0.50 | yes |" in said
    assert "| K1-003 | token | 10 | 10 | 4.25 | no |" in said
    assert "| C1 | none: a control | 100 | 100 | 0.50 | yes |" in said
    assert "K1-006" not in said
    assert "draw-le" not in said
    assert said.index("| K1-002") < said.index("| K1-001")
    assert "4 faults of a law and controls, 310 seeds, 192 CPU seconds" in said
    assert "1 of all seeds came out otherwise; every fault is caught and every control passes." in said
    worse = seed_table.section([*ROWS, a_row(id="K2-008", caught=50, verdict="ESCAPED")])
    assert "not as it must: K2-008." in worse


def test_the_section_is_written_into_the_page(tmp_path: Path) -> None:
    """At its end, and anew where it is there."""
    (tmp_path / "docs").mkdir()
    page = tmp_path / seed_table.PAGE
    page.write_text("# Planted faults\n", "utf-8")
    with pytest.raises(CampaignError, match=r"no docs/faults-seeds\.json here; make it: pp3 faults --seeds 100"):
        seed_table.write(tmp_path)
    assert seed_table.committed(tmp_path) == ""
    for rows in (ROWS[:1], ROWS):
        (tmp_path / seed_table.MEASURED).write_text(json.dumps({"faults": rows}), "utf-8")
        seed_table.write(tmp_path)
        assert page.read_text("utf-8") == "# Planted faults\n" + seed_table.committed(tmp_path)
    assert page.read_text("utf-8").count(seed_table.BEGIN) == 1


def test_what_is_kept_is_of_this_catalogue_and_on_the_page() -> None:
    """Every fault of a law and every control by its named check, fast ones at a hundred seeds, none bad; or there is
    none, and the page says nothing of it."""
    kept = seed_table.committed(ROOT)
    _, _, said = (ROOT / seed_table.PAGE).read_text("utf-8").partition(seed_table.HEADING)
    assert said == kept.removeprefix(seed_table.HEADING)
    if not kept:
        return
    rows = json.loads((ROOT / seed_table.MEASURED).read_text("utf-8"))["faults"]
    named = {
        one.id: one.witness if isinstance(one, Fault) else ""
        for one in ALL.values()
        if isinstance(one, Fault | Control)
    }
    assert {row["id"]: row["witness"] for row in rows if row["requests"]} == named
    for row in rows:
        assert row["verdict"] not in ("ESCAPED", "CONTROL-FAIL"), row["id"]
        if row["requests"] and not row["witness"].startswith("exact:"):
            assert row["seeds"] >= (100 if row["fast"] else SLOW), row["id"]
            assert 100 * row["caught"] >= ENOUGH * row["seeds"], row["id"]
