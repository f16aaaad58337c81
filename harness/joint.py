"""The joint law of a whole round: how many tokens it emits and which, as one outcome, for small targets.

Standard rejection goes position by position. Block verification (Sun et al. 2024, https://arxiv.org/abs/2403.10444)
keeps a running ratio r, 1 at first: given the drafts so far, draft y is kept into the next position with mass
min(r P(y), Q(y)), the round ends with y with mass (r P(y) - Q(y))+, and r becomes min(1, r P(y) / Q(y)).
"""

from fractions import Fraction

from pp3.harness.oracle import Law
from pp3.targets import drafts_of, invalidated

LARGEST = 1 << 20  # outcomes of one round


def size(vocab: int, depth: int) -> int:
    """Number of codes of rounds of 1 to depth + 1 tokens: from -1, a token makes code into (code + 1) V + token."""
    return sum(vocab**length for length in range(1, depth + 2))


def tokens_of(code: int, vocab: int) -> tuple[int, ...]:
    """The tokens of a round's code."""
    tokens: list[int] = []
    while code >= 0:
        code, token = divmod(code, vocab)
        tokens.append(token)
        code -= 1
    return tuple(reversed(tokens))


def joint_law(law: Law, depth: int, pattern: str) -> dict[int, Fraction]:
    """Probability of each code that can occur. ValueError if there are more than LARGEST codes."""
    target = law.target
    vocab = len(target.context_of)
    if size(vocab, depth) > LARGEST:
        raise ValueError(f"{target.name}: {size(vocab, depth):,} joint outcomes; want at most {LARGEST:,}")
    void, drafts = (*invalidated(pattern, depth), False), drafts_of(pattern, depth)
    found: dict[int, Fraction] = {}
    one = Fraction(1, target.starts)

    def walk(j: int, context: int, code: int, mass: Fraction, ratio: Fraction) -> None:
        row = law.row(j, context)
        target_row, draft_row = target.weights[row].tolist(), law.tickets[row].tolist()
        ends: list[int] | list[Fraction]
        if j == drafts or void[j]:
            ends = (target.void_weights()[row] if void[j] else target.weights[row]).tolist()
            keeps = [Fraction(0)] * vocab
        elif target.block:
            scaled = [ratio * p for p in target_row]
            keeps = [min(p, Fraction(q)) for p, q in zip(scaled, draft_row, strict=True)]
            ends = [p - keep for p, keep in zip(scaled, keeps, strict=True)]
        else:
            keeps = [Fraction(keep) for keep in law.kept[row].tolist()]
            ends = law.residual[row].tolist()
        whole = Fraction(sum(keeps) + sum(ends))
        for token in range(vocab):
            following = (code + 1) * vocab + token
            if ends[token]:
                found[following] = found.get(following, Fraction(0)) + mass * ends[token] / whole
            if keeps[token]:
                rest = min(Fraction(1), ratio * target_row[token] / draft_row[token]) if target.block else ratio
                walk(j + 1, int(target.context_of[token]), following, mass * keeps[token] / whole, rest)

    for start in range(target.starts):
        walk(0, start, -1, one, Fraction(1))
    return found
