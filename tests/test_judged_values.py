"""What is judged cannot be changed afterwards, holds nothing but its fields, and says by name what each is."""

import dataclasses
import inspect
from typing import Any

import pytest
from weighted_cell import cell

from pp3.harness import battery, bridge, oracle, pooling, verdict
from pp3.targets import build

VALUES = [
    battery.TestResult,
    battery.Slack,
    bridge.Bridge,
    bridge.Fault,
    pooling.Pooled,
    verdict.Judgement,
    verdict.Subject,
    oracle.Law,
    bridge.Steps,
]
BY_POSITION = [verdict.Subject, oracle.Law, bridge.Steps]
CACHING = [oracle.Law, bridge.Steps]  # what follows from their fields, or a step replaced, lies beside them


def names(kinds: list[Any]) -> list[str]:
    return [kind.__name__ for kind in kinds]


@pytest.mark.parametrize("kind", VALUES, ids=names(VALUES))
def test_no_field_can_be_set(kind: Any) -> None:
    blank = object.__new__(kind)
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(blank, field.name, None)


@pytest.mark.parametrize("kind", VALUES, ids=names(VALUES))
def test_it_holds_nothing_but_its_fields(kind: Any) -> None:
    assert hasattr(object.__new__(kind), "__dict__") == (kind in CACHING)


@pytest.mark.parametrize("kind", VALUES, ids=names(VALUES))
def test_fields_are_given_by_name(kind: Any) -> None:
    by_name = {
        parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in inspect.signature(kind).parameters.values()
    }
    assert by_name == {kind not in BY_POSITION}


def pooled() -> pooling.Pooled:
    """A cell of two outcomes, pooled."""
    found = pooling.pool(cell([1, 3]), 1000, 20)
    assert found is not None
    return found


TARGET = build("disjoint")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pooled(), pooled(), id="pooled"),
        pytest.param(oracle.Law(TARGET), oracle.Law(TARGET), id="law"),
        pytest.param(bridge.Steps(TARGET, (), (), ()), bridge.Steps(TARGET, (), (), ()), id="steps"),
    ],
)
def test_what_holds_arrays_is_itself_alone(one: Any, other: Any) -> None:
    """Arrays have no equality that is one truth, so that such values are compared by identity and can be keys."""
    assert one != other
    assert {one: 1, other: 2}[one] == 1
