"""Invariance: the rows that are met, the kernels in the interpreter on them, and a planted fault of each kind."""

import inspect
import types
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.harness.exact import invariance
from pp3.harness.exact.enumeration import differences, digest
from pp3.kernels import proposal, reference
from pp3.kernels.reference import SUPPORT, TAU, Proposal, propose

Array = npt.NDArray[Any]
INTERPRETED = (32, 33, 127, 128, 129, 4095, 4096, 4097, 8193)


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


def take(found: Proposal, which: Array) -> Proposal:
    """Some rows of a proposal."""
    return Proposal(*(field[which] for field in found))


def test_the_vocabularies_are_those_of_the_claim() -> None:
    tile = proposal.TILE
    assert {SUPPORT, SUPPORT + 1} < set(invariance.SMALL)
    assert {n * tile + step for n in (1, 2) for step in (-1, 0, 1)} < set(invariance.SMALL)
    assert any(all(vocab % d for d in range(2, 111)) for vocab in invariance.SMALL if vocab > tile)  # a prime
    assert invariance.MODELS == (129_280, 151_936, 163_840, 248_320)
    assert invariance.vocabularies(gpu=True) == invariance.SMALL + invariance.MODELS
    assert invariance.vocabularies(gpu=False) == invariance.SMALL
    assert invariance.LATE_ROWS * invariance.LATE_VOCAB > 1 << 31
    assert (invariance.LATE_ROWS - invariance.ROWS) * invariance.LATE_VOCAB > 1 << 31


@pytest.mark.parametrize("vocab", invariance.SMALL)
def test_the_four_rows(vocab: int) -> None:
    """Bell, ties across the 32nd place where there are 33 of them, subnormals, three finite logits."""
    bell, ties, small, masked = invariance.rows(vocab)
    assert invariance.rows(vocab).dtype == np.float32
    assert np.isfinite(bell).all()
    assert (ties == 1).sum() > (SUPPORT if vocab >= 80 else 0)
    held = np.abs(small[small != 0])
    assert len(held)
    assert (held < np.finfo(np.float32).tiny).all()
    assert np.isfinite(masked).sum() == 3


def test_bf16_is_cut_exactly() -> None:
    cut = invariance._bf16(invariance.rows(4097))
    finite = torch.tensor(cut)
    assert (finite.to(torch.bfloat16).to(torch.float32).numpy().view(np.uint32) == cut.view(np.uint32)).all()


def test_addresses_cross_a_word() -> None:
    """Positions pass 2^32, and no two rows share one."""
    keys, rounds, positions = invariance.addresses(7)
    assert positions.min() < 1 << 32 < positions.max() + np.uint64(1)
    assert len(set(zip(keys.tolist(), rounds.tolist(), positions.tolist(), strict=True))) == 7


def test_the_reference_is_invariant() -> None:
    found = invariance.observe(Backend.REFERENCE)
    assert differences(found.values, invariance.expect(gpu=False)) == []
    assert (found.id, found.claim, found.compared) == ("invariance", invariance.CLAIM, 12 * len(invariance.SMALL))


def test_a_gpu_owes_more() -> None:
    assert invariance.expect(gpu=True).keys() - invariance.expect(gpu=False).keys() == {
        "rows-past-2^31",
        *(f"vocab-{vocab}" for vocab in invariance.MODELS),
    }


@pytest.mark.parametrize("vocab", INTERPRETED)
def test_the_kernels_have_the_bits_of_the_reference(vocab: int, kernels: Arithmetic) -> None:
    """Together, alone, in another order, and between rows that fail."""
    logits = invariance.rows(vocab)
    address = invariance.addresses(7)

    def run(rows: Array, which: Array) -> Proposal:
        on = np.ones(len(which), np.bool_)
        keys, rounds, positions = (part[which] for part in address)
        return kernels.propose(rows, Dtype.FP32, on, keys, rounds, positions, TAU)

    whole = run(logits, np.arange(4))
    assert digest(*whole) == digest(*invariance._reference(logits))
    order = np.array([2, 0, 3, 1])
    assert not invariance._differs(run(logits[order], order), take(whole, order))
    for row in range(4):
        assert not invariance._differs(run(logits[row : row + 1], np.array([row])), take(whole, np.array([row])))
    failing = np.concatenate([logits, np.full((3, vocab), np.nan, np.float32)])
    assert not invariance._differs(take(run(failing, np.arange(7)), np.arange(4)), whole)


