"""The ends of the drawn intervals: which they are, few rows that meet them, and faults that only they see."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from drawn import INTERPRETED, ROWS
from mutant_reference import mutant

from pp3.harness.exact import draws
from pp3.kernels import reference
from pp3.kernels.reference import SUPPORT


@pytest.mark.parametrize(
    ("tickets", "ends"),
    [
        pytest.param([2, 1, 3], [0, 1, 2, 2, 3, 5], id="first-and-last-of-each"),
        pytest.param([2, 0, 3], [0, 1, 2, 1, 2, 4], id="both-sides-of-one-without-tickets"),
        pytest.param([0, 4], [0, 0, 0, 3], id="the-first-without-tickets"),
        pytest.param([4, 0, 0], [0, 3, 3, 3, 3, 3], id="the-last-without-tickets"),
    ],
)
def test_the_ends_of_intervals(tickets: list[int], ends: list[int]) -> None:
    assert draws.ends(tickets) == ends


def test_the_ends_are_met_by_few_rows() -> None:
    """Launches of one to four rows and one of more, each below the eight rows a program."""
    from pp3.kernels import proposal

    assert sum(draws.FEW) == draws.ENDS == 2 * SUPPORT
    assert set(draws.FEW) > {1, 2, 3, 4}
    after = list(itertools.accumulate(draws.FEW))
    singles = [place - 1 for place, rows in zip(after, draws.FEW, strict=True) if rows == 1]
    assert singles == [SUPPORT - 1, SUPPORT]  # both sides of the boundary in the middle
    assert max(draws.FEW) < proposal.MANY
    covered = [place for part in draws._launches() for place in range(draws.ENDS)[part]]
    assert covered == list(range(draws.ENDS))


def in_launches_of(rows: int, old: str, new: str) -> Any:
    """The reference, edited for launches of so many rows."""
    edited = mutant(old, new).propose

    def propose(logits: Any, *rest: Any) -> Any:
        return (edited if len(logits) == rows else reference.propose)(logits, *rest)

    return propose


FEW_FAULTS = {
    "less for less or equal": ("running <= draw", "running < draw"),
    "the draw before": ("running <= draw[:, None]", "running <= draw[:, None] - 1"),
    "the draw after": ("running <= draw[:, None]", "running[:, :-1] <= draw[:, None] + 1"),
    "the word of another row": (
        "running <= draw[:, None]",
        "running <= np.where(len(draw) > 1, np.roll(draw, 1), draw ^ 1 << 23)[:, None]",
    ),
    "another support": (
        "ids = np.where(drawn[:, None], supports.ids[row]",
        "ids = np.where(drawn[:, None], supports.ids[row] + 1",
    ),
    "other tickets": ("OK)), token, ids, tickets)", "OK)), token, ids, tickets + 1)"),
    "a failed status": ("np.where(failed, np.int32(FAILED), np.int32(OK)), token", "np.where(failed, 0, 1), token"),
}


@pytest.mark.parametrize("rows", sorted(set(draws.FEW)))
@pytest.mark.parametrize(("old", "new"), FEW_FAULTS.values(), ids=FEW_FAULTS)
def test_a_fault_of_few_rows_is_seen_at_the_ends(
    old: str, new: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In launches of every number of rows."""
    assert draws.meet(ROWS["flat"], draws.propose_few) == draws.expect(["flat"])["flat/ends"]
    monkeypatch.setattr(draws, "propose", in_launches_of(rows, old, new))
    assert draws.meet(ROWS["flat"], draws.propose_few) != draws.expect(["flat"])["flat/ends"]


def test_the_ends_of_every_support() -> None:
    expected = draws.expect(list(ROWS))
    for name, logits in ROWS.items():
        assert draws.meet(logits, draws.propose_few) == expected[f"{name}/ends"], name


@pytest.mark.parametrize("name", INTERPRETED)
def test_the_ends_through_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of few rows, each of its own."""
    from pp3.kernels import proposal

    launched: list[tuple[int, tuple[int, ...]]] = []
    real = proposal.propose

    def propose(logits: Any, *rest: Any, **more: Any) -> Any:
        launched.append((len(logits), logits.stride()))
        with np.errstate(all="ignore"):
            return real(logits, *rest, **more)

    monkeypatch.setattr(proposal, "propose", propose)
    met = draws.meet(ROWS[name], partial(draws.launch_few, device="cpu"))
    assert met == draws.expect([name])[f"{name}/ends"]
    assert launched == [(rows, (len(ROWS[name]), 1)) for rows in draws.FEW]


@pytest.mark.parametrize("which", ["status", "token", "ids", "tickets"])
@pytest.mark.parametrize("rows", sorted(set(draws.FEW)))
def test_what_few_rows_leave_unwritten_is_seen(rows: int, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last element of its first launch of so many rows stays as it was."""
    from pp3.kernels import proposal

    real, launches = proposal.propose, itertools.count()
    which_launch = draws.FEW.index(rows)

    def propose(logits: Any, *rest: Any, out: Any) -> Any:
        last = getattr(out, which).view(-1)[-1:]
        before = last.clone()
        with np.errstate(all="ignore"):
            real(logits, *rest, out=out)
        if next(launches) == which_launch:
            last.copy_(before)

    monkeypatch.setattr(proposal, "propose", propose)
    met = draws.meet(ROWS["31-tickets"], partial(draws.launch_few, device="cpu"))
    want = [*draws.expect(["31-tickets"])["31-tickets/ends"]]
    last = sum(draws.FEW[: which_launch + 1]) - 1
    want[last if which == "token" else -1] = draws.POISON if which == "token" else 1
    assert met == want
