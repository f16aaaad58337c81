"""The explained checks: every check that anything emits has an entry, and what an entry says is what the code does."""

import json
import re
from pathlib import Path

import pytest

from pp3.harness import campaign, design, scoreboard, tally, verdict
from pp3.harness.battery import judge
from pp3.harness.cells import Event
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.engine import checkpoint, plan
from pp3.harness.engine import judge as engine_judge
from pp3.harness.engine import planted as engine_planted
from pp3.harness.engine.cells import Look
from pp3.harness.engine.law import logits_of
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.engine.tally import BREACHES as ENGINE_BREACHES
from pp3.harness.engine.tally import TIES
from pp3.harness.engine.tensors import Loaded
from pp3.harness.exact import suite
from pp3.harness.exact.pairs import excluded_rate
from pp3.harness.explain import table
from pp3.harness.explain.entry import CAUSES, STATISTICS, Part
from pp3.harness.faults import matrix, tried
from pp3.harness.power import Unit
from pp3.harness.probe.plan import FLOORS, OURS
from pp3.harness.probe.plan import Part as Timed
from pp3.harness.transport.path import SEEN
from pp3.targets import chains

ROOT = Path(__file__).resolve().parents[1]
BATTERY = {entry.name: entry for entry in table.ENTRIES if entry.part is Part.BATTERY}
CAMPAIGN = campaign.load(None)
CHECKS = design.design(CAMPAIGN)
NAME = "chain-64"


def test_names_and_words_are_unlike() -> None:
    assert len(table.NAMES) == len(table.ENTRIES)
    for entry in table.ENTRIES:
        assert table.find(entry.name) is entry
        assert table.find(entry.word) is not None
        assert (ROOT / entry.page).is_file()


@pytest.mark.parametrize("event", Event)
def test_the_battery_is_as_the_design_says(event: Event) -> None:
    """Kind, family, whether a PASS needs it, how it is decided; nothing of it is written down twice unchecked."""
    entry = BATTERY[event.value]
    assert entry.family is design.FAMILY[event]
    assert entry.required == (event in design.REQUIRED)
    assert set(entry.methods) <= {method.value for method in design.Method} == set(STATISTICS)
    mine = [check for check in CHECKS if check.event is event]
    assert {check.method.value for check in mine if check.decides} <= set(entry.methods)
    assert bool(mine) == bool(entry.default)


def test_the_battery_has_no_other_entry() -> None:
    assert set(BATTERY) == {event.value for event in Event}


@pytest.mark.parametrize("name", [name for name, entry in BATTERY.items() if entry.default])
def test_figures_of_the_default_campaign_are_computed(name: str) -> None:
    """Number of checks, level and smallest effect, as the scoreboard of the campaign prints them."""
    entry = BATTERY[name]
    assert entry.default is not None
    nothing = {cell.id: [0] * (len(cell.atoms) + 1) for cell in verdict.all_cells(CAMPAIGN)}
    mine = [check for check in CHECKS if check.event == name]
    deciding = [test for check in mine if (test := judge(check, nothing, CAMPAIGN.spec.power)).decides]
    assert len(deciding) == entry.default.checks
    assert {f"{test.alpha:.2g}" for test in deciding} == {f"{table.level(entry):.2g}"}
    row = next(line for line in scoreboard._kinds(deciding) if line.startswith(f"{name} "))
    assert row.endswith(entry.default.sees)
    assert CAMPAIGN.spec.requests == table.CAMPAIGN_REQUESTS
    assert f"{CAMPAIGN.spec.alpha:g}" in table.share(entry)
    assert f"power {CAMPAIGN.spec.power:g}" in table.power(entry)


def test_levels_of_the_default_campaign_sum_to_alpha() -> None:
    spent = sum(table.level(entry) * entry.default.checks for entry in BATTERY.values() if entry.default)
    assert spent == pytest.approx(CAMPAIGN.spec.alpha)


def test_every_committed_check_is_found() -> None:
    """Each test, group of bits, exact check and enumeration of a receipt of every kind leads to its kind."""
    for folder in (ROOT / "receipts" / "evidence").iterdir():
        path = max(folder.glob("*.json"))
        predicate = json.loads(path.read_bytes())["predicate"]
        engine = predicate["kind"] == "engine"
        for test in predicate.get("tests", []):
            found = table.find(test["id"], engine)
            assert found is not None, test["id"]
            assert found.name == ("engine:" if engine else "") + test["event"]
            assert test.get("method", "g") in found.methods or found.part is Part.ENGINE
        for row in predicate.get("exact", []):
            found = table.find(row["id"], engine)
            assert found is not None, row["id"]
            assert found.part is Part.ANSWERS, row["id"]
        for row in predicate.get("kernels", {}).get("bits", []):
            assert table.find(row["id"]) is table.NAMES["bits"], row["id"]
        for row in predicate.get("enumerations", []):
            assert table.find(row["id"]) is not None, row["id"]
        for row in predicate.get("cases", []):
            assert getattr(table.find(row["id"]), "part", None) is Part.PROBE, row["id"]
        if predicate["kind"] == "calibration":
            judged = {name for name, rows in predicate["figures"].items() if all("held" in row for row in rows)}
            words = {entry.word for entry in table.ENTRIES if entry.part is Part.CALIBRATION}
            assert words == judged | {"distinct"}


