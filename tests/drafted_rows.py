"""Rows to draft from, and what must be drafted: token by token, in Python."""

from typing import Any

import numpy as np
import torch

from pp3.harness.transport.drafter import Exchange
from pp3.kernels import reference
from pp3.kernels.reference import Proposal, seal

DEPTH = 4
TAU = float(np.float32(0.7))
INF = float("inf")
ROWS = ("random", "ties", "border", "left-empty", "right-empty", "few", "zeros", "empty", "nan", "inf", "late-nan")


def row(kind: str, vocab: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Base logits [DEPTH, vocab] of one kind."""
    border = vocab // 2
    logits = rng.normal(0, 3, (DEPTH, vocab)).astype(np.float32)
    if kind == "ties":  # three values: the 32nd place lies in a tie that spans the border
        logits = rng.integers(0, 3, (DEPTH, vocab)).astype(np.float32)
    if kind == "border":  # the best, the last that fits and the first that does not lie beside the border
        logits[:, border - 16 : border + 16] = 9
        logits[:, [0, vocab - 1]] = 9
    if kind == "left-empty":
        logits[:, :border] = -INF
    if kind == "right-empty":
        logits[:, border:] = -INF
    if kind == "few":
        logits[:, 3:] = -INF
    if kind == "zeros":
        logits = np.where(rng.random((DEPTH, vocab)) < 0.5, np.float32(0), np.float32(-0.0))
    if kind == "empty":
        logits[:] = -INF
    if kind == "nan":
        logits[:, border + 1] = np.nan
    if kind == "inf":
        logits[:, vocab - 1] = INF
    if kind == "late-nan":
        logits[DEPTH - 1, 0] = np.nan
    return logits


def case_of(vocab: int, dtype: torch.dtype, rng: np.random.Generator) -> dict[str, Any]:
    """Every kind of row, sampled and greedy, with a head whose bias is exact in BF16."""
    kinds = [kind for kind in ROWS for _ in range(2)]
    n = len(kinds)

    def words() -> torch.Tensor:
        return torch.tensor(rng.integers(0, 1 << 63, n, dtype=np.int64))

    return {
        "base": torch.tensor(np.stack([row(kind, vocab, rng) for kind in kinds])).to(dtype),
        "bias": torch.tensor(rng.integers(-4, 5, (3, vocab)) / 4).to(dtype),
        "context_of": torch.tensor(rng.integers(0, 3, vocab)),
        "anchor": torch.tensor(rng.integers(-1, vocab, n), dtype=torch.int32),
        "sampled": torch.tensor(np.arange(n) % 2, dtype=torch.int32),
        "keys": words(),
        "rounds": words(),
        "positions": words(),
        "tau": TAU,
    }


def expected(case: dict[str, Any]) -> Proposal:
    """The reference over whole rows, position by position."""
    previous, found = case["anchor"], []
    u64 = {name: case[name].numpy().view(np.uint64) for name in ("keys", "rounds", "positions")}
    for j in range(DEPTH):
        bias = case["bias"][case["context_of"][previous.clamp(min=0).long()]]
        logits = (case["base"][:, j] + bias).float().numpy()
        at = u64["positions"] + np.uint64(j)
        one = reference.propose(logits, case["sampled"].numpy() != 0, u64["keys"], u64["rounds"], at, case["tau"])
        found.append(one)
        previous = torch.tensor(one.token)
    return seal(Proposal(*(np.stack(parts, axis=1) for parts in zip(*found, strict=True))))


def greedy(case: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The first of the largest of each whole row, NaN above all."""
    previous, tokens = case["anchor"], []
    for j in range(DEPTH):
        bias = case["bias"][case["context_of"][previous.clamp(min=0).long()]]
        best = (case["base"][:, j] + bias).float().numpy().argmax(axis=1)  # NumPy's takes the first NaN too
        tokens.append(best)
        previous = torch.tensor(best)
    return np.stack(tokens, axis=1)


def check(case: dict[str, Any], found: dict[str, torch.Tensor]) -> None:
    """All that a rank got, against the whole row."""
    want = expected(case)
    assert (found["greedy"].numpy() == greedy(case)).all()
    for exchange in Exchange:
        assert (found[f"{exchange}/status"].numpy() == want.status[:, 0]).all()
        assert (found[f"{exchange}/token"].numpy() == want.token).all()
        assert (found[f"{exchange}/ids"].numpy() == want.ids).all()
        assert (found[f"{exchange}/tickets"].numpy() == want.tickets).all()
