"""Scripts that show one failed check without PP3: plain Python, integers in, exit 1 while the failure stands."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pp3.harness.dependence import RARE
from pp3.harness.regression.offender import Offender

Table = list[list[tuple[int, int]]]  # of each cell and stratum, (integer share of the law, events) of each group
LINE = 114

TAIL = '''
def tail(x, df):
    """Chi-square survival, as a finite sum (DLMF 8.4.10 and 8.4.11)."""
    if x <= 0:
        return 1.0
    terms = (exp(k * log(x / 2) - x / 2 - lgamma(k + 1)) for k in (i + df % 2 / 2 for i in range(df // 2)))
    return (erfc(sqrt(x / 2)) if df % 2 else 0.0) + sum(terms)
'''

DEVIATION = """
from math import erfc, exp, lgamma, log, sqrt

LEVEL = {level}  # this check's share of the false-alarm rate
# Of each cell (and of each value that its law is given): integer share of the law, and events seen, of each group of
# outcomes. Groups were merged, rarest first, by the law alone. Expected of a group: share / sum of shares * events.
CELLS = {cells}


{tail}


g, df, off = 0.0, 0, []
for groups in CELLS:
    law, seen = (sum(column) for column in zip(*groups))
    df += len(groups) - 1
    for share, count in groups if seen else []:
        g += 2 * count * log(count * law / (share * seen)) if count else 0.0
        expected = share * seen / law
        off.append((abs(count - expected) / sqrt(expected), "law %d/%d, expected %.1f" % (share, law, expected), count))
p = {p}
print("G = %.6g on %d df, p = %.6g, level %.6g" % (g, df, p, LEVEL))
print("furthest off by %.1f standard deviations: %s, got %d" % max(off))
raise SystemExit(1 if p <= LEVEL else 0)
"""

TAILS = """
from math import exp, lgamma, log, log1p

LEVEL = {level}  # this check's share of the false-alarm rate
OUTCOMES = {outcomes}  # how many were looked at: p is for the smallest tail of all
SHARE, LAW = {share}, {law}  # the law gives the outcome {share}/{law}
GOT, EVENTS = {got}, {events}

# The exact binomial tail from GOT on, away from what is expected.
chance, step = SHARE / LAW, 1 if GOT * LAW > SHARE * EVENTS else -1
tail, k = 0.0, GOT
while 0 <= k <= EVENTS:
    ways = lgamma(EVENTS + 1) - lgamma(k + 1) - lgamma(EVENTS - k + 1)
    term = exp(ways + k * log(chance) + (EVENTS - k) * log1p(-chance))
    tail, k = tail + term, k + step
    if term < 1e-20 * tail:
        break
p = min(1.0, 2 * OUTCOMES * tail)
print("expected %.1f, got %d of %d: p = %.6g, level %.6g" % (EVENTS * SHARE / LAW, GOT, EVENTS, p, LEVEL))
raise SystemExit(1 if p <= LEVEL else 0)
"""

REPEATS = """
LEVEL = {level}  # this check's share of the false-alarm rate
STRETCHES, GOT = {stretches}, {got}  # stretches of tokens, and those that occur again within a window
CHANCE = 1 / {rare}  # at most, that one does

p = min(1.0, STRETCHES * CHANCE / GOT) if GOT else 1.0
print("expected at most %.3g, got %d of %d: p = %.6g, level %.6g" % (STRETCHES * CHANCE, GOT, STRETCHES, p, LEVEL))
raise SystemExit(1 if p <= LEVEL else 0)
"""

FORBIDDEN = """
# Outcomes that the law gives probability 0: cell, outcome, and how often it came.
FORBIDDEN = {rows}

for cell, outcome, got in FORBIDDEN:
    print("%s: outcome %d: expected 0, got %d" % (cell, outcome, got))
raise SystemExit(1 if any(got for _, _, got in FORBIDDEN) else 0)
"""

DRAW = """
from itertools import accumulate

KEY, ROUND, POSITION = 0x{key:016x}, {round}, {position}  # of Philox: its key, and its counter, low word first
{inputs}

