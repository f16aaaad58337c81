"""The decision tree finds: each planted fault is seen, in the slice too."""

from typing import Any

import mutant_reference
import numpy as np
import pytest
from whole_trees import SLICES, TREES, run

from pp3.harness.exact.tree import DEPTHS, W64, Tree


def stepped(block: Any, by: int, where: Any) -> Any:
    """Blocks [n, 4] whose w64 is moved by one `where` that is so, short of wrapping."""
    w64 = [low | high << 32 for _, low, high, _ in block.tolist()]
    moved = [min(max(word + by * int(there), 0), W64 - 1) for word, there in zip(w64, where, strict=True)]
    edited = block.copy()
    edited[:, 1:3] = np.array(moved, np.uint64)[:, None].view(np.uint32)
    return edited


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced; by one that may step."""
    return mutant_reference.mutant(old, new, stepped=stepped)


@pytest.fixture(scope="module")
def right() -> dict[int, tuple[list[list[int]], list[int]]]:
    """What the walk emits on both trees."""
    walks = {depth: whole.walk() for depth, whole in TREES.items()}
    return {depth: (tokens.tolist(), (tokens >= 0).sum(axis=1).tolist()) for depth, tokens in walks.items()}


FAULTS: dict[str, tuple[str, str]] = {
    "less or equal for less": ("* mass < quanta << 8", "* mass <= quanta << 8"),
    "acceptance shifted by one": ("w0.astype(np.int64) * mass <", "(w0.astype(np.int64) + 1) * mass <"),
    "the residual shifted by one": (
        "    low, high = np.zeros(len(row)",
        "    wanted = wanted + 1\n    low, high = np.zeros(len(row)",
    ),
    "an invalidated draft treated as rejected": (
        "emit_at[invalidated] = j",
        "emit_at[invalidated], rejected = j, rejected | invalidated",
    ),
    "a rejected draft treated as invalidated": ("rejected |= alive & ~keep", "rejected |= False"),
    "an invalidated draft judged by its row": ("invalidated = alive & (draft == -1)", "invalidated = alive & False"),
    "a round that goes on after an invalidated draft": ("alive = alive & ~invalidated", "alive = alive & True"),
    "a round that goes on after a rejected draft": ("alive = alive & keep", "alive = alive & True"),
    "a word shared by acceptance and residual": ("block[:, 2].astype(np.uint64)", "block[:, 0].astype(np.uint64)"),
    "a word shared by acceptance and the low half of a residual": (
        "block[:, 1].astype(np.uint64)",
        "block[:, 0].astype(np.uint64)",
    ),
    "one counter for all acceptances": ("positions[judged] + np.uint64(j))", "positions[judged])"),
    "one counter for all emissions": ("positions[who] + emit_at[who].astype(np.uint64))", "positions[who])"),
    "a counter shared by the last draft and the bonus": (
        "positions[who] + emit_at[who].astype(np.uint64))",
        "positions[who] + np.minimum(emit_at[who], depth - 1).astype(np.uint64))",
    ),
    "a bonus of the wrong row": ("_emit(rows, row[who, emit_at[who]],", "_emit(rows, row[who, at],"),
    "a bonus of the first row": (
        "_emit(rows, row[who, emit_at[who]],",
        "_emit(rows, row[who, emit_at[who] % depth],",
    ),
    "one unit too many in what is no residual": ("beyond = running > wanted", "beyond = running > wanted + ~rejected"),
    "one unit too few in what is no residual": ("beyond = running > wanted", "beyond = running > wanted - ~rejected"),
    "one word too many for a bonus": ("rejected[who], w64)", "rejected[who], stepped(w64, 1, emit_at[who] == depth))"),
    "one word too few for a bonus": ("rejected[who], w64)", "rejected[who], stepped(w64, -1, emit_at[who] == depth))"),
    "one word too many for a full target": (
        "rejected[who], w64)",
        "rejected[who], stepped(w64, 1, ~rejected[who] & (emit_at[who] < depth)))",
    ),
    "one word too few for a full target": (
        "rejected[who], w64)",
        "rejected[who], stepped(w64, -1, ~rejected[who] & (emit_at[who] < depth)))",
    ),
    "a failed status beside right tokens": (
        "status = np.where(failed, np.int32(FAILED), np.int32(OK))",
        "status = np.where(failed | rejected, np.int32(FAILED), np.int32(OK))",
    ),
    "temperature 0 that judges by words": ("np.flatnonzero(alive & sampled)", "np.flatnonzero(alive)"),
    "temperature 0 that emits by words": ("np.flatnonzero(sampled & ~failed)", "np.flatnonzero(~failed)"),
    "temperature 0 for all where one is": ("np.flatnonzero(alive & sampled)", "np.flatnonzero(alive & sampled.all())"),
    "a row that reads its neighbour's word": (
        "keep[judged] = w0.astype(np.int64)",
        "keep[judged] = np.roll(w0, 1).astype(np.int64)",
    ),
    "the residual of another position": (
        "at = np.minimum(emit_at[who], depth - 1)",
        "at = np.minimum(emit_at[who] + 1, depth - 1)",
    ),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen(old: str, new: str, depth: int, right: Any) -> None:
    """Alone, in the tokens or lengths of either depth."""
    try:
        found = run(mutant(old, new), depth)
    except IndexError:  # so wrong that it reads outside its tables
        return
    assert found != right[depth]


@pytest.mark.parametrize(("old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen_in_the_slice(old: str, new: str) -> None:
    """What the kernels run every time tells it too."""
    different = []
    for depth, only in SLICES:
        some = Tree(depth, only)
        tokens, lengths = some.run(mutant(old, new))
        want = some.walk()
        different.append((tokens != want).any() or (lengths != (want >= 0).sum(axis=1)).any())
    assert any(different)
