"""`pp3 qualify`: choose the device, run, judge, write the receipt and the page, say one sentence."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import backends, promise, scoreboard
from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.battery import SEED_FAMILY_ALPHA
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence import receipt, store
from pp3.harness.interrupts import held_until_released
from pp3.harness.progress import Bar
from pp3.harness.run import Measured, run
from pp3.harness.seeds import Seed
from pp3.harness.terminal import Column, kept, labelled, sentence, table
from pp3.harness.verdict import Judgement, Verdict, conclude

WAITING = "kernels in the interpreter"  # the stage of a run in which this process waits for others
CODES = {
    Verdict.PASS: Exit.OK,
    Verdict.TOLERATED: Exit.OK,
    Verdict.FAIL: Exit.NEGATIVE,
    Verdict.INVALID: Exit.NEGATIVE,
    Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE,
}


def run_command(
    campaign: Path | None,
    device: str,
    requests: int | None,
    counter: int | None,
    out: Path | None,
    require_gpu: bool,
    as_json: bool,
    detect: float | None = None,
    tolerance: float | None = None,
) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 qualify --help`."""
    started, clock = datetime.now(UTC), time.perf_counter()
    said = {"requests": requests, "detect": detect, "tolerance": tolerance}
    chosen = campaigns.load(campaign, {key: value for key, value in said.items() if value is not None})
    promise.keep(chosen, str(campaign or "default campaign"))
    store.check_counter(counter)
    where = choose_device(device, require_gpu)
    campaigns.check_sampler(chosen, campaigns.our_limits())
    folders = store.open_store(out)
    number, how = store.claim_counter(folders, counter)
    seed = Seed.of(campaigns.plan_sha256(chosen), number)
    with Bar() as bar, held_until_released() as release:

        def progress(stage: str, done: int, total: int) -> None:
            release()  # the workers have started by the first progress
            bar.update(stage, done, total)
            if stage == WAITING and not done:
                load_page()

        measured = run(chosen, seed, where, progress)
    return finish(chosen, seed, number, how, started, measured, folders, as_json, clock)


def finish(
    chosen: campaigns.Campaign,
    seed: Seed,
    number: int,
    how: str,
    started: datetime,
    measured: Measured,
    folders: store.Store,
    as_json: bool,
    clock: float,
    execution: dict[str, Any] | None = None,
    write: Callable[[dict[str, Any], Path], Path] = receipt.write,
) -> int:
    """Judge what was measured, write the receipt and the page, say one sentence; the exit code.

    `clock` is perf_counter at the start; `execution` is how a campaign in pieces was run, and `write` its receipt's
    writer: a start that was killed may have written it.
    """
    judgement = conclude(
        chosen,
        measured.counts,
        measured.first,
        measured.breaches,
        measured.pairs,
        measured.kernels,
        {"name": measured.sampler.name, "version": measured.sampler.version, "backend": measured.sampler.backend},
        execution["unequal"] if execution else (),
    )
    statement = receipt.build(chosen, seed, number, how, started, measured, judgement, execution)
    written = write(statement, folders.receipts)
    try:
        page = page_of(statement, written, folders.reports)
    except OSError:
        click.echo(f"pp3: the receipt is whole: {shown(written)}; only its page is not", err=True)
        raise
    seconds = time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": judgement.verdict.value,
            "sentence": judgement.sentence,
            "receipt": str(written),
            "report": str(page) if page else None,
            "requests": measured.requests,
            "paired": sum(row["pairs"] for row in measured.pairs),
            "counter": number,
            "seconds": round(seconds, 3),
            "stages": {stage: round(spent, 3) for stage, spent in measured.seconds.items()},
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        for line in _lines(measured, judgement):
            click.echo(line)
        for line in where_it_lies(written, page, seconds, number):
            click.echo(line)
    return CODES[judgement.verdict]


def _lines(measured: Measured, judgement: Judgement) -> list[str]:
    """The verdict, what deviates, every kind of check, what was compared exactly, the family that decides nothing."""
    scores = scoreboard.Scores(
        verdict=judgement.verdict,
        reasons=judgement.reasons,
        tests=judgement.tests,
        off={one.id: f"{one.low:.2g} to {one.high:.2g}" for one in judgement.deviations},
        furthest={},
    )
    bits, answers = measured.kernels["bits"], measured.kernels["conform"]
    exact = [
        ("known answers", sum(row["total"] for row in answers), sum(row["total"] - row["passed"] for row in answers)),
        ("rows of the kernels", sum(row["rows"] for row in bits), sum(row["mismatches"] for row in bits)),
        (
            "pairs at temperature 0",
            sum(row["pairs"] for row in measured.pairs),
            sum(row["mismatches"] for row in measured.pairs),
        ),
    ]
    head = Column(head="exact checks of"), Column(head="compared", right=True), Column(head="differ", right=True)
    family = ", ".join(f"{row['target']} {float(row['pearsonP']):.3g}" for row in judgement.seed_family)
    against = f"(against {SEED_FAMILY_ALPHA:g} each; decides nothing)"
    decides_nothing = f"Pearson p: {family} {against}" if family else "too few events for any"
    return [
        *sentence(judgement.sentence),
        *scoreboard.lines(scores),
        "",
        *table(head, [[name, f"{count:,}", f"{differ:,}"] for name, count, differ in exact]),
        "",
        *labelled("seed family", decides_nothing),
    ]


def where_it_lies(receipt: Path, page: Path | None, seconds: float, counter: int | None = None) -> list[str]:
    """The last lines of a run: what was written, and what may be done with it."""
    return [
        kept("receipt", shown(receipt)),
        kept("page", shown(page) if page else "not written: pip install pp3[report]"),
        kept("check it with", f"pp3 verify {shown(receipt)}"),
        kept("took", f"{seconds:.1f} s" + ("" if counter is None else f", counter {counter}")),
    ]


def choose_device(device: str, require_gpu: bool) -> Backend:
    """auto takes a GPU if there is one. PP3Error (69) if one is demanded and missing."""
    refuse_contradiction(device, require_gpu)
    if device == "cuda" or require_gpu:
        backends.start(Backend.CUDA)
        return Backend.CUDA
    return Backend.CUDA if device == "auto" and backends.cuda_available() else Backend.REFERENCE


def refuse_contradiction(device: str, require_gpu: bool) -> None:
    """PP3Error (2) for a GPU that is demanded where the CPU is asked for."""
    if device == "cpu" and require_gpu:
        raise PP3Error("--device cpu and --require-gpu contradict each other; drop one", Exit.USAGE)


def shown(path: Path) -> str:
    """A path as short as it can be written from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def load_page() -> None:
    """Load what draws the page, where it is installed."""
    with suppress(ImportError):
        import_module("pp3.harness.report.render")


def page_of(statement: dict[str, Any], written: Path, folder: Path) -> Path | None:
    try:
        from pp3.harness.report.render import write_page
    except ImportError:
        return None
    path = folder / f"{written.stem}.html"
    return path if path.is_file() else write_page(written.read_bytes(), statement, path)
