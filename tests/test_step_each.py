"""Steps of a kind whose integers come to a verdict in the last of them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pp3.harness.errors import VerificationError
from pp3.harness.evidence import step

COME_TO = SimpleNamespace(verdict=SimpleNamespace(value="PASS"), reasons=[], sentence="It is.")
CLAIMED = {"verdict": "PASS", "reasons": [], "sentence": "It is."}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "verdict": (CLAIMED | {"verdict": "FAIL"}, "verdict: verdict recomputes to 'PASS', the receipt says 'FAIL'"),
    "reasons": (CLAIMED | {"reasons": ["why"]}, "verdict: reasons recomputes to [], the receipt says ['why']"),
    "sentence": (CLAIMED | {"sentence": "No."}, "verdict: sentence recomputes to 'It is.', the receipt says 'No.'"),
}


def found() -> Iterator[tuple[str, str, Any]]:
    """Steps of some integers: the last one comes to a verdict, and says it where it has no other detail."""
    yield from (("plan", "as planned", None), ("counts", "", None), ("verdict", "", COME_TO))


def test_each_step_is_one_of_those_named() -> None:
    """In turn, with its detail."""
    steps = list(step.each(("plan", "counts", "verdict"), found(), CLAIMED))
    assert [(one.name, one.outcome, one.detail) for one in steps] == [
        ("plan", "ok", "as planned"),
        ("counts", "ok", ""),
        ("verdict", "ok", "PASS"),
    ]


@pytest.mark.parametrize(("claimed", "reason"), WRONG.values(), ids=WRONG)
def test_the_last_step_holds_the_verdict(claimed: dict[str, Any], reason: str) -> None:
    """Those before it hold what they hold."""
    steps = step.each(("plan", "counts", "verdict"), found(), claimed)
    assert [next(steps).name, next(steps).name] == ["plan", "counts"]
    with pytest.raises(VerificationError) as refused:
        next(steps)
    assert str(refused.value) == reason


def test_a_step_that_raises_is_named() -> None:
    """As the one whose turn it is."""

    def fails() -> Iterator[tuple[str, str, Any]]:
        yield "plan", "as planned", None
        raise KeyError("cells")

    steps = step.each(("plan", "counts"), fails(), CLAIMED)
    assert next(steps).name == "plan"
    with pytest.raises(VerificationError, match=r"^counts: KeyError: 'cells'$"):
        next(steps)
