"""What is said of a check of an engine that fails."""

from pp3.harness.engine import checkpoint, judge
from pp3.harness.engine.law import logits_of
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, Plan, make
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.engine.tensors import Loaded
from pp3.targets import chains


def test_impossible_tokens_are_a_share_of_all_that_were_counted() -> None:
    """Also where too few are expected to judge any group, so that every other token is in none."""
    plan = planned()
    bare = next(check for check in plan.checks if check.cell.size == 2)
    grouped = next(check for check in plan.checks if check.cell.size > 4)
    few = judge.judge(bare, [1_572, 476], 0.999)
    many = judge.judge(grouped, [10] * (grouped.cell.size - 2) + [7, 3], 0.999)
    assert f": 476 of 2,048 have probability 0 ({bare.id})" in judge.said(few)
    assert f": 3 of {10 * (grouped.cell.size - 2) + 10:,} have probability 0 ({grouped.id})" in judge.said(many)


def planned() -> Plan:
    """The fewest tokens of a plain engine."""
    chain = chains.build("chain-256")
    table = logits_of(checkpoint.tensors_of(chain, "target"), chain, Loaded.FLOAT32, checkpoint.EPSILON)
    engine = ReferenceEngine(table, chain.class_of, chain.end, None)
    return make(EngineSpec(target="chain-256", draft=False, tokens=LEAST_TOKENS), engine.facts)
