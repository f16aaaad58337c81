"""The laws a verifier is held to: every cell against rounds enumerated one by one from the carriers, in fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from enumerated_rounds import enumerate_rounds

from pp3.harness.cells import Cell, Event, enumerate_cells
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial.seen import FINE, seen
from pp3.targets import pairs
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

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
# Tokens lie elsewhere then, and the law is not the pair's: tests/test_adapters_own_laws.py has the rest of it.
TICKETS = {"kind": Kind.PIPELINE, "target_carrier": Carrier.PROBS, "draft_carrier": Carrier.TICKETS}


def who(declared: dict[str, Any]) -> Description:
    """A sampler that declares this."""
    given: dict[str, Any] = {"name": "it", "kind": Kind.VERIFIER, "greedy": True}
    return Description(**given | declared)


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
