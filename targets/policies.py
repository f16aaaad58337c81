"""Four synthetic policies for the oracle bridge, each a Markov target built from a hash of its own name.

They span what a target can be to its proposal: the same law, a near one, one whose tail is out of reach, and one that
shares no token. Logits reach so far down that some members of a support get no ticket. The row that judges a position
differs from position to position and from context to context, so that a mix-up of either shows.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import SUPPORT, allocate
from pp3.targets.target import ONE, POSITIONS, Target
from pp3.targets.toy import BACKGROUND, _apportion, _distinct, _integers

TARGET_TAU = 1.25  # temperature of tilt's target; its proposal has 0.7

WHY = {
    "identity": "the target is the proposal's own tickets: every draft is accepted and the residual is empty",
    "tilt": "the target is the same logits at temperature 1.25: 32 states, each row near its proposal",
    "sparse": "half of the target's mass lies on 400 tokens that the proposal never drafts",
    "disjoint": "the target and the proposal share no token: every first draft is rejected",
}
POLICIES: tuple[str, ...] = ("identity", "tilt", "sparse", "disjoint")
VOCABS = {"identity": 131, "tilt": 4133, "sparse": 4133, "disjoint": 97}
CONTEXTS = {"identity": 4, "tilt": 32, "sparse": 8, "disjoint": 4}
LEAST_ROWS, SHIFT = 8, 3  # SHIFT rows from one position to the next: distinct for six positions of 8 or 32 rows
LEVELS = 97  # logits are eighths from 0 to 12
SPARSE_TAIL, DISJOINT_TOKENS = 400, 24  # tokens of a target outside the support


@cache
def build_policy(name: str) -> Target:
    """The policy of this name. Raises KeyError for a name not in POLICIES."""
    why, vocab, contexts = WHY[name], VOCABS[name], CONTEXTS[name]
    rows = max(contexts, LEAST_ROWS)
    logits = np.full((rows, vocab), BACKGROUND, np.float32)
    for row in range(rows):
        support = _distinct(f"policy/{name}/{row}/support", SUPPORT, vocab)
        logits[row, support] = [value % LEVELS / 8 for value in _integers(f"policy/{name}/{row}/logits", SUPPORT)]
    return Target(
        name=name,
        why=why,
        weights=_weights(name, logits),
        draft_logits=logits,
        row_of=(np.arange(contexts) + SHIFT * np.arange(POSITIONS)[:, None]) % rows,
        context_of=np.arange(vocab) % contexts,
    )


def _weights(name: str, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The target rows [rows, vocab] beside the logits of the proposal."""
    rows, vocab = logits.shape
    near = allocate(logits, TARGET_TAU) if name == "tilt" else allocate(logits)
    weights = np.zeros((rows, vocab), np.int64)
    if name in ("identity", "tilt"):
        np.put_along_axis(weights, near.ids.astype(np.int64), near.tickets.astype(np.int64), axis=1)
        return weights
    count = SPARSE_TAIL if name == "sparse" else DISJOINT_TOKENS
    for row in range(rows):
        ids, tickets, label = near.ids[row].tolist(), near.tickets[row].tolist(), f"policy/{name}/{row}"
        outside = [token for token in _distinct(f"{label}/outside", count + 2 * SUPPORT, vocab) if token not in ids]
        tail = dict(zip(outside[:count], _integers(f"{label}/mass", count, 1, 16), strict=True))
        if name == "disjoint":
            weights[row] = _apportion(vocab, tail, ONE)
            continue
        powers = _integers(f"{label}/powers", SUPPORT, 0, 7)
        head = {token: share << power for token, share, power in zip(ids, tickets, powers, strict=True)}
        weights[row] = _apportion(vocab, head, ONE // 2) + _apportion(vocab, tail, ONE // 2)
    return weights
