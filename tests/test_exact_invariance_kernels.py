"""Invariance of the kernels, in the interpreter: what a GPU meets, tile borders, layouts and buffers."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness.backends import Dtype
from pp3.harness.exact import company, invariance, invariance_proposal, invariance_verifier
from pp3.harness.exact import invariance_kernels as kernels
from pp3.harness.exact.company import COMPANIES
from pp3.harness.exact.enumeration import Values, differences, digest
from pp3.harness.exact.invariance_proposal import Rows
from pp3.harness.exact.invariance_verifier import Rounds, Table
from pp3.kernels import proposal, verifier

CPU = torch.device("cpu")
PROPOSAL_WAYS = (*COMPANIES, *invariance_proposal.LAYOUTS)
VERIFY_WAYS = (*COMPANIES, *invariance_verifier.LAYOUTS, "strided", "offset")
ONE_BY_ONE = ("alone", "shared")  # ways of a launch a row
SLOW = (*ONE_BY_ONE, "reversed", "beside-other-keys")  # ways that the interpreter is met in elsewhere
OWN = np.arange(invariance_proposal.COMPARED)


def chosen(ways: tuple[str, ...], gpu: bool, vocab: int) -> tuple[str, ...]:
    """These ways, whatever the device and vocabulary."""
    return ways


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Values:
    """A GPU's enumeration made small enough for the interpreter, without the ways of SLOW; what it must show.

    The interpreter widens BF16 subnormals wrongly (its _convert_float), so their row holds small normal values.
    """
    monkeypatch.setitem(invariance_proposal.SUBNORMAL, Dtype.BF16, 2.0**-100)
    for case, ways in ((invariance_proposal, PROPOSAL_WAYS), (invariance_verifier, VERIFY_WAYS)):
        kept = tuple(way for way in ways if way not in SLOW)
        monkeypatch.setattr(case, "vocabularies", lambda gpu: (33,))
        monkeypatch.setattr(case, "ways", functools.partial(chosen, kept))
    for name, value in (("LATE_VOCAB", 33), ("LATE_ROWS", 10), ("LATE_REQUESTS", 10)):
        monkeypatch.setattr(invariance, name, value)
    return invariance.expect(gpu=True)


def test_the_kernels_are_met_as_on_a_gpu(interpreted: Values) -> None:
    """The whole enumeration of a GPU at a vocabulary of 33, but for graph replay and thousands of rows."""
    found = invariance.observe_kernels("cpu")
    assert differences(found.values, interpreted) == []
    assert found.compared == invariance.size(gpu=True)


@pytest.mark.parametrize("vocab", [32, 127, 128, 129, 4095, 4096, 4097, 8193])
def test_proposals_at_tile_borders(vocab: int) -> None:
    """The bits of the reference in the interpreter; those of BF16 without its subnormals."""
    for dtype in (Dtype.FP32, Dtype.BF16):
        rows = Rows(vocab, dtype)
        want = invariance._proposed(rows)(OWN, "plain")
        got = kernels.Proposals(rows, CPU).run(OWN[::-1], "padded")
        kept = OWN if dtype is Dtype.FP32 else OWN[OWN != 2]
        assert all((one[::-1][kept] == other[kept]).all() for one, other in zip(got, want, strict=True))


@pytest.mark.parametrize("vocab", [32, 1023, 1024, 1025, 2048, 2049])
def test_rounds_at_tile_borders(vocab: int) -> None:
    """The bits of the reference in the interpreter."""
    for rounds in invariance._cases(Table(vocab)).values():
        want = invariance._judged(rounds)(np.arange(19), "plain")
        got = kernels.Verifications(rounds, CPU).run(np.arange(19)[::-1], "padded")
        assert all((one[::-1] == other).all() for one, other in zip(got, want, strict=True))


def test_rows_alone_and_shared() -> None:
    """The ways of many launches: each row by itself, and one row of logits under three keys."""
    rows, rounds = Rows(129, Dtype.FP16), Rounds(Table(1025), 4, "carrier")
    found = company.met(kernels.Proposals(rows, CPU).run, ONE_BY_ONE, 6, 3)
    assert (found.differing, found.compared) == ({"alone": 0, "shared": 0}, 12)
    assert digest(*found.want) == invariance._digest_of_rows(rows)
    judged = company.met(kernels.Verifications(rounds, CPU).run, ("alone",), 8, 3)
    assert (judged.differing, judged.compared) == ({"alone": 0}, 8)


@pytest.mark.parametrize("way", [*PROPOSAL_WAYS, "replayed"])
def test_the_layout_of_each_way(way: str) -> None:
    """Rows are the same; NaN lies between them."""
    rows = torch.arange(66.0).view(2, 33)
    probs = torch.arange(198.0).view(2, 3, 33)
    strides = {"padded": ((70, 1), (4 * 70, 70, 1)), "strided": ((66, 2), (198, 66, 2))}
    for given, number in ((rows, 0), (probs, 1)):
        laid = kernels._laid_out(given, way)
        assert (laid == given).all()
        assert laid.stride() == strides.get(way, ((33, 1), (99, 33, 1)))[number]
        assert (laid.data_ptr() % 16 != 0) == (way == "offset")
    turned = kernels._by_position(probs)
    assert (turned == probs).all()
    assert turned.stride() == (33, 66, 1)


def launcher(change: Callable[..., Any]) -> Callable[..., Any]:
    """A launcher of the kernels: what it gives is changed by `change(given, found)`."""
    real: dict[str, Any] = {"propose": proposal.propose, "verify": verifier.verify}

    def launch(given: torch.Tensor, *rest: Any, out: Any = None) -> Any:
        return change(given, real["verify" if given.ndim == 3 else "propose"](given, *rest, out=out))

    return launch


def by_alignment(given: torch.Tensor, found: Any) -> Any:
    """Rows that do not lie at a multiple of 16 bytes lose a token."""
    if given.data_ptr() % 16:
        found[1][0] += 1
    return found


def by_columns(given: torch.Tensor, found: Any) -> Any:
    """Columns apart."""
    if given.stride(-1) != 1:
        found[1][-1] += 1
    return found


def by_row_stride(given: torch.Tensor, found: Any) -> Any:
    """Rows with something between them."""
    if given.stride(-2) > given.shape[-1] * given.stride(-1):
        found[0][0] += 1
    return found


def by_buffers(given: torch.Tensor, found: Any) -> Any:
    """What the buffers held shows through: their last write is remembered."""
    HELD.append(found[1].clone())
    if len(HELD) > 1 and HELD[-2].shape == found[1].shape:
        found[1][0] = torch.maximum(HELD[-2][0], found[1][0])
    return found


HELD: list[torch.Tensor] = []


@pytest.mark.parametrize(
    ("fault", "ways"),
    [
        pytest.param(by_alignment, {"offset"}, id="alignment"),
        pytest.param(by_columns, {"strided"}, id="columns-apart"),
        pytest.param(by_row_stride, {"padded"}, id="rows-apart"),
    ],
)
def test_a_kernel_that_depends_on_its_layout_is_counted(
    fault: Callable[..., Any], ways: set[str], interpreted: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own way, for both kernels."""
    monkeypatch.setattr(proposal, "propose", launcher(fault))
    monkeypatch.setattr(verifier, "verify", launcher(fault))
    tried = ("reversed", "padded", "strided", "offset")
    rows, rounds = kernels.Proposals(Rows(33, Dtype.FP32), CPU), Rounds(Table(33), 4, "carrier")
    found = [
        company.met(rows.run, tried, 6, 3).differing,
        company.met(kernels.Verifications(rounds, CPU).run, tried, 8, 3).differing,
    ]
    assert [{way for way, differ in one.items() if differ} for one in found] == [ways, ways]


