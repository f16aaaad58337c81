"""The kernels, in Triton's interpreter and as compiled code: bits, strides, columns, refusals, cubins without a GPU."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness import backends, bits, conform
from pp3.harness.backends import Arithmetic, Backend, Dtype, Reference
from pp3.harness.bits import BitsResult
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.kernels import KernelSampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import addressing, proposal, reference, verifier
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT
from pp3.targets import build

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors"
POISON = -(1 << 30)


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


@pytest.fixture(scope="module")
def proposed(kernels: Arithmetic) -> list[BitsResult]:
    """Every row of the proposal bits."""
    return list(bits.proposal_bits(kernels))


@pytest.fixture(scope="module")
def verified(kernels: Arithmetic) -> list[BitsResult]:
    """Every row of the verify bits."""
    return list(bits.verify_bits(kernels))


@pytest.mark.parametrize("name", ["propose.json", "verify.json"])
def test_vectors(name: str, kernels: Arithmetic) -> None:
    found = conform.run(VECTORS / name, kernels)
    assert found.first_difference is None
    assert found.passed == found.total > 0


def test_proposal_bits(proposed: list[BitsResult]) -> None:
    assert [result for result in proposed if result.mismatches or result.first] == []
    assert sum(result.rows for result in proposed) >= 512
    assert {result.id.split("/")[1] for result in proposed} == {dtype.value for dtype in Dtype}
    assert all(0 < result.failed_rows < result.rows for result in proposed)


def test_verify_bits(verified: list[BitsResult]) -> None:
    assert [result for result in verified if result.mismatches or result.first] == []
    assert sum(result.rows for result in verified) >= 512
    assert {result.id.split("/")[1] for result in verified} == {"carrier", "point-mass"}
    assert all(0 < result.failed_rows < result.rows for result in verified)


def test_bits_of_wide_rows(kernels: Arithmetic, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of each kind, and rounds of each kind, by the launches for wide rows."""
    monkeypatch.setattr(bits, "COPIES", 1)
    monkeypatch.setattr(bits, "VERIFY_ROWS", 24)
    monkeypatch.setattr(bits, "PROPOSAL_VOCABS", ())
    monkeypatch.setattr(bits, "VERIFY_VOCABS", ())
    monkeypatch.setattr(bits, "WIDE_PROPOSAL_VOCABS", (20_001,))
    ways = ("batch",)
    found = [*bits.proposal_bits(kernels, ways, wide=True), *bits.verify_bits(kernels, ways, wide=True)]
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 128
    assert all(0 < result.failed_rows < result.rows for result in found)


def test_ranges_of_wide_rows(kernels: Arithmetic) -> None:
    """Every group crowded in turn, logits across zero, NaN of either sign: by the launches for wide rows."""
    vocab = 16_400  # 128 groups of 128 and one more run
    rng = np.random.default_rng(7)
    rows = np.tile(rng.normal(-3, 0.5, vocab).astype(np.float32), (6, 1))
    for row in range(4):
        group = (np.arange(vocab) >> 4) & 127 == 31 * row
        rows[row, group] += 9  # the whole support lies in one group
    rows[4, ::700] = np.abs(rows[4, ::700])  # 24 positive ones: the rest of the support is negative
    rows[5, 3] = np.array(0xFFC00000, np.uint32).view(np.float32)
    keys, rounds, positions = (rng.integers(0, 1 << 63, 6).astype(np.uint64) for _ in range(3))
    sampled = np.array([True] * 5 + [False])
    for dtype in (Dtype.BF16, Dtype.FP16):
        logits = bits.stored(rows, dtype)
        expected = Reference().propose(logits, dtype, sampled, keys, rounds, positions, 0.7)
        got = kernels.propose(logits, dtype, sampled, keys, rounds, positions, 0.7)
        assert list(expected.status) == [OK] * 5 + [FAILED]
        for name, one, other in zip(expected._fields, expected, got, strict=True):
            assert (one == other).all(), name


