"""Tables of another size, marks of another number, ids far beyond, and what is said where nothing was computed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pp3.harness.bridge import bridge
from pp3.kernels.reference import ONE, allocate
from pp3.targets.policies import build_policy

TARGET = build_policy("identity")
EMITTED = allocate(TARGET.draft_logits)
ROWS = len(EMITTED.ids)
RIGHT: dict[str, Any] = {"ids": EMITTED.ids, "tickets": EMITTED.tickets, "depth": 4, "void": (False,) * 4}
COLUMN = np.zeros((ROWS, 1), np.int64)


def longer(table: Any) -> Any:
    """The last row once more."""
    return np.concatenate([table, table[-1:]])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"ids": longer(EMITTED.ids)}, r"are \(9, 32\) and \(8, 32\); want \(8, 32\)", id="ids-of-a-row"),
        pytest.param(
            {"tickets": longer(EMITTED.tickets)}, r"are \(8, 32\) and \(9, 32\); want \(8, 32\)", id="tickets-of-a-row"
        ),
        pytest.param(
            {"ids": longer(EMITTED.ids), "tickets": longer(EMITTED.tickets)},
            r"are \(9, 32\) and \(9, 32\); want \(8, 32\)",
            id="both-of-a-row",
        ),
        pytest.param(
            {"tickets": np.hstack([EMITTED.tickets, COLUMN])},
            r"are \(8, 32\) and \(8, 33\); want \(8, 32\)",
            id="tickets-of-a-column",
        ),
        pytest.param({"drawn": [{0: ONE}] * 9}, "and drawn a row", id="draws-of-a-row"),
        pytest.param({"void": (False,) * 5}, "depth 4 with 5 drafts marked", id="a-mark"),
        pytest.param({"void": (False,) * 3}, "depth 4 with 3 drafts marked", id="a-mark-less"),
    ],
)
def test_one_more_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bridge(TARGET, **RIGHT | changed)


@pytest.mark.parametrize("past", [0, 1, 2**40])
def test_an_id_past_the_last_is_no_token(past: int) -> None:
    """The vocabulary has 131 tokens, 0 to 130."""
    ids = EMITTED.ids.astype(np.int64)
    ids[3, -1] = 131 + past
    fault = bridge(TARGET, **RIGHT | {"ids": ids}).fault
    assert fault is not None
    assert (fault.breach, fault.row, fault.token) == ("ids", 3, 131 + past)
    assert fault.expected == f"above {ids[3, -2]}, below 131"


def test_a_target_may_have_hundreds_of_rows() -> None:
    """More than Python keeps integers of its own for; draws of every row, those of its tickets."""
    tables: list[Any] = [
        np.tile(table, (40, 1)) for table in (TARGET.weights, TARGET.draft_logits, EMITTED.ids, EMITTED.tickets)
    ]
    weights, logits, ids, tickets = tables
    many = replace(TARGET, weights=weights, draft_logits=logits)
    draws = [dict(zip(*row, strict=True)) for row in zip(ids.tolist(), tickets.tolist(), strict=True)]
    assert len(draws) == 320
    assert bridge(many, ids, tickets, 4, (False,) * 4, draws).ok


def test_where_nothing_was_computed_nothing_varies() -> None:
    tickets = EMITTED.tickets.copy()
    tickets[0, 0] += 1
    crossed = bridge(TARGET, **RIGHT | {"tickets": tickets})
    assert crossed.fault is not None
    assert (crossed.ok, crossed.within, crossed.variations) == (False, False, ())
    assert crossed.largest == (0, 1)
    assert crossed.plain()["largest"] == {"double": "0.0", "ratio": "0/1"}
