"""The list of planted faults: whole and distinct, each with a witness, each caught where that can be tried."""

import hashlib
import re
from collections import Counter
from typing import Any

import pytest

from pp3.harness.faults import CONTROLS, FAULTS
from pp3.harness.faults.acceptance import ENGINE_FAULTS
from pp3.harness.faults.fault import Fault, Shows
from pp3.harness.samplers.contract import Kind
from pp3.harness.seeds import Seed
from pp3.harness.trial.api import describe, plan
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import TrialSpec
from pp3.harness.trial.run import run
from pp3.harness.verdict import Verdict

ALL = (*FAULTS, *(fault for fault in ENGINE_FAULTS if fault not in FAULTS))
NUMBERS = {  # of the rows of the catalogue of reported faults, by cause
    1: range(1, 8),
    2: range(8, 13),
    3: range(13, 16),
    4: range(16, 21),
    5: range(21, 26),
    6: range(26, 28),
    7: range(28, 34),
    8: range(34, 38),
    9: range(38, 43),
    10: range(43, 50),
    11: range(50, 57),
    12: range(57, 62),
    13: range(62, 67),
    14: range(67, 70),
    15: range(70, 73),
}
CORE = (
    *(1, 2, 3, 4, 6, 8, 9, 10, 13, 14, 16, 17, 18, 21, 22, 23, 26, 28, 29, 34, 36, 38, 40, 41, 43, 47, 50, 51, 52, 57),
    *(59, 62, 63, 64, 68, 70, 72),
)
ROWS = {f"K{cause}-{number:03}": number for cause, numbers in NUMBERS.items() for number in numbers}
NOT_PLANTED = {
    "K2-012": "no target has a proposal below 6e-8, where half precision underflows: its law is the null's on all",
    "K3-014": "stop handling concerns an engine: the contract has no stop token",
    "K3-015": "needs the draft state of a second round: a request has one here",
    "K5-023": "needs penalties, which are state of an engine: the contract has none",
    "K5-025": "needs penalties, as K5-023",
    "K6-027": "a row without a legal token is no law: it is input to be refused, not sampled",
    "K9-042": "the cause of K9-040 again: a uniform of 1",
    "K10-048": "sums of the cases near top-p 1 are exact in FP32; K13-065 is what it comes to",
    "K12-058": "the cause of K12-061 again: a seed by slot",
    "K12-060": "needs a captured graph and a second seed: nothing of it is in one trial",
    "K15-070": "logprobs are no part of the contract",
    "K15-071": "logprobs are no part of the contract",
}
CHECKS = {
    *("token", "full-target", "bonus", "length", "proposal", "accept", "kept", "residual", "prefix", "match", "pair"),
    *("length-pair", "recovery", "repeat", "rare-cell", "fit", "joint", "round-match"),
}
NEVER_ALONE = {"kept"}  # harness/faults/alone.py says why
HARD = {"forbidden", "breach", "invalid"}
EXACT = {f"exact:{name}" for name in ("draws", "edges", "exponential", "counters", "invariance", "pairs", "replay")}
NOW = {
    "token",
    "full-target",
    "bonus",
    "length",
    "proposal",
    "residual",
    "joint",
}  # test_faults_matrix.py has the others


def test_ids_are_distinct_and_name_a_cause() -> None:
    assert max(Counter(fault.id for fault in ALL).values()) == 1
    for fault in ALL:
        assert re.fullmatch(r"K\d+(-\d{3})?(/[a-z-]+)?|(dose|sole)-[a-z0-9.-]+(/[a-z-]+)?", fault.id), fault.id
        row = fault.id.partition("/")[0]
        assert row in ROWS or "-" not in row or row.startswith(("dose", "sole")), f"{fault.id} is no row"


def test_every_row_is_planted_or_says_why_not() -> None:
    planted = {fault.id.partition("/")[0] for fault in ALL}
    assert planted & NOT_PLANTED.keys() == set()
    assert ROWS.keys() <= planted | NOT_PLANTED.keys()
    assert {row for row, number in ROWS.items() if number in CORE} & NOT_PLANTED.keys() == {
        "K3-014",
        "K5-023",
        "K15-070",
    }


def test_there_are_many() -> None:
    assert len(FAULTS) >= 60
    assert len({control.id for control in CONTROLS}) == len(CONTROLS)
    assert {f"C{n}" for n in range(1, 6)} <= {control.id for control in CONTROLS}


def test_every_check_is_the_witness_of_something_and_alone_once() -> None:
    assert {fault.witness for fault in ALL} <= CHECKS | HARD | EXACT
    assert {fault.witness for fault in ALL} >= CHECKS
    assert {fault.witness for fault in ALL if fault.sole} & CHECKS == CHECKS - NEVER_ALONE
    for fault in ALL:
        assert (fault.shows is Shows.EXACT) == (fault.witness in EXACT), fault.id
        assert set(fault.others) <= CHECKS | HARD, fault.id
        assert fault.about
        assert fault.targets


def measured(fault: Fault, requests: int) -> tuple[Verdict, set[str], Measured]:
    """The verdict on a fault and every event that speaks against it; its seed follows from its id."""
    sampler = fault.sampler()
    who = describe(sampler)
    spec = TrialSpec(sampler=who.name, targets=list(fault.targets), requests=requests)
    trial = plan(spec, who, fault.id, given=True)
    found = run(trial, sampler, Seed(hashlib.sha256(fault.id.encode()).digest()), "cpu", _silent)
    judged = conclude(trial, found, "cpu")
    events = {test.event.value for test in judged.tests if test.df and test.p <= test.alpha}
    events |= {"forbidden"} if any(test.forbidden for test in judged.tests) else set()
    events |= {"breach"} if found.breaches else set()
    return judged.verdict, events | ({"invalid"} if found.broken else set()), found


def _silent(stage: str, done: int, total: int) -> None:
    """No progress."""


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.witness in NOW | HARD], ids=lambda fault: fault.id
)
def test_the_witness_speaks(fault: Fault) -> None:
    verdict, events, found = measured(fault, fault.requests)
    assert fault.witness in events, (events, found.breaches, found.broken)
    assert verdict is (Verdict.INVALID if fault.witness in ("breach", "invalid") else Verdict.FAIL)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.shows is Shows.EXACT], ids=lambda fault: fault.id)
def test_no_usual_number_of_requests_shows_what_is_exact(fault: Fault) -> None:
    verdict, _, _ = measured(fault, fault.requests)
    assert verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("fault", ENGINE_FAULTS, ids=lambda fault: fault.id)
def test_an_engine_keeps_its_drafts_inside(fault: Fault) -> None:
    """Run as a pipeline in all but what it returns, until there is that kind."""
    sampler: Any = fault.sampler()
    pipeline = type(sampler)(Kind.PIPELINE)
    who = describe(pipeline)
    trial = plan(TrialSpec(sampler=who.name, targets=list(fault.targets), requests=100), who, "test", given=True)
    from pp3.harness.trial.run import batch_of

    batch = batch_of(trial.problems[0], who, Seed(bytes(32)), 0, 100, "cpu")
    inside, outside = sampler.run(batch), pipeline.run(batch)
    assert inside.drafts is None
    assert (inside.tokens == outside.tokens).all()
    assert (inside.num_sampled == outside.num_sampled).all()
