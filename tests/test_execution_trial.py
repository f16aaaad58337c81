"""How a trial in pieces was run, as its receipt says: a piece a target, broken by other counts or not."""

from typing import Any

import pytest

from pp3.harness.errors import VerificationError
from pp3.harness.evidence import execution

AGAIN = "it came to other counts when it was run again"
ONE, OTHER = "rows/of-8", "rows-of-12"  # targets; a piece is named as a file is, without slashes


def ran(unequal: list[str], broken: dict[str, str]) -> dict[str, Any]:
    """A trial of two targets, of which these pieces came to other counts and these targets are broken."""
    how = {"devices": {"cpu": 2}, "pieces": 2, "repeated": 2, "unequal": unequal}
    return {"broken": broken, "execution": how, "plan": {"targets": [{"name": ONE}, {"name": OTHER}]}}


HELD: dict[str, tuple[list[str], dict[str, str]]] = {
    "all well": ([], {}),
    "broken by something that sorts before": ([], {ONE: "a token out of range"}),
    "broken by something that sorts behind": ([], {OTHER: "the process ended"}),
    "other counts": (["target,rows,of-8"], {ONE: AGAIN}),
    "other counts, and another broken": (["target,rows-of-12"], {OTHER: AGAIN, ONE: "the process ended"}),
}


@pytest.mark.parametrize(("unequal", "broken"), HELD.values(), ids=HELD)
def test_a_target_of_other_counts_is_broken_by_them(unequal: list[str], broken: dict[str, str]) -> None:
    assert execution.check_trial(ran(unequal, broken)) == 2


REFUSED: dict[str, tuple[list[str], dict[str, str], str]] = {
    "other counts, not broken": (["target,rows,of-8"], {}, ONE),
    "other counts, broken by something before": (["target,rows,of-8"], {ONE: "a token out of range"}, ONE),
    "other counts, broken by something behind": (["target,rows-of-12"], {OTHER: "the process ended"}, OTHER),
    "broken by other counts that it has not": ([], {OTHER: AGAIN}, OTHER),
    "broken by those of another": (["target,rows,of-8"], {ONE: AGAIN, OTHER: AGAIN}, OTHER),
}


@pytest.mark.parametrize(("unequal", "broken", "target"), REFUSED.values(), ids=REFUSED)
def test_and_only_then(unequal: list[str], broken: dict[str, str], target: str) -> None:
    with pytest.raises(VerificationError) as found:
        execution.check_trial(ran(unequal, broken))
    assert str(found.value) == f"{target} must be broken if it came to other counts again, and only then"


def test_pieces_are_as_many_as_targets_however_many() -> None:
    """Three hundred."""
    targets = [f"rows-of-{n}" for n in range(300)]
    said = {"devices": {"cpu": 300}, "pieces": 300, "repeated": 300, "unequal": []}
    predicate = {"broken": {}, "execution": said, "plan": {"targets": [{"name": name} for name in targets]}}
    assert execution.check_trial(predicate) == 300
    for pieces in (299, 301):
        with pytest.raises(VerificationError, match=rf"^{pieces} pieces, 300 of them run; the plan is cut into 300$"):
            execution.check_trial(predicate | {"execution": said | {"pieces": pieces}})
