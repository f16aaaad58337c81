"""The battery at the level of engines: what samples the law passes, each planted fault is caught by its check."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from reference_engine import NAME, reference, run
from scipy import stats

from pp3.harness.engine import planted
from pp3.harness.engine.conditions import choose
from pp3.harness.engine.contract import Answer, Ask, Engine, Finish
from pp3.harness.engine.judge import Judgement, conclude, exact_checks, judge
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, Plan, make
from pp3.harness.engine.planted import FAULTS, Around, Fault
from pp3.harness.engine.reference import SUPPORTS, ReferenceEngine
from pp3.harness.engine.tally import LENGTH, Found
from pp3.harness.verdict import Verdict
from pp3.targets import chains


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
