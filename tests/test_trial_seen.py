"""The laws a verifier is held to: every cell against rounds enumerated one by one from the carriers, in fractions."""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial.seen import FINE, Seen, Tables, compares, seen
from pp3.kernels import reference
from pp3.targets import invalidated, pairs
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

Row = list[Fraction]
WIDE = Context(prec=60)
CLOSE = Fraction(1, 1 << 44)  # 8 roundings of 2^-50, and what a few positions make of them


def rows(*shares: tuple[int, ...]) -> Any:
    """Rows over 2^24, the rest to the last token."""
    found = np.array([[share * ONE // sum(row) for share in row] for row in shares], np.int64)
    found[:, -1] += ONE - found.sum(axis=1)
    return found


SMALL = {
    "markov": Pair(
        name="markov",
        why="two contexts, a token that only one side has",
        weights=rows((5, 2, 2, 1), (1, 3, 0, 5), (2, 2, 3, 1)),
        draft_weights=rows((3, 3, 1, 3), (2, 2, 3, 3), (0, 1, 1, 2)),
        row_of=np.array([[0, 0], [1, 2], [2, 1]]),
        context_of=np.array([0, 1, 0, 1]),
        temperatures=(0.7,),
    ),
    "void": Pair(
        name="void",
        why="invalidated drafts",
        weights=rows((5, 2, 2), (1, 3, 4), (2, 2, 3)),
        draft_weights=rows((2, 3, 4), (1, 2, 2), (3, 1, 1)),
        row_of=np.arange(3)[:, None],
        context_of=np.zeros(3, np.int64),
        patterns=("none", "first", "last", "every"),
    ),
    "starts": Pair(
        name="starts",
        why="greedy and sampled requests with tokens of their own",
        weights=rows(
            (5, 0, 2, 0, 3), (0, 2, 0, 1, 0), (1, 0, 4, 0, 2), (0, 3, 0, 2, 0), (2, 0, 2, 0, 5), (0, 1, 0, 4, 0)
        ),
        draft_weights=rows(
            (3, 0, 3, 0, 1), (0, 1, 0, 1, 0), (2, 0, 3, 0, 2), (0, 1, 0, 3, 0), (1, 0, 1, 0, 1), (0, 1, 0, 1, 0)
        ),
        row_of=np.arange(6).reshape(3, 2),
        context_of=np.array([0, 1, 0, 1, 0]),
        temperatures=(0.0, 0.7),
    ),
    "greedy": Pair(
        name="greedy",
        why="temperature 0",
        weights=rows((5, 2, 2), (1, 3, 4), (2, 2, 3)),
        draft_weights=rows((4, 3, 2), (2, 1, 2), (3, 1, 1)),
        row_of=np.arange(3)[:, None],
        context_of=np.zeros(3, np.int64),
        temperatures=(0.0,),
    ),
    "equal": Pair(
        name="equal",
        why="nothing is rejected",
        weights=rows((5, 2, 2), (1, 3, 4), (2, 2, 3)),
        draft_weights=rows((5, 2, 2), (1, 3, 4), (2, 2, 3)),
        row_of=np.arange(3)[:, None],
        context_of=np.zeros(3, np.int64),
    ),
}
PLAIN = {"target_carrier": Carrier.PROBS, "draft_carrier": Carrier.PROBS}
DECLARED: dict[str, dict[str, Any]] = {
    "probs": PLAIN,
    "probs, void residual": PLAIN | {"void": Void.RESIDUAL},
    "logits": {"target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.LOGITS},
    "logits, draft scaled": {"target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.SCALED_LOGITS},
    "logits, draft probs": {"target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.PROBS},
    "probs, draft logits": {"target_carrier": Carrier.PROBS, "draft_carrier": Carrier.LOGITS},
    "one-hot": PLAIN | {"draft_carrier": Carrier.ONE_HOT},
    "one-hot, void residual": PLAIN | {"draft_carrier": Carrier.ONE_HOT, "void": Void.RESIDUAL},
    "one-hot, target logits": {"target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.ONE_HOT},
    "sample-match": PLAIN | {"rule": Rule.SAMPLE_MATCH},
    "pipeline": {"kind": Kind.PIPELINE, "target_carrier": Carrier.LOGITS, "draft_carrier": Carrier.LOGITS},
}
# Tokens lie elsewhere then, and the law is not the pair's: tests/test_adapters_own.py has the rest of it.
TICKETS = {"kind": Kind.PIPELINE, "target_carrier": Carrier.PROBS, "draft_carrier": Carrier.TICKETS}


def who(declared: dict[str, Any]) -> Description:
    """A sampler that declares this."""
    given: dict[str, Any] = {"name": "it", "kind": Kind.VERIFIER, "greedy": True}
    return Description(**given | declared)


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


@pytest.mark.parametrize("declared", [*DECLARED.values(), TICKETS], ids=[*DECLARED, "tickets"])
@pytest.mark.parametrize("name", SMALL)
def test_every_cell_is_that_of_rounds_enumerated_one_by_one(name: str, declared: dict[str, Any]) -> None:
    d = who(declared)
    law = seen(SMALL[name], d)
    expected = enumerate_rounds(law, d)
    cells = enumerate_cells(Law(law), law.pair.depth)
    exact = declared in (
        PLAIN,
        TICKETS,
        DECLARED["probs, void residual"],
        DECLARED["one-hot"],
        DECLARED["sample-match"],
    )
    close = Fraction(0) if exact else CLOSE
    places = set()
    for cell in cells:
        place = (cell.event, cell.position, cell.pattern if cell.position < 0 else cell.context)
        places.add(place)
        masses = expected[place]
        total = sum(masses.values(), Fraction(0))
        assert abs(cell.rate - (Fraction(1, len(law.patterns)) if cell.position < 0 else total)) <= close, cell.id
        if total <= CLOSE:  # what only rounding rejects
            continue
        law_of = dict(zip(cell.atoms.tolist(), (Fraction(s, sum(cell.shares)) for s in cell.shares), strict=True))
        for outcome in masses.keys() | law_of.keys():
            off = abs(law_of.get(outcome, Fraction(0)) - masses.get(outcome, Fraction(0)) / total)
            assert off * total <= close, (cell.id, outcome)
        if exact:
            assert set(law_of) == {x for x, mass in masses.items() if mass}, cell.id
    assert {place for place, masses in expected.items() if sum(masses.values()) > CLOSE} <= places


def test_a_cell_of_fine_rows_tells_carriers_apart() -> None:
    """0.7 in FP32 is not 0.7: the law follows the carrier to the last bits of a double."""
    pair = SMALL["markov"]
    laws = [
        seen(pair, who(DECLARED[name])).proposal for name in ("logits", "logits, draft scaled", "logits, draft probs")
    ]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        off = np.abs(laws[one] - laws[other]).max() / FINE
        assert 0 < off < 2e-7


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
@pytest.mark.parametrize("name", pairs.NAMES)
def test_rows_sum_to_their_total_and_keep_their_support(name: str, declared: dict[str, Any]) -> None:
    pair = pairs.build(name)
    law = seen(pair, who(declared))
    greedy = pair.heats == 0
    for rows_of, given in ((law.weights, pair.weights), (law.proposal, pair.draft_weights)):
        assert (rows_of.sum(axis=1) == law.total).all()
        assert ((rows_of > 0) == (given > 0))[~greedy].all()
    assert (np.count_nonzero(law.weights[greedy], axis=1) == 1).all()
    assert (law.weights.argmax(axis=1) == pair.weights.argmax(axis=1))[greedy].all()
    assert (law.kept <= np.minimum(law.weights, law.proposal)).all()
    assert (law.kept >= 0).all()


def test_carriers_are_what_the_contract_says() -> None:
    """Probabilities exact; logits the nearest FP32 of a log, draft logits times the temperature; -inf for 0."""
    for name in pairs.NAMES:
        pair = pairs.build(name)
        t = seen(pair, who(PLAIN)).tables
        sampled = pair.heats > 0
        assert (t.target_probs.astype(np.float64)[sampled] * ONE == pair.weights[sampled]).all()
        assert (t.draft_probs.astype(np.float64) * ONE == pair.draft_weights).all()
        with np.errstate(divide="ignore"):
            wide = np.log(pair.draft_weights / ONE)
        heat = np.where(sampled, pair.heats, 1).astype(np.float64)[:, None]
        assert (t.scaled_draft_logits == wide.astype(np.float32)).all()
        assert (t.draft_logits == (wide * heat).astype(np.float32)).all()
        assert ((t.target_logits == -np.inf) == (pair.weights == 0)).all()
        assert t.temperature.tolist() == [np.float32(heat) for heat in pair.temperatures]
        assert not t.target_probs.flags.writeable


def test_cells_are_named_once() -> None:
    for name in pairs.NAMES:
        law = seen(pairs.build(name), who(PLAIN))
        ids = [cell.id for cell in enumerate_cells(Law(law), law.pair.depth)]
        assert len(ids) == len(set(ids))


def cell_of(cells: list[Cell], event: Event, position: int = -1) -> Cell:
    """The only cell of a kind at a position."""
    (found,) = [cell for cell in cells if cell.event is event and cell.position == position]
    return found


def test_an_equal_proposal_rejects_nothing() -> None:
    """Exactly, wherever both travel alike: any shorter round is impossible, and there is no residual."""
    for declared in (PLAIN, DECLARED["logits"], DECLARED["logits, draft scaled"]):
        law = seen(pairs.build("equal"), who(declared))
        cells = enumerate_cells(Law(law), law.pair.depth)
        assert cell_of(cells, Event.LENGTH).atoms.tolist() == [law.pair.depth]
        assert not [cell for cell in cells if cell.event is Event.RESIDUAL]
