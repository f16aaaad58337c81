"""The kernels on a GPU: the same bits as in the interpreter, and tensors of more than 2^31 elements.

Run by `make test-gpu`; nothing here is collected as a skip elsewhere, it is deselected.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness import backends, bits, campaign, conform, paired, stopwatch
from pp3.harness.backends import Arithmetic, Backend
from pp3.harness.paths import find_vectors
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import reference
from pp3.kernels.reference import OK, ONE, SUPPORT
from pp3.targets import NAMES, build

pytestmark = pytest.mark.gpu

VOCAB = 131_072
TAIL = 3  # rows compared at each end of a large tensor
SEED = Seed(bytes(range(32)))


@pytest.fixture(scope="module")
def cuda() -> Arithmetic:
    """The compiled kernels."""
    return backends.start(Backend.CUDA)


def sampler() -> Any:
    """The kernels as a sampler on the GPU."""
    from pp3.harness.samplers.kernels import KernelSampler

    return KernelSampler("cuda")


@pytest.mark.parametrize("name", ["propose.json", "verify.json"])
def test_vectors(name: str, cuda: Arithmetic) -> None:
    folder = find_vectors()
    assert folder is not None
    found = conform.run(folder / name, cuda)
    assert found.first_difference is None
    assert found.passed == found.total > 0


def test_proposal_bits(cuda: Arithmetic) -> None:
    found = list(bits.proposal_bits(cuda, wide=True))
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 512


def test_verify_bits(cuda: Arithmetic) -> None:
    found = list(bits.verify_bits(cuda, wide=True))
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 512


@pytest.mark.parametrize("depth", campaign.DEPTHS)
@pytest.mark.parametrize("name", NAMES)
def test_sampler_bits(name: str, depth: int, cuda: Arithmetic) -> None:
    batch = sampled_batch(build(name), depth, 4, SEED, 2**20 - 32, 2**20 + 32)
    (found,) = bits.sampler_bits(sampler(), [(name, batch)])
    assert (found.mismatches, found.first) == (0, "")


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("name", ["context", "invalidated", "sparse-tail"])
def test_graph_replay_emits_what_the_reference_does(name: str, size: int, cuda: Arithmetic) -> None:
    """Two whole graphs of 64 rounds and a rest that is run eagerly, with a last launch that is not full."""
    ours, requests = sampler(), 64 * size * 2 + 2 * size + 1
    for depth, first in ((5, 0), (5, requests), (4, 0), (5, 7)):  # the second by the graph of the first
        batch = sampled_batch(build(name), depth, size, SEED, first, first + requests)
        got, expected = ours.run(batch), ReferenceSampler().run(batch)
        for field in Emission.__dataclass_fields__:
            assert (getattr(got, field).cpu().numpy() == getattr(expected, field)).all(), field


@pytest.mark.parametrize("name", NAMES)
def test_large_launches_emit_what_the_reference_does(name: str, cuda: Arithmetic) -> None:
    """Two launches of so many rows that both kernels take other tiles, one of fewer; greedy rows among the second's."""
    size = 4096
    batch = sampled_batch(build(name), 5, size, SEED, 2**20 - size, 2**20 + size + 5)
    mixed = replace(batch, sampled=(np.arange(len(batch)) < size) | (np.arange(len(batch)) % 3 != 2))
    for given in (batch, mixed):
        got, expected = sampler().run(given), ReferenceSampler().run(given)
        for field in Emission.__dataclass_fields__:
            assert (getattr(got, field).cpu().numpy() == getattr(expected, field)).all(), field


