"""Sparse proposals to dense FP32 q by state slot, in Triton: judge, clear, scatter.

Contract: row i of a batch belongs to state slot slots[i]. It is legal iff its status is ok, its slot lies in
[0, slots), and at every position: the 32 ids are strictly ascending in [0, vocab); the token lies in [0, vocab); every
q is finite, from +0.0 to 1 and a multiple of 2^-24; and the tickets q * 2^24 sum to 2^24 with some of them on the
token where the row is sampled, and to 0 where it is not. Every id is judged before any is used, also of rows that are
unused or greedy. The dense rows of every slot in range become zero; those of legal sampled rows then get their q, as
it is. A row that is not legal is failed: nothing of it is written. Slots of a batch are distinct: two rows of one slot
are the caller's to fail (status). Everything is exact; nothing depends on the order of programs.
"""

import torch
import triton
import triton.language as tl

from pp3.kernels.reference import FAILED, MAX_VOCAB, OK, ONE, SUPPORT

TILE = 8192
INTERPRETED_TILE = 1 << 17  # in the interpreter a program costs milliseconds whatever its width
INTERPRETED_ROWS = 64
TICKETS = tl.constexpr(ONE)
STATUS_OK = tl.constexpr(OK)
STATUS_FAILED = tl.constexpr(FAILED)
# Views of a batch start at any row: specialising on their alignment would compile a kernel for each.
PER_REQUEST = ["slot_ptr", "status_ptr", "sampled_ptr", "token_ptr", "ids_ptr", "q_ptr", "judged_ptr"]


