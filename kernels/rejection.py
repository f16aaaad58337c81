"""The verifier's second launch, positions in turn: one program a request, or a few.

Contract: semantics section 3, bit for bit the reference; the launch before is that of row_sums.py. Checks the rows,
walks the drafts and emits. Everything is int64 and exact, in any order of reduction. The residual's running sum is the
target's less min(P, Q) at the 32 ids of the support, so no dense q exists. Ties of the argmax: lower id. Derivations:
NOTES.md.
"""

import triton
import triton.language as tl

from pp3.kernels import philox, row_sums
from pp3.kernels.reference import FAILED, MASS_SLACK, OK, ONE, QUANTUM_BITS

ID_MASK = tl.constexpr((1 << 18) - 1)
UNIT = tl.constexpr(1 << QUANTUM_BITS)
SLACK = tl.constexpr(MASS_SLACK)
TICKETS = tl.constexpr(ONE)
# Views of a batch start at any row: specialising on their alignment would compile a kernel for each.
PER_REQUEST = ["draft_ptr", "support_ptr", "tickets_ptr", "sampled_ptr", "key_ptr", "round_ptr", "position_ptr"]
PER_REQUEST += ["status_ptr", "tokens_ptr", "num_sampled_ptr"]
SIZES = ["request_stride", "row_stride", "batch", "lines", "depth", "vocab", "tiles", "carrier"]
STATUS_OK = tl.constexpr(OK)
STATUS_FAILED = tl.constexpr(FAILED)


@triton.jit
def _argmax(best_ptr: tl.tensor, line: tl.tensor, tiles: tl.tensor, t: tl.tensor, live: tl.tensor) -> tl.tensor:
    """The argmax of target rows `line` [ROWS], from the argmax of each tile."""
    best = tl.load(best_ptr + line[:, None] * tiles + t, mask=live[:, None] & (t < tiles), other=-1)
    return ((tl.max(best, 1) & ID_MASK) ^ ID_MASK).to(tl.int32)


@triton.jit
def _support(
    support_ptr: tl.tensor,
    tickets_ptr: tl.tensor,
    draft: tl.tensor,
    at: tl.tensor,
    k: tl.tensor,
    wanted: tl.tensor,
    carrier: tl.tensor,
    K: tl.constexpr,
) -> tl.tensor:
    """Lanes k [1, n] of the proposal at positions `at` [ROWS]: ids and tickets; no carrier: all tickets at draft."""
    lane = at[:, None] * K + k
    carried = k * 0 + carrier != 0  # a block: the interpreter refuses a mask made with a scalar
    held = wanted[:, None] & carried
    ids = tl.load(support_ptr + lane, mask=held, other=-1)
    tickets = tl.load(tickets_ptr + lane, mask=held, other=0).to(tl.int64)
    alone = wanted[:, None] & (carried == 0) & (k == 0)
    return tl.where(alone, draft[:, None], ids), tl.where(alone, TICKETS, tickets)


@triton.jit
def _share(row_ptr: tl.tensor, column_stride: tl.tensor, ids: tl.tensor, tickets: tl.tensor) -> tl.tensor:
    """min(P, Q) at each id of a support, what the residual lacks there."""
    prob = tl.load(row_ptr[:, None] + ids.to(tl.int64) * column_stride, mask=tickets > 0, other=0.0)
    return tl.minimum(row_sums.quanta(prob), tickets << 24)


@triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=PER_REQUEST)
def walk_and_emit(
    probs_ptr: tl.tensor,  # [batch, depth + 1, vocab] fp32
    request_stride: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    batch: tl.tensor,
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
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
    TILE: tl.constexpr,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    request = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = request < batch
    t = tl.arange(0, TILES)[None, :]
    k = tl.arange(0, K)[None, :]
    row_ptr = probs_ptr + request * request_stride
    sampled = tl.load(sampled_ptr + request, mask=live, other=0) != 0
    key = tl.load(key_ptr + request, mask=live, other=0)
    round_number = tl.load(round_ptr + request, mask=live, other=0)
    base = tl.load(position_ptr + request, mask=live, other=0)

    failed = request < 0
    for j in range(depth + 1):
        line = request * lines + j
        row_mass = tl.load(mass_ptr + line[:, None] * tiles + t, mask=live[:, None] & (t < tiles), other=0)
        excess = tl.sum(row_mass, 1) - UNIT
        failed = failed | (tl.min(row_mass, 1) < 0) | (excess > SLACK) | (excess < -SLACK)
    for j in range(depth):
        draft = tl.load(draft_ptr + request * depth + j, mask=live, other=0)
        failed = failed | (draft < -1) | (draft >= vocab)

    alive = live & (failed == 0)
    rejected = request < 0
    emit_at = tl.zeros_like(request) + depth
    for j in range(depth):
        draft = tl.load(draft_ptr + request * depth + j, mask=live, other=0)
        emit_at = tl.where(alive & (draft == -1), j, emit_at)
        alive = alive & (draft != -1)
        keep = _argmax(best_ptr, request * lines + j, tiles, t, live) == draft
        judged = alive & sampled
        if tl.max(judged.to(tl.int32), 0) != 0:
            ids, tickets = _support(support_ptr, tickets_ptr, draft, request * depth + j, k, judged, carrier, K)
            mass = tl.sum(tl.where(ids == draft[:, None], tickets, 0), 1)
            at = (tl.zeros_like(request) + j) * row_stride + draft.to(tl.int64) * column_stride
            prob = tl.load(row_ptr + at, mask=judged, other=0.0)
            w0, _w1, _w2, _w3 = philox.words(key, round_number, base + j)
            keep = tl.where(sampled, w0.to(tl.int64) * mass < (row_sums.quanta(prob) << 8), keep)
            failed = failed | (judged & (mass == 0))
            alive = alive & (failed == 0)
        emit_at = tl.where(alive & (keep == 0), j, emit_at)
        rejected = rejected | (alive & (keep == 0))
        alive = alive & keep

    line = request * lines + emit_at
    token = _argmax(best_ptr, line, tiles, t, live)
    drawing = live & sampled & (failed == 0)
    if tl.max(drawing.to(tl.int32), 0) != 0:
        row_ptr += emit_at * row_stride
        last = request * depth + tl.minimum(emit_at, depth - 1)
        rejected = rejected & drawing
        left = tl.load(mass_ptr + line[:, None] * tiles + t, mask=drawing[:, None] & (t < tiles), other=0)
        stopped = tl.load(draft_ptr + last, mask=rejected, other=-1)
        support, owned = _support(support_ptr, tickets_ptr, stopped, last, k, rejected, carrier, K)
        share = _share(row_ptr, column_stride, support, owned)
        rejected = rejected & (tl.sum(share, 1) != tl.sum(left, 1))  # an empty residual: the full target in its place
        share = tl.where(rejected[:, None], share, 0)
        left -= tl.sum(tl.where((support // TILE)[:, None, :] == t[:, :, None], share[:, None, :], 0), 2)
        _w0, w1, w2, _w3 = philox.words(key, round_number, base + emit_at)
        w64 = w1.to(tl.uint64) | (w2.to(tl.uint64) << 32)
        wanted = tl.umulhi(w64, tl.sum(left, 1).to(tl.uint64)).to(tl.int64)[:, None]
        tile = tl.sum((tl.cumsum(left, 1) <= wanted).to(tl.int32), 1)[:, None]
        before = tl.sum(tl.where(t < tile, left, 0), 1)
        here = tile.to(tl.int64) * TILE + tl.arange(0, TILE)[None, :]
        inside = drawing[:, None] & (here < vocab)
        weight = row_sums.quanta(tl.load(row_ptr[:, None] + here * column_stride, mask=inside, other=0.0))
        if tl.max(rejected.to(tl.int32), 0) != 0:
            for c in range(0, K, CHUNK):
                lanes = c + tl.arange(0, CHUNK)[None, :]
                some, tickets = _support(support_ptr, tickets_ptr, stopped, last, lanes, rejected, carrier, K)
                lack = _share(row_ptr, column_stride, some, tickets)
                weight -= tl.sum(tl.where(here[:, :, None] == some[:, None, :], lack[:, None, :], 0), 2)
        running = before[:, None] + tl.cumsum(weight, 1)
        drawn = (tile * TILE).to(tl.int32) + tl.sum((running <= wanted).to(tl.int32), 1)[:, None]
        token = tl.where(drawing, tl.max(drawn, 1), token)

    column = tl.arange(0, COLUMNS)[None, :]
    drafts = tl.load(draft_ptr + request[:, None] * depth + column, mask=live[:, None] & (column < depth), other=-1)
    end = emit_at[:, None]
    out = tl.where(column < end, drafts, tl.where(column == end, token[:, None], -1))
    out = tl.where(failed[:, None], -1, out)
    tl.store(tokens_ptr + request[:, None] * (depth + 1) + column, out, mask=live[:, None] & (column <= depth))
    tl.store(num_sampled_ptr + request, tl.where(failed, 0, emit_at + 1).to(tl.int32), mask=live)
    tl.store(status_ptr + request, tl.where(failed, STATUS_FAILED, STATUS_OK), mask=live)
