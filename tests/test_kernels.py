"""The kernels, in Triton's interpreter and as compiled code: answers, strides, columns that fail, what is written."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from kernel_arguments import POISON, poisoned, verify_arguments

from pp3.harness import backends, bits, conform
from pp3.harness.backends import Arithmetic, Backend
from pp3.kernels import proposal, reference, verifier
from pp3.kernels.reference import FAILED, OK, SUPPORT

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors"


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


@pytest.mark.parametrize("name", ["propose.json", "verify.json"])
def test_vectors(name: str, kernels: Arithmetic) -> None:
    found = conform.run(VECTORS / name, kernels)
    assert found.first_difference is None
    assert found.passed == found.total > 0


def tensors(rng: np.random.Generator, n: int) -> Any:
    """Keys, rounds and positions [n] near every carry, as int64 bit patterns: three tensors."""
    words = rng.integers(0, 1 << 64, (3, n), np.uint64)
    words[2] = rng.choice(np.array([0, 2**32 - 2, 2**63 - 1, 2**64 - 1, 2**64 - 2], np.uint64), n)
    return tuple(torch.tensor(word.view(np.int64)) for word in words)


def numbers(words: Any) -> tuple[Array, ...]:
    """The same as u64 arrays."""
    return tuple(word.numpy().view(np.uint64) for word in words)


def spread(dense: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values behind other strides."""
    *rows, vocab = dense.shape
    if layout == "row-stride":
        wide = torch.full((*rows, vocab + 37), float("nan"), dtype=dense.dtype)
        wide[..., 5 : 5 + vocab] = dense
        return wide[..., 5 : 5 + vocab]
    if layout == "column-stride-2":
        wide = torch.full((*rows, 2 * vocab), float("nan"), dtype=dense.dtype)
        wide[..., ::2] = dense
        return wide[..., ::2]
    if layout == "transposed":
        return dense.transpose(0, -1).contiguous().transpose(0, -1)
    return dense[:1].expand(*dense.shape)


@pytest.mark.parametrize("layout", ["row-stride", "column-stride-2", "transposed", "stride-0"])
@pytest.mark.parametrize(
    ("dtype", "vocab"),
    [pytest.param(torch.bfloat16, 4099, id="bf16-two-tiles"), pytest.param(torch.float32, 97, id="fp32-one-tile")],
)
def test_propose_reads_any_strides(layout: str, dtype: torch.dtype, vocab: int, rng: np.random.Generator) -> None:
    n = 5
    dense = torch.tensor(rng.normal(0, 3, (n, vocab)).astype(np.float32)).to(dtype)
    dense[3, vocab - 1] = float("nan")
    logits = spread(dense, layout)
    assert logits.stride() != (vocab, 1)
    words, sampled = tensors(rng, n), torch.tensor([1, 1, 0, 1, 1], dtype=torch.int32)
    with np.errstate(all="ignore"):  # in the interpreter masked lanes are NumPy's
        got = proposal.propose(logits, sampled, *words)
    values = logits.to(torch.float32).numpy()
    keys, rounds, positions = numbers(words)
    expected = reference.propose(values, sampled.numpy() != 0, keys, rounds, positions)
    same_drafts(got, expected)
    assert (got.status == FAILED).any() == (layout != "stride-0")


@pytest.mark.parametrize("layout", ["row-stride", "column-stride-2", "transposed", "stride-0"])
def test_verify_reads_any_strides(layout: str, rng: np.random.Generator) -> None:
    n, vocab, depth = 24, 1027, 4
    probs, drafts, ids, tickets, sampled, keys, rounds, positions = bits.verify_inputs(vocab, depth, n, rng)
    drafts[0] = ids[0, :, 0]
    favoured = np.zeros_like(probs)
    np.put_along_axis(favoured[:, :depth], np.clip(drafts, 0, vocab - 1).astype(np.int64)[..., None], 1, axis=-1)
    favoured[:, depth, 1] = 1
    probs = (probs + favoured) / np.float32(2)  # a draft is accepted as often as not
    target = spread(torch.tensor(probs), layout)
    assert target.stride() != ((depth + 1) * vocab, vocab, 1)
    words = tuple(torch.tensor(word.view(np.int64)) for word in (keys, rounds, positions))
    with np.errstate(all="ignore"):
        got = verifier.verify(
            target,
            torch.tensor(drafts),
            torch.tensor(ids),
            torch.tensor(tickets),
            torch.tensor(sampled, dtype=torch.int32),
            *words,
        )
    expected = reference.verify(target.numpy(), drafts, ids, tickets, sampled, keys, rounds, positions)
    for one, other in zip(got, expected, strict=True):
        assert one.tolist() == other.tolist()
    assert set(got.num_sampled.tolist()) >= {0, 1, depth + 1}


