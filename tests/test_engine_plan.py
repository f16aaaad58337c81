"""The plan of an engine's qualification: its plain form, its pieces, its requests and their order, bad ones."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from reference_engine import NAME, reference, run

from pp3.harness.engine.asks import asks_of, pieces
from pp3.harness.engine.conditions import Order
from pp3.harness.engine.contract import Answer, Ask, Facts
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, make, of_plan
from pp3.harness.engine.planted import Around
from pp3.harness.errors import CampaignError
from pp3.harness.seeds import Seed


def test_a_plan_comes_back_from_its_plain_form() -> None:
    """With every cell and level, whatever the engine declares."""
    plan = make(EngineSpec(target=NAME, draft=True, tokens=LEAST_TOKENS), reference().facts)
    again = of_plan(plan.plain)
    assert (again.plain, again.sha256) == (plan.plain, plan.sha256)
    assert [(one.id, one.alpha) for one in again.checks] == [(one.id, one.alpha) for one in plan.checks]


def test_pieces_tile_the_requests() -> None:
    """Each request once, numbers never twice, whatever piece asks."""
    plan = make(EngineSpec(target=NAME, draft=True, tokens=LEAST_TOKENS), reference().facts)
    numbers = [piece.start + at for piece in pieces(plan) for at in range(piece.asks)]
    assert sorted(numbers) == list(range(sum(condition.asks for condition in plan.conditions)))
    assert len({piece.name for piece in pieces(plan)}) == sum(1 for _ in pieces(plan))


def test_requests_are_what_their_condition_says() -> None:
    """Of some conditions, request by request."""
    plan = make(EngineSpec(target=NAME, draft=True, tokens=LEAST_TOKENS), reference().facts)
    seed = Seed.of(plan.sha256, 1)
    asks = {piece.condition.name: asks_of(plan, piece, seed) for piece in pieces(plan) if piece.first == 0}
    assert {len(ask.prompt) for ask in asks["starts"]} == set(range(1, 10))
    assert {ask.temperature for ask in asks["company"]} == {0.7, 1.3}
    assert len({ask.length for ask in asks["churn"]}) > 10
    assert [ask.abort_after for ask in asks["aborted"][:4]] == [5, None, None, 5]
    first = asks["seeded"][0].seed
    assert first is not None
    assert [ask.seed for ask in asks["seeded"][:3]] == [first, first + 1, first + 2]
    assert all(ask.prompt[-1] in plan.chain.doors and not ask.ignore_eos for ask in asks["end"])
    assert all(ask.stop and ask.ignore_eos for ask in asks["stop"])
    assert all(ask.temperature == 0 for ask in asks["greedy"])
    assert all(not ask.speculate for ask in asks["top-k/plain"])
    assert asks == {piece.condition.name: asks_of(plan, piece, seed) for piece in pieces(plan) if piece.first == 0}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tokens": 19_999}, "--tokens 19999: it must be from 20000 to"),
        ({"tokens": 10**9}, "--tokens 1000000000: it must be from 20000 to"),
        ({"target": "near"}, "--checkpoint of 'near': it must be one of chain-64"),
        ({"dtype": "int8"}, "--dtype 'int8': it must be one of float32"),
        ({"concurrency": 0}, "--concurrency 0: it must be from 1 to 1024"),
        ({"alpha": 1.0}, "alpha 1.0"),
        ({"pool": 5}, "pool 5"),
        ({"draft": False}, "name its draft model with --draft-checkpoint"),
    ],
)
def test_bad_plans_are_refused(changed: dict[str, Any], says: str) -> None:
    """With the value, the limit and the way out."""
    good: dict[str, Any] = {"target": NAME, "draft": True, "tokens": LEAST_TOKENS}
    with pytest.raises(CampaignError, match=says):
        make(EngineSpec(**(good | changed)), reference().facts)


def test_another_model_is_refused() -> None:
    """A vocabulary that is too small."""
    facts: Facts = dataclasses.replace(reference().facts, vocab=32)
    with pytest.raises(CampaignError, match="it serves another model"):
        make(EngineSpec(target=NAME, draft=True), facts)


def test_the_order_of_arrival_is_the_condition_s() -> None:
    """Alone, one at a time; reversed, the last first."""
    seen: list[tuple[int, list[int]]] = []

    class Watched(Around):
        def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
            """See the contract."""
            seen.append((concurrency, [ask.number for ask in asks]))
            return self.engine.answers(asks, concurrency)

    plan, _, _ = run(Watched(reference()), "order", ["alone", "reversed"])
    orders = {condition.name: condition.order for condition in plan.conditions}
    assert (orders["alone"], orders["reversed"]) == (Order.ALONE, Order.REVERSED)
    assert {concurrency for concurrency, numbers in seen if numbers == sorted(numbers)} == {1}
    assert {concurrency for concurrency, numbers in seen if numbers == sorted(numbers, reverse=True)} == {16}
