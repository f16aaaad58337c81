"""The verifier in Triton: standard rejection in integers, `standard-u32-v1`, two launches a round.

Contract: semantics section 3, bit for bit the reference. Launch 1 (row_sums.py) reduces each tile of each target row to
its mass on the 2^-48 grid (-1 marks an illegal entry) and its argmax. Launch 2 checks the rows, judges the drafts and
emits: rejection.py by positions in turn, walk.py all positions at once for few requests of wide rows. Padding: tokens
-1. Counter: (round, position + column) under the request's verify key; rows at temperature 0 read no words.
"""

from typing import Any, NamedTuple

import torch
import triton

from pp3.kernels import rejection, row_sums, selector, walk
from pp3.kernels.reference import MAX_VOCAB, SUPPORT

TILE = 1024
LEAST_TILES = 16  # so that every vocabulary up to 16,384 shares one compiled kernel
MANY, WIDEST = 4096, 16_384  # from so many requests on, of rows up to so wide, tiles are
LEAST_TILE, MANY_TILE = 32, 256  # narrow where they are added up once, or where one holds a row
MANY_ENTRIES = 1024  # of the tiles that a program adds up then
CHUNK = 8  # ids of the support subtracted at once
INTERPRETED_ROWS = 64


class Verified(NamedTuple):
    """What a round emits; columns at and past num_sampled hold -1."""

    status: torch.Tensor  # [batch] int32
    tokens: torch.Tensor  # [batch, depth + 1] int32
    num_sampled: torch.Tensor  # [batch] int32


def verify(
    target_probs: torch.Tensor,
    draft_ids: torch.Tensor,
    support: torch.Tensor | None,
    tickets: torch.Tensor | None,
    sampled: torch.Tensor,
    keys: torch.Tensor,
    rounds: torch.Tensor,
    positions: torch.Tensor,
    *,
    out: Verified | None = None,
) -> Verified:
    """Judge draft_ids [batch, depth] int32 against target_probs [batch, depth + 1, vocab] FP32, any strides.

    support and tickets [batch, depth, 32] int32 carry the proposal's law; both None is the point-mass path. sampled
    [batch] int32; keys, rounds and positions [batch] int64 bit patterns of u64, positions being that of the first
    draft. Raises ValueError for shapes or dtypes outside the contract. No device sync.
    """
    if target_probs.ndim != 3 or target_probs.dtype != torch.float32:
        shape = tuple(target_probs.shape)
        raise ValueError(f"target_probs are {shape} {target_probs.dtype}; want [batch, depth + 1, vocab] FP32")
    batch, columns, vocab = target_probs.shape
    depth = columns - 1
    if depth < 1:
        raise ValueError(f"target_probs have {columns} rows a request; want depth + 1, depth 1 or more")
    if not 1 <= vocab <= MAX_VOCAB:
        raise ValueError(f"vocabulary {vocab} is outside [1, {MAX_VOCAB}], what this verifier declares")
    if (support is None) != (tickets is None):
        raise ValueError("support and tickets go together: give both, or neither for the point-mass path")
    expected: dict[str, tuple[torch.Tensor, tuple[int, ...], torch.dtype]] = {
        "draft_ids": (draft_ids, (batch, depth), torch.int32),
        "sampled": (sampled, (batch,), torch.int32),
        "keys": (keys, (batch,), torch.int64),
        "rounds": (rounds, (batch,), torch.int64),
        "positions": (positions, (batch,), torch.int64),
    }
    if out is not None:
        expected["out.status"] = (out.status, (batch,), torch.int32)
        expected["out.tokens"] = (out.tokens, (batch, columns), torch.int32)
        expected["out.num_sampled"] = (out.num_sampled, (batch,), torch.int32)
    if support is not None and tickets is not None:
        expected["support"] = (support, (batch, depth, SUPPORT), torch.int32)
        expected["tickets"] = (tickets, (batch, depth, SUPPORT), torch.int32)
    for name, (tensor, shape, dtype) in expected.items():
        if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tuple(tensor.shape)} {tensor.dtype}; want contiguous {list(shape)} {dtype}")
    device = target_probs.device
    if out is None:
        ints: dict[str, Any] = {"dtype": torch.int32, "device": device}
        out = Verified(torch.empty(batch, **ints), torch.empty(batch, columns, **ints), torch.empty(batch, **ints))
    if batch == 0:
        return out
    distinct = 1 if target_probs.stride(0) == 0 else batch  # rows shared by stride 0 are added up once
    many = batch >= MANY and vocab <= WIDEST and (distinct == 1 or vocab <= MANY_TILE)
    tile = max(LEAST_TILE, min(MANY_TILE, triton.next_power_of_2(vocab))) if many else TILE
    wide = vocab > WIDEST and batch < MANY and target_probs.stride(2) == 1
    tile = walk.TILE if wide else tile
    dependent = target_probs.is_cuda and selector.launches_dependently(device)
    options: dict[str, Any] = {"launch_pdl": True} if dependent else {}
    tiles = triton.cdiv(vocab, tile)
    mass = torch.empty(distinct * columns * tiles, dtype=torch.int64, device=device)
    best = torch.empty_like(mass)
    rows = _rows_per_program(distinct * columns * tiles, device, MANY_ENTRIES // tile if many else 1)
    row_sums.tile_masses[(triton.cdiv(distinct * columns * tiles, rows),)](
        target_probs,
        *target_probs.stride(),
        distinct,
        vocab,
        columns,
        tiles,
        mass,
        best,
        ROWS=rows,
        TILE=tile,
        DEPENDENT=dependent,
        num_warps=4,
        **options,
    )
    if wide:
        carriers = (draft_ids, draft_ids if support is None else support, draft_ids if tickets is None else tickets)
        lines = columns if distinct > 1 else 0
        requests = (sampled, keys, rounds, positions)
        walk.launch(target_probs, lines, tiles, mass, best, carriers, support is not None, requests, out, dependent)
        return out
    rows = _rows_per_program(batch, device)
    rejection.walk_and_emit[(triton.cdiv(batch, rows),)](
        target_probs,
        *target_probs.stride(),
        batch,
        columns if distinct > 1 else 0,
        depth,
        vocab,
        tiles,
        mass,
        best,
        draft_ids,
        draft_ids if support is None else support,
        draft_ids if tickets is None else tickets,
        int(support is not None),
        sampled,
        keys,
        rounds,
        positions,
        *out,
        ROWS=rows,
        COLUMNS=triton.next_power_of_2(columns),
        TILES=max(2 if many else LEAST_TILES, triton.next_power_of_2(tiles)),
        TILE=tile,
        K=SUPPORT,
        CHUNK=CHUNK,
        num_warps=(1 if tiles == 1 else 2) if many else 4 if batch >= MANY else 8,
    )
    return out


def _rows_per_program(rows: int, device: torch.device, on_gpu: int = 1) -> int:
    """`on_gpu` or 1 on a GPU; many in the interpreter, where a program costs milliseconds whatever its width."""
    return max(1, on_gpu) if device.type == "cuda" else min(INTERPRETED_ROWS, triton.next_power_of_2(rows))
