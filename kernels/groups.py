"""The 128 groups of a wide row: the ids of each, its entries as 32-bit keys, and the launch that keeps its largest.

Contract: first launch of selector.py, which says what the groups are for. Values compare as the semantics say: larger
first, then the lower id; -0.0 equals +0.0; NaN of either sign above +inf. Derivations: NOTES.md.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

GROUPS, KEPT, RUN = 128, 4, 16  # groups of a row, entries kept of each, neighbouring ids that a group takes at once
WARPS = 4
LEAST_EXTRA = 16
INFINITY = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00}  # its bits
# An id is the number of its run in the group, the group (7 bits), and the place within the run (4 bits).
RUN_BITS, GROUP_BITS, TURN_BITS = tl.constexpr(4), tl.constexpr(7), tl.constexpr(11)
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
    row_ptr: tl.tensor, group: tl.tensor, index: tl.tensor, vocab: tl.tensor, INFINITY: tl.constexpr
) -> tl.tensor:
    """Keys int32 of a group's entries: order in the upper half, then the lower index first.

    order: the 16-bit pattern less its place, so that values compare as signed integers: -inf lowest, -0.0 as +0.0, and
    NaN of either sign above +inf, because 16 bits wrap. Entries past the row are -inf of ids that no row has.
    """
    token = id_of(index, group)
    bits = tl.load(row_ptr + token, mask=token < vocab, other=INFINITY - 0x8000).to(tl.int32)
    sign = bits >> 31
    order = (bits ^ (sign & 0x7FFF)) - sign + (INFINITY - 0x8000)
    return (order << 16) | (INDEX - index)


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
def group_bests(
    logits_ptr: tl.tensor,  # [rows, vocab] int16 patterns, neighbours adjacent
    row_stride: tl.tensor,
    vocab: tl.tensor,
    best_ptr: tl.tensor,  # [rows, GROUPS, KEPT] int32, descending
    INFINITY: tl.constexpr,
    MAIN: tl.constexpr,
    EXTRA: tl.constexpr,  # entries of a group: the two powers of two add up to the runs of a row
    KEPT: tl.constexpr,
    AT_ONCE: tl.constexpr,  # groups a program
    DEPENDENT: tl.constexpr,
) -> None:
    line = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    group = (line & GROUP_MASK)[:, None]
    row_ptr = (logits_ptr + (line >> GROUP_BITS).to(tl.int64) * row_stride)[:, None]
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()
    key = entries(row_ptr, group, tl.arange(0, MAIN)[None, :], vocab, INFINITY)
    if EXTRA > 0:
        extra = entries(row_ptr, group, MAIN + tl.arange(0, EXTRA)[None, :], vocab, INFINITY)
    k = tl.arange(0, KEPT)[None, :]
    kept = tl.full([AT_ONCE, KEPT], LOWEST, tl.int32)
    for i in tl.static_range(KEPT):
        best = tl.max(key, 1)
        if EXTRA > 0:
            best = tl.maximum(best, tl.max(extra, 1))
        kept = tl.where(k == i, best[:, None], kept)
        if i < KEPT - 1:
            key = tl.where(key == best[:, None], LOWEST, key)
            if EXTRA > 0:
                extra = tl.where(extra == best[:, None], LOWEST, extra)
    tl.store(best_ptr + line.to(tl.int64)[:, None] * KEPT + k, kept)


def sizes(vocab: int) -> tuple[int, int]:
    """Entries of a group as two powers of two (the second may be 0) that cover a row: of 163,840, 1,024 and 256."""
    entries = triton.cdiv(triton.cdiv(vocab, RUN), GROUPS) * RUN
    main = 1 << (entries.bit_length() - 1)
    extra = entries - main
    return main, max(LEAST_EXTRA, triton.next_power_of_2(extra)) if extra else 0
