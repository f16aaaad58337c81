"""The four policies of the oracle bridge: golden digests, what each is to its proposal, and that no two rows agree."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from pp3.kernels.reference import SUPPORT, allocate
from pp3.targets import Target
from pp3.targets.policies import POLICIES, build_policy
from pp3.targets.target import ONE, POSITIONS

DIGESTS = {
    "identity": "f78e80022e4906309800e947a134bbfb209932e0347a8609ba474088264f74f6",
    "tilt": "29e504a905065b2f0aee314c61aed52ea2a0bf1f5bf43f8c1ecb42dc027ec0f2",
    "sparse": "f398445321d366dc53a507684b1d8183a0e03ae329661d943ce3363e03d5bd15",
    "disjoint": "396aba9397e521384051f903d2aeb5f300db8514d43c5d4813a2e51397b40944",
}


def tickets(target: Target) -> npt.NDArray[np.int64]:
    """The proposal's law, [rows, vocab]."""
    supports = allocate(target.draft_logits)
    dense = np.zeros_like(target.weights)
    np.put_along_axis(dense, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
    return dense


def accepted(target: Target) -> npt.NDArray[np.float64]:
    """Probability that a draft of each row is accepted."""
    kept: npt.NDArray[np.int64] = np.minimum(target.weights, tickets(target)).sum(axis=1)
    return kept / ONE


@pytest.mark.parametrize("name", POLICIES)
def test_digest_is_the_committed_one(name: str) -> None:
    """A new NumPy or Python must not change what was bridged."""
    assert build_policy(name).digest() == DIGESTS[name]


def test_names() -> None:
    assert POLICIES == ("identity", "tilt", "sparse", "disjoint") == tuple(DIGESTS)
    assert [build_policy(name).name for name in POLICIES] == list(POLICIES)
    with pytest.raises(KeyError, match="tlit"):
        build_policy("tlit")


def test_identity_is_the_tickets() -> None:
    target = build_policy("identity")
    assert (target.weights == tickets(target)).all()


def test_tilt_is_the_same_logits_at_another_temperature() -> None:
    target = build_policy("tilt")
    hot, cold = allocate(target.draft_logits, 1.25), allocate(target.draft_logits)
    assert (hot.ids == cold.ids).all()
    assert (np.take_along_axis(target.weights, hot.ids.astype(np.int64), axis=1) == hot.tickets).all()
    assert (np.abs(hot.tickets - cold.tickets).sum(axis=1) / 2 / ONE > 0.1).all()
    assert ((accepted(target) > 0.6) & (accepted(target) < 0.9)).all()


def test_sparse_has_half_on_400_tokens_never_drafted() -> None:
    target = build_policy("sparse")
    for weights, drawn in zip(target.weights, allocate(target.draft_logits).ids, strict=True):
        tail = np.delete(weights, drawn)
        assert (int(tail.sum()), int((tail > 0).sum())) == (ONE // 2, 400)
        assert (weights[drawn] > 0).sum() > SUPPORT // 2
    assert ((accepted(target) > 0.3) & (accepted(target) < 0.5)).all()


def test_disjoint_shares_no_token() -> None:
    target = build_policy("disjoint")
    for weights, drawn in zip(target.weights, allocate(target.draft_logits).ids, strict=True):
        assert not weights[drawn].any()


@pytest.mark.parametrize("name", POLICIES)
def test_rows_lie_apart(name: str) -> None:
    """A mix-up of any two rows moves a law by half or more, in the target and in the proposal."""
    target = build_policy(name)
    for law in (target.weights, tickets(target)):
        for one, other in itertools.combinations(law, 2):
            assert np.abs(one - other).sum() / 2 / ONE > 0.5


@pytest.mark.parametrize("name", POLICIES)
def test_every_place_has_its_own_row(name: str) -> None:
    """No two contexts of a position share a row, and no two positions of a context."""
    target = build_policy(name)
    assert target.contexts == {"tilt": 32, "sparse": 8}.get(name, 4)
    for across in (*target.row_of, *target.row_of.T):
        assert len(set(across.tolist())) == len(across)
    assert target.row_of.shape == (POSITIONS, target.contexts)


@pytest.mark.parametrize("name", POLICIES)
def test_small_tickets_and_none_occur(name: str) -> None:
    """A support has members of 0 and of 1 ticket, where rounding weighs most."""
    found = allocate(build_policy(name).draft_logits).tickets
    assert (found == 0).any()
    assert (found == 1).any()
