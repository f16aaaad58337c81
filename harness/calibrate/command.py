"""`pp3 calibrate`: run null campaigns, find far tails, judge the battery; write a receipt and a page, say a
sentence."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import backends
from pp3.harness.calibrate import plan as plans
from pp3.harness.calibrate.judge import Outcome
from pp3.harness.calibrate.run import run
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import calibration, receipt, store
from pp3.harness.progress import Bar
from pp3.harness.qualify import page_of, where_it_lies
from pp3.harness.seeds import Seed
from pp3.harness.terminal import Column, sentence, table

CODES = {Outcome.PASS: Exit.OK, Outcome.FAIL: Exit.NEGATIVE, Outcome.INCONCLUSIVE: Exit.INCONCLUSIVE}
MOST_JOBS = 64


def run_command(
    campaigns: int,
    requests_campaigns: int,
    counter: int | None,
    jobs: int,
    out: Path | None,
    as_json: bool,
    plan: plans.Plan | None = None,
) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 calibrate --help`; a plan in place of the usual."""
    started, clock = datetime.now(UTC), time.perf_counter()
    if not 1 <= jobs <= MOST_JOBS:
        raise CampaignError(f"--jobs {jobs}: it must be from 1 to {MOST_JOBS}")
    chosen = plan or plans.make(campaigns, requests_campaigns)
    store.check_counter(counter)
    folders = store.open_store(out)
    number, how = store.claim_counter(folders, counter)
    with Bar() as bar:
        found, tails = run(chosen, Seed.of(chosen.sha256, number), jobs, bar.update)
    levels = {level: one.plain() for level, one in found.items()}
    identity = backends.identity(backends.Backend.REFERENCE)
    statement = calibration.build(chosen, number, how, started, levels, tails, identity)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    predicate, seconds = statement["predicate"], time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": predicate["verdict"],
            "sentence": predicate["sentence"],
            "receipt": str(written),
            "report": str(page) if page else None,
            "counter": number,
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        for line in [*sentence(predicate["sentence"]), "", *lines(predicate["figures"])]:
            click.echo(line)
        for line in ["", *where_it_lies(written, page, seconds, number)]:
            click.echo(line)
    return CODES[Outcome(predicate["verdict"])]


def lines(figures: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Families and far tails, each in a table."""
    head = [Column(head="null campaigns of"), *(Column(head=name, right=True) for name in ("alpha", "run", "rejected"))]
    rows = [
        [one["level"], one["alpha"], *(f"{one[key]:,}" for key in ("campaigns", "rejected")), _band(one)]
        for one in figures["families"]
    ]
    far = [
        [one["level"], one["alpha"], one["chance"], one["error"], f"{one['checks']:,}", one["largest"]]
        for one in figures["far"]
    ]
    names = ("alpha", "all checks", "std error", "checks", "largest tail / level")
    return [
        *table([*head, Column(head="may be", right=True)], rows),
        "",
        *table([Column(head="far tails of"), *(Column(head=name, right=True) for name in names)], far),
    ]


def _band(one: dict[str, Any]) -> str:
    return f"{one['low']:,} to {one['high']:,}"
