"""Requests to our own engine, what it answers, and how well the answers fit its law."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pp3.harness.engine.contract import Ask
from pp3.harness.engine.model import Model, load
from pp3.harness.engine.runner import Emitted, Request, Runner

CHAIN = load("chain-64")
LEVEL = 1e-6  # of a test whose seed is fixed: the chance that its honest sampler had failed when it was written
BINS, EXPECTED = 6, 8  # cells of a class, and what each expects, about, at least


def seed_of(request: pytest.FixtureRequest) -> int:
    """The seed that a test's id gives."""
    return int.from_bytes(hashlib.sha256(request.node.nodeid.encode()).digest()[:6], "little")


def asks(count: int, length: int, seed: int, **more: Any) -> list[Ask]:
    """Requests after ordinary tokens, each with a seed of its own."""
    return [Ask(number=i, prompt=(7 * i % 59,), length=length, seed=seed + i, **more) for i in range(count)]


def run(runner: Runner, plan: Sequence[Ask], hang_up: dict[int, int] | None = None) -> list[list[Emitted]]:
    """What each request gets, by step; a request that is to hang up does so after so many tokens."""
    got: list[list[Emitted]] = [[] for _ in plan]
    requests: list[Request] = []

    def deliver(number: int) -> Callable[[Emitted], None]:
        def take(emitted: Emitted) -> None:
            got[number].append(emitted)
            limit = (hang_up or {}).get(number)
            if limit is not None and sum(len(part.tokens) for part in got[number]) >= limit:
                requests[number].gone = True

        return take

    requests += [runner.submit(ask, deliver(number)) for number, ask in enumerate(plan)]
    while runner.step():
        pass
    return got


def tokens_of(got: list[list[Emitted]]) -> list[tuple[int, ...]]:
    """The tokens of each answer."""
    return [tuple(token for part in parts for token in part.tokens) for parts in got]


def transitions(plan: Sequence[Ask], answers: Sequence[tuple[int, ...]], model: Model = CHAIN) -> npt.NDArray[Any]:
    """Counts [classes, vocab] of tokens by the class of the token before."""
    counts = np.zeros(model.weights.shape, np.int64)
    for ask, tokens in zip(plan, answers, strict=True):
        before = [ask.prompt[-1], *tokens][:-1] if tokens else []
        np.add.at(counts, (model.class_of[before], np.array(tokens, np.int64)), 1)
    return counts


def fit(counts: npt.NDArray[Any], laws: npt.NDArray[Any]) -> float:
    """p of Pearson's chi-square of BINS of about equal mass a class; 0 for an impossible token.

    Tokens are binned in the order of how far the target exceeds the proposal, which wrong acceptance moves mass along.
    """
    if (counts[laws == 0] > 0).any():
        return 0.0
    total, freedom = 0.0, 0
    for number in np.flatnonzero(counts.sum(axis=1) >= BINS * EXPECTED):
        tickets = np.full(CHAIN.vocab, 0.5)
        tickets[CHAIN.supports.ids[number]] += CHAIN.supports.tickets[number]
        order = np.argsort(laws[number] / tickets, kind="stable")
        running = np.cumsum(laws[number][order])
        of = np.minimum((running * BINS - 1e-9).astype(int), BINS - 1)
        cells = counts[number].sum() * np.bincount(of, laws[number][order], BINS)
        seen = np.bincount(of, counts[number][order], BINS)
        kept = cells > 0
        total, freedom = total + ((seen - cells)[kept] ** 2 / cells[kept]).sum(), freedom + int(kept.sum()) - 1
    assert freedom > BINS
    return float(stats.chi2.sf(total, freedom))
