"""Surveys: what they cover, and that a stored one is judged again from its integers alone."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pp3.harness import canonical
from pp3.harness.bridge import bridge
from pp3.harness.crossings import cross, rejudge
from pp3.harness.errors import VerificationError
from pp3.kernels.reference import ONE, allocate
from pp3.targets import NAMES, Target, build
from pp3.targets.policies import POLICIES, build_policy


def tables(target: Target) -> tuple[Any, Any]:
    """What a right device emits for a target."""
    return allocate(target.draft_logits)[2:]


@pytest.fixture(scope="module")
def stored() -> Any:
    """The receipt form of a survey, by way of bytes."""
    target = build_policy("sparse")
    return canonical.decode(canonical.encode(cross(target, *tables(target)).plain()))


@pytest.mark.parametrize("name", POLICIES)
def test_crossings_stands_and_is_judged_again(name: str) -> None:
    target = build_policy(name)
    found = cross(target, *tables(target))
    assert found.ok
    assert (found.target, found.law_sha256) == (name, target.digest())
    assert rejudge(canonical.decode(canonical.encode(found.plain())), target) == found


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_campaigns_can_be_surveyed(name: str) -> None:
    assert cross(build(name), *tables(build(name))).ok


def test_every_place_of_the_first_invalidated_draft() -> None:
    target = build_policy("disjoint")
    rounds = [(crossed.depth, crossed.void) for crossed in cross(target, *tables(target)).bridges]
    assert rounds == [(depth, tuple(j == at for j in range(depth))) for depth in (4, 5) for at in range(-1, depth)]
    assert len(set(rounds)) == 11


def test_drafts_after_the_first_invalidated_change_nothing() -> None:
    target = build_policy("tilt")
    one = bridge(target, *tables(target), 4, (False, True, False, False)).plain()
    assert one | {"void": [0, 1, 1, 1]} == bridge(target, *tables(target), 4, (False, True, True, True)).plain()


def test_draws_are_stored_and_judged() -> None:
    target = build_policy("tilt")
    ids, tickets = tables(target)
    drawn = [dict(zip(*row, strict=True)) for row in zip(ids.tolist(), tickets.tolist(), strict=True)]
    found = cross(target, ids, tickets, drawn)
    assert found.ok
    form = canonical.decode(canonical.encode(found.plain()))
    assert rejudge(form, target) == found
    drawn[0][int(ids[0, 0])] += 1
    drawn[0][int(ids[0, 1])] -= 1
    wrong = cross(target, ids, tickets, drawn)
    assert (wrong.differing, wrong.ok) == (0, False)
    form["drawn"][0][0][1] -= 1
    with pytest.raises(VerificationError, match=r"survey.bridges\[0\]"):
        rejudge(form, target)


def test_a_failing_survey_is_judged_to_fail() -> None:
    """A fault is a value: what failed on the device fails again, with the same words."""
    target = build_policy("sparse")
    ids, tickets = tables(target)
    wrong = ids.copy()
    wrong[5, 8] = wrong[5, 7]
    found = cross(target, wrong, tickets)
    assert not found.ok
    assert {crossed.fault and crossed.fault.breach for crossed in found.bridges} == {"ids"}
    assert rejudge(canonical.decode(canonical.encode(found.plain())), target) == found


def test_a_ticket_moved_where_no_law_shows_it() -> None:
    """The emitted law of disjoint rejects every draft, so only the comparison with the reference tells."""
    target = build_policy("disjoint")
    ids, tickets = tables(target)
    wrong = tickets.copy()
    held = np.flatnonzero(wrong[2] > 1)[:2]
    wrong[2, held] += np.array([1, -1], np.int32)
    found = cross(target, ids, wrong)
    assert all(crossed.ok for crossed in found.bridges)
    assert (found.differing, found.ok) == (2, False)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value that is no container."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))
    if not isinstance(value, dict | list):
        yield path


def test_no_leaf_can_be_changed(rng: np.random.Generator) -> None:
    """Every seventh value of the receipt form, and each kind of key at least once."""
    target = build_policy("disjoint")
    stored = canonical.decode(canonical.encode(cross(target, *tables(target)).plain()))
    paths = list(leaves(stored))
    first = {tuple(key for key in path if isinstance(key, str)): path for path in reversed(paths)}
    assert len(first) >= 20
    for path in [*first.values(), *paths[int(rng.integers(7)) :: 7]]:
        form = copy.deepcopy(stored)
        *above, last = path
        inner = form
        for key in above:
            inner = inner[key]
        old = inner[last]
        inner[last] = (
            not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else "0" if old is None else old + "0"
        )
        with pytest.raises((VerificationError, TypeError, ValueError)):
            rejudge(form, target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda form: form["bridges"].pop(), "bridges has 11 entries, stored are 10", id="a-round-less"),
        pytest.param(lambda form: form.update(more=1), "has the keys", id="a-key-more"),
        pytest.param(lambda form: form.update(ok=1), "ok recomputes to True, stored is 1", id="one-is-not-true"),
        pytest.param(lambda form: form.update(lawSha256="0"), "lawSha256 recomputes to 'f39", id="another-law"),
        pytest.param(lambda form: form.update(target="tilt"), "target recomputes to 'sparse'", id="another-name"),
        pytest.param(
            lambda form: form["bridges"][0].update(fault={}), r"bridges\[0\].fault recomputes to None", id="a-fault"
        ),
    ],
)
def test_the_first_difference_is_named(stored: Any, change: Any, message: str) -> None:
    form = copy.deepcopy(stored)
    change(form)
    with pytest.raises(VerificationError, match=message):
        rejudge(form, build_policy("sparse"))


def test_another_target_is_no_witness(stored: Any) -> None:
    with pytest.raises(VerificationError, match="survey"):
        rejudge(stored, build_policy("identity"))


def test_a_ticket_lost_in_storage(stored: Any) -> None:
    form = copy.deepcopy(stored)
    form["tickets"][0][0] += ONE
    with pytest.raises(VerificationError, match=r"bridges\[0\]"):
        rejudge(form, build_policy("sparse"))
