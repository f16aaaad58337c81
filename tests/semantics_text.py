"""Semantics sections 2 and 3 read aloud: Python integers, loops and fractions, nothing of the package.

`draft` and `judge` share nothing with the reference: FP32 is rounded from fractions, the exponential comes from
decimal arithmetic, products have as many bits as they need.
"""

import itertools
import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT

MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
WORD = 1 << 32
PADDING = list(range(SUPPORT))
EXACT = Context(prec=60)


def philox(key: int, number: int, position: int) -> list[int]:
    """The four words of one block."""
    c0, c1, c2, c3 = number % WORD, number >> 32, position % WORD, position >> 32 & 0xFFFFFFFF
    for r in range(10):
        k0, k1 = (key + WEYL[0] * r) % WORD, ((key >> 32) + WEYL[1] * r) % WORD
        high0, low0 = divmod(MULTIPLIERS[0] * c0, WORD)
        high1, low1 = divmod(MULTIPLIERS[1] * c2, WORD)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return [c0, c1, c2, c3]


def address_of(key: int, words: list[int]) -> tuple[int, int]:
    """The (round, position) whose block is `words`: Philox backwards."""
    c0, c1, c2, c3 = words
    for r in reversed(range(10)):
        k0, k1 = (key + WEYL[0] * r) % WORD, ((key >> 32) + WEYL[1] * r) % WORD
        was0, was2 = c3 * pow(MULTIPLIERS[0], -1, WORD) % WORD, c1 * pow(MULTIPLIERS[1], -1, WORD) % WORD
        was1, was3 = c0 ^ (MULTIPLIERS[1] * was2 >> 32) ^ k0, c2 ^ (MULTIPLIERS[0] * was0 >> 32) ^ k1
        c0, c1, c2, c3 = was0, was1, was2, was3
    return c0 | c1 << 32, c2 | c3 << 32


def rn32(x: Fraction) -> float:
    """Round to FP32, ties to even: 24 bits above 2^-126, a grid of 2^-149 below, infinity past the largest."""
    if x == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(x.numerator)) - math.log2(x.denominator))
    exponent += (abs(x) >= Fraction(2) ** (exponent + 1)) - (abs(x) < Fraction(2) ** exponent)
    ulp = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(x / ulp) * ulp  # Fraction rounds half to even
    return math.copysign(math.inf, x) if abs(rounded) >= 2**128 else float(rounded)


def exponential(y: float) -> float:
    """exp of a non-positive FP32, correctly rounded to FP32."""
    if y < -40:
        return 0.0  # below 2^-57, a zero on the 2^-47 grid
    return rn32(Fraction(EXACT.exp(Decimal(y))))


def draft(row: list[float], sampled: bool, key: int, number: int, position: int, tau: float) -> tuple[Any, ...]:
    """Semantics 2 for one row: status, token, ids, tickets."""
    if any(math.isnan(x) or x == math.inf for x in row) or all(x == -math.inf for x in row):
        return FAILED, -1, PADDING, [0] * SUPPORT
    support = sorted(range(len(row)), key=lambda token: (-row[token], token))[:SUPPORT]
    scale = rn32(Fraction(tau))
    if not sampled or scale == 0:
        return OK, support[0], PADDING, [0] * SUPPORT
    shares = {}
    for token in support:
        x = row[token]
        difference = -math.inf if x == -math.inf else rn32(Fraction(x) - Fraction(row[support[0]]))
        y = difference if math.isinf(difference) else rn32(Fraction(difference) / Fraction(scale))
        shares[token] = math.floor(Fraction(exponential(y)) * 2**47)
    total = sum(shares.values())
    tickets = {token: math.floor(Fraction(share / total) * ONE) for token, share in shares.items()}  # int / int is RN
    rest = ONE - sum(tickets.values())
    assert 0 <= rest < SUPPORT
    tickets[support[0]] += rest
    ids = sorted(support)
    draw = philox(key, number, position)[0] >> 8
    ends = itertools.accumulate(tickets[token] for token in ids)
    token = next(token for token, end in zip(ids, ends, strict=True) if end > draw)
    return OK, token, ids, [tickets[token] for token in ids]


def judge(
    rows: list[list[float]],
    drafts: list[int],
    law: list[dict[int, int]] | None,
    sampled: bool,
    key: int,
    number: int,
    base: int,
) -> tuple[int, list[int], int]:
    """Semantics 3 for one request: status, tokens, num_sampled. `law` is the tickets of each position."""
    depth, vocab = len(drafts), len(rows[0])
    failure = FAILED, [-1] * (depth + 1), 0
    legal = all(math.isfinite(p) and 0 <= p <= 1 + 2**-16 for row in rows for p in row)
    if not legal or not all(-1 <= d < vocab for d in drafts):
        return failure
    quanta = [[math.floor(Fraction(p) * 2**48) for p in row] for row in rows]
    if any(abs(sum(row) - 2**48) > 2**32 for row in quanta):
        return failure
    emitted: list[int] = []
    for j in range(depth + 1):
        best = max(range(vocab), key=lambda token: (rows[j][token], -token))
        w0, w1, w2, _ = philox(key, number, (base + j) % 2**64)
        w64 = w1 + (w2 << 32)
        d = drafts[j] if j < depth else -1
        if d == -1:
            emitted.append(pick(quanta[j], w64) if sampled else best)
            break
        if not sampled:
            emitted.append(best)
            if d != best:
                break
            continue
        tickets = {d: ONE} if law is None else law[j]
        share = tickets.get(d, 0)
        if share == 0:
            return failure
        if w0 * share < quanta[j][d] * 2**8:
            emitted.append(d)
            continue
        residual = [max(p - tickets.get(token, 0) * 2**24, 0) for token, p in enumerate(quanta[j])]
        emitted.append(pick(residual if sum(residual) else quanta[j], w64))
        break
    return OK, emitted + [-1] * (depth + 1 - len(emitted)), len(emitted)


def pick(weights: list[int], w64: int) -> int:
    """The first id whose running sum exceeds the high 64 bits of w64 * total."""
    wanted, running = w64 * sum(weights) >> 64, 0
    for token, weight in enumerate(weights):
        running += weight
        if running > wanted:
            return token
    raise AssertionError("no running sum exceeds the draw")
