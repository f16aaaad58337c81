"""The normative sampler in NumPy: `dyadic24-floor-first-v1` proposal and `standard-u32-v1` verification.

Contract: semantics sections 2 and 3, bit for bit. Imports neither torch nor triton. Rows are independent; every
function is vectorised over them. `propose` and `verify` take dense rows and mirror the launchers in proposal.py and
verifier.py; `propose_rows` and `verify_rows` take a table of distinct rows and an index into it, so that a campaign
allocates each distinct row once. Logits arrive as FP32 (BF16 and FP16 convert exactly).
Ties: larger value first, then lower id; -0.0 equals +0.0. Padding: tokens -1, ids 0..31, tickets 0.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pp3.kernels import addressing

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

SUPPORT = 32
ONE = 1 << 24
TAU = 0.7
MIN_VOCAB, MAX_VOCAB = SUPPORT, 1 << 18
OK, FAILED = 0, 1

QUANTUM_BITS = 48
MASS_SLACK = 1 << 32
MAX_PROB = 1 + 2.0**-16


class Proposal(NamedTuple):
    """Drafts and the law they come from. A leading axis of requests, or of requests and positions."""

    status: I32  # [n]
    token: I32  # [n]
    ids: I32  # [n, 32]
    tickets: I32  # [n, 32]


class Supports(NamedTuple):
    """The ticket allocation of each distinct row of logits."""

    failed: Mask  # [rows]
    first: I32  # [rows] the rank-0 token
    ids: I32  # [rows, 32] ascending
    tickets: I32  # [rows, 32] summing to 2^24


class TargetRows(NamedTuple):
    """Distinct rows of target probabilities on the 2^-48 grid."""

    valid: Mask  # [rows]
    quanta: I64  # [rows, V]
    running: I64  # [rows, V] inclusive running sums of quanta
    argmax: I32  # [rows]


class Verification(NamedTuple):
    """What a verified round emits; columns at and past num_sampled hold -1."""

    status: I32  # [n]
    tokens: I32  # [n, depth + 1]
    num_sampled: I32  # [n]


def propose(logits: F32, sampled: Mask, keys: U64, rounds: U64, positions: U64, tau: float = TAU) -> Proposal:
    """Draft one token per row from logits [n, V]; sampled [n] is temperature > 0; keys, rounds, positions [n] u64.

    Raises ValueError for a vocabulary outside [32, 2^18] or a tau that is not finite and >= 0.
    """
    return propose_rows(allocate(logits, tau), np.arange(len(logits)), sampled, keys, rounds, positions, tau)


def propose_rows(
    supports: Supports,
    row: npt.NDArray[np.integer[Any]],
    sampled: Mask,
    keys: U64,
    rounds: U64,
    positions: U64,
    tau: float,
) -> Proposal:
    """`propose` for requests [n] that draw from rows [n] of already allocated supports."""
    failed = supports.failed[row]
    tau = check_proposal(MIN_VOCAB, tau)
    drawn = sampled & ~failed & (tau > 0)
    ids = np.where(drawn[:, None], supports.ids[row], np.arange(SUPPORT, dtype=np.int32))
    tickets = np.where(drawn[:, None], supports.tickets[row], np.int32(0))
    token = np.where(failed, np.int32(-1), supports.first[row])
    if drawn.any():
        draw = (addressing.words(keys[drawn], rounds[drawn], positions[drawn])[:, 0] >> np.uint32(8)).astype(np.int64)
        running = np.cumsum(tickets[drawn], axis=1, dtype=np.int64)
        hit = (running <= draw[:, None]).sum(axis=1)
        token[drawn] = np.take_along_axis(ids[drawn], hit[:, None], axis=1)[:, 0]
    return Proposal(np.where(failed, np.int32(FAILED), np.int32(OK)), token, ids, tickets)


def allocate(logits: F32, tau: float = TAU) -> Supports:
    """The support and tickets of each row of logits [rows, V]: semantics 2, steps 1, 2 and 4 to 9."""
    tau = check_proposal(logits.shape[-1], tau)
    rows = len(logits)
    nan, with_inf = np.isnan(logits).any(axis=1), np.isposinf(logits).any(axis=1)
    failed: Mask = np.logical_or.reduce([nan, with_inf, np.isneginf(logits).all(axis=1)])
    order = np.argsort(-np.where(failed[:, None], np.float32(0), logits), axis=1, kind="stable")[:, :SUPPORT]
    value = np.take_along_axis(np.where(failed[:, None], np.float32(0), logits), order, axis=1)
    scale = np.float32(tau or 1)
    with np.errstate(over="ignore", under="ignore"):
        y = (value - value[:, :1]) / scale
        e = np.exp(y.astype(np.float64)).astype(np.float32).astype(np.float64)
    e = np.floor(e * 2.0**47) / 2.0**47
    tickets = np.floor(e / e.sum(axis=1, keepdims=True) * ONE).astype(np.int32)
    tickets[:, 0] += ONE - tickets.sum(axis=1, dtype=np.int32)
    by_id = np.argsort(order, axis=1)
    return Supports(
        failed,
        order[:, 0].astype(np.int32).reshape(rows),
        np.take_along_axis(order, by_id, axis=1).astype(np.int32),
        np.take_along_axis(tickets, by_id, axis=1),
    )


def check_proposal(vocab: int, tau: float) -> float:
    """tau as the FP32 value it is used as. ValueError unless the proposal is defined for this vocabulary and tau."""
    if not MIN_VOCAB <= vocab <= MAX_VOCAB:
        raise ValueError(f"vocabulary {vocab} is outside [{MIN_VOCAB}, {MAX_VOCAB}], what this proposal declares")
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(tau)
    if not (np.isfinite(single) and single >= 0):
        raise ValueError(f"tau {tau!r} must be finite and >= 0 in FP32")
    return float(single)


def seal(round_of: Proposal) -> Proposal:
    """Fail a whole request when any of its positions failed: arrays [n, depth, ...] in and out."""
    failed = (round_of.status == FAILED).any(axis=1, keepdims=True)
    return Proposal(
        np.broadcast_to(np.where(failed, np.int32(FAILED), np.int32(OK)), round_of.status.shape).copy(),
        np.where(failed, np.int32(-1), round_of.token),
        np.where(failed[..., None], np.arange(SUPPORT, dtype=np.int32), round_of.ids),
        np.where(failed[..., None], np.int32(0), round_of.tickets),
    )


def verify(
    target_probs: F32,
    draft_ids: I32,
    support: I32 | None,
    tickets: I32 | None,
    sampled: Mask,
    keys: U64,
    rounds: U64,
    positions: U64,
) -> Verification:
    """Judge the drafts [n, depth] of each request against target_probs [n, depth + 1, V].

    support and tickets [n, depth, 32] carry the proposal's law; both None is the point-mass path. positions [n] is the
    position of the first draft. A request with an invalid row or draft has status failed and emits nothing.
    """
    n, columns, vocab = target_probs.shape
    rows = quantise(target_probs.reshape(n * columns, vocab))
    index = np.arange(n * columns).reshape(n, columns)
    return verify_rows(rows, index, draft_ids, support, tickets, sampled, keys, rounds, positions)


def quantise(target_probs: F32) -> TargetRows:
    """Put each row of target_probs [rows, V] on the 2^-48 grid and check it: semantics 3, rule 1."""
    with np.errstate(invalid="ignore"):
        fits = (target_probs >= 0) & (target_probs <= MAX_PROB)
    quanta = np.floor(np.where(fits, target_probs, np.float32(0)).astype(np.float64) * 2.0**QUANTUM_BITS).astype(
        np.int64
    )
    # Halves of 24 bits: the sum of a row of ones would wrap int64 and could look like one.
    high, low = (quanta >> 24).sum(axis=1), (quanta & (ONE - 1)).sum(axis=1)
    plausible = high < 1 << 26
    excess = np.where(plausible, (high << 24) + low - (1 << QUANTUM_BITS), MASS_SLACK + 1)
    valid = fits.all(axis=1) & (np.abs(excess) <= MASS_SLACK)
    quanta[~valid] = 0
    argmax = np.where(fits, target_probs, np.float32(-1)).argmax(axis=1).astype(np.int32)
    return TargetRows(valid, quanta, np.cumsum(quanta, axis=1), argmax)


def verify_rows(
    rows: TargetRows,
    row: npt.NDArray[np.integer[Any]],
    draft_ids: I32,
    support: I32 | None,
    tickets: I32 | None,
    sampled: Mask,
    keys: U64,
    rounds: U64,
    positions: U64,
) -> Verification:
    """`verify` for requests whose rows row [n, depth + 1] are in an already quantised table."""
    n, depth = draft_ids.shape
    if support is None or tickets is None:
        support, tickets = draft_ids[:, :, None], np.full((n, depth, 1), ONE, np.int32)
    vocab = rows.quanta.shape[1]
    failed = ~rows.valid[row].all(axis=1) | ((draft_ids < -1) | (draft_ids >= vocab)).any(axis=1)
    alive = ~failed
    emit_at = np.full(n, depth)
    rejected = np.zeros(n, np.bool_)
    for j in range(depth):
        draft = draft_ids[:, j]
        invalidated = alive & (draft == -1)
        emit_at[invalidated] = j
        alive = alive & ~invalidated
        keep = draft == rows.argmax[row[:, j]]
        judged = np.flatnonzero(alive & sampled)  # temperature 0 reads no words
        if len(judged):
            mass = np.where(support[judged, j] == draft[judged, None], tickets[judged, j], 0).sum(
                axis=1, dtype=np.int64
            )
            quanta = rows.quanta[row[judged, j], draft[judged]]
            w0 = addressing.words(keys[judged], rounds[judged], positions[judged] + np.uint64(j))[:, 0]
            keep[judged] = w0.astype(np.int64) * mass < quanta << 8
            failed[judged[mass == 0]] = True
            alive = alive & ~failed
        rejected |= alive & ~keep
        emit_at[alive & ~keep] = j
        alive = alive & keep
    request = np.arange(n)
    emitted = rows.argmax[row[request, emit_at]].copy()
    who = np.flatnonzero(sampled & ~failed)
    if len(who):
        at = np.minimum(emit_at[who], depth - 1)
        w64 = addressing.words(keys[who], rounds[who], positions[who] + emit_at[who].astype(np.uint64))
        emitted[who] = _emit(rows, row[who, emit_at[who]], support[who, at], tickets[who, at], rejected[who], w64)
    columns = np.arange(depth + 1)
    tokens = np.where(columns < emit_at[:, None], np.pad(draft_ids, ((0, 0), (0, 1))), np.int32(-1))
    tokens[request, emit_at] = emitted
    tokens[failed] = -1
    status = np.where(failed, np.int32(FAILED), np.int32(OK))
    return Verification(status, tokens.astype(np.int32), np.where(failed, 0, emit_at + 1).astype(np.int32))


def _emit(
    rows: TargetRows,
    row: npt.NDArray[np.integer[Any]],
    support: I32,
    tickets: I32,
    rejected: Mask,
    block: npt.NDArray[np.uint32],
) -> I32:
    """The token of each request [n] drawn by w64 from its residual if rejected, else from its target row."""
    valid = rejected[:, None] & (tickets > 0)
    share = np.minimum(rows.quanta[row[:, None], np.maximum(support, 0)], tickets.astype(np.int64) << 24)
    share = np.where(valid, share, 0)  # what the residual lacks at each id of the support
    total = rows.running[row, -1]
    empty = total == share.sum(axis=1)
    share[empty] = 0
    total = total - share.sum(axis=1)
    wanted = _multiply_high(block[:, 1].astype(np.uint64) | block[:, 2].astype(np.uint64) << np.uint64(32), total)
    low, high = np.zeros(len(row), np.int64), np.full(len(row), rows.quanta.shape[1] - 1)
    while (low < high).any():  # bisect for the first id whose running sum exceeds `wanted`
        middle = (low + high) // 2
        running = rows.running[row, middle] - np.where(support <= middle[:, None], share, 0).sum(axis=1)
        beyond = running > wanted
        low, high = np.where(beyond, low, middle + 1), np.where(beyond, middle, high)
    return low.astype(np.int32)


def _multiply_high(w64: U64, total: I64) -> I64:
    """The high 64 bits of the 128-bit product of w64 [n] and a total [n] below 2^62."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_high, a_low = w64 >> shift, w64 & mask
    b = total.astype(np.uint64)
    b_high, b_low = b >> shift, b & mask
    middle = a_high * b_low + (a_low * b_low >> shift)
    carry = (middle & mask) + a_low * b_high
    high: U64 = a_high * b_high + (middle >> shift) + (carry >> shift)
    return high.astype(np.int64)
