"""The verifier's second launch for few requests of wide rows: one program a request, every position at once.

Contract: semantics section 3, bit for bit the reference; the launch before is that of `verifier.py`, tiles added up.
Whether a draft is kept depends on single probabilities alone, and so does what the residual lacks: both are done while
the first launch runs (programmatic dependent launch). What is left then is the legality of the rows, the tile that
holds the drawn token, and the token. Rows at temperature 0 wait for the argmax of each row.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pp3.kernels import philox, row_sums
from pp3.kernels.reference import FAILED, MASS_SLACK, OK, ONE, QUANTUM_BITS, SUPPORT

TILE, WARPS, LEAST_TILES = 2048, 8, 16
ID_MASK = tl.constexpr((1 << 18) - 1)
UNIT = tl.constexpr(1 << QUANTUM_BITS)
SLACK = tl.constexpr(MASS_SLACK)
TICKETS = tl.constexpr(ONE)
STATUS_OK = tl.constexpr(OK)
STATUS_FAILED = tl.constexpr(FAILED)
NOWHERE = tl.constexpr(0x7FFFFFFF)
# Views of a batch start at any row: specialising on their alignment would compile a kernel for each.
PER_REQUEST = ["draft_ptr", "support_ptr", "tickets_ptr", "sampled_ptr", "key_ptr", "round_ptr", "position_ptr"]
PER_REQUEST += ["status_ptr", "tokens_ptr", "num_sampled_ptr"]


@triton.jit
def _token(
    row_ptr: tl.tensor,
    vocab: tl.tensor,
    left: tl.tensor,  # [TILES] int64, what each tile of the row weighs
    word: tl.tensor,  # uint64
    support: tl.tensor,  # [K] int32
    share: tl.tensor,  # [K] int64, what the residual lacks at each id of the support; 0 for the full target
    TILES: tl.constexpr,
    TILE: tl.constexpr,
) -> tl.tensor:
    """The first id whose running sum exceeds the drawn share of the total."""
    t = tl.arange(0, TILES)
    wanted = tl.umulhi(word, tl.sum(left, 0).to(tl.uint64)).to(tl.int64)
    running = tl.cumsum(left, 0)
    tile = tl.sum((running <= wanted).to(tl.int32), 0)
    before = tl.sum(tl.where(t < tile, left, 0), 0)
    here = tile * TILE + tl.arange(0, TILE)
    weight = row_sums.quanta(tl.load(row_ptr + here, mask=here < vocab, other=0.0))
    near = tl.where((share > 0) & (support // TILE == tile), support, NOWHERE)
    lowest = tl.min(near, 0)
    while lowest != NOWHERE:
        weight -= tl.where(here == lowest, tl.sum(tl.where(support == lowest, share, 0), 0), 0)
        near = tl.where(near == lowest, NOWHERE, near)
        lowest = tl.min(near, 0)
    running = before + tl.cumsum(weight, 0)
    return tile * TILE + tl.sum((running <= wanted).to(tl.int32), 0)


@triton.jit(do_not_specialize=["lines", "depth", "tiles", "carrier"], do_not_specialize_on_alignment=PER_REQUEST)
def judge_and_emit(
    probs_ptr: tl.tensor,  # [batch, depth + 1, vocab] fp32, neighbours adjacent
    request_stride: tl.tensor,
    row_stride: tl.tensor,
    lines: tl.tensor,  # depth + 1; 0 where all requests share their rows
    depth: tl.tensor,
    vocab: tl.tensor,
    tiles: tl.tensor,
    mass_ptr: tl.tensor,  # [batch or 1, depth + 1, tiles] int64
    best_ptr: tl.tensor,  # [batch or 1, depth + 1, tiles] int64
    draft_ptr: tl.tensor,  # [batch, depth] int32
    support_ptr: tl.tensor,  # [batch, depth, K] int32
    tickets_ptr: tl.tensor,  # [batch, depth, K] int32
    carrier: tl.tensor,  # 0: support and tickets are not read
    sampled_ptr: tl.tensor,  # [batch] int32
    key_ptr: tl.tensor,  # [batch] int64
    round_ptr: tl.tensor,  # [batch] int64
    position_ptr: tl.tensor,  # [batch] int64
    status_ptr: tl.tensor,  # [batch] int32
    tokens_ptr: tl.tensor,  # [batch, depth + 1] int32
    num_sampled_ptr: tl.tensor,  # [batch] int32
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
    TILE: tl.constexpr,
    K: tl.constexpr,
    DEPENDENT: tl.constexpr,
) -> None:
    if DEPENDENT:
        gdc_launch_dependents()
    request = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, COLUMNS)
    k = tl.arange(0, K)
    t = tl.arange(0, TILES)
    rows_ptr = probs_ptr + request * request_stride
    sampled = tl.load(sampled_ptr + request) != 0
    drafts = tl.load(draft_ptr + request * depth + c, mask=c < depth, other=-1)
    outside = tl.max(((drafts < -1) | (drafts >= vocab)).to(tl.int32), 0) != 0
    held = (drafts >= 0) & (drafts < vocab)
    carried = held & (c * 0 + carrier != 0)
    lane = (request * depth + c[:, None]) * K + k[None, :]
    ids = tl.load(support_ptr + lane, mask=carried[:, None], other=-1)
    owned = tl.load(tickets_ptr + lane, mask=carried[:, None], other=0)
    alone = (held & (carried == 0))[:, None] & (k == 0)[None, :]
    ids = tl.where(alone, drafts[:, None], ids)
    owned = tl.where(alone, TICKETS, owned)
    tickets = tl.sum(tl.where(ids == drafts[:, None], owned, 0), 1).to(tl.int64)
    prob = tl.load(rows_ptr + c.to(tl.int64) * row_stride + drafts, mask=held, other=0.0)
    base = tl.load(position_ptr + request)
    w0, w1, w2, _w3 = philox.words(tl.load(key_ptr + request), tl.load(round_ptr + request), base + c)
    kept = w0.to(tl.int64) * tickets < (row_sums.quanta(prob) << 8)
    emit = tl.min(tl.where((drafts == -1) | (tickets == 0) | (kept == 0), c, COLUMNS), 0)  # column depth has draft -1
    ended = c == emit
    draft = tl.sum(tl.where(ended, drafts, 0), 0)
    unowned = (draft != -1) & (tl.sum(tl.where(ended, tickets, 0), 0) == 0)
    word = tl.sum(tl.where(ended, w1.to(tl.int64) | (w2.to(tl.int64) << 32), 0), 0).to(tl.uint64)
    support = tl.sum(tl.where(ended[:, None], ids, 0), 0)
    law = tl.where(draft != -1, tl.sum(tl.where(ended[:, None], owned, 0), 0), 0)
    emit_ptr = rows_ptr + emit.to(tl.int64) * row_stride
    share = row_sums.quanta(tl.load(emit_ptr + support, mask=law > 0, other=0.0))
    share = tl.minimum(share, law.to(tl.int64) << 24)
    lack = tl.sum(tl.where((support // TILE)[None, :] == t[:, None], share[None, :], 0), 1)
    lost = tl.sum(share, 0)
    grid = (request * lines + c[:, None]) * tiles + t[None, :]
    inside = (c <= depth)[:, None] & (t < tiles)[None, :]
    if DEPENDENT:
        gdc_wait()

    masses = tl.load(mass_ptr + grid, mask=inside, other=0)
    left = tl.load(mass_ptr + (request * lines + emit) * tiles + t, mask=t < tiles, other=0)
    excess = tl.where(c <= depth, tl.sum(masses, 1) - UNIT, 0)
    wrong = (tl.min(masses, 1) < 0) | (excess > SLACK) | (excess < -SLACK)
    failed = outside | (tl.max(wrong.to(tl.int32), 0) != 0)
    token = tl.zeros_like(emit)
    if sampled:
        failed = failed | unowned
        whole = lost == tl.sum(left, 0)  # an empty residual: the full target in its place
        share = tl.where(whole, 0, share)
        left -= tl.where(whole, 0, lack)
        if failed == 0:
            token = _token(emit_ptr, vocab, left, word, support, share, TILES, TILE)
    else:
        best = tl.load(best_ptr + grid, mask=inside, other=-1)
        argmax = ((tl.max(best, 1) & ID_MASK) ^ ID_MASK).to(tl.int32)
        emit = tl.min(tl.where(argmax != drafts, c, COLUMNS), 0)
        token = tl.sum(tl.where(c == emit, argmax, 0), 0)
    tokens = tl.where(c < emit, drafts, tl.where(c == emit, token, -1))
    tl.store(tokens_ptr + request * (depth + 1) + c, tl.where(failed, -1, tokens), mask=c <= depth)
    tl.store(num_sampled_ptr + request, tl.where(failed, 0, emit + 1))
    tl.store(status_ptr + request, tl.where(failed, STATUS_FAILED, STATUS_OK))


def launch(
    target_probs: torch.Tensor,
    lines: int,
    tiles: int,
    mass: torch.Tensor,
    best: torch.Tensor,
    carriers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    carried: bool,
    requests: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    dependent: bool,
) -> None:
    """Judge and emit; arguments as `verifier.verify` checked them, masses and argmaxes of tiles of TILE.

    carriers: draft_ids, support and tickets, the last two read where `carried`. requests: sampled, keys, rounds and
    positions. out: status, tokens and num_sampled.
    """
    batch, columns, vocab = target_probs.shape
    options: dict[str, Any] = {"launch_pdl": True} if dependent else {}
    judge_and_emit[(batch,)](
        target_probs,
        *target_probs.stride()[:2],
        lines,
        columns - 1,
        vocab,
        tiles,
        mass,
        best,
        *carriers,
        int(carried),
        *requests,
        *out,
        COLUMNS=triton.next_power_of_2(columns),
        TILES=max(LEAST_TILES, triton.next_power_of_2(tiles)),
        TILE=TILE,
        K=SUPPORT,
        DEPENDENT=dependent,
        num_warps=WARPS,
        **options,
    )
