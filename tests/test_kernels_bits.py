"""The kernels' bits beside the reference's: many rows, wide rows, and one altered integer that is seen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from pp3.harness import backends, bits
from pp3.harness.backends import Arithmetic, Backend, Dtype, Reference
from pp3.harness.bits import BitsResult
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.kernels import KernelSampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import addressing, proposal, reference, verifier
from pp3.kernels.reference import FAILED, OK
from pp3.targets import build


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
