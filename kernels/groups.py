"""The 128 groups of a wide row: the ids of each, its entries as 32-bit keys, and the launch that keeps its largest.

Contract: first launch of selector.py, which says what the groups are for. Values compare as the semantics say: larger
first, then the lower id; -0.0 equals +0.0; NaN of either sign above +inf. Each lane keeps its four largest, each warp
those of its lanes, and ranks choose among the warps'. Derivations: NOTES.md.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

GROUPS, KEPT, RUN = 128, 4, 16  # groups of a row, entries kept of each, neighbouring ids that a group takes at once
WARPS, LANES = 4, 32
LEAST, MOST_MAIN = WARPS * LANES, 8 * WARPS * LANES  # entries of a group read at once: up to eight a lane, 16 bytes
INFINITY = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00}  # its bits
# An id is the number of its run in the group, the group (7 bits), and the place within the run (4 bits).
RUN_BITS, GROUP_BITS, TURN_BITS = tl.constexpr(4), tl.constexpr(7), tl.constexpr(11)
RUN_SIZE = tl.constexpr(RUN)
WITHIN, GROUP_MASK = tl.constexpr(15), tl.constexpr(127)
INDEX, UPPER = tl.constexpr(0xFFFF), tl.constexpr(-0x10000)  # the halves of an entry's key
ID_BITS = tl.constexpr(18)
ID_MASK = tl.constexpr((1 << 18) - 1)
RUN_MASK = tl.constexpr((1 << 14) - 1)
LOWEST = tl.constexpr(-0x80000000)


@triton.jit
def id_of(index: tl.tensor, group: tl.tensor) -> tl.tensor:
    """The id of entry `index` of a group: runs of 16 neighbours, dealt to the groups in turn."""
    return ((index >> RUN_BITS) << TURN_BITS) | (group << RUN_BITS) | (index & WITHIN)


@triton.jit
def entries(
    row_ptr: tl.tensor,  # [n, 1, 1] or one row
    group: tl.tensor,  # [n, 1, 1] or one group
    vocab: tl.tensor,
    FIRST: tl.constexpr,
    COUNT: tl.constexpr,
    INFINITY: tl.constexpr,
) -> tl.tensor:
    """Keys int32 [n, COUNT / 16, 16] of a group's entries from FIRST on: order above, then the lower index first.

    order: the 16-bit pattern less its place, so that values compare as signed integers: -inf lowest, -0.0 as +0.0, and
    NaN of either sign above +inf, because 16 bits wrap. Entries past the row are -inf of ids that no row has.
    """
    turn = tl.arange(0, COUNT // RUN_SIZE)[None, :, None] + FIRST // RUN_SIZE
    within = tl.arange(0, RUN_SIZE)[None, None, :]
    token = (turn << TURN_BITS) + (group << RUN_BITS) + within
    inside = token < vocab
    pattern = tl.load(row_ptr + token, mask=inside, other=0)  # Triton 3.6 spoils a negative `other` of 16 bits
    upper = tl.where(inside, pattern, INFINITY - 0x8000).to(tl.int32) << 16
    sign = upper >> 31
    place = ((INFINITY - 0x8000) << 16) + INDEX - (turn << RUN_BITS) - within
    return (upper ^ (sign & 0x7FFF0000)) - (sign << 16) + place


@triton.jit
def key_of(entry: tl.tensor, group: tl.tensor) -> tl.tensor:
    """The int64 key that orders a whole row: order, then the lower id first."""
    token = id_of(INDEX - (entry & INDEX), group)
    return ((entry >> 16).to(tl.int64) << ID_BITS) | (token ^ ID_MASK)


@triton.jit
def token_of(key: tl.tensor) -> tl.tensor:
    """The id of a key."""
    return ((key & ID_MASK) ^ ID_MASK).to(tl.int32)


@triton.jit
def entry_of(key: tl.tensor) -> tl.tensor:
    """(entry, group) of a key."""
    token = token_of(key)
    index = ((token >> TURN_BITS) << RUN_BITS) | (token & WITHIN)
    group = (token >> RUN_BITS) & GROUP_MASK
    return ((key >> ID_BITS).to(tl.int32) << 16) | (INDEX - index), group


@triton.jit
def lead_of(first: tl.tensor, group: tl.tensor) -> tl.tensor:
    """The int32 key that orders groups by their largest entries: no two share a run, so its number decides."""
    run = (((INDEX - (first & INDEX)) >> RUN_BITS) << GROUP_BITS) | group
    return (first & UPPER) | ((run ^ RUN_MASK) << 2)


@triton.jit
def group_of(lead: tl.tensor) -> tl.tensor:
    """The group of such a key."""
    return ((lead >> 2) ^ RUN_MASK) & GROUP_MASK


@triton.jit
def _ordered(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return tl.maximum(a, b), tl.minimum(a, b)


@triton.jit
def _merged(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    d: tl.tensor,
    e: tl.tensor,
    f: tl.tensor,
    g: tl.tensor,
    h: tl.tensor,
) -> tl.tensor:
    """The four largest of two fours that fall, falling."""
    a, b, c, d = tl.maximum(a, h), tl.maximum(b, g), tl.maximum(c, f), tl.maximum(d, e)
    a, c = _ordered(a, c)
    b, d = _ordered(b, d)
    a, b = _ordered(a, b)
    c, d = _ordered(c, d)
    return a, b, c, d


@triton.jit
def _fours(x: tl.tensor, ROWS: tl.constexpr, EACH: tl.constexpr, WARPS: tl.constexpr, LANES: tl.constexpr) -> tl.tensor:
    """The four largest of the EACH (1, 2, 4 or 8) entries that a lane has of x [ROWS, ...], falling."""
    if EACH == 1:
        a = tl.reshape(x, [ROWS, WARPS, LANES])
        b = tl.full([ROWS, WARPS, LANES], LOWEST, tl.int32)
        c, d = b, b
    elif EACH == 2:
        p, q = tl.split(tl.reshape(x, [ROWS, WARPS, LANES, 2]))
        a, b = _ordered(p, q)
        c = tl.full([ROWS, WARPS, LANES], LOWEST, tl.int32)
        d = c
    else:
        p, q = tl.split(tl.reshape(x, [ROWS, WARPS, LANES, EACH // 2, 2]))
        p, q = _ordered(p, q)
        p0, p1 = tl.split(tl.reshape(p, [ROWS, WARPS, LANES * EACH // 4, 2]))
        q0, q1 = tl.split(tl.reshape(q, [ROWS, WARPS, LANES * EACH // 4, 2]))
        a, b = _ordered(p0, p1)
        c, d = _ordered(q0, q1)
        b, c = _ordered(b, c)
        if EACH == 8:
            a, e = tl.split(tl.reshape(a, [ROWS, WARPS, LANES, 2]))
            b, f = tl.split(tl.reshape(b, [ROWS, WARPS, LANES, 2]))
            c, g = tl.split(tl.reshape(c, [ROWS, WARPS, LANES, 2]))
            d, h = tl.split(tl.reshape(d, [ROWS, WARPS, LANES, 2]))
            a, b, c, d = _merged(a, b, c, d, e, f, g, h)
    return a, b, c, d


@triton.jit
def group_bests(
    logits_ptr: tl.tensor,  # [rows, vocab] int16 patterns, neighbours adjacent
    row_stride: tl.tensor,
    vocab: tl.tensor,
    best_ptr: tl.tensor,  # [rows, GROUPS, KEPT] int32, falling
    INFINITY: tl.constexpr,
    MAIN: tl.constexpr,
    EXTRA: tl.constexpr,  # entries of a group: the two powers of two cover the runs of a row
    KEPT: tl.constexpr,
    AT_ONCE: tl.constexpr,  # groups a program
    WARPS: tl.constexpr,
    LANES: tl.constexpr,
    DEPENDENT: tl.constexpr,
) -> None:
    line = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    group = (line & GROUP_MASK)[:, None, None]
    row_ptr = (logits_ptr + (line >> GROUP_BITS).to(tl.int64) * row_stride)[:, None, None]
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()
    key = entries(row_ptr, group, vocab, 0, MAIN, INFINITY)
    a, b, c, d = _fours(key, AT_ONCE, MAIN // WARPS // LANES, WARPS, LANES)
    if EXTRA > 0:
        key = entries(row_ptr, group, vocab, MAIN, EXTRA, INFINITY)
        e, f, g, h = _fours(key, AT_ONCE, EXTRA // WARPS // LANES, WARPS, LANES)
        a, b, c, d = _merged(a, b, c, d, e, f, g, h)
    k = tl.arange(0, KEPT)[None, None, :]
    kept = tl.full([AT_ONCE, WARPS, KEPT], LOWEST, tl.int32)
    for i in tl.static_range(KEPT):
        best = tl.max(a, 2)[:, :, None]
        kept = tl.where(k == i, best, kept)
        taken = a == best
        a, b, c = tl.where(taken, b, a), tl.where(taken, c, b), tl.where(taken, d, c)
    kept = tl.reshape(kept, [AT_ONCE, WARPS * KEPT])
    rank = tl.sum((kept[:, :, None] < kept[:, None, :]).to(tl.int32), 2)
    tl.store(best_ptr + line.to(tl.int64)[:, None] * KEPT + rank, kept, mask=rank < KEPT)


def sizes(vocab: int) -> tuple[int, int]:
    """Entries of a group as two powers of two (the second may be 0) that cover a row: of 163,840, 1,024 and 256."""
    entries = triton.cdiv(triton.cdiv(vocab, RUN), GROUPS) * RUN
    main = min(MOST_MAIN, max(LEAST, triton.next_power_of_2(entries)))
    return main, max(LEAST, triton.next_power_of_2(entries - main)) if entries > main else 0
