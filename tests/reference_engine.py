"""A qualification of our own engine at a small size."""

import hashlib
from collections.abc import Sequence

from pp3.harness.engine import checkpoint
from pp3.harness.engine.asks import pieces
from pp3.harness.engine.contract import Engine
from pp3.harness.engine.judge import Judgement, conclude
from pp3.harness.engine.law import logits_of
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, Plan, make
from pp3.harness.engine.planted import Around
from pp3.harness.engine.reference import ReferenceEngine
from pp3.harness.engine.run import Runner, reseed
from pp3.harness.engine.tally import Found
from pp3.harness.engine.tensors import Loaded
from pp3.harness.seeds import Seed
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