@triton.jit(do_not_specialize=["batch", "slots", "depth", "vocab"], do_not_specialize_on_alignment=PER_REQUEST)
def _judge(
    slot_ptr: tl.tensor,  # [batch] int64
    status_ptr: tl.tensor,  # [batch] int32
    sampled_ptr: tl.tensor,  # [batch] int32
    token_ptr: tl.tensor,  # [batch, depth] int32
    ids_ptr: tl.tensor,  # [batch, depth, K] int32
    q_ptr: tl.tensor,  # [batch, depth, K] fp32
    judged_ptr: tl.tensor,  # [batch] int32
    batch: tl.tensor,
    slots: tl.tensor,
    depth: tl.tensor,
    vocab: tl.tensor,
    ROWS: tl.constexpr,
    K: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < batch
    k = tl.arange(0, K)[None, :]
    slot = tl.load(slot_ptr + row, mask=live, other=-1)
    status = tl.load(status_ptr + row, mask=live, other=STATUS_FAILED)
    whole = tl.where(tl.load(sampled_ptr + row, mask=live, other=0) != 0, TICKETS, 0)
    legal = live & (slot >= 0) & (slot < slots) & (status == STATUS_OK)
    for j in range(depth):
        at = ((row * depth + j) * K)[:, None] + k
        read = live[:, None] & (k >= 0)
        ids = tl.load(ids_ptr + at, mask=read, other=0)
        before = tl.load(ids_ptr + at - 1, mask=read & (k > 0), other=-1)
        q = tl.load(q_ptr + at, mask=read, other=0.0)
        token = tl.load(token_ptr + row * depth + j, mask=live, other=-1)
        fits = (q.to(tl.uint32, bitcast=True) <= 0x3F800000) & (ids > before) & (ids >= 0) & (ids < vocab)
        scaled = tl.where(fits, q, 0.0) * TICKETS  # exact: a power of two
        tickets = scaled.to(tl.int32)
        fits = fits & (tickets.to(tl.float32) == scaled)
        drawable = tl.sum(tl.where(ids == token[:, None], tickets, 0), 1) > 0
        legal = legal & (tl.min(fits.to(tl.int32), 1) != 0) & (tl.sum(tickets.to(tl.int64), 1) == whole)
        legal = legal & (token >= 0) & (token < vocab) & (drawable | (whole == 0))
    tl.store(judged_ptr + row, tl.where(legal, STATUS_OK, STATUS_FAILED), mask=live)


@triton.jit(do_not_specialize=["slots", "entries"], do_not_specialize_on_alignment=["slot_ptr"])
def _clear(
    slot_ptr: tl.tensor,  # [batch] int64
    dense_ptr: tl.tensor,  # [slots, entries] fp32
    slots: tl.tensor,
    entries: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    slot = tl.load(slot_ptr + tl.program_id(0).to(tl.int64)) + tl.zeros([TILE], tl.int64)
    at = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = (slot >= 0) & (slot < slots) & (at < entries)
    tl.store(dense_ptr + slot * entries + at, tl.zeros([TILE], tl.float32), mask=inside)


@triton.jit(do_not_specialize=["batch", "depth", "vocab"], do_not_specialize_on_alignment=PER_REQUEST)
def _scatter(
    slot_ptr: tl.tensor,  # [batch] int64
    judged_ptr: tl.tensor,  # [batch] int32
    sampled_ptr: tl.tensor,  # [batch] int32
    ids_ptr: tl.tensor,  # [batch, depth, K] int32
    q_ptr: tl.tensor,  # [batch, depth, K] fp32
    dense_ptr: tl.tensor,  # [slots, depth, vocab] fp32
    batch: tl.tensor,
    depth: tl.tensor,
    vocab: tl.tensor,
    ROWS: tl.constexpr,
    K: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < batch
    k = tl.arange(0, K)[None, :]
    slot = tl.load(slot_ptr + row, mask=live, other=-1)
    written = live & (tl.load(judged_ptr + row, mask=live, other=STATUS_FAILED) == STATUS_OK)
    written = written & (tl.load(sampled_ptr + row, mask=live, other=0) != 0)
    for j in range(depth):
        at = ((row * depth + j) * K)[:, None] + k
        read = written[:, None] & (k >= 0)
        ids = tl.load(ids_ptr + at, mask=read, other=0)
        q = tl.load(q_ptr + at, mask=read, other=0.0)
        tl.store(dense_ptr + ((slot * depth + j) * vocab)[:, None] + ids, q, mask=read)


def scatter(
    slots: torch.Tensor,
    status: torch.Tensor,
    sampled: torch.Tensor,
    tokens: torch.Tensor,
    ids: torch.Tensor,
    q: torch.Tensor,
    dense: torch.Tensor,
) -> torch.Tensor:
    """Write a batch's q into dense [slots, depth, vocab] FP32; the status [batch] int32 that each row is judged.

    slots [batch] int64, distinct where status is ok; status and sampled [batch] int32; tokens [batch, depth] and ids
    [batch, depth, 32] int32; q [batch, depth, 32] FP32. Raises ValueError for shapes or dtypes outside the contract. No
    device sync.
    """
    if dense.ndim != 3 or dense.dtype != torch.float32 or not dense.is_contiguous():
        raise ValueError(f"dense q is {tuple(dense.shape)} {dense.dtype}; want contiguous [slots, depth, vocab] FP32")
    (batch,), (states, depth, vocab) = slots.shape, dense.shape
    if not SUPPORT <= vocab <= MAX_VOCAB:
        raise ValueError(f"vocabulary {vocab} is outside [{SUPPORT}, {MAX_VOCAB}], what a proposal declares")
    expected: dict[str, tuple[torch.Tensor, tuple[int, ...], torch.dtype]] = {
        "slots": (slots, (batch,), torch.int64),
        "status": (status, (batch,), torch.int32),
        "sampled": (sampled, (batch,), torch.int32),
        "tokens": (tokens, (batch, depth), torch.int32),
        "ids": (ids, (batch, depth, SUPPORT), torch.int32),
        "q": (q, (batch, depth, SUPPORT), torch.float32),
    }
    for name, (tensor, shape, dtype) in expected.items():
        if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tuple(tensor.shape)} {tensor.dtype}; want contiguous {list(shape)} {dtype}")
    judged = torch.empty(batch, dtype=torch.int32, device=dense.device)
    if batch == 0:
        return judged
    rows = 1 if dense.is_cuda else min(INTERPRETED_ROWS, triton.next_power_of_2(batch))
    grid = (triton.cdiv(batch, rows),)
    _judge[grid](
        slots, status, sampled, tokens, ids, q, judged, batch, states, depth, vocab, ROWS=rows, K=SUPPORT, num_warps=1
    )
    clear(slots, dense)
    _scatter[grid](slots, judged, sampled, ids, q, dense, batch, depth, vocab, ROWS=rows, K=SUPPORT, num_warps=1)
    return judged


def clear(slots: torch.Tensor, dense: torch.Tensor) -> None:
    """Zero the rows of slots [batch] int64 in dense [slots, depth, vocab] FP32; slots out of range are ignored."""
    entries = dense[0].numel() if len(dense) else 0
    if not len(slots) or not entries:
        return
    tile = TILE if dense.is_cuda else min(INTERPRETED_TILE, triton.next_power_of_2(entries))
    _clear[(len(slots), triton.cdiv(entries, tile))](slots, dense, len(dense), entries, TILE=tile)
