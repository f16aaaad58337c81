"""The bridge to the exact rational law, from the tickets that a device emitted.

Every row of every policy is proposed on the device; its ids and tickets (and on a GPU the counts of all 2^24 draws) are
carried through the whole chain with integers only. The emitted law must equal the target as a rational; the device's
own law, from the counts of semantics section 3, must lie within its bound. Nothing here is a float.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness import backends
from pp3.harness.backends import Backend, Dtype
from pp3.harness.crossings import Crossings, cross, rejudge
from pp3.harness.errors import VerificationError
from pp3.harness.exact import draws
from pp3.harness.exact.subject import judged, kernel_faults
from pp3.harness.softmax_distance import distances
from pp3.harness.verdict import Verdict
from pp3.kernels.reference import SUPPORT, TAU
from pp3.targets.policies import POLICIES, build_policy

KEY = 0x452821E638D01377
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The derived part of an oracle receipt."""

    verdict: Verdict
    reasons: list[str]
    sentence: str


def observe(device: Backend, progress: Progress) -> list[dict[str, Any]]:
    """Every policy's tables as emitted by a device, bridged; in receipt form."""
    arithmetic = backends.start(device)
    found: list[dict[str, Any]] = []
    for name in POLICIES:
        progress("policies", len(found), len(POLICIES))
        target = build_policy(name)
        n = len(target.draft_logits)
        row = np.arange(n, dtype=np.uint64)
        drafts = arithmetic.propose(
            target.draft_logits, Dtype.BF16, np.ones(n, np.bool_), np.full(n, KEY, np.uint64), row, row, TAU
        )
        ids, tickets = drafts.ids.tolist(), drafts.tickets.tolist()
        drawn = _drawn(target.draft_logits, ids) if device is Backend.CUDA else None
        found.append(
            {
                "distances": [distance.plain() for distance in distances(target, ids, tickets)],
                "survey": cross(target, ids, tickets, drawn).plain(),
            }
        )
    progress("policies", len(POLICIES), len(POLICIES))
    return found


def _drawn(logits: Any, ids: list[list[int]]) -> list[dict[int, int]]:
    """Counts of all 2^24 draws of each row through the kernels; draws outside the support stand under token -1."""
    rows = [(str(number), row) for number, row in enumerate(logits)]
    values = draws.count_cuda(rows)
    found = []
    for number, tokens in enumerate(ids):
        counts = values[str(number)]
        assert isinstance(counts, list)
        pairs = {token: count for token, count in zip(tokens, counts[:SUPPORT], strict=True) if count}
        found.append(pairs | ({-1: counts[SUPPORT]} if counts[SUPPORT] else {}))
    return found


def conclude(policies: list[dict[str, Any]], sampler: dict[str, Any], kernels: dict[str, Any]) -> Conclusion:
    """Judge the stored tables again, and compare everything that follows from them."""
    gpu = sampler["backend"] == "cuda"
    wrong = kernel_faults(sampler, kernels)
    names = [row["survey"]["target"] for row in policies]
    if names != list(POLICIES):
        wrong.append(f"policies are {', '.join(names)}; they must be {', '.join(POLICIES)}")
    crossed = []
    for row in policies:
        name = row["survey"]["target"]
        if name not in POLICIES:
            continue
        target = build_policy(name)
        mine = rejudge(row["survey"], target)
        if [distance.plain() for distance in distances(target, mine.ids, mine.tickets)] != row["distances"]:
            raise VerificationError(f"{name}: the distances from the softmax recompute to others")
        wrong += _faults(mine, gpu)
        crossed.append(mine)
    verdict = Verdict.FAIL if wrong else Verdict.PASS
    rounds = sum(len(one.bridges) for one in crossed)
    largest = max((Fraction(*each.largest) for one in crossed for each in one.bridges), default=Fraction(0))
    near = f"with its 32 and 64 bit words it lies within {float(largest):.2e} in total variation"
    equal = f"the law equals the target as a rational in {rounds} rounds of {len(crossed)} policies"
    end = wrong[0] if wrong else f"from the tickets it emitted, {equal}; {near}"
    return Conclusion(
        verdict=verdict, reasons=wrong, sentence=f"{verdict.value}: {judged(sampler, kernels)}: {end}. Self-attested."
    )


def _faults(mine: Crossings, gpu: bool) -> list[str]:
    """What its crossings show against the sampler."""
    wrong = [f"{mine.target}: {mine.differing} ids or tickets differ from the allocation"] if mine.differing else []
    for crossed in mine.bridges:
        if not crossed.ok:
            what = crossed.fault if crossed.fault else f"device law at {crossed.largest} beyond {crossed.bound}"
            wrong.append(f"{mine.target}, depth {crossed.depth}, void {list(crossed.void)}: {what}")
    if gpu and mine.drawn is None:
        wrong.append(f"{mine.target}: the draws of a GPU's tables were not enumerated")
    return wrong