def test_what_a_buffer_held_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the digest, since every launch but a fresh one follows other work."""
    HELD.clear()
    monkeypatch.setattr(proposal, "propose", launcher(by_buffers))
    rows = Rows(33, Dtype.FP32)
    assert digest(*kernels.Proposals(rows, CPU).run(OWN, "plain")) != invariance._digest_of_rows(rows)


def test_an_unwritten_output_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that writes nothing leaves an illegal value, not what a right one wrote before."""

    def nothing(given: torch.Tensor, *rest: Any, out: Any = None) -> Any:
        return out

    monkeypatch.setattr(verifier, "verify", nothing)
    (status, _, lengths) = kernels.Verifications(Rounds(Table(33), 4, "carrier"), CPU).run(np.arange(8), "plain")
    assert set(status.tolist()) == set(lengths.tolist()) == {kernels.ILLEGAL}


def test_a_difference_in_any_field_counts() -> None:
    """Once a row, and not for rows that only keep company."""
    rows = Rows(33, Dtype.FP32)
    run = invariance._proposed(rows)
    want, which = run(OWN, "plain"), np.array([3, 7, 0, 3])
    got = run(which, "plain")
    assert company.differing(got, which, want) == 0
    for number in range(len(got)):
        for place, count in ((0, 1), (1, 0), (2, 1)):
            other = [field.copy() for field in got]
            other[number].reshape(4, -1)[place, -1] += 1
            assert company.differing(tuple(other), which, want) == count
