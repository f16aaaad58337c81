"""The battery at the level of engines: what samples the law passes, each planted fault is caught by its check."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pp3.harness.engine import checkpoint, planted
from pp3.harness.engine.asks import asks_of, pieces
from pp3.harness.engine.conditions import Order, choose
from pp3.harness.engine.contract import Answer, Ask, Engine, Facts, Finish
from pp3.harness.engine.judge import Judgement, conclude, exact_checks, judge
from pp3.harness.engine.law import logits_of
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, Plan, make, of_plan
from pp3.harness.engine.planted import FAULTS, Around, Fault
from pp3.harness.engine.reference import SUPPORTS, ReferenceEngine
from pp3.harness.engine.run import Runner, reseed
from pp3.harness.engine.tally import LENGTH, Found
from pp3.harness.engine.tensors import Loaded
from pp3.harness.errors import CampaignError
from pp3.harness.seeds import Seed
from pp3.harness.verdict import Verdict
from pp3.targets import chains

NAME = "chain-64"


def reference(kind: type[ReferenceEngine] = ReferenceEngine, draft: bool = True, name: str = NAME) -> ReferenceEngine:
    """Our engine on a chain."""
    chain = chains.build(name)
    tables = [
        logits_of(checkpoint.tensors_of(chain, role), chain, Loaded.FLOAT32, checkpoint.EPSILON)
        for role in checkpoint.ROLES
    ]
    return kind(tables[0], chain.class_of, chain.end, tables[1] if draft else None)


def run(
    engine: Engine, test: str, only: Sequence[str] = (), tokens: int = LEAST_TOKENS, concurrency: int = 16
) -> tuple[Plan, Found, Judgement]:
    """Every piece of some conditions, or of all; the seed follows from the test's name."""
    spec = EngineSpec(target=NAME, draft=engine.facts.speculative, tokens=tokens, concurrency=concurrency)
    plan = make(spec, engine.facts)
    seed = Seed.of(plan.sha256, int.from_bytes(hashlib.sha256(test.encode()).digest()[:6], "little"))
    inner = engine.engine if isinstance(engine, Around) else engine
    reseed(inner, seed)
    runner, found = Runner(plan, seed, engine), Found()
    for piece in pieces(plan):
        if not only or piece.condition.name in only:
            found.add(runner.run(piece))
    return plan, found, conclude(plan, found.counts, found.exact, found.breaches, found.replaced)


@pytest.fixture(scope="module")
def plain() -> tuple[Plan, Found, Judgement]:
    """All of a plain engine."""
    return run(reference(draft=False), "plain")


@pytest.mark.parametrize("draft", [True, False], ids=["with drafts", "plain"])
def test_what_samples_the_law_passes(draft: bool, request: pytest.FixtureRequest) -> None:
    """Every condition, every exact check, nothing forbidden; a plain engine lacks what speculation has."""
    plan, found, judged = run(reference(), request.node.nodeid) if draft else request.getfixturevalue("plain")
    assert judged.verdict is Verdict.PASS, judged.reasons
    assert judged.sentence.startswith("PASS: no evidence against the law of pp3-reference 1 with")
    assert set(exact_checks(plan)) <= found.exact.keys()
    assert not any(wrong for _, wrong in found.exact.values())
    assert plan.left_out == {}
    assert any(check.id == "stream/place-0" for check in plan.checks) == draft
    assert any(name.name.endswith("/plain") for name in plan.conditions) == draft
    assert sum(check.alpha for check in plan.checks) == pytest.approx(plan.spec.alpha)


