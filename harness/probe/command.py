"""`pp3 probe`: time the kernels beside the launch floor and their peers; write a receipt and a page, say a sentence."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.probe.figures import Outcome
from pp3.harness.probe.plan import Mode

CODES = {Outcome.PROBED: Exit.OK, Outcome.FAIL: Exit.NEGATIVE}


def run_command(quick: bool, out: Path | None, as_json: bool, markdown: Path | None) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 probe --help`."""
    if markdown is not None:
        return _markdown(markdown, quick or as_json or out is not None)
    from pp3.harness import backends
    from pp3.harness import campaign as campaigns
    from pp3.harness.evidence import probe, receipt, store
    from pp3.harness.probe import run
    from pp3.harness.probe.versions import versions
    from pp3.harness.progress import Bar
    from pp3.harness.qualify import page_of, where_it_lies
    from pp3.harness.terminal import sentence

    started, clock = datetime.now(UTC), time.perf_counter()
    run.need_gpu()
    mode = Mode.QUICK if quick else Mode.FULL
    folders = store.open_store(out)
    with Bar() as bar:
        seen = run.observe(mode, bar.update)
    where = backends.Backend.CUDA
    statement = probe.build(
        mode,
        started,
        receipt.sampler_of(campaigns.our_limits(), where),
        backends.identity(where),
        versions(seen.cases),
        {"absent": seen.absent, "bandwidth": seen.bandwidth, "bits": seen.bits, "cases": seen.cases},
    )
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    predicate, seconds = statement["predicate"], time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": predicate["verdict"],
            "sentence": predicate["sentence"],
            "receipt": str(written),
            "report": str(page) if page else None,
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        from pp3.harness.probe.tables import terminal_lines

        for line in [*sentence(predicate["sentence"]), *terminal_lines(predicate)]:
            click.echo(line)
        for line in where_it_lies(written, page, seconds):
            click.echo(line)
    return CODES[Outcome(predicate["verdict"])]


def _markdown(path: Path, more: bool) -> int:
    """Print the tables of a receipt that verifies, for docs/performance.md; nothing is measured."""
    from pp3.harness.estimate.inputs import verified_probe
    from pp3.harness.probe.tables import page

    if more:
        raise CampaignError("--markdown prints the tables of a receipt and measures nothing; drop the other options")
    click.echo(page(verified_probe(path)), nl=False)
    return Exit.OK
