"""`pp3 qualify --engine`: judge an engine that serves a model of pp3 checkpoint, say one sentence."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import canonical
from pp3.harness.engine.asks import Piece, pieces
from pp3.harness.engine.contract import LEFT_OUT, Engine
from pp3.harness.engine.judge import Judgement, Result, conclude, exact_checks
from pp3.harness.engine.open import IN_PROCESS, Where, open_engine
from pp3.harness.engine.plan import CONCURRENCY, TOKENS, EngineSpec, Plan, make
from pp3.harness.engine.run import Runner, reseed
from pp3.harness.engine.spread import spread
from pp3.harness.engine.tally import TIES, Found
from pp3.harness.engine.watch import Watch
from pp3.harness.errors import CampaignError
from pp3.harness.evidence import engine as engine_receipt
from pp3.harness.evidence import provenance, store
from pp3.harness.evidence.moment import moment, utc
from pp3.harness.evidence.receipt import write
from pp3.harness.operations.campaign import open_folder
from pp3.harness.operations.folder import same
from pp3.harness.operations.found import keep, open_out
from pp3.harness.qualify import CODES, page_of, where_it_lies
from pp3.harness.seeds import Seed
from pp3.harness.terminal import Column, Fit, labelled, sentence, table
from pp3.harness.trial.command import check_jobs

KIND = "engine"
MOST = 8  # rows of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What the command line says beside the engine."""

    tokens: int = TOKENS
    concurrency: int = CONCURRENCY
    counter: int | None = None
    out: Path | None = None
    folder: Path | None = None
    resume: bool = False
    as_json: bool = False
    jobs: int = 1  # processes, each with an engine of its own


