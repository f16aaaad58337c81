"""One row, the same bits: alone, in any batch, slot, order, padding and stride, after other work, eager and replayed.

Vocabularies at, below and above each tile border, a prime, and those of real models. Every way must give the bits of
the first, whose digest must be the reference's. Rows past 2^31 elements are met on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.backends import Backend
from pp3.harness.exact.draws import hashed
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.kernels.reference import TAU, Proposal, propose

SMALL = (32, 33, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 8193, 12_289, 12_301)
MODELS = (129_280, 151_936, 163_840, 248_320)
ROWS = 4
LATE_VOCAB, LATE_ROWS = 131_072, 16_400  # 2,149,580,800 elements
KEY = 0x082EFA98EC4E6C89
CLAIM = "the same bits alone, batched, permuted, padded, strided, after other work, eager and by graph replay"
Array = npt.NDArray[Any]


def vocabularies(gpu: bool) -> tuple[int, ...]:
    """Sizes met on a device: the CPU leaves the largest to a GPU."""
    return SMALL + MODELS if gpu else SMALL


def rows(vocab: int) -> Array:
    """Four rows, FP32 [4, vocab]: bell-shaped; ties across tiles and the 32nd place; subnormals; nearly all masked."""
    bell = hashed(f"invariance-{vocab}", vocab, 2.0)
    ties = np.full(vocab, -2, np.float32)
    ties[:: max(1, vocab // 40)] = 1.0
    ties[vocab - 1] = 1.0
    small = (bell * np.float32(2.0**-140)).astype(np.float32)
    masked = np.full(vocab, -np.inf, np.float32)
    masked[[0, vocab // 2, vocab - 1]] = (0.5, 0.5, 1.0)
    return np.stack([bell, ties, small, masked])


def addresses(count: int) -> tuple[Array, Array, Array]:
    """Keys, rounds and positions of `count` rows."""
    row = np.arange(count, dtype=np.uint64)
    return np.full(count, KEY, np.uint64), row, row + np.uint64(2**32 - 2)


def expect(gpu: bool) -> Values:
    """The reference's digest for every vocabulary, and no way that differs."""
    values: Values = {f"vocab-{vocab}": digest(*_reference(rows(vocab))) for vocab in vocabularies(gpu)}
    values["ways-that-differ"] = [0]
    if gpu:
        values["rows-past-2^31"] = digest(*_reference(_bf16(rows(LATE_VOCAB))))
    return values


def size(gpu: bool) -> int:
    """Rows compared: on the CPU reversed, alone and whole; on a GPU seven ways, one of them five times over."""
    return (6 + 5) * ROWS * len(vocabularies(True)) + ROWS if gpu else 3 * ROWS * len(SMALL)


def observe_reference() -> Enumeration:
    """Alone, reversed and batched with others: what the reference can vary."""
    values: Values = {}
    differ = compared = 0
    for vocab in vocabularies(False):
        logits = rows(vocab)
        whole = _reference(logits)
        values[f"vocab-{vocab}"] = digest(*whole)
        keys, rounds, positions = addresses(ROWS)
        order = np.array([2, 0, 3, 1])
        on = np.ones(ROWS, np.bool_)
        permuted = propose(logits[order], on, keys[order], rounds[order], positions[order], TAU)
        differ += _differs(permuted, Proposal(*(field[order] for field in whole)))
        for row in range(ROWS):
            one = slice(row, row + 1)
            alone = propose(logits[one], on[one], keys[one], rounds[one], positions[one], TAU)
            differ += _differs(alone, Proposal(*(field[one] for field in whole)))
        compared += 3 * ROWS
    values["ways-that-differ"] = [differ]
    return Enumeration(id="invariance", claim=CLAIM, compared=compared, values=values)


def observe_cuda() -> Enumeration:
    """Every way on the GPU, for every vocabulary and dtype-exact row."""
    import torch

    values: Values = {}
    differ = compared = 0
    for vocab in vocabularies(True):
        logits = torch.tensor(rows(vocab), device="cuda")
        want = _on_gpu(logits, np.arange(ROWS))
        values[f"vocab-{vocab}"] = digest(*want)
        for way in _ways(logits):
            got, order = way()
            differ += _differs(got, Proposal(*(field[order] for field in want)))
            compared += len(order)
    values["ways-that-differ"] = [differ]
    values["rows-past-2^31"] = digest(*_late_rows())
    return Enumeration(id="invariance", claim=CLAIM, compared=compared + ROWS, values=values)


