"""The proposal's launches for 16-bit logits of wide rows: latency first, two dependent launches a position.

Contract: semantics section 2, bit for bit the reference. Launch 1 deals a row's ids to 128 groups, 16 neighbours at a
time, and keeps the four largest of each group. Launch 2, one program a row, takes the 32 groups whose largest are
largest (no other group can hold one of the row's 32), then the 32 largest of these groups' 128. Where a group's fourth
is among them, a fifth might be: that group is read again, and at most eight are. Both run with programmatic dependent
launch: what does not depend on the launch before is done while that runs. Why each of this: NOTES.md.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pp3.kernels import allocation, groups, philox
from pp3.kernels.reference import FAILED, OK, SUPPORT

if TYPE_CHECKING:
    from pp3.kernels.proposal import Drafts

WIDE = 16_384  # a vocabulary above it is worth the groups
WARPS = 1  # so that no step of the second launch waits for another warp
HOPPER = (9, 0)  # the first with programmatic dependent launch
LOWEST = tl.constexpr(-0x80000000)
LOWEST_64 = tl.constexpr(-0x8000000000000000)
LAST = tl.constexpr((1 << 18) - 1)  # the largest id
ORDER_BITS = tl.constexpr(18)  # below the order in a key
MINUS_INFINITY = tl.constexpr(-0x8000)  # the order of -inf
STATUS_OK = tl.constexpr(OK)
STATUS_FAILED = tl.constexpr(FAILED)
# Views of a batch start at any row: specialising on their alignment would compile a kernel for each.
PER_REQUEST = ["sampled_ptr", "key_ptr", "round_ptr", "position_ptr"]
PER_REQUEST += ["status_ptr", "token_ptr", "ids_ptr", "tickets_ptr"]


@triton.jit
def _largest(key: tl.tensor, NOBODY: tl.constexpr, K: tl.constexpr, SORTS: tl.constexpr) -> tl.tensor:
    """The K largest of distinct keys. In the interpreter tl.topk takes seconds: there the maxima are taken in turn."""
    if SORTS:
        top = tl.topk(key, K)
    else:
        k = tl.arange(0, K)
        top = tl.full([K], NOBODY, key.dtype)
        for i in range(K):
            best = tl.max(key, 0)
            top = tl.where(k == i, best, top)
            key = tl.where(key == best, NOBODY, key)
    return top


@triton.jit
def _read_again(
    top: tl.tensor,  # [K] keys, the 32 largest of what was kept
    fourth: tl.tensor,  # [K] keys, the last kept of each group
    row_ptr: tl.tensor,
    vocab: tl.tensor,
    INFINITY: tl.constexpr,
    MAIN: tl.constexpr,
    EXTRA: tl.constexpr,
) -> tl.tensor:
    """The 32 largest keys, after every group whose last kept is among them gave the rest that belongs there."""
    worst = tl.min(top, 0)
    fullest = tl.max(fourth, 0)
    while fullest >= worst:
        taken, group = groups.entry_of(fullest)
        key = tl.reshape(groups.entries(row_ptr, group, vocab, 0, MAIN, INFINITY), [MAIN])
        key = tl.where(key < taken, key, LOWEST)
        best = tl.max(key, 0)
        if EXTRA > 0:
            extra = tl.reshape(groups.entries(row_ptr, group, vocab, MAIN, EXTRA, INFINITY), [EXTRA])
            extra = tl.where(extra < taken, extra, LOWEST)
            best = tl.maximum(best, tl.max(extra, 0))
        while groups.key_of(best, group) > worst:
            top = tl.where(top == worst, groups.key_of(best, group), top)
            worst = tl.min(top, 0)
            key = tl.where(key == best, LOWEST, key)
            following = tl.max(key, 0)
            if EXTRA > 0:
                extra = tl.where(extra == best, LOWEST, extra)
                following = tl.maximum(following, tl.max(extra, 0))
            best = following
        fourth = tl.where(fourth == fullest, LOWEST_64, fourth)
        fullest = tl.max(fourth, 0)
    return top


@triton.jit
def _value(order: tl.tensor, INFINITY: tl.constexpr, HALVES: tl.constexpr) -> tl.tensor:
    """The FP32 value of an order."""
    rank = order - (INFINITY - 0x8000)
    bits = tl.where(rank < 0, 0x8000 - rank, rank)
    if HALVES:
        value = bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        value = (bits << 16).to(tl.float32, bitcast=True)
    return value


@triton.jit(do_not_specialize=["column", "depth"], do_not_specialize_on_alignment=PER_REQUEST)
def select_and_draw(
    logits_ptr: tl.tensor,  # [batch or 1, vocab] int16 patterns
    row_stride: tl.tensor,
    vocab: tl.tensor,
    best_ptr: tl.tensor,  # [batch or 1, GROUPS, KEPT] int32
    best_stride: tl.tensor,  # 0 where all requests share one row
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
    INFINITY: tl.constexpr,
    HALVES: tl.constexpr,  # FP16; BF16 otherwise
    MAIN: tl.constexpr,
    EXTRA: tl.constexpr,
    GROUPS: tl.constexpr,
    KEPT: tl.constexpr,
    K: tl.constexpr,
    SORTS: tl.constexpr,
    DEPENDENT: tl.constexpr,
) -> None:
    if DEPENDENT:
        gdc_launch_dependents()
    row = tl.program_id(0).to(tl.int64)
    sampled = tl.load(sampled_ptr + row) != 0
    earlier = tl.load(status_ptr + row, mask=column > 0, other=STATUS_OK)
    position = tl.load(position_ptr + row) + column
    word, _w1, _w2, _w3 = philox.words(tl.load(key_ptr + row), tl.load(round_ptr + row), position)
    draw = (word >> 8).to(tl.int32)
    group = tl.arange(0, GROUPS)
    row_bests = best_ptr + row * best_stride
    if DEPENDENT:
        gdc_wait()

    lead = groups.lead_of(tl.load(row_bests + group * KEPT), group)
    if SORTS:  # side by side what one lane holds: those are exchanged without a shuffle
        lead = tl.reshape(tl.trans(tl.reshape(lead, [GROUPS // K, K])), [GROUPS])
    leading = _largest(lead, LOWEST, K, SORTS)
    highest = tl.max(leading, 0) >> 16
    chosen = groups.group_of(leading)
    kept = tl.arange(0, KEPT)[None, :]
    key = groups.key_of(tl.load(row_bests + chosen[:, None] * KEPT + kept), chosen[:, None])
    top = _largest(tl.reshape(key, [K * KEPT]), LOWEST_64, K, SORTS)
    fourth = tl.max(tl.where(kept == KEPT - 1, key, LOWEST_64), 1)
    crowded = tl.max((fourth >> ORDER_BITS).to(tl.int32), 0) >= tl.min((top >> ORDER_BITS).to(tl.int32), 0)
    if crowded:  # or as large as the least of the 32, with an id that decides
        top = _read_again(top, fourth, logits_ptr + row * row_stride, vocab, INFINITY, MAIN, EXTRA)

    ids = groups.token_of(top)
    order = (top >> ORDER_BITS).to(tl.int32)
    argmax = tl.min(tl.where(order == highest, ids, LAST), 0)
    failed = (highest >= 2 * INFINITY - 0x8000) | (highest == MINUS_INFINITY) | (earlier == STATUS_FAILED)
    drawn = sampled & (failed == 0) & (tau > 0)
    one = tl.zeros([1], tl.int32)
    share, place, token = allocation.tickets_and_token(
        _value(order, INFINITY, HALVES)[None, :],
        _value(one + highest, INFINITY, HALVES),
        ids[None, :],
        one + argmax,
        (one + drawn.to(tl.int32)) != 0,
        one + draw,
        tau,
        1,
        K,
    )
    at = row * depth + column
    tl.store(token_ptr + at + one, tl.where(failed, -1, token))
    tl.store(ids_ptr + at * K + place, tl.where(drawn, ids[None, :], place))
    tl.store(tickets_ptr + at * K + place, tl.where(drawn, share, 0))
    tl.store(status_ptr + row, tl.where(failed, STATUS_FAILED, STATUS_OK))
    if failed:
        k = tl.arange(0, K)
        for j in range(column):
            at = row * depth + j
            tl.store(token_ptr + at, -1)
            tl.store(ids_ptr + at * K + k, k)
            tl.store(tickets_ptr + at * K + k, tl.zeros([K], tl.int32))


def suits(logits: torch.Tensor) -> bool:
    """Whether a batch of logits [batch, vocab] is what these launches are for: 16 bits, wide, neighbours adjacent."""
    return logits.dtype in groups.INFINITY and logits.shape[1] > WIDE and logits.stride(1) == 1


def launch(
    logits: torch.Tensor,
    distinct: int,
    requests: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    tau: float,
    column: int,
    out: "Drafts",
) -> None:
    """Draft one token a row into one column of `out`; arguments as `proposal.propose` checked them.

    distinct: rows that differ, 1 or the batch. requests: sampled, keys, rounds and positions.
    """
    batch, vocab = logits.shape
    main, extra = groups.sizes(vocab)
    patterns = logits.view(torch.int16)
    best = torch.empty(distinct * groups.GROUPS * groups.KEPT, dtype=torch.int32, device=logits.device)
    compiled = logits.is_cuda
    dependent = compiled and launches_dependently(logits.device)
    options: dict[str, Any] = {"launch_pdl": True} if dependent else {}
    constants: dict[str, Any] = {
        "INFINITY": groups.INFINITY[logits.dtype],
        "MAIN": main,
        "EXTRA": extra,
        "KEPT": groups.KEPT,
        "DEPENDENT": dependent,
    }
    at_once = 1 if compiled else groups.GROUPS  # in the interpreter a program costs milliseconds whatever its width
    groups.group_bests[(distinct * groups.GROUPS // at_once,)](
        patterns,
        logits.stride(0),
        vocab,
        best,
        AT_ONCE=at_once,
        WARPS=groups.WARPS,
        LANES=groups.LANES,
        num_warps=groups.WARPS,
        **constants,
        **options,
    )
    select_and_draw[(batch,)](
        patterns,
        logits.stride(0),
        vocab,
        best,
        groups.GROUPS * groups.KEPT if distinct > 1 else 0,
        *requests,
        tau,
        column,
        out.token.shape[1],
        *out,
        HALVES=logits.dtype == torch.float16,
        GROUPS=groups.GROUPS,
        K=SUPPORT,
        SORTS=compiled,
        num_warps=WARPS,
        **constants,
        **options,
    )


@cache
def launches_dependently(device: torch.device) -> bool:
    """Whether a GPU has programmatic dependent launch."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= HOPPER
