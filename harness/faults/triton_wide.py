"""Faults in the texts of kernels/selector.py, groups.py and walk.py: of wide rows, which no target has."""

from pp3.harness.faults.triton_fault import of_file

_selector = of_file("selector")
_walk = of_file("walk")
_groups = of_file("groups")
WIDE = (
    _selector(
        "wide-not-read-again",
        "a group that may hold a fifth of the support is not read again",
        "    if crowded:",
        "    if crowded & (highest < LOWEST):",
        "wide",
        seen="wide",
    ),
    _groups(
        "wide-minus-zero",
        "-0.0 ranks below +0.0",
        "(upper ^ (sign & 0x7FFF0000)) - (sign << 16) + place",
        "(upper ^ (sign & 0x7FFF0000)) + place",
        "wide",
        "triton PRs 1736 and 1813",
        seen="wide",
    ),
    _selector(
        "wide-last-of-ties",
        "of equal largest logits the last is the argmax",
        "argmax = tl.min(tl.where(order == highest, ids, LAST), 0)",
        "argmax = tl.max(tl.where(order == highest, ids, -1), 0)",
        "wide",
        "pytorch issue 127196",
        seen="wide",
    ),
    _walk(
        "wide-coin-turned",
        "a coin at or above the ratio keeps its draft",
        "* tickets < (row_sums.quanta(prob) << 8)",
        "* tickets >= (row_sums.quanta(prob) << 8)",
        "wide",
        seen="wide",
    ),
    _walk(
        "wide-residual-of-the-tile",
        "within the tile that holds the token the residual is the whole target",
        "weight -= tl.where(here == lowest,",
        "weight -= tl.where(here < 0,",
        "wide",
        seen="wide",
    ),
    _walk(
        "wide-residual-of-tiles",
        "the tile is found by the whole target's masses",
        "left -= tl.where(whole, 0, lack)",
        "left -= tl.where(whole, 0, 0 * lack)",
        "wide",
        seen="wide",
    ),
    _walk(
        "wide-length-less-one",
        "the number of kept drafts is returned for that of tokens",
        "tl.where(failed, 0, emit + 1)",
        "tl.where(failed, 0, emit)",
        "wide",
        seen="wide",
    ),
    _walk(
        "wide-positions-in-32-bits",
        "position * stride is taken in 32 bits: rows beyond 2^31 elements are read elsewhere",
        "rows_ptr + c.to(tl.int64) * row_stride",
        "rows_ptr + c * row_stride",
        "exact:invariance",
        "vLLM PR 46560",
        seen="exact:invariance",
    ),
)