def observe(device: Backend) -> Enumeration:
    """On a GPU or on the reference."""
    return observe_cuda() if device is Backend.CUDA else observe_reference()


def _ways(logits: Any) -> list[Callable[[], tuple[Proposal, Array]]]:
    """Ways to meet the same four rows: each gives outputs and which row each output belongs to."""
    import torch

    vocab = logits.shape[1]
    order = np.array([2, 0, 3, 1])
    wide = torch.full((ROWS, vocab + 37), torch.nan, device="cuda")
    wide[:, :vocab] = logits
    spread = torch.full((ROWS, 2 * vocab), torch.nan, device="cuda")
    spread[:, ::2] = logits
    padded = torch.cat([logits, torch.full((3, vocab), torch.nan, device="cuda")])

    def alone() -> tuple[Proposal, Array]:
        parts = [_on_gpu(logits[row : row + 1], np.array([row])) for row in range(ROWS)]
        return Proposal(*(np.concatenate(field) for field in zip(*parts, strict=True))), np.arange(ROWS)

    def in_a_larger_batch() -> tuple[Proposal, Array]:
        found = _on_gpu(logits.repeat(5, 1), np.tile(np.arange(ROWS), 5))
        return found, np.tile(np.arange(ROWS), 5)

    def beside_failed_rows() -> tuple[Proposal, Array]:
        found = _on_gpu(padded, np.arange(ROWS + 3))
        return Proposal(*(field[:ROWS] for field in found)), np.arange(ROWS)

    return [
        alone,
        lambda: (_on_gpu(logits[order], order), order),
        in_a_larger_batch,
        beside_failed_rows,
        lambda: (_on_gpu(wide[:, :vocab], np.arange(ROWS)), np.arange(ROWS)),
        lambda: (_on_gpu(spread[:, ::2], np.arange(ROWS)), np.arange(ROWS)),
        lambda: (_on_gpu(logits, np.arange(ROWS), replay=True), np.arange(ROWS)),
    ]


def _on_gpu(logits: Any, which: Array, replay: bool = False) -> Proposal:
    """Propose on the GPU into used buffers; which [n] selects the addresses. With `replay`, through a CUDA graph."""
    import torch

    from pp3.kernels import proposal

    keys, rounds, positions = (torch.tensor(part[which].view(np.int64), device="cuda") for part in addresses(ROWS + 3))
    sampled = torch.ones(len(which), dtype=torch.int32, device="cuda")
    out = proposal.empty_drafts(len(which), 1, logits.device)
    for buffer in out:
        buffer.fill_(-(1 << 30))
    proposal.propose(logits.flip(0), sampled, keys, rounds, positions, out=out)  # other work in the same buffers
    if replay:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            proposal.propose(logits, sampled, keys, rounds, positions, out=out)
        for buffer in out:
            buffer.fill_(-(1 << 30))
        graph.replay()
    else:
        proposal.propose(logits, sampled, keys, rounds, positions, out=out)
    status, token, ids, tickets = (part.cpu().numpy() for part in out)
    return Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0])


def _late_rows() -> Proposal:
    """The last rows of a BF16 batch of more than 2^31 elements."""
    import torch

    from pp3.kernels import proposal

    logits = torch.full((LATE_ROWS, LATE_VOCAB), -1.0, dtype=torch.bfloat16, device="cuda")
    logits[-ROWS:] = torch.tensor(_bf16(rows(LATE_VOCAB)), device="cuda").to(torch.bfloat16)
    keys, rounds, positions = (torch.tensor(part.view(np.int64), device="cuda") for part in addresses(ROWS))
    pad = LATE_ROWS - ROWS
    filled = [torch.cat([part[:1].expand(pad), part]).contiguous() for part in (keys, rounds, positions)]
    sampled = torch.ones(LATE_ROWS, dtype=torch.int32, device="cuda")
    found = proposal.propose(logits, sampled, filled[0], filled[1], filled[2])
    status, token, ids, tickets = (part[-ROWS:].cpu().numpy() for part in found)
    return Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0])


def _bf16(logits: Array) -> Array:
    """FP32 values cut to BF16."""
    return (logits.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _reference(logits: Array) -> Proposal:
    keys, rounds, positions = addresses(len(logits))
    return propose(logits, np.ones(len(logits), np.bool_), keys, rounds, positions, TAU)


def _differs(one: Proposal, other: Proposal) -> int:
    return int(any((a != b).any() for a, b in zip(one, other, strict=True)))
