"""What each device owes of the enumerations, computed once."""

import copy
import functools
from typing import Any

from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, suite, tree

MODULES = {
    "draws": draws,
    "edges": edges,
    "tree": tree,
    "exponential": exponential,
    "counters": counters,
    "invariance": invariance,
    "pairs": pairs,
}
CLAIMS: dict[str, str] = {which: module.CLAIM for which, module in MODULES.items()}
Rows = list[dict[str, Any]]
EXPECTED = functools.cache(suite.expected)
RIGHT = functools.cache(suite.right)


def right(gpu: bool = False) -> Rows:
    """What a right device observes, in receipt form."""
    return copy.deepcopy([RIGHT(which, gpu).plain() for which in suite.IDS])