def test_bits_of_many_rows(cuda: Arithmetic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of row in the tiles and programs of large launches."""
    from pp3.kernels import proposal, verifier

    monkeypatch.setattr(proposal, "MANY", 1)
    monkeypatch.setattr(verifier, "MANY", 1)
    found = [*bits.proposal_bits(cuda), *bits.verify_bits(cuda)]
    assert [result for result in found if result.mismatches or result.first] == []
    assert sum(result.rows for result in found) >= 1024


def test_timings_are_of_the_gpu(cuda: Arithmetic) -> None:
    """By events, of every step: a round, which is eleven launches, takes longer than the last two of them."""
    batches = [sampled_batch(build(name), 5, 4, SEED, 0, 4) for name in NAMES]
    rows = {row["id"]: row["samples"] for row in stopwatch.measure(sampler(), batches, True)}
    assert len(rows) == 3 * len(NAMES)
    assert {len(samples) for samples in rows.values()} == {stopwatch.SAMPLES}
    for name in NAMES:
        whole, last = (np.median(rows[f"{name}/depth-5/rows-4/{step}"]) for step in ("round", "verify"))
        assert whole > last


@pytest.mark.parametrize("name", NAMES)
def test_paired(name: str, cuda: Arithmetic) -> None:
    found = paired.run(sampler(), build(name), 5, SEED, 0, 600)
    assert (found.pairs, found.mismatches) == (600, 0)


def words(n: int) -> dict[str, torch.Tensor]:
    """Keys, rounds and positions as int64 bit patterns on the GPU."""
    generator = torch.Generator("cuda").manual_seed(7)
    low, high = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    return {
        name: torch.randint(low, high, (n,), dtype=torch.int64, device="cuda", generator=generator)
        for name in ("keys", "rounds", "positions")
    }


def ends(tensor: torch.Tensor) -> Any:
    """The first and last rows on the host; u64 for int64."""
    rows = torch.cat([tensor[:TAIL], tensor[-TAIL:]]).cpu()
    if rows.dtype == torch.int64:
        return rows.numpy().view(np.uint64)
    return rows.to(torch.float32).numpy() if rows.is_floating_point() else rows.numpy()


def test_propose_past_2_to_31_elements(cuda: Arithmetic) -> None:
    from pp3.kernels import proposal

    n = 16_500
    assert n * VOCAB > 2**31
    generator = torch.Generator("cuda").manual_seed(1)
    logits = torch.empty(n, VOCAB, dtype=torch.bfloat16, device="cuda").normal_(0, 3, generator=generator)
    logits[-1, VOCAB - 1] = 20.0  # the very last element is drawn
    address, sampled = words(n), torch.ones(n, dtype=torch.int32, device="cuda")
    got = proposal.propose(logits, sampled, address["keys"], address["rounds"], address["positions"])
    expected = reference.propose(
        ends(logits), np.ones(2 * TAIL, np.bool_), *(ends(address[name]) for name in ("keys", "rounds", "positions"))
    )
    assert (ends(got.status) == expected.status).all()
    assert (ends(got.token[:, 0]) == expected.token).all()
    assert (ends(got.ids[:, 0]) == expected.ids).all()
    assert (ends(got.tickets[:, 0]) == expected.tickets).all()
    assert int(got.token[-1, 0]) == VOCAB - 1


@pytest.mark.parametrize("layout", ["by-request", "by-position"])
def test_verify_past_2_to_31_elements(layout: str, cuda: Arithmetic) -> None:
    """Rows of one request side by side, and rows of one position side by side: then position 4 starts past 2^31."""
    from pp3.kernels import verifier

    n, depth = 4_100, 5
    assert n * (depth - 1) * VOCAB > 2**31
    shape = (n, depth + 1, VOCAB) if layout == "by-request" else (depth + 1, n, VOCAB)
    store = torch.zeros(shape, dtype=torch.float32, device="cuda")
    target = store if layout == "by-request" else store.transpose(0, 1)
    target[:, :, 11] = 0.5
    target[:, :, VOCAB - 1] = 0.5
    drafts = torch.full((n, depth), 11, dtype=torch.int32, device="cuda")
    support = torch.arange(SUPPORT, dtype=torch.int32, device="cuda").expand(n, depth, SUPPORT).contiguous()
    tickets = torch.zeros(n, depth, SUPPORT, dtype=torch.int32, device="cuda")
    tickets[..., 11] = ONE // 2  # always accepted
    tickets[..., 12] = ONE // 2
    drafts[-1, depth - 1] = 12  # no mass: rejected at the last position
    address, sampled = words(n), torch.ones(n, dtype=torch.int32, device="cuda")
    got = verifier.verify(
        target, drafts, support, tickets, sampled, address["keys"], address["rounds"], address["positions"]
    )
    expected = reference.verify(
        ends(target),
        ends(drafts),
        ends(support),
        ends(tickets),
        np.ones(2 * TAIL, np.bool_),
        *(ends(address[name]) for name in ("keys", "rounds", "positions")),
    )
    for one, other in zip(got, expected, strict=True):
        assert (ends(one) == other).all()
    assert (got.status == OK).all()
    assert got.num_sampled[:-1].tolist() == [depth + 1] * (n - 1)
    assert (int(got.num_sampled[-1]), int(got.tokens[-1, depth - 1])) == (depth, VOCAB - 1)