M = 0xFFFFFFFF
c0, c1, c2, c3 = ROUND & M, ROUND >> 32, POSITION & M, POSITION >> 32
for i in range(10):  # Philox4x32-10
    k0, k1 = KEY + i * 0x9E3779B9 & M, (KEY >> 32) + i * 0xBB67AE85 & M
    a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
    c0, c1, c2, c3 = b >> 32 ^ c1 ^ k0, b & M, a >> 32 ^ c3 ^ k1, a & M
{expected}
print("{what}: expected %s, got %s" % (expected, GOT))
raise SystemExit(1 if expected != GOT else 0)
"""

DRAFTED = """
place = c0 >> 8
expected = next(token for token, end in zip(TICKETS, accumulate(TICKETS.values())) if place < end)
"""

KEPT = """
kept = c0 * TICKETS.get(DRAFT, 0) < WEIGHTS.get(DRAFT, 0) << 32
left = {token: n - TICKETS.get(token, 0) for token, n in WEIGHTS.items() if n > TICKETS.get(token, 0)}
law = left or WEIGHTS
"""

UNJUDGED = """
kept, law = False, WEIGHTS
"""

EMITTED = """
place = (c1 | c2 << 32) * (sum(law.values()) << 24) >> 64  # in units of 2^-24 of a weight
drawn = next(token for token, end in zip(law, accumulate(law.values())) if place < end << 24)
expected = (DRAFT if kept else drawn, kept)
"""


def deviation(about: Sequence[str], level: str, cells: Table) -> str:
    """G over the groups of some cells, and its chi-square tail."""
    return _script(about, DEVIATION, level=level, cells=_shown(cells), p="tail(g, df)", tail=TAIL.strip())


def fit(about: Sequence[str], level: str, cells: Table) -> str:
    """The same of a fit that is too good or too bad: twice the smaller tail."""
    p = "2 * min(tail(g, df), 1 - tail(g, df))"
    return _script(about, DEVIATION, level=level, cells=_shown(cells), p=p, tail=TAIL.strip())


def one_outcome(about: Sequence[str], level: str, outcomes: int, share: int, law: int, got: int, events: int) -> str:
    """The exact binomial tail of one outcome, twice, times the number of outcomes that were looked at."""
    return _script(about, TAILS, level=level, outcomes=outcomes, share=share, law=law, got=got, events=events)


def repeats(about: Sequence[str], level: str, stretches: int, got: int) -> str:
    """Stretches that should not occur twice."""
    return _script(about, REPEATS, level=level, stretches=stretches, got=got, rare=RARE)


def forbidden(about: Sequence[str], rows: Sequence[tuple[str, int, int]]) -> str:
    """Outcomes that the law gives no probability: cell, outcome and count."""
    return _script(about, FORBIDDEN, rows=_shown(rows))


def of_request(about: Sequence[str], offender: Offender) -> Iterator[str]:
    """One request of our own sampler, each draft and then each token from its key, counter and inputs.

    Each script supposes that those before it agree: the first that exits 1 shows the fault.
    """
    for j, (draft, tickets) in enumerate(zip(offender.proposed, offender.tickets, strict=True)):
        inputs = [f"TICKETS = {_table(tickets)}  # of each token, over 2^24", f"GOT = {draft}"]
        yield _draw(about, offender, offender.draft_key, j, f"draft {j}", inputs, DRAFTED)
    for j, token in enumerate(offender.tokens):
        draft = offender.drafts[j] if j < len(offender.drafts) else -1
        inputs = [f"WEIGHTS = {_table(offender.weights[j])}  # of each token in the target, over 2^24"]
        if draft < 0:
            inputs.append("DRAFT = -1  # invalidated, or none is left")
        else:
            inputs += [f"TICKETS = {_table(offender.tickets[j])}  # in the proposal", f"DRAFT = {draft}"]
        decided = KEPT if draft >= 0 else UNJUDGED
        goes_on = j < len(offender.tokens) - 1
        inputs.append(f"GOT = {(token, goes_on)}  # the token, and whether it was the draft and the round went on")
        yield _draw(about, offender, offender.key, j, f"token {j}", inputs, decided.strip() + EMITTED)


def _draw(about: Sequence[str], of: Offender, key: int, j: int, what: str, inputs: list[str], expected: str) -> str:
    """What the words at one position of a request decide."""
    values = {"inputs": "\n".join(inputs), "expected": expected.strip(), "what": what}
    return _script(about, DRAW, key=key, round=of.round, position=of.position + j, **values)


def _script(about: Sequence[str], body: str, **values: Any) -> str:
    head = [line for text in about for line in textwrap.wrap(text, LINE)]
    return "\n".join(f"# {line}" for line in head) + "\n" + body.format(**values)


def _table(law: Mapping[int, int]) -> str:
    """A map of tokens to integers, ascending, folded."""
    row = textwrap.fill(", ".join(f"{token}:{law[token]}" for token in sorted(law)), LINE, break_on_hyphens=False)
    return f"{{\n{textwrap.indent(row, '    ')}\n}}"


def _shown(rows: Sequence[Any]) -> str:
    """A list, each row on lines of its own; rows hold numbers, and names without spaces or colons."""
    folded = [
        textwrap.fill(repr(row).replace(": ", ":"), LINE, break_long_words=False, break_on_hyphens=False)
        for row in rows
    ]
    return "[\n" + "".join(f"{textwrap.indent(row, '    ')},\n" for row in folded) + "]"
