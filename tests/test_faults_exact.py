"""The exact checks of planted faults: each sees its own, says where, and says nothing of a right sampler."""

import re
from dataclasses import replace

import pytest

from pp3.harness.faults import CONTROLS, FAULTS
from pp3.harness.faults.correct import ENGINE, Correct
from pp3.harness.faults.exact import CHECKS, PREFIX, said_by
from pp3.harness.faults.fault import Control, Fault, Shows
from pp3.harness.samplers.contract import Kind

BY_ID = {fault.id: fault for fault in FAULTS}
EXACT = [fault for fault in FAULTS if fault.witness.startswith(PREFIX)]
KINDS = {
    Kind.PLAIN: "rows-of-12",
    Kind.PROPOSAL: "near",
    Kind.VERIFIER: "void",
    Kind.PIPELINE: "context",
    ENGINE: "far",
}
ALONE = {"counters": "K11-053/positions"}  # a check whose fault statistics see as well


def right(kind: str, check: str, targets: tuple[str, ...]) -> Fault:
    """The correct sampler, as if it were a fault that an exact check must see."""
    return Fault(
        id=f"right/{kind}",
        report="none",
        about="nothing is wrong",
        cause="none",
        sampler=lambda: Correct(kind),
        targets=targets,
        witness=f"{PREFIX}{check}",
        shows=Shows.EXACT,
    )


@pytest.mark.parametrize("fault", EXACT, ids=lambda fault: fault.id)
def test_an_exact_check_sees_its_fault_and_says_where(fault: Fault) -> None:
    """Whatever drafts the requests happen to have."""
    for counter in range(1, 17):
        said = said_by(fault, counter)
        assert re.match(rf"({'|'.join(fault.targets)}): requests? \d+", said), (counter, said)


def test_every_exact_check_sees_a_fault() -> None:
    seen = {fault.witness.removeprefix(PREFIX) for fault in EXACT}
    assert seen | ALONE.keys() == CHECKS.keys()
    for check, id in ALONE.items():
        assert "take the same" in said_by(replace(BY_ID[id], witness=f"{PREFIX}{check}"))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_exact_check_is_silent_on_what_is_right(kind: str, check: str) -> None:
    assert said_by(right(kind, check, (KINDS[Kind(kind)],))) == ""


@pytest.mark.parametrize("check", ["counters", "invariance", "replay"])
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.id)
def test_an_exact_check_is_silent_on_what_looks_wrong(control: Control, check: str) -> None:
    fault = replace(right("", check, control.targets[:1] or ()), sampler=control.sampler)
    assert said_by(fault) == ""


@pytest.mark.parametrize(
    ("fault", "other"),
    [("K12-057", "replay"), ("K12-059", "invariance"), ("K12-061", "replay"), ("K9-039", "invariance")],
)
def test_an_exact_check_sees_its_own_kind_of_fault_only(fault: str, other: str) -> None:
    """A fault of order is repeatable, one of borders the same in any order, and a first run is like any other first."""
    assert said_by(replace(BY_ID[fault], witness=f"{PREFIX}{other}")) == ""


def test_a_check_that_there_is_not() -> None:
    with pytest.raises(KeyError, match="no-such"):
        said_by(replace(EXACT[0], witness=f"{PREFIX}no-such"))