@pytest.fixture(scope="module")
def many() -> Iterator[None]:
    """Launch as where there are many rows: tiles as wide as a row, several rows a program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposal, "MANY", 1)
        patch.setattr(verifier, "MANY", 1)
        yield


def test_proposal_bits_of_many_rows(kernels: Arithmetic, many: None) -> None:
    """Ranks in 16, 19 and 32 bits; of 4,097 and 8,300 tokens by counting, of fewer in a tile of their width."""
    found = list(bits.proposal_bits(kernels))
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 512
    assert all(0 < result.failed_rows < result.rows for result in found)


def test_verify_bits_of_many_rows(kernels: Arithmetic, many: None) -> None:
    found = list(bits.verify_bits(kernels))
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 512
    assert all(0 < result.failed_rows < result.rows for result in found)


@pytest.mark.parametrize(
    ("name", "depth", "requests", "ways"),
    [
        pytest.param("context", 5, 4, ("batch",), id="by-context"),
        pytest.param("invalidated", 4, 8, ("batch", "permuted"), id="drafts-of-minus-1"),
    ],
)
def test_sampler_bits(name: str, depth: int, requests: int, ways: tuple[str, ...]) -> None:
    first = 2**20 - requests // 2  # across a change of key
    batch = sampled_batch(build(name), depth, 4, Seed(bytes(32)), first, first + requests)
    mixed = replace(batch, sampled=np.arange(requests) % 3 != 2)
    (found,) = bits.sampler_bits(KernelSampler("cpu"), [("requests", mixed)], ways)
    assert (found.rows, found.mismatches, found.first) == (requests, 0, "")


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        pytest.param("propose", "tickets", id="one-ticket-moved"),
        pytest.param("propose", "words", id="another-word"),
        pytest.param("verify", "high", id="draw-off-by-one"),
    ],
)
def test_bits_see_a_mutated_reference(
    case: str, fault: str, kernels: Arithmetic, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate, words, high = reference.allocate, addressing.words, reference._multiply_high

    def one_ticket_moved(logits: reference.F32, tau: float = reference.TAU) -> reference.Supports:
        found = allocate(logits, tau)
        found.tickets[:, 0] += 1
        found.tickets[:, 1] -= 1
        return found

    def another_word(keys: Any, rounds: Any, positions: Any) -> Any:
        return words(keys, rounds, positions)[..., ::-1]

    def off_by_one(w64: Any, total: Any) -> Any:
        return np.maximum(high(w64, total) - (total >> 3), 0)

    if fault == "tickets":
        monkeypatch.setattr(reference, "allocate", one_ticket_moved)
    elif fault == "words":
        monkeypatch.setattr(addressing, "words", another_word)
    else:
        monkeypatch.setattr(reference, "_multiply_high", off_by_one)
    found = next(bits.proposal_bits(kernels) if case == "propose" else bits.verify_bits(kernels))
    assert found.mismatches > 0
    assert found.first.startswith("batch: row ")


@dataclass(frozen=True)
class Altered:
    """The reference with the last integer of one field changed, in every call or in those of one row."""

    field: str
    way: str

    def propose(self, *arguments: Any) -> reference.Proposal:
        """See Arithmetic."""
        return reference.Proposal(*self._alter(Reference().propose(*arguments), len(arguments[0])))

    def verify(self, *arguments: Any) -> reference.Verification:
        """See Arithmetic."""
        return reference.Verification(*self._alter(Reference.verify(*arguments), len(arguments[0])))

    def _alter(self, found: Any, rows: int) -> Any:
        if (self.way == "alone" and rows > 1) or not hasattr(found, self.field):
            return found
        values = getattr(found, self.field).copy()
        values.reshape(rows, -1)[-1, -1] += 1
        return found._replace(**{self.field: values})


@pytest.mark.parametrize("way", ["batch", "alone"])
@pytest.mark.parametrize("field", ["status", "token", "ids", "tickets", "tokens", "num_sampled"])
def test_bits_see_one_integer(field: str, way: str) -> None:
    altered = Altered(field, way)
    runs = [*bits.proposal_bits(altered)] if field in reference.Proposal._fields else []
    runs += [*bits.verify_bits(altered)] if field in reference.Verification._fields else []
    assert runs
    for found in runs:
        assert found.mismatches == {"batch": 4, "alone": 1}[way], found  # each of the four ways, or the one alone
        assert found.first.startswith(f"{way}: row ")


def test_bits_of_the_reference_itself() -> None:
    for found in (*bits.proposal_bits(Reference()), *bits.verify_bits(Reference())):
        assert (found.mismatches, found.first) == (0, "")


@pytest.mark.parametrize("field", ["status", "tokens", "num_sampled", "proposed", "drafts", "support", "tickets"])
@pytest.mark.parametrize("way", bits.WAYS)
def test_sampler_bits_see_one_integer(field: str, way: str) -> None:
    batch = sampled_batch(build("invalidated"), 4, 4, Seed(bytes(32)), 0, 6)
    calls = []

    class Wrong(ReferenceSampler):
        def run(self, batch: Batch) -> Emission:
            emission = super().run(batch)
            calls.append(way)
            shapes = {"batch": 1, "alone": 2, "permuted": 3, "replayed": 4}
            if len(calls) != shapes[way]:
                return emission
            values = getattr(emission, field).copy()
            values.reshape(len(values), -1)[0, 0] += 1
            return replace(emission, **{field: values})

    (found,) = bits.sampler_bits(Wrong(), [("x", batch)], alone=2)
    request = 5 if way == "permuted" else 0
    assert (found.mismatches, found.first) == (1, f"{way}: request {request}")


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


def poisoned(batch: int, depth: int) -> proposal.Drafts:
    """Buffers in which an unwritten entry shows."""
    drafts = proposal.empty_drafts(batch, depth, torch.device("cpu"))
    for tensor in drafts:
        tensor.fill_(POISON)
    return drafts


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


def propose_arguments() -> dict[str, Any]:
    """A call that works."""
    words = {name: torch.zeros(2, dtype=torch.int64) for name in ("keys", "rounds", "positions")}
    return {"logits": torch.zeros(2, 40), "sampled": torch.ones(2, dtype=torch.int32), **words}


def verify_arguments() -> dict[str, Any]:
    """A call that works."""
    words = {name: torch.zeros(2, dtype=torch.int64) for name in ("keys", "rounds", "positions")}
    return {
        "target_probs": torch.full((2, 5, 64), 1 / 64),
        "draft_ids": torch.zeros(2, 4, dtype=torch.int32),
        "support": torch.arange(SUPPORT, dtype=torch.int32).expand(2, 4, SUPPORT).contiguous(),
        "tickets": torch.full((2, 4, SUPPORT), ONE // SUPPORT, dtype=torch.int32),
        "sampled": torch.ones(2, dtype=torch.int32),
        **words,
    }


def test_the_calls_the_refusals_start_from_work() -> None:
    with np.errstate(all="ignore"):
        assert proposal.propose(**propose_arguments()).status.tolist() == [OK, OK]
        assert verifier.verify(**verify_arguments()).status.tolist() == [OK, OK]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"logits": torch.zeros(2, 40, dtype=torch.float64)}, r"\(2, 40\) torch.float64", id="fp64"),
        pytest.param({"logits": torch.zeros(40)}, r"logits are \(40,\)", id="one-axis"),
        pytest.param({"logits": torch.zeros(2, 31)}, r"vocabulary 31 is outside \[32, 262144\]", id="vocab-31"),
        pytest.param({"logits": torch.zeros(2, 2**18 + 1)}, "vocabulary 262145", id="vocab-above-2^18"),
        pytest.param({"tau": float("nan")}, "tau nan must be finite", id="tau-nan"),
        pytest.param({"tau": -0.5}, r"tau -0\.5 must be finite and >= 0", id="tau-negative"),
        pytest.param({"sampled": torch.ones(2, dtype=torch.bool)}, r"sampled is \(2,\) torch.bool", id="bool-sampled"),
        pytest.param({"sampled": torch.ones(3, dtype=torch.int32)}, r"sampled is \(3,\)", id="three-sampled"),
        pytest.param({"keys": torch.zeros(2, dtype=torch.int32)}, r"keys is \(2,\) torch.int32", id="int32-keys"),
        pytest.param({"rounds": torch.zeros(2, 1, dtype=torch.int64)}, r"rounds is \(2, 1\)", id="rounds-of-two-axes"),
        pytest.param(
            {"positions": torch.zeros(4, dtype=torch.int64)[::2]},
            r"positions .*want contiguous \[2\]",
            id="positions-apart",
        ),
        pytest.param({"column": 1}, r"column 1 is outside the 1 columns", id="column-past-the-depth"),
        pytest.param({"column": -1}, "column -1", id="column-negative"),
        pytest.param({"out": poisoned(3, 1)}, r"out\.status is \(3,\)", id="other-batch"),
    ],
)
def test_propose_refuses(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        proposal.propose(**propose_arguments() | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"target_probs": torch.zeros(2, 5, 64).double()}, r"\(2, 5, 64\) torch.float64", id="fp64"),
        pytest.param({"target_probs": torch.zeros(2, 64)}, r"target_probs are \(2, 64\)", id="two-axes"),
        pytest.param({"target_probs": torch.zeros(2, 5, 2**18 + 1)}, "vocabulary 262145", id="vocab-above-2^18"),
        pytest.param({"target_probs": torch.zeros(2, 5, 0)}, "vocabulary 0 is outside", id="vocab-0"),
        pytest.param({"target_probs": torch.zeros(2, 6, 64)}, r"draft_ids is \(2, 4\)", id="other-depth"),
        pytest.param(
            {"draft_ids": torch.zeros(2, 4, dtype=torch.int64)}, "draft_ids .* torch.int64", id="int64-drafts"
        ),
        pytest.param({"support": None}, "support and tickets go together", id="tickets-alone"),
        pytest.param({"tickets": None}, "support and tickets go together", id="support-alone"),
        pytest.param(
            {"tickets": torch.zeros(2, 4, 31, dtype=torch.int32)}, r"tickets is \(2, 4, 31\)", id="31-tickets"
        ),
        pytest.param({"sampled": torch.ones(2)}, r"sampled is \(2,\) torch.float32", id="float-sampled"),
        pytest.param({"keys": torch.zeros(1, dtype=torch.int64)}, r"keys is \(1,\)", id="one-key"),
        pytest.param({"rounds": torch.zeros(2)}, "rounds .* torch.float32", id="float-rounds"),
        pytest.param(
            {"positions": torch.zeros(4, dtype=torch.int64)[::2]}, "positions .*contiguous", id="positions-apart"
        ),
    ],
)
def test_verify_refuses(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verifier.verify(**verify_arguments() | changed)


def test_out_is_written_and_nothing_else(rng: np.random.Generator) -> None:
    arguments = verify_arguments()
    out = verifier.Verified(*(torch.full(shape, POISON, dtype=torch.int32) for shape in ((2,), (2, 5), (2,))))
    before = {name: value.clone() for name, value in arguments.items()}
    with np.errstate(all="ignore"):
        assert verifier.verify(**arguments, out=out) is out
    assert all((tensor != POISON).all() for tensor in out)
    assert all((before[name] == value).all() for name, value in arguments.items())


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pp3.kernels import groups, proposal, rejection, row_sums, search, selector, verifier, walk

WIDE = ("keys_ptr", "candidates_ptr", "mass_ptr", "best_ptr", "key_ptr", "round_ptr", "position_ptr")
POINTERS = dict.fromkeys(WIDE, "*i64")
SCALARS = {"request_stride": "i64", "tau": "fp32"}
TILES = {proposal: proposal.TILE, rejection: verifier.TILE, row_sums: verifier.TILE}
SIZES = {"ROWS": 1, "COLUMNS": 8, "TILES": 16, "K": 32, "CHUNK": verifier.CHUNK, "DEPENDENT": True, "SORTS": True}
SIZES |= {"AT_ONCE": 1, "GROUPS": groups.GROUPS, "KEPT": groups.KEPT, "WARPS": groups.WARPS, "LANES": groups.LANES}


def build(module, kernel, width=None, sizes={}, **read):
    types, constants = {}, {}
    for place, name in enumerate(kernel.arg_names):
        if name.isupper():
            chosen = SIZES | {"TILE": TILES.get(module), "WIDTH": width} | sizes
            types[name], constants[place,] = "constexpr", chosen[name]
        elif name.endswith("_ptr"):
            types[name] = (POINTERS | read).get(name, "*i32")
        else:
            types[name] = SCALARS.get(name, "i32")
    source = ASTSource(fn=kernel, signature=types, constexprs=constants)
    cubin = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm["cubin"]
    print(kernel.__name__, cubin[:4] == bytes([127]) + b"ELF", len(cubin))


for dtype in ("bf16", "fp16", "fp32"):
    build(proposal, proposal._tile_candidates, logits_ptr="*" + dtype)
    whole = {"TILE": 8192, "TILE_BITS": 13, "VALUE_BITS": {"bf16": 16, "fp16": 19, "fp32": 32}[dtype]}
    build(search, search.largest_of_rows, sizes=whole, logits_ptr="*" + dtype)
for width in (32, 128):  # one tile, and several to merge
    build(proposal, proposal._allocate_and_draw, width)
for dtype, infinity in groups.INFINITY.items():
    main, extra = groups.sizes(163_840)
    row = {"MAIN": main, "EXTRA": extra, "INFINITY": infinity, "HALVES": infinity == 0x7C00}
    for kernel in (groups.group_bests, selector.select_and_draw):
        build(selector, kernel, sizes=row, logits_ptr="*i16", best_ptr="*i32")
build(walk, walk.judge_and_emit, sizes={"TILE": walk.TILE, "TILES": 128}, probs_ptr="*fp32")
build(row_sums, row_sums.tile_masses, probs_ptr="*fp32")
build(rejection, rejection.walk_and_emit, probs_ptr="*fp32")
"""