@pytest.mark.parametrize("vocab", [33, 129, 4097])
def test_strides_padding_and_used_buffers(vocab: int, kernels: Arithmetic) -> None:
    """The ways of the GPU that the interpreter has, through the launcher."""
    logits = torch.tensor(invariance.rows(vocab))
    wide = torch.full((4, vocab + 37), torch.nan)
    wide[:, :vocab] = logits
    spread = torch.full((4, 2 * vocab), torch.nan)
    spread[:, ::2] = logits
    keys, rounds, positions = (torch.from_numpy(part.view(np.int64)) for part in invariance.addresses(4))
    on = torch.ones(4, dtype=torch.int32)
    want = invariance._reference(invariance.rows(vocab))
    out = proposal.empty_drafts(4, 1, logits.device)
    for rows in (logits, wide[:, :vocab], spread[:, ::2]):
        with np.errstate(all="ignore"):
            proposal.propose(logits.flip(0), on, keys, rounds, positions, out=out)
            proposal.propose(rows, on, keys, rounds, positions, out=out)
        status, token, ids, tickets = (part.numpy() for part in out)
        assert not invariance._differs(Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0]), want)


def test_a_difference_in_any_field_counts() -> None:
    whole = invariance._reference(invariance.rows(33))
    for number, field in enumerate(whole):
        other = field.copy()
        other.reshape(-1)[-1] += 1
        assert invariance._differs(whole, Proposal(*(other if n == number else f for n, f in enumerate(whole)))) == 1
    assert invariance._differs(whole, whole) == 0


def of_its_batch(logits: Any, sampled: Any, keys: Any, rounds: Any, positions: Any, tau: float) -> Proposal:
    """A row whose draw depends on how many rows there are."""
    return propose(logits, sampled, keys, rounds + np.uint64(len(logits)), positions, tau)


def of_its_place(logits: Any, sampled: Any, keys: Any, rounds: Any, positions: Any, tau: float) -> Proposal:
    """A row whose draw depends on its slot."""
    return propose(logits, sampled, keys, rounds + np.arange(len(logits), dtype=np.uint64), positions, tau)


def of_its_neighbour(logits: Any, *rest: Any) -> Proposal:
    """A row that takes the maximum of the whole batch for its own."""
    found = propose(logits, *rest)
    tickets = found.tickets.copy()
    tickets[:, 0] += int(logits.max() != logits[0].max())
    return found._replace(tickets=tickets)


@pytest.mark.parametrize("fault", [of_its_batch, of_its_place, of_its_neighbour])
def test_a_row_that_depends_on_its_batch_is_counted(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariance, "propose", fault)
    differ = invariance.observe_reference().values["ways-that-differ"][0]
    assert isinstance(differ, int)
    assert differ >= len(invariance.SMALL)


def flushed(logits: Any, *rest: Any) -> Proposal:
    """Subnormals as zeros."""
    return propose(np.where(np.abs(logits) < np.finfo(np.float32).tiny, np.float32(0), logits), *rest)


def last_column_lost(logits: Any, *rest: Any) -> Proposal:
    """A tile border that is one short."""
    cut = logits.copy()
    cut[:, -1] = -np.inf
    return propose(cut, *rest)


def higher_id_first(logits: Any, *rest: Any) -> Proposal:
    """Ties by the higher id."""
    found = propose(np.ascontiguousarray(logits[:, ::-1]), *rest)
    last = logits.shape[1] - 1
    return Proposal(found.status, last - found.token, last - found.ids[:, ::-1], found.tickets[:, ::-1])


FAULTS = {
    "subnormals flushed": flushed,
    "the last column lost": last_column_lost,
    "ties by the higher id": higher_id_first,
    "tickets in FP32": mutant(".astype(np.float32).astype(np.float64)\n", ".astype(np.float32)\n").propose,
    "the exponential in FP64": mutant(
        "e = np.exp(y.astype(np.float64)).astype(np.float32).astype(np.float64)", "e = np.exp(y.astype(np.float64))"
    ).propose,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_another_arithmetic_has_another_digest(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits in every way are not enough: they must be the reference's."""
    expected = invariance.expect(gpu=False)
    monkeypatch.setattr(invariance, "propose", fault)
    assert differences(invariance.observe_reference().values, expected)


@pytest.mark.gpu
def test_every_way_on_a_gpu() -> None:
    found = invariance.observe(Backend.CUDA)
    assert differences(found.values, invariance.expect(gpu=True)) == []
    ways = 4 + 4 + 20 + 4 + 4 + 4 + 4  # rows of the seven ways
    assert found.compared == ways * len(invariance.vocabularies(gpu=True)) + invariance.ROWS