def shown(fault: Fault, request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """What the checks of a fault's condition say: the outcome of its own, and of all."""
    engine: Engine
    if issubclass(fault.kind, ReferenceEngine):  # noqa: SIM108  # mypy narrows an if, not a conditional expression
        engine = reference(fault.kind)
    else:
        engine = fault.kind(reference())
    plan, found, _ = run(engine, request.node.nodeid, [fault.condition])
    outcomes = {
        check.id: judge(check, found.counts[check.id], plan.spec.power).outcome
        for check in plan.checks
        if check.id in found.counts
    }
    outcomes |= {name: "fail" if wrong else "pass" for name, (_, wrong) in found.exact.items()}
    return outcomes[fault.check], outcomes


@pytest.mark.soak
def test_p_values_are_uniform() -> None:
    """Of every check that can decide, over forty seeds: rates at 0.01 and 0.1 within exact 99.99 % bands."""
    only = ["stream", "starts", "company", "churn", "seeded", "penalty", "penalty-end", "end", "stop", "aborted"]
    found: list[float] = []
    for seed in range(40):
        _, _, judged = run(reference(), f"uniform/{seed}", only)
        found += [test.p for test in judged.tests if test.alpha and test.events]
        assert not [test.id for test in judged.tests if test.outcome == "fail"]
    for rate in (0.01, 0.1):
        low, high = stats.binom.interval(0.9999, len(found), rate)
        assert low <= sum(p <= rate for p in found) <= high


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught_by_its_check(fault: Fault, request: pytest.FixtureRequest) -> None:
    """At the smallest size there is, 20,000 tokens of the stream."""
    caught, _ = shown(fault, request)
    assert caught == "fail"


@pytest.mark.parametrize("condition", sorted({fault.condition for fault in FAULTS}))
def test_nothing_is_caught_where_nothing_is_planted(condition: str, request: pytest.FixtureRequest) -> None:
    """The same conditions of the same engine."""
    plan, found, _ = run(reference(), request.node.nodeid, [condition])
    for check in plan.checks:
        if check.id in found.counts:
            assert judge(check, found.counts[check.id], plan.spec.power).outcome != "fail", check.id
    assert not any(wrong for _, wrong in found.exact.values())


def test_filters_of_one_path_alone_are_told_apart(request: pytest.FixtureRequest) -> None:
    """The path without speculation passes, that with it fails."""
    _, _, judged = run(planted.OnePath(reference()), request.node.nodeid, ["top-k", "top-k/plain"])
    outcomes = {test.id: test.outcome for test in judged.tests}
    assert (outcomes["top-k/rank"], outcomes["top-k/plain/rank"]) == ("fail", "pass")


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


class Fewer:
    """An engine that offers less, or answers otherwise."""

    def __init__(self, engine: ReferenceEngine, **changed: Any) -> None:
        self.engine, self.facts = engine, dataclasses.replace(engine.facts, **changed)

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """See the contract."""
        return self.engine.answers(asks, concurrency)

    def close(self) -> None:
        """See the contract."""


def test_what_an_engine_does_not_offer_is_left_out_with_the_reason() -> None:
    """Each parameter, a seed, a choice of the path, company."""
    chain = chains.build(NAME)
    engine = reference()
    facts = dataclasses.replace(engine.facts, supports=frozenset(), replays=frozenset())
    chosen, left = choose(chain, engine.logits, facts, LEAST_TOKENS, 16)
    assert left["top-k"] == "the engine does not offer top_k"
    assert left["seeded"] == left["replay"] == "the engine does not offer seed"
    assert left["cool/plain"] == "the engine does not offer a choice of speculation by request"
    assert {condition.name for condition in chosen} >= {"stream", "starts", "alone", "cool", "end", "greedy"}
    _, left = choose(chain, engine.logits, engine.facts, LEAST_TOKENS, 1)
    assert {name for name, why in left.items() if why == "the engine answers one request at a time"} == {
        "company",
        "churn",
        "reversed",
        "aborted",
    }
    assert engine.facts.supports == SUPPORTS


@pytest.mark.parametrize("name", ["stream", "starts", "alone", "cool", "greedy", "end", "company", "churn"])
def test_a_required_condition_that_is_missing_is_inconclusive(name: str, plain: tuple[Plan, Found, Judgement]) -> None:
    """Declaring less buys no PASS."""
    plan, found, judged = plain
    assert judged.verdict is Verdict.PASS
    gone = [condition for condition in plan.conditions if condition.name == name]
    assert gone
    less = dataclasses.replace(
        plan,
        conditions=[condition for condition in plan.conditions if condition.name != name],
        left_out={name: "it does not offer that"},
    )
    again = conclude(less, found.counts, found.exact, found.breaches, found.replaced)
    assert again.verdict is Verdict.INCONCLUSIVE
    assert f"{name}: it does not offer that, and a PASS needs it" in again.reasons


def test_nothing_counted_is_inconclusive() -> None:
    """And a p on its level decides nothing."""
    plan = make(EngineSpec(target=NAME, tokens=LEAST_TOKENS), reference(draft=False).facts)
    judged = conclude(plan, {}, {}, {}, {})
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "length: nothing was compared" in judged.reasons


class Odd(Around):
    """Answers nobody asked for, twice, not at all, or with tokens that there are not."""

    def __init__(self, engine: Engine, how: str) -> None:
        super().__init__(engine)
        self.how = how

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """See Around."""
        match self.how:
            case "twice":
                return [*answers, answers[0]]
            case "missing":
                return answers[1:]
            case "unasked":
                return [dataclasses.replace(answers[0], number=10**9), *answers[1:]]
        return [dataclasses.replace(answers[0], tokens=(64, *answers[0].tokens[1:])), *answers[1:]]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("twice", "answer not asked for"),
        ("missing", "request not answered"),
        ("unasked", "answer not asked for"),
        ("beyond", "token outside vocabulary"),
    ],
)
def test_a_broken_contract_is_invalid(how: str, says: str, request: pytest.FixtureRequest) -> None:
    """Nothing is counted twice."""
    _, found, judged = run(Odd(reference(), how), request.node.nodeid, ["alone"])
    assert judged.verdict is Verdict.INVALID
    assert says in judged.reasons[0]
    assert sum(found.counts["alone/rank"]) <= LEAST_TOKENS


