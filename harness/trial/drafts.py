"""Drafts that the harness draws for a verifier: independent of anything the sampler can see."""

import numpy as np
import numpy.typing as npt

from pp3.harness.oracle import Judged
from pp3.harness.samplers.contract import ABSENT, INVALIDATED, WANTED
from pp3.harness.samplers.words import words
from pp3.harness.seeds import Seed
from pp3.harness.tally import pattern_of, start_of
from pp3.targets import drafts_of, invalidated


def given(
    target: Judged, depth: int, seed: Seed, requests: npt.NDArray[np.int64], wanted: bool
) -> npt.NDArray[np.int32]:
    """Drafts [n, depth]: WANTED where the sampler drafts itself, else drawn from the proposal.

    INVALIDATED and ABSENT by the patterns.
    """
    patterns = target.patterns
    drafts = WANTED if wanted or not depth else drawn(target, depth, seed, requests)
    void = np.array([invalidated(pattern, depth) for pattern in patterns]).reshape(len(patterns), depth)
    counts = np.array([drafts_of(pattern, depth) for pattern in patterns])
    fixed = np.where(np.arange(depth) < counts[:, None], np.where(void, INVALIDATED, WANTED), ABSENT).astype(np.int32)
    found: npt.NDArray[np.int32] = fixed[pattern_of(target, requests)]
    if drafts is not WANTED:
        np.copyto(found, drafts, where=found == WANTED, casting="same_kind")
    return found


def drawn(target: Judged, depth: int, seed: Seed, requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Drafts [n, depth] from the proposal, exactly: its total is a power of two, so the high bits of a word pick."""
    law = target.proposal_weights()
    rows, vocab = law.shape
    # One ascending list of all rows' running sums, each row lifted above the one before it.
    running = (np.cumsum(law, axis=1) + np.arange(rows)[:, None] * target.total).ravel()
    places = words(seed, f"drafts/{target.name}", requests, depth) >> np.uint64(64 - (target.total.bit_length() - 1))
    drafts = np.empty((len(requests), depth), np.int64)
    context = start_of(target, requests)
    for j in range(depth):
        row = target.row_of[j, context]
        found = np.searchsorted(running, places[:, j].astype(np.int64) + row * target.total, side="right")
        drafts[:, j] = found - row * vocab
        context = target.context_of[drafts[:, j]]
    return drafts
