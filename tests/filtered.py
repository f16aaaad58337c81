"""Laws to filter: weights, logits and settings, and a seed for each."""

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st

from pp3.harness.filters import Filtered, Hit, Order, Rules, Settings, Ties

EVERY = [
    Rules(order=order, ties=ties, top_p_ties=top_p_ties, hit=hit)
    for order in Order
    for ties in Ties
    for top_p_ties in Ties
    for hit in Hit
    if order is not Order.JOINT or {ties, top_p_ties} != {Ties.VALUE_ONLY, Ties.LOWER_ID}
]
Floats = npt.NDArray[np.float32]
repeatable = settings(derandomize=True, database=None, deadline=None, max_examples=200)
# Shares small enough to tie and to hit thresholds; FP32 thresholds, dyadic ones twice as likely.
ROWS = st.lists(st.integers(0, 4), min_size=1, max_size=7).filter(any)
SHARES = st.sampled_from([0.125, 0.25, 0.5, 0.75, 0.1, 0.3, 0.6, 0.9])
SETTINGS = st.builds(
    Settings, top_k=st.integers(0, 8), top_p=SHARES | st.just(1.0), min_p=SHARES | st.just(0.0) | st.just(1.0)
)
RULES = st.sampled_from(EVERY)


def weights(*shares: int) -> npt.NDArray[np.int64]:
    """Shares as integers."""
    return np.array(shares, np.int64)


def logits(*shares: int) -> Floats:
    """Shares as logits."""
    with np.errstate(divide="ignore"):
        return np.log(np.array(shares) / sum(shares)).astype(np.float32)


def kept(found: Filtered) -> list[int]:
    """Tokens of the law in exact arithmetic, of a cell its lowest id."""
    return np.flatnonzero(found.law.weights).tolist()
