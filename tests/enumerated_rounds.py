"""Rounds of a verifier, enumerated one by one from the carriers, in fractions."""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pp3.harness.cells import Event
from pp3.harness.samplers.contract import Carrier, Description, Kind, Void
from pp3.harness.trial.seen import Seen, Tables, compares
from pp3.kernels import reference
from pp3.targets import invalidated
from pp3.targets.target import ONE

Row = list[Fraction]
WIDE = Context(prec=60)


def softmax(logits: Any, heat: Fraction) -> Row:
    """Of FP32 logits divided by a temperature, to 60 digits."""
    wide = [None if x == -np.inf else Fraction(float(x)) / heat for x in logits]
    masses = [Decimal(0) if x is None else WIDE.exp(WIDE.divide(x.numerator, x.denominator)) for x in wide]
    return [Fraction(mass) / Fraction(sum(masses, Decimal(0))) for mass in masses]


def best(row: Any) -> Row:
    """A point mass at the maximum, lower id first."""
    return [Fraction(int(i == int(np.argmax(row)))) for i in range(len(row))]


def by_tickets(logits: Any) -> Row:
    """The shares that our proposal gives a row."""
    given = reference.allocate(logits[None])
    draft = [Fraction(0)] * len(logits)
    for token, tickets in zip(given.ids[0].tolist(), given.tickets[0].tolist(), strict=True):
        draft[token] = Fraction(tickets, ONE)
    return draft


def seen_rows(tables: Tables, row: int, heat: float, d: Description) -> tuple[Row, Row]:
    """Target and proposal of one row as a sampler makes them out of its carriers."""
    warm = Fraction(float(np.float32(heat or 1.0)))
    if d.target_carrier == Carrier.PROBS:
        target = [Fraction(float(p)) for p in tables.target_probs[row]]
    else:
        target = softmax(tables.target_logits[row], Fraction(1)) if heat else best(tables.target_logits[row])
    if d.draft_carrier in (Carrier.PROBS, Carrier.ONE_HOT):
        draft = [Fraction(float(p)) for p in tables.draft_probs[row]]
    elif d.draft_carrier == Carrier.SCALED_LOGITS:
        draft = softmax(tables.scaled_draft_logits[row], Fraction(1))
    elif d.draft_carrier == Carrier.TICKETS:
        draft = by_tickets(tables.draft_logits[row])
    else:
        draft = softmax(tables.draft_logits[row], warm)
    return target, best(tables.draft_probs[row]) if d.kind == Kind.PIPELINE and not heat else draft


def stops(p: Row, q: Row, d: Description) -> tuple[Row, Row]:
    """Mass of each token drafted and kept, and of each that replaces a draft: draft by draft, draw by draw."""
    kept, replaced = [Fraction(0)] * len(p), [Fraction(0)] * len(p)
    for y, drafted in enumerate(q):
        if not drafted:
            continue
        if compares(d):  # a draw from the target decides
            for x, drawn in enumerate(p):
                (kept if x == y else replaced)[x] += drafted * drawn
            continue
        keep = min(Fraction(1), p[y] / drafted)
        kept[y] += drafted * keep
        residual = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
        for x, mass in enumerate(residual):
            if mass:
                replaced[x] += drafted * (1 - keep) * mass / sum(residual)
    return kept, replaced


def void_law(p: Row, q: Row, heat: float, d: Description) -> Row:
    """Of the token for an invalidated draft."""
    residual = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    if d.void != Void.RESIDUAL or compares(d) or not heat or not sum(residual):
        return p
    return [mass / sum(residual) for mass in residual]


Events = dict[tuple[Event, int, Any], dict[int, Fraction]]


def enumerate_rounds(law: Seen, d: Description) -> Events:
    """Probability that a request has each event with each outcome: by kind, position and context or pattern."""
    pair, depth = law.pair, law.pair.depth
    found: Events = defaultdict(lambda: defaultdict(Fraction))

    def go(j: int, context: int, mass: Fraction, pattern: str, heat: float) -> Iterator[tuple[int, Fraction]]:
        """Kept drafts and probability of every end."""
        row = int(pair.row_of[j, context])
        p, q = seen_rows(law.tables, row, heat, d)
        if j == depth:
            for x, drawn in enumerate(p):
                found[Event.BONUS, j, context][x] += mass * drawn
            yield depth, mass
        elif invalidated(pattern, depth)[j]:
            for x, drawn in enumerate(void_law(p, q, heat, d)):
                found[Event.FULL_TARGET, j, context][x] += mass * drawn
            yield j, mass
        else:
            kept, replaced = stops(p, q, d)
            for x in range(len(p)):
                found[Event.TOKEN, j, context][x] += mass * (kept[x] + replaced[x])
                found[Event.RESIDUAL, j, context][x] += mass * replaced[x]
                found[Event.KEPT, j, context][x] += mass * kept[x]
                found[Event.ACCEPT, j, context][2 * x + 1] += mass * kept[x]
                found[Event.ACCEPT, j, context][2 * x] += mass * (q[x] - kept[x])
                if kept[x]:
                    yield from go(j + 1, int(pair.context_of[x]), mass * kept[x], pattern, heat)
            yield j, mass * sum(replaced)

    def draft(j: int, context: int, mass: Fraction, heat: float) -> None:
        if j < depth:
            _, q = seen_rows(law.tables, int(pair.row_of[j, context]), heat, d)
            for y, drawn in enumerate(q):
                found[Event.PROPOSAL, j, context][y] += mass * drawn
                if drawn:
                    draft(j + 1, int(pair.context_of[y]), mass * drawn, heat)

    for start, heat in enumerate(pair.temperatures):
        for pattern in pair.patterns:
            share = Fraction(1, len(pair.temperatures) * len(pair.patterns))
            draft(0, start, share, heat)
            for length, mass in go(0, start, share, pattern, heat):
                found[Event.LENGTH, -1, pattern][length] += mass
    return found
