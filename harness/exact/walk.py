"""One round of standard rejection, walked in Python integers: semantics section 3, rules 2 to 7.

Shares nothing with the reference. A law is the running sums of its masses over 2^48; the token of w64 is found by
bisection in them.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

SHIFT = 24  # from weights and tickets over 2^24 to masses over 2^48
Law = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A target row beside the tickets that its draft was drawn by, each over 2^48."""

    target: Sequence[int]  # P of each token
    proposal: Mapping[int, int]  # Q of each token of the support
    full: Law  # of P
    residual: Law  # of max(P - Q, 0), or of P if there is none
    argmax: int


def row(weights: Sequence[int], tickets: Mapping[int, int]) -> Row:
    """A row from weights [vocab] and the tickets of each id, both over 2^24; no tickets for a bonus row."""
    target = [weight << SHIFT for weight in weights]
    proposal = {token: held << SHIFT for token, held in tickets.items()}
    left = [max(mass - proposal.get(token, 0), 0) for token, mass in enumerate(target)]
    return Row(
        target=target,
        proposal=proposal,
        full=list(accumulate(target)),
        residual=list(accumulate(left if any(left) else target)),
        argmax=target.index(max(target)),
    )


def walk(rows: Sequence[Row], drafts: Sequence[int], words: Sequence[tuple[int, int]], sampled: bool) -> list[int]:
    """The tokens a round emits, none if it fails.

    rows and words [depth + 1], the words (w0, w64) of each position; drafts [depth], -1 for an invalidated one.
    """
    emitted: list[int] = []
    for judge, draft, (w0, w64) in zip(rows, drafts, words, strict=False):
        if not sampled:
            emitted.append(judge.argmax)
            if draft != judge.argmax:
                return emitted
            continue
        if draft == -1:
            return [*emitted, token(judge.full, w64)]
        held = judge.proposal.get(draft, 0)
        if not held:
            return []
        if w0 * held >= judge.target[draft] << 32:
            return [*emitted, token(judge.residual, w64)]
        emitted.append(draft)
    bonus = rows[-1]
    return [*emitted, token(bonus.full, words[-1][1]) if sampled else bonus.argmax]


def token(law: Law, w64: int) -> int:
    """The first id whose running sum exceeds the high 64 bits of w64 times the total."""
    return bisect_right(law, w64 * law[-1] >> 64)


def cut(law: Law) -> int:
    """The least w64 of the token that holds the middle of a law, which is not its first: one less gives another."""
    before = bisect_right(law, law[-1] >> 1)
    return -(-(law[before - 1] << 64) // law[-1])