def run_command(where: Where, wanted: Chosen) -> int:
    """Judge an engine; its exit code."""
    store.check_counter(wanted.counter)
    if wanted.resume and wanted.folder is None:
        raise CampaignError("--resume needs --dir DIR, the folder of the campaign")
    check_jobs(wanted.jobs)
    if wanted.jobs > 1 and where.engine not in IN_PROCESS:
        raise CampaignError(f"--jobs {wanted.jobs} is for an engine in process; one at an address has --concurrency")
    target, draft = where.checked()
    started, clock = datetime.now(UTC), time.perf_counter()
    engine = open_engine(where, target, draft)
    try:
        spec = EngineSpec(
            target=target.chain.name,
            draft=draft is not None,
            tokens=wanted.tokens,
            dtype=where.dtype,
            concurrency=wanted.concurrency,
            prompts=where.prompts,
        )
        plan = make(spec, engine.facts)
        run = _Run(plan, engine, wanted, started)
        found = run.found(where, wanted.jobs)
    finally:
        engine.close()
    judged = conclude(plan, found.counts, found.exact, found.breaches, found.replaced)
    statement = engine_receipt.build(plan, run.counter, run.how, run.started, found, judged, run.attempts)
    receipts = run.folders.receipts
    written = write(statement, receipts) if run.folder is None else keep(run.folder, statement, receipts)
    page = page_of(statement, written, run.folders.reports)
    seconds = time.perf_counter() - clock
    if wanted.as_json:
        result = {
            "verdict": judged.verdict.value,
            "sentence": judged.sentence,
            "reasons": judged.reasons,
            "resolution": judged.resolution,
            "receipt": str(written),
            "report": str(page) if page else None,
            "tokens": found.tokens,
            "replaced": found.replaced,
            "counter": run.counter,
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        for line in [*lines(plan, found, judged), *where_it_lies(written, page, seconds, run.counter)]:
            click.echo(line)
    return CODES[judged.verdict]


class _Run:
    """Runs every piece of a plan, or those that a folder lacks."""

    def __init__(self, plan: Plan, engine: Engine, wanted: Chosen, started: datetime) -> None:
        self.plan, self.engine, self.started = plan, engine, started
        self.attempts, self.folder = 1, None
        manifest: dict[str, Any] = {}
        if wanted.folder is not None:
            self.folder = open_folder(wanted.folder, wanted.resume, False)
            manifest = self.folder.manifest() if self.folder.holds_one() else {}
        self.folders = open_out(wanted.out, manifest) if manifest else store.open_store(wanted.out)
        if manifest:
            same(self._manifest(manifest["counter"], ""), manifest, str(wanted.folder))
            if wanted.counter not in (None, manifest["counter"]):
                raise CampaignError(
                    f"--counter {wanted.counter}: the campaign in {wanted.folder} has {manifest['counter']}"
                )
            self.counter, self.how = manifest["counter"], manifest["chosen"]
            self.started = moment(manifest["startedUtc"])
        else:
            self.counter, self.how = store.claim_counter(self.folders, wanted.counter)
            if self.folder is not None:
                self.folder.begin(self._manifest(self.counter, self.how))
        if self.folder is not None:
            self.attempts = self.folder.attempt({"startedUtc": utc(datetime.now(UTC))})
        self.seed = Seed.of(plan.sha256, self.counter)
        reseed(engine, self.seed)

    def _manifest(self, counter: int, how: str) -> dict[str, Any]:
        return {
            "backend": self.plan.facts.name,
            "chosen": how,
            "counter": counter,
            "kind": KIND,
            "planSha256": self.plan.sha256,
            "sourcesSha256": canonical.sha256(provenance.sources(KIND)),
            "startedUtc": utc(self.started),
        }

    def found(self, where: Where, jobs: int) -> Found:
        """What all pieces counted."""
        whole, wanted = Found(), list(pieces(self.plan))
        parts = {part["name"]: part["result"] for _, part in self.folder.parts()} if self.folder else {}
        there = [(piece, part_of(parts[piece.name])) for piece in wanted if piece.name in parts]
        left = [piece for piece in wanted if piece.name not in parts]
        with Watch(self.folder, self.attempts, wanted) as watch:
            watch.begin(there)
            for _, one in there:
                whole.add(one)

            def take(piece: Piece, one: Found) -> None:
                self._keep(piece, one)
                watch.took(piece, one)
                whole.add(one)

            if jobs > 1:
                for piece, one in spread(where, self.plan.spec, self.plan.sha256, self.counter, jobs, left):
                    take(piece, one)
            else:
                runner = Runner(self.plan, self.seed, self.engine)
                for piece in left:
                    take(piece, runner.run(piece, partial(watch.said, piece)))
        return whole

    def _keep(self, piece: Piece, one: Found) -> None:
        """The part of a piece, where a folder keeps them."""
        if self.folder is None:
            return
        manifest = self.folder.manifest()
        self.folder.put(
            {
                "backend": manifest["backend"],
                "counter": manifest["counter"],
                "device": self.plan.facts.settings.get("device", "unknown"),
                "name": piece.name,
                "nanoseconds": 0,
                "planSha256": manifest["planSha256"],
                "result": one.plain(),
                "sourcesSha256": manifest["sourcesSha256"],
            }
        )


def part_of(result: dict[str, Any]) -> Found:
    """What a part kept."""
    return Found(
        counts=result["counts"],
        exact=result["exact"],
        breaches=result["breaches"],
        replaced=result["replaced"],
        tokens=result["tokens"],
    )


def lines(plan: Plan, found: Found, judged: Judgement) -> list[str]:
    """What is said on the terminal: failures, every condition, what was compared exactly, what was left out."""
    failed = [test for test in judged.tests if test.outcome == "fail"]
    said = [line for reason in judged.reasons[1:MOST] for line in labelled("also", reason)]
    if len(judged.reasons) > MOST:
        said.append(f"... and {len(judged.reasons) - MOST} more reasons: the page has all")
    head = [
        Column(head="condition", fit=Fit.FOLD),
        Column(head="tokens", right=True),
        Column(head="checks", right=True),
        Column(head="fail", right=True),
        Column(head="least p / level", right=True),
        Column(head="off by TV seen", right=True),
    ]
    rows = []
    for condition in plan.conditions:
        mine = [test for test in judged.tests if plan_condition(plan, test) == condition.name]
        if mine:
            rows.append(_row(condition.name, mine, sum(test in failed for test in mine)))
    exact = [
        [name, f"{compared:,}", f"{wrong:,}"]
        for name in (*exact_checks(plan), TIES)
        if name in found.exact
        for compared, wrong in [found.exact[name]]
    ]
    columns = [
        Column(head="exact checks of", fit=Fit.FOLD),
        Column(head="compared", right=True),
        Column(head="wrong", right=True),
    ]
    left = [f"{name}: {reason}" for name, reason in plan.left_out.items()]
    withheld = plan.facts.settings.get(LEFT_OUT, "")
    return [
        *sentence(judged.sentence),
        *said,
        "",
        *table(head, rows),
        "",
        *table(columns, exact),
        "",
        *(line for why in left for line in labelled("not applicable", why)),
        *labelled(LEFT_OUT, f"{withheld}, by --without") * bool(withheld),
    ]


def plan_condition(plan: Plan, test: Result) -> str:
    """The condition of a check."""
    return next(check.cell.condition for check in plan.checks if check.id == test.id)


def _row(name: str, tests: Sequence[Result], failed: int) -> list[str]:
    deciding = [test for test in tests if test.alpha]
    ratio = min((test.p / test.alpha for test in deciding), default=None)
    sees = min((test.detectable for test in deciding), default=None)
    return [
        name,
        f"{max(test.events for test in tests):,}",
        str(len(deciding)),
        str(failed),
        "" if ratio is None else f"{ratio:.2g}",
        "" if sees is None else f"{sees:.2g}",
    ]
