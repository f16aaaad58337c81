"""Planted faults run through the battery: each caught by its named check, those marked sole by nothing else."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pp3.harness.cells import Event
from pp3.harness.cli import run
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.faults import CONTROLS, FAULTS, command, matrix, seed_table, texts
from pp3.harness.faults.acceptance import Swapped
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.faults.matrix import One, Order
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.faults.peers import RULES
from pp3.harness.faults.tried import BREACH, FORBIDDEN, INVALID
from pp3.harness.faults.triton_fault import CONTROL, TextControl, TextFault
from pp3.harness.faults.triton_text import SEEN_BY

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "faults.md"
ALL = matrix.every()
ONE = Order()
CHECKS = {event.value for event in Event}
SOLE = [fault for fault in FAULTS if fault.sole]
SMOKE = ["K1/exchanged-ids", "K8-037", "K13-062", "K14/columns", "K11-053/positions", "K1-006"]
TEXTS = ["tickets-rounded", "draw-le"]
FIELDS = {"id", "verdict", "caught_by", "witness", "sole", "marginal", "ships", "requests", "seeds", "caught"}
FIELDS |= {"cause", "about", "report", "effect", "seconds", "cpu_seconds", "fast"}


def fault_of(id: str) -> Fault:
    """A fault of a law."""
    found = ALL[id]
    assert isinstance(found, Fault)
    return found


def text_of(id: str) -> TextFault:
    """A fault in a text."""
    found = ALL[id]
    assert isinstance(found, TextFault)
    return found


def test_there_are_a_hundred_and_sixty_and_they_come_in_order() -> None:
    kinds = [type(one) for one in ALL.values()]
    assert len(ALL) >= 160
    assert kinds == sorted(kinds, key=[Fault, TextFault, TextControl, Control].index)


def test_the_smoke_subset_has_every_check() -> None:
    tried = {fault.witness for fault in SOLE} | {fault_of(id).witness for id in SMOKE}
    assert tried >= CHECKS | {FORBIDDEN, BREACH, INVALID}


@pytest.mark.parametrize("fault", [*SOLE, *map(fault_of, SMOKE)], ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_the_named_check(fault: Fault) -> None:
    found = matrix.row(fault, ONE)
    exact = fault.witness.startswith("exact:")
    assert found.verdict is (Outcome.EXACT_ONLY if exact else Outcome.CAUGHT), found
    assert (found.caught, found.seeds) == (1, 1)
    assert fault.witness in found.caught_by or exact
    assert found.ships is not None
    assert found.ships.keys() == {rule.name for rule in RULES}
    if fault.sole:
        assert found.caught_by == [fault.witness]


@pytest.mark.parametrize("id", TEXTS)
def test_a_fault_in_a_text_is_caught_by_the_named_check(id: str) -> None:
    found = texts.few(text_of(id))
    assert found.caught_by == [found.witness] == [text_of(id).seen]
    assert found.verdict is (Outcome.EXACT_ONLY if id == "draw-le" else Outcome.CAUGHT)
    assert (found.marginal, found.ships, found.requests) == (None, None, 0)
    assert found.effect


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.id)
def test_a_control_passes(control: Control) -> None:
    found = matrix.row(control, ONE)
    assert (found.verdict, found.caught_by, found.witness) == (Outcome.CONTROL_PASS, [], ""), found.effect


def test_the_unchanged_text_passes() -> None:
    found = texts.few(CONTROL)
    assert (found.verdict, found.caught_by, found.caught) == (Outcome.CONTROL_PASS, [], 1)


def test_few_rows_decide_on_a_cpu_and_a_trial_on_a_gpu_what_it_can() -> None:
    """On a GPU what a record names is an event of a trial; else few rows have a check."""
    for one in ALL.values():
        if isinstance(one, TextFault | TextControl):
            assert texts.of_rows(one, "cpu")
        if isinstance(one, TextFault):
            assert one.seen in SEEN_BY
            assert texts.of_rows(one, "cuda") != (one.witness in CHECKS | {FORBIDDEN, BREACH, INVALID})
    assert not texts.of_rows(CONTROL, "cuda")


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_seed_is_a_seed(seeds: int) -> None:
    """Rows count the seeds at which the named check fired, and a first seed gives the same row whatever follows."""
    few = matrix.row(fault_of("K1-004/pipeline"), Order(seeds=seeds))
    assert (few.seeds, few.caught) == (seeds, seeds)
    assert few.caught_by == matrix.row(fault_of("K1-004/pipeline"), ONE).caught_by


# The command, with catalogues of its own: a fault whose witness is wrong, a control that is faulty.

WRONG_WITNESS = replace(fault_of("K8-037"), id="wrong-witness", witness="joint")
FAULTY_CONTROL = Control(id="C0/faulty", about="upside down", sampler=Swapped, targets=("near",), requests=2_000)
SILENT = replace(text_of("draw-le"), id="silent-text", witness="bits", seen="bits")


def said(capsys: pytest.CaptureFixture[str], catalogue: dict[str, One], **options: object) -> tuple[int, str]:
    """Exit code and standard output of the command."""
    given = {"only": (), "seeds": 1, "jobs": 1, "device": "cpu", "requests": None, "as_json": False, "markdown": False}
    code = command.run_command(**given | options, catalogue=catalogue)  # type: ignore[arg-type]  # as click gives them
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("one", "verdict"), [(WRONG_WITNESS, "ESCAPED"), (FAULTY_CONTROL, "CONTROL-FAIL"), (SILENT, "ESCAPED")]
)
def test_what_does_not_come_out_as_it_must_is_an_exit_of_1_and_comes_first(
    one: One, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = fault_of("K8-037")
    code, out = said(capsys, {good.id: good, one.id: one})
    assert code == Exit.NEGATIVE
    first, _, _, worst, *_ = out.splitlines()
    assert first.startswith("FAIL: 1 of 2 did not come out as it must: 1 CAUGHT, ")
    assert re.match(rf"{one.id} +{verdict}", worst)
    assert said(capsys, {good.id: good, one.id: one}, only=(good.id,))[0] == Exit.OK


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Exactly one key, a list in the order that was asked for, null where there is nothing to say."""
    assert run(["faults", "--json", "--jobs", "2", "--only", "C0/plain", "--only", "tickets-rounded"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["faults"]
    control, text = found["faults"]
    for row in (control, text):
        assert row.keys() == FIELDS
        assert list(row)[:3] == ["id", "verdict", "caught_by"]
    assert (control["id"], control["verdict"], control["caught_by"]) == ("C0/plain", "CONTROL-PASS", [])
    assert (control["marginal"], control["ships"].keys()) == (False, {rule.name for rule in RULES})
    assert (text["id"], text["verdict"], text["caught_by"]) == ("tickets-rounded", "CAUGHT", ["bits"])
    assert text["marginal"] is text["ships"] is None


def a_row(**more: object) -> Row:
    """A row of the table."""
    given: dict[str, object] = {
        "id": "K1-001",
        "cause": "made up",
        "about": "nothing",
        "report": "none",
        "witness": "token",
        "sole": False,
        "verdict": Outcome.CAUGHT,
        "caught_by": ["token", *sorted(CHECKS - {"token"})],
        "marginal": True,
        "ships": {rule.name: False for rule in RULES},
        "requests": 20_000,
        "seeds": 1,
        "caught": 1,
        "effect": "",
        "seconds": 1.0,
    }
    return Row(**given | more)  # type: ignore[arg-type]  # names and types are Row's own


@pytest.mark.parametrize("seeds", [1, 100_000])
@pytest.mark.parametrize("verdict", [Outcome.CAUGHT, Outcome.ESCAPED])
def test_the_table_fits_a_terminal(seeds: int, verdict: Outcome) -> None:
    """Of the longest id and every check: cut with the number of those that are left out."""
    longest = max(ALL, key=len)
    _, *told = command.lines([a_row(id=longest, verdict=verdict, seeds=seeds, caught=seeds, witness="round-match")])
    assert max(map(len, told)) <= 80
    row = " ".join(told[2:-2])
    assert re.search(r"\+\d+", row)
    assert ("round-match*" in row) == (verdict is Outcome.CAUGHT)
    assert row.startswith(longest)


def test_the_table_says_what_does_not_apply() -> None:
    told = command.lines([a_row(marginal=None, ships=None), a_row(id="other", marginal=False, caught_by=[])])
    assert [line.split()[2] for line in told[3:5]] == ["-", "misses"]
    assert "misses 1 of 1" in told[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "K1-01"], "--only K1-01: no such fault; did you mean 'K1-001'?"),
        (["--only", "tickets-round"], "did you mean 'tickets-rounded'?"),
        (["--only", "*"], r"there are \d+: pp3 faults --json lists them"),
        (["--seeds", "0"], "--seeds 0; it must be from 1 to 100,000"),
        (["--jobs", "0"], "--jobs 0; it must be from 1 to 64"),
        (["--jobs", "65"], "--jobs 65; it must be from 1 to 64"),
        (["--requests", "1000"], "--requests 1000: it is for kernels on a GPU, and this is --device cpu"),
        (["--requests", "0", "--device", "cuda"], "--requests 0; it must be from 1 to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_for_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["faults", *options]) == Exit.USAGE
    spoken = capsys.readouterr()
    assert re.search(message.replace("?", r"\?").replace("*", r"\*"), spoken.err), spoken.err
    assert spoken.out == ""


def test_a_catalogue_of_ones_own_is_the_one_that_is_searched() -> None:
    with pytest.raises(CampaignError, match="there are 0"):
        command.run_command(("K1-001",), 1, 1, "cpu", None, False, False, catalogue={})


# The page.


def of_page(heading: str) -> list[list[str]]:
    """Cells of a table's rows."""
    part = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return rows[1:]


def test_the_page_lists_the_catalogue() -> None:
    named = {
        one.id: one.witness if isinstance(one, Fault) else one.seen if isinstance(one, TextFault) else ""
        for one in ALL.values()
    }
    assert {row[0]: row[5].strip() for row in of_page("Who catches what")} == named
    assert not {row[4] for row in of_page("Who catches what")} & {"ESCAPED", "CONTROL-FAIL"}
    numeric = [id for id, one in ALL.items() if isinstance(one, Fault | Control)]
    assert [row[0] for row in of_page("What peers would ship")][1:] == numeric


@pytest.fixture(scope="module")
def everything() -> Sequence[Row]:
    """The whole matrix."""
    return list(matrix.rows(ALL.values(), ONE, 2))


@pytest.mark.soak
def test_nothing_escapes_and_every_control_passes(everything: Sequence[Row]) -> None:
    assert [row.id for row in everything if not row.good] == []
    assert [row.id for row in everything] == list(ALL)


@pytest.mark.soak
def test_the_page_is_what_the_command_writes(everything: Sequence[Row]) -> None:
    written = command.page(everything) + seed_table.committed(ROOT)
    assert PAGE.read_text("utf-8") == written, "run pp3 faults --markdown > docs/faults.md"