def test_every_kernel_compiles_for_sm_90_without_a_gpu(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    added = {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=inherited | added | {"CUDA_VISIBLE_DEVICES": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    kernels = ["_tile_candidates", "largest_of_rows"] * 3 + ["_allocate_and_draw"] * 2
    kernels += ["group_bests", "select_and_draw"] * 2 + ["judge_and_emit", "tile_masses", "walk_and_emit"]
    assert [name for name, *_ in found] == kernels
    assert all(elf == "True" and int(size) > 1000 for _, elf, size in found)


FILLED = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pp3.kernels import groups


def build(kernel, types, constants):
    places = {name: place for place, name in enumerate(kernel.arg_names)}
    types = dict.fromkeys(constants, "constexpr") | types
    source = ASTSource(
        fn=kernel,
        signature={name: types[name] for name in kernel.arg_names},
        constexprs={(places[name],): value for name, value in constants.items()},
        attrs={(places[name],): [["tt.divisibility", 16]] for name in types if name not in constants},
    )
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ptx"]
    print(triton.__version__, kernel.__name__, ptx.count("ld.global.v4"), ptx.count("0xffffffffffff"))


main, extra = groups.sizes(129_280)  # ends inside a turn of the groups: some entries lie past the row
chosen = {"INFINITY": 0x7F80, "MAIN": main, "EXTRA": extra, "KEPT": groups.KEPT, "AT_ONCE": 1, "WARPS": groups.WARPS}
ours = {"logits_ptr": "*i16", "row_stride": "i32", "vocab": "i32", "best_ptr": "*i32"}
build(groups.group_bests, ours, chosen | {"LANES": groups.LANES, "DEPENDENT": True})
"""
NEGATIVE = """

@triton.jit
def planted(x_ptr, y_ptr, n):
    i = tl.arange(0, 1024)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=-128))


build(planted, {"x_ptr": "*i16", "y_ptr": "*i16", "n": "i32"}, {})
"""


def test_a_load_of_16_bytes_fills_no_lane_with_another_value(tmp_path: Path) -> None:
    """Triton 3.6 extends the sign of a negative 16-bit `other` over the value beside it: NaN, so that a row fails."""
    script = tmp_path / "filled.py"  # a jitted function is read from its file
    script.write_text(FILLED + NEGATIVE, "utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    added = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=inherited | added | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (version, _, wide, spoilt), (_, _, _, planted) = (line.split() for line in done.stdout.splitlines())
    assert int(wide) >= 1
    assert int(spoilt) == 0
    assert (int(planted) > 0) == version.startswith("3.6.")
