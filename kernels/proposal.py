"""The top-32 proposal in Triton: `dyadic24-floor-first-v1`, two launches a position.

Contract: semantics section 2, bit for bit the reference. Launch 1 keeps the 32 best of each tile; launch 2, one program
a row, merges them and does temperature, normalisation, tickets and draw. Exact: ranks, tickets, draws (the exponential
is FP64 rounded once to FP32; all sums are integers or multiples of 2^-47). Ties: larger value, then lower id; -0.0
equals +0.0. A position that fails fails the request: columns up to it are rewritten, later ones fail on arrival.
Padding: token -1, ids 0..31, tickets 0. Counter: (round, position + column) under the request's proposal key.
Derivations: NOTES.md.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from pp3.kernels import allocation, philox, search, selector
from pp3.kernels.reference import FAILED, OK, SUPPORT, TAU, check_proposal

TILE = 4096
LEAST_WIDTH = 128  # so that every vocabulary up to 16,384 shares one compiled kernel
INTERPRETED_ROWS = 64
MANY, MANY_ROWS, MANY_WARPS = 4096, 2, 2  # from so many rows on, two share a program of the second launch,
WIDEST = 16_384  # and a row up to so wide is searched as one tile, so that none of them merges
LEAST_TILE, MANY_ENTRIES = 64, 2048  # of such a tile; of the tiles that a program of the first launch has then
ID_BITS = tl.constexpr(18)
ID_MASK = tl.constexpr((1 << 18) - 1)
NEGATIVE_INF = tl.constexpr(0x007FFFFF)  # the rank of -inf; only masked lanes rank below it
POSITIVE_INF = tl.constexpr(0xFF800000)  # the rank of +inf; only NaN ranks above it
NOBODY = tl.constexpr(-1)  # a key below every token's
STATUS_OK = tl.constexpr(OK)
STATUS_FAILED = tl.constexpr(FAILED)
# Views of a batch start at any row: specialising on their alignment would compile a kernel for each.
PER_REQUEST = [
    "sampled_ptr",
    "key_ptr",
    "round_ptr",
    "position_ptr",
    "status_ptr",
    "token_ptr",
    "ids_ptr",
    "tickets_ptr",
]
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Drafts(NamedTuple):
    """Output buffers of a round, written one column a position."""

    status: torch.Tensor  # [batch] int32
    token: torch.Tensor  # [batch, depth] int32
    ids: torch.Tensor  # [batch, depth, 32] int32
    tickets: torch.Tensor  # [batch, depth, 32] int32


@triton.jit
def _rank(x: tl.tensor) -> tl.tensor:
    """FP32 to int64 in [0, 2^32): larger values rank higher, -0.0 as +0.0, NaN above +inf."""
    bits = x.to(tl.uint32, bitcast=True)
    bits = tl.where(bits == 0x80000000, 0, bits)
    rank = tl.where(bits >= 0x80000000, ~bits, bits | 0x80000000)
    return tl.where(x != x, 0xFFFFFFFF, rank).to(tl.int64)


@triton.jit
def _value(rank: tl.tensor) -> tl.tensor:
    """The FP32 whose rank this is."""
    bits = rank.to(tl.uint32)
    return tl.where(bits >= 0x80000000, bits ^ 0x80000000, ~bits).to(tl.float32, bitcast=True)


@triton.jit
def _largest(key: tl.tensor, ROWS: tl.constexpr, K: tl.constexpr) -> tl.tensor:
    """The K largest of each row of distinct int64 keys [ROWS, n], descending. Why not tl.topk: NOTES.md."""
    k = tl.arange(0, K)
    top = tl.full([ROWS, K], NOBODY, tl.int64)
    for i in range(K):
        best = tl.max(key, 1)[:, None]
        top = tl.where(k[None, :] == i, best, top)
        key = tl.where(key == best, NOBODY, key)
    return top


@triton.jit(do_not_specialize=["batch", "tiles"])
def _tile_candidates(
    logits_ptr: tl.tensor,  # [batch, vocab] bf16, fp16 or fp32
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    batch: tl.tensor,
    vocab: tl.tensor,
    tiles: tl.tensor,
    candidates_ptr: tl.tensor,  # [batch, tiles, K] int64
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    K: tl.constexpr,
) -> None:
    program = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row, tile = program // tiles, program % tiles
    token = tile[:, None] * TILE + tl.arange(0, TILE)[None, :]
    inside = (token < vocab) & (row < batch)[:, None]
    x = tl.load(logits_ptr + row[:, None] * row_stride + token * column_stride, mask=inside, other=0.0)
    key = (_rank(x.to(tl.float32)) << ID_BITS) | (token ^ ID_MASK)
    best = _largest(tl.where(inside, key, NOBODY), ROWS, K)
    at = program[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(candidates_ptr + at, best, mask=(row < batch)[:, None])


@triton.jit(
    do_not_specialize=["candidate_stride", "candidates", "batch", "column", "depth"],
    do_not_specialize_on_alignment=PER_REQUEST,
)
def _allocate_and_draw(
    candidates_ptr: tl.tensor,  # [batch or 1, tiles * K] int64, the 32 of each tile
    candidate_stride: tl.tensor,
    candidates: tl.tensor,
    batch: tl.tensor,
    sampled_ptr: tl.tensor,  # [batch] int32
    key_ptr: tl.tensor,  # [batch] int64
    round_ptr: tl.tensor,  # [batch] int64
    position_ptr: tl.tensor,  # [batch] int64
    tau: tl.tensor,
    column: tl.tensor,
    depth: tl.tensor,
    status_ptr: tl.tensor,  # [batch] int32
    token_ptr: tl.tensor,  # [batch, depth] int32
    ids_ptr: tl.tensor,  # [batch, depth, K] int32
    tickets_ptr: tl.tensor,  # [batch, depth, K] int32
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    K: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < batch
    lane = tl.arange(0, WIDTH)[None, :]
    k = tl.arange(0, K)[None, :]
    held = live[:, None] & (lane < candidates)
    top = tl.load(candidates_ptr + row[:, None] * candidate_stride + lane, mask=held, other=NOBODY)
    if WIDTH > K:  # one tile needs no merge
        top = _largest(top, ROWS, K)
    best = tl.max(top, 1)
    failed = ((best >> ID_BITS) >= POSITIVE_INF) | ((best >> ID_BITS) == NEGATIVE_INF)
    if column > 0:
        failed = failed | (tl.load(status_ptr + row, mask=live, other=STATUS_OK) == STATUS_FAILED)
    sampled = tl.load(sampled_ptr + row, mask=live, other=0) != 0
    drawn = live & sampled & (failed == 0) & (tau > 0)

    ids = ((top & ID_MASK) ^ ID_MASK).to(tl.int32)
    draw = tl.zeros([ROWS], tl.int32)
    if tl.max(drawn.to(tl.int32), 0) != 0:
        position = tl.load(position_ptr + row, mask=live, other=0) + column
        key_words = tl.load(key_ptr + row, mask=live, other=0)
        round_number = tl.load(round_ptr + row, mask=live, other=0)
        word, _w1, _w2, _w3 = philox.words(key_words, round_number, position)
        draw = (word >> 8).to(tl.int32)
    argmax = ((best & ID_MASK) ^ ID_MASK).to(tl.int32)
    value, most = _value(top >> ID_BITS), _value(best >> ID_BITS)
    share, place, token = allocation.tickets_and_token(value, most, ids, argmax, drawn, draw, tau, ROWS, K)

    at = row * depth + column
    written = live[:, None]
    tl.store(token_ptr + at, tl.where(failed, -1, token), mask=live)
    tl.store(ids_ptr + at[:, None] * K + place, tl.where(drawn[:, None], ids, place), mask=written)
    tl.store(tickets_ptr + at[:, None] * K + place, tl.where(drawn[:, None], share, 0), mask=written)
    tl.store(status_ptr + row, tl.where(failed, STATUS_FAILED, STATUS_OK), mask=live)
    rewritten = live & failed
    for j in range(column):
        at = row * depth + j
        tl.store(token_ptr + at, tl.full([ROWS], -1, tl.int32), mask=rewritten)
        tl.store(ids_ptr + at[:, None] * K + k, tl.zeros([ROWS, K], tl.int32) + k, mask=rewritten[:, None])
        tl.store(tickets_ptr + at[:, None] * K + k, tl.zeros([ROWS, K], tl.int32), mask=rewritten[:, None])


def empty_drafts(batch: int, depth: int, device: torch.device) -> Drafts:
    """Uninitialised buffers for a round of `depth` positions."""
    ints: dict[str, Any] = {"dtype": torch.int32, "device": device}
    return Drafts(
        torch.empty(batch, **ints),
        torch.empty(batch, depth, **ints),
        torch.empty(batch, depth, SUPPORT, **ints),
        torch.empty(batch, depth, SUPPORT, **ints),
    )


def propose(
    logits: torch.Tensor,
    sampled: torch.Tensor,
    keys: torch.Tensor,
    rounds: torch.Tensor,
    positions: torch.Tensor,
    tau: float = TAU,
    *,
    out: Drafts | None = None,
    column: int = 0,
) -> Drafts:
    """Draft one token a row into one column of `out` (by default a fresh round of depth 1).

    logits [batch, vocab] BF16, FP16 or FP32, any strides; sampled [batch] int32 (temperature > 0); keys, rounds and
    positions [batch] int64 bit patterns of u64, positions being that of column 0. Columns are written in order: 0
    starts a round. Raises ValueError for shapes, dtypes, vocabulary or tau outside the contract. No device sync.
    """
    if logits.ndim != 2 or logits.dtype not in DTYPES:
        raise ValueError(f"logits are {tuple(logits.shape)} {logits.dtype}; want [batch, vocab] in BF16, FP16 or FP32")
    batch, vocab = logits.shape
    tau = check_proposal(vocab, tau)
    if out is None:
        out = empty_drafts(batch, 1, logits.device)
    depth = out.token.shape[-1]
    expected: dict[str, tuple[torch.Tensor, tuple[int, ...], torch.dtype]] = {
        "sampled": (sampled, (batch,), torch.int32),
        "keys": (keys, (batch,), torch.int64),
        "rounds": (rounds, (batch,), torch.int64),
        "positions": (positions, (batch,), torch.int64),
        "out.status": (out.status, (batch,), torch.int32),
        "out.token": (out.token, (batch, depth), torch.int32),
        "out.ids": (out.ids, (batch, depth, SUPPORT), torch.int32),
        "out.tickets": (out.tickets, (batch, depth, SUPPORT), torch.int32),
    }
    for name, (tensor, shape, dtype) in expected.items():
        if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tuple(tensor.shape)} {tensor.dtype}; want contiguous {list(shape)} {dtype}")
    if not 0 <= column < depth:
        raise ValueError(f"column {column} is outside the {depth} columns of out")
    if batch == 0:
        return out
    distinct = 1 if logits.stride(0) == 0 else batch  # a row shared by stride 0 is searched once
    if selector.suits(logits):
        selector.launch(logits, distinct, (sampled, keys, rounds, positions), tau, column, out)
        return out
    many = batch >= MANY
    tile = max(LEAST_TILE, triton.next_power_of_2(vocab)) if many and vocab <= WIDEST else TILE
    tiles = triton.cdiv(vocab, tile)
    candidates = torch.empty(distinct * tiles * SUPPORT, dtype=torch.int64, device=logits.device)
    if tile > TILE:
        search.largest(logits, distinct, candidates, _rows_per_program(distinct, logits.device))
    else:
        rows = _rows_per_program(distinct * tiles, logits.device, MANY_ENTRIES // tile if many else 1)
        _tile_candidates[(triton.cdiv(distinct * tiles, rows),)](
            logits, *logits.stride(), distinct, vocab, tiles, candidates, ROWS=rows, TILE=tile, K=SUPPORT, num_warps=8
        )
    rows = _rows_per_program(batch, logits.device, MANY_ROWS if many else 1)
    _allocate_and_draw[(triton.cdiv(batch, rows),)](
        candidates,
        tiles * SUPPORT if distinct > 1 else 0,
        tiles * SUPPORT,
        batch,
        sampled,
        keys,
        rounds,
        positions,
        tau,
        column,
        depth,
        *out,
        ROWS=rows,
        WIDTH=SUPPORT if tiles == 1 else max(LEAST_WIDTH, triton.next_power_of_2(tiles * SUPPORT)),
        K=SUPPORT,
        num_warps=MANY_WARPS if many else 4,
    )
    return out


def _rows_per_program(rows: int, device: torch.device, on_gpu: int = 1) -> int:
    """`on_gpu` or 1 on a GPU; many in the interpreter, where a program costs milliseconds whatever its width."""
    return max(1, on_gpu) if device.type == "cuda" else min(INTERPRETED_ROWS, triton.next_power_of_2(rows))
