"""Run pieces of a plan in several processes, each with an engine of its own: the same counts, whoever runs a piece."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from pp3.harness.engine.asks import Piece
from pp3.harness.engine.open import Where, open_engine
from pp3.harness.engine.plan import EngineSpec, make
from pp3.harness.engine.run import Runner, reseed
from pp3.harness.engine.tally import Found
from pp3.harness.errors import CampaignError
from pp3.harness.seeds import Seed

_runner: Runner | None = None  # of this process


def begin(where: Where, spec: EngineSpec, plan_sha256: str, counter: int) -> None:
    """Open an engine in this process. CampaignError if it is another than the plan was made for."""
    global _runner
    engine = open_engine(where, *where.checked())
    plan = make(spec, engine.facts)
    if plan.sha256 != plan_sha256:
        raise CampaignError(f"{plan.facts.name}: in another process it says something else of itself")
    seed = Seed.of(plan.sha256, counter)
    reseed(engine, seed)
    _runner = Runner(plan, seed, engine)


def perform(piece: Piece) -> Found:
    """Run one piece."""
    assert _runner is not None
    return _runner.run(piece)


def spread(
    where: Where, spec: EngineSpec, plan_sha256: str, counter: int, jobs: int, wanted: Sequence[Piece]
) -> Iterator[tuple[Piece, Found]]:
    """Every piece with what it counted, as they end."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, begin, (where, spec, plan_sha256, counter)) as pool:
        running: dict[Future[Found], Piece] = {pool.submit(perform, piece): piece for piece in wanted}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