def test_short_answers_are_wrong(request: pytest.FixtureRequest) -> None:
    """Whatever they say of why they ended."""

    class Short(Around):
        def asked(self, batch: Sequence[Ask]) -> list[Ask]:
            """See Around."""
            return [dataclasses.replace(ask, length=ask.length - 1) for ask in batch]

    _, found, judged = run(Short(reference()), request.node.nodeid, ["cool"])
    assert found.exact[LENGTH][0] == found.exact[LENGTH][1] > 0
    assert judged.verdict is Verdict.FAIL


def test_a_stop_token_that_is_not_emitted_counts_all_the_same(request: pytest.FixtureRequest) -> None:
    """An engine that keeps it back says so, and the law of the end is judged as if it had come."""

    class Back(Around):
        def __init__(self, engine: Engine) -> None:
            super().__init__(engine)
            self.facts = dataclasses.replace(engine.facts, stop_emitted=False)

        def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
            """See Around."""
            return [
                dataclasses.replace(one, tokens=one.tokens[:-1], steps=None) if one.finish is Finish.STOP else one
                for one in answers
            ]

    _, found, judged = run(Back(reference()), request.node.nodeid, ["end", "end/plain", "stop"])
    outcomes = {test.id: test.outcome for test in judged.tests}
    assert {outcomes[name] for name in ("end/rank", "end/plain/rank", "stop/rank")} == {"pass"}
    assert found.exact["end/after"][1] == found.exact["end/finish"][1] == found.exact["stop/after"][1] == 0


def test_ties_of_greedy_answers_may_differ(request: pytest.FixtureRequest) -> None:
    """Either of two equal tokens is right, on either path, and it is said how often they differed."""

    class Highest(ReferenceEngine):
        def law(self, row: Any, path: Any, before: int, pending: Sequence[int]) -> Any:
            """The last of the likeliest where nothing is speculated."""
            found = super().law(row, path, before, pending)
            if row.ask.temperature == 0 and not row.ask.speculate and self.class_of[before] == chains.TIED:
                found = np.zeros_like(found)
                table = self.logits[chains.TIED]
                found[np.flatnonzero(table == table.max())[-1]] = 1
            return found

    _, found, judged = run(reference(Highest), request.node.nodeid, ["greedy"])
    assert found.exact["greedy/paths"][1] == found.exact["greedy/argmax"][1] == 0
    assert found.exact["greedy/ties"][0] > 0
    assert judged.verdict is not Verdict.FAIL


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
