"""What no filter takes: settings out of range, rows that are no law, and rules that an engine does not have."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from filtered import weights

from pp3.harness.filters import ENGINES, Hit, Order, Rules, Settings, Ties, law_of_logits, law_of_probs

PLAIN = Rules(order=Order.TOP_K_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", 1e-4),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("min_p", 1.1),
    ],
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} = "):
        Settings(**{field: value})  # type: ignore[arg-type] # a value of any field


@pytest.mark.parametrize(
    "row",
    [np.array([[1, 2]]), np.array([0, 0]), np.array([-1, 2]), np.array([0.5, 0.5]), np.array([0.5, 0.1], np.float32)],
)
def test_rows_that_are_no_law_are_refused(row: npt.NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="probabilities are"):
        law_of_probs(row, Settings(), PLAIN)


@pytest.mark.parametrize("row", [[], [np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_without_a_softmax_are_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="logits are"):
        law_of_logits(np.array(row, np.float32), Settings(), PLAIN)
    with pytest.raises(ValueError, match="logits are"):
        law_of_logits(np.array([0.0, 1.0]), Settings(), PLAIN)  # FP64


def test_probabilities_have_their_temperature_in_them() -> None:
    with pytest.raises(ValueError, match="divide first"):
        law_of_probs(weights(1, 1), Settings(temperature=0.5), PLAIN)


def test_a_threshold_among_too_many_sums_is_refused() -> None:
    row = np.log(np.arange(1, 5001)).astype(np.float32)
    with pytest.raises(ValueError, match="within the FP32 error"):
        law_of_logits(row, Settings(top_p=0.999), PLAIN)


def test_one_sort_has_one_tie_rule() -> None:
    with pytest.raises(ValueError, match="one sort has one rule"):
        Rules(order=Order.JOINT, ties=Ties.VALUE_ONLY, top_p_ties=Ties.LOWER_ID)


def test_engines_differ() -> None:
    """Of eleven declarations no two are the same, and every order, tie rule and hit is someone's."""
    assert len(set(ENGINES.values())) == len(ENGINES)
    assert {rules.order for rules in ENGINES.values()} == set(Order)
    assert {rules.ties for rules in ENGINES.values()} == {rules.top_p_ties for rules in ENGINES.values()} == set(Ties)
    assert {rules.hit for rules in ENGINES.values()} == set(Hit)