def test_every_exact_check_has_an_entry() -> None:
    assert {name for name in suite.IDS if table.find(name) is None} == set()
    assert {name for name in tally.BREACHES if table.find(name) is None} == set()
    assert {name for name in KNOWN_ANSWERS if table.find(name) is not table.NAMES["answers"]} == set()
    assert f"{excluded_rate(100_000):.2g} at {1e-5:g}" in table.NAMES["pairs"].sees


def test_every_witness_of_a_planted_fault_has_an_entry() -> None:
    """And the faults that an entry names have it as their named check, and are of the causes that it names."""
    known = matrix.every()
    witnesses = {one.id: str(getattr(one, "witness", "")) for one in known.values()}
    entries = {witness: table.find(witness) for witness in witnesses.values() if witness and witness != "exact:columns"}
    assert [witness for witness, entry in entries.items() if entry is None] == []
    for witness, entry in entries.items():
        assert entry is not None
        mine = {name for name, seen in witnesses.items() if seen == witness}
        assert set(entry.planted) <= mine, entry.name
        classes = {int(found[1]) for name in mine if (found := re.match(r"K(\d+)", name))}
        assert set(entry.causes) >= classes, f"{witness} is the named check of faults of {sorted(classes)}"
    assert {tried.FORBIDDEN, tried.BREACH, tried.INVALID} <= set(table.NAMES)


def test_the_causes_are_those_of_the_catalogue() -> None:
    classes = {int(found[1]) for name in matrix.every() if (found := re.match(r"K(\d+)", name))}
    assert classes <= set(CAUSES)
    assert {number for entry in table.ENTRIES for number in entry.causes} <= set(CAUSES)


def test_the_engine_is_as_its_judge_says() -> None:
    """Every look and exact check of an engine that can do everything; what a PASS needs."""
    chain = chains.build(NAME)
    target, draft = (
        logits_of(checkpoint.tensors_of(chain, role), chain, Loaded.FLOAT32, checkpoint.EPSILON)
        for role in checkpoint.ROLES
    )
    engine = ReferenceEngine(target, chain.class_of, chain.end, draft)
    made = plan.make(plan.EngineSpec(target=NAME, draft=True), engine.facts)
    for look in Look:
        entry = table.NAMES[f"engine:{look.value}"]
        mine = [check for check in made.checks if check.cell.look is look]
        assert mine
        assert entry.required == any(check.cell.required for check in mine)
        coins = {"binomial" if len(c.cell.probabilities) == 2 and c.cell.df == 1 else "g" for c in mine if c.alpha}
        assert set(entry.methods) == (coins or {"g"}), look
        assert {table.find(check.id, engine=True) for check in mine} == {entry}
    for name in [*engine_judge.exact_checks(made), TIES, *ENGINE_BREACHES]:
        assert getattr(table.find(name, engine=True), "part", None) is Part.ANSWERS, name
    assert made.spec.alpha == CAMPAIGN.spec.alpha


def test_faults_of_engines_are_caught_by_the_checks_that_name_them() -> None:
    by_entry: dict[str, set[str]] = {}
    for fault in engine_planted.FAULTS:
        found = table.find(fault.check, engine=True)
        assert found is not None, fault.check
        by_entry.setdefault(found.name, set()).add(fault.name)
    named = {entry.name: set(entry.planted) for entry in table.ENTRIES if entry.part in (Part.ENGINE, Part.ANSWERS)}
    assert {name: faults for name, faults in named.items() if faults} == by_entry


def test_words_of_the_wire_and_of_a_probe_are_found() -> None:
    for word in SEEN:
        assert word == "failed" or table.find(word) is table.NAMES["wire:losses"], word
        assert word in table.NAMES["wire:losses"].aliases
    for word in (*FLOORS, OURS, *Timed, "PROBED"):
        assert getattr(table.find(word), "part", None) is Part.PROBE, word


def test_every_word_for_an_effect_is_in_the_table() -> None:
    """The units of what the default campaign sees are the code's."""
    short = {entry.default.sees.rpartition(" ")[0] for entry in BATTERY.values() if entry.default}
    assert short <= {"TV", *(unit.value for unit in Unit)}