def same_drafts(got: proposal.Drafts, expected: reference.Proposal) -> None:
    """A round of one position against a column of the reference."""
    assert got.status.tolist() == expected.status.tolist()
    assert got.token[:, 0].tolist() == expected.token.tolist()
    assert got.ids[:, 0].tolist() == expected.ids.tolist()
    assert got.tickets[:, 0].tolist() == expected.tickets.tolist()


def test_columns_fail_together(rng: np.random.Generator) -> None:
    """Requests that fail nowhere, at column 0, 1, 2, everywhere: all columns are those of a failed request."""
    n, depth, vocab = 6, 3, 97
    logits = rng.normal(0, 3, (depth, n, vocab)).astype(np.float32)
    for column, request in ((0, 1), (1, 2), (2, 3), (0, 4), (1, 4), (2, 4)):
        logits[column, request, 7 * column] = np.nan
    sampled = np.array([1, 1, 1, 1, 1, 0], np.int32)
    words, out = tensors(rng, n), poisoned(n, depth)
    keys, rounds, positions = numbers(words)
    columns = []
    for column in range(depth):
        with np.errstate(all="ignore"):
            given_back = proposal.propose(
                torch.tensor(logits[column]), torch.tensor(sampled), *words, out=out, column=column
            )
        assert given_back is out
        columns.append(reference.propose(logits[column], sampled != 0, keys, rounds, positions + np.uint64(column)))
        sealed = reference.seal(reference.Proposal(*(np.stack(f, axis=1) for f in zip(*columns, strict=True))))
        done = slice(0, column + 1)
        assert out.status.tolist() == sealed.status[:, 0].tolist()
        assert out.token[:, done].tolist() == sealed.token.tolist()
        assert out.ids[:, done].tolist() == sealed.ids.tolist()
        assert out.tickets[:, done].tolist() == sealed.tickets.tolist()
        assert (out.token[:, column + 1 :] == POISON).all()  # later columns are not touched
    assert out.status.tolist() == [OK, FAILED, FAILED, FAILED, FAILED, OK]


def test_column_0_starts_afresh(rng: np.random.Generator) -> None:
    """A status left from the round before does not fail this one."""
    logits, sampled, words = torch.zeros(2, 40), torch.ones(2, dtype=torch.int32), tensors(rng, 2)
    out = poisoned(2, 1)
    out.status.fill_(FAILED)
    with np.errstate(all="ignore"):
        proposal.propose(logits, sampled, *words, out=out)
    assert out.status.tolist() == [OK, OK]


@pytest.mark.parametrize("depth", [4, 5])
def test_no_requests(depth: int) -> None:
    none, off = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int32)
    drafts = proposal.propose(torch.zeros(0, 40), off, none, none, none)
    assert [tuple(tensor.shape) for tensor in drafts] == [(0,), (0, 1), (0, 1, SUPPORT), (0, 1, SUPPORT)]
    judged = verifier.verify(
        torch.zeros(0, depth + 1, 40), torch.zeros(0, depth, dtype=torch.int32), None, None, off, none, none, none
    )
    assert [tuple(tensor.shape) for tensor in judged] == [(0,), (0, depth + 1), (0,)]


def test_out_is_written_and_nothing_else(rng: np.random.Generator) -> None:
    arguments = verify_arguments()
    out = verifier.Verified(*(torch.full(shape, POISON, dtype=torch.int32) for shape in ((2,), (2, 5), (2,))))
    before = {name: value.clone() for name, value in arguments.items()}
    with np.errstate(all="ignore"):
        assert verifier.verify(**arguments, out=out) is out
    assert all((tensor != POISON).all() for tensor in out)
    assert all((before[name] == value).all() for name, value in arguments.items())
