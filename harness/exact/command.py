"""`pp3 exhaustive`: enumerate on a device, judge, write the receipt and the page, say one sentence."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import backends
from pp3.harness import campaign as campaigns
from pp3.harness.evidence import receipt, store
from pp3.harness.exact import suite
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, choose_device, page_of, shown
from pp3.harness.run import known_answers


def run_command(device: str, out: Path | None, as_json: bool) -> int:
    """Everything the command does; its exit code."""
    started, clock = datetime.now(UTC), time.perf_counter()
    where = choose_device(device, False)
    folders = store.open_store(out)
    with Bar() as bar:
        enumerations = [found.plain() for found in suite.observe(where, bar.update)]
        answers = known_answers(where)
    who = campaigns.our_limits()
    sampler = receipt.sampler_of(who, where)
    identity = backends.identity(where)
    concluded = suite.conclude(enumerations, sampler, identity)
    kernels = {"bits": [], "conform": answers, "identity": identity}
    statement = receipt.build_exact(started, sampler, kernels, enumerations, concluded)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    seconds = time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": concluded.verdict.value,
            "sentence": concluded.sentence,
            "receipt": str(written),
            "report": str(page) if page else None,
            "compared": {row["id"]: row["compared"] for row in enumerations},
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        click.echo(concluded.sentence)
        for row in enumerations:
            click.echo(f"{row['id']:14} {row['compared']:>15,}  {row['claim']}")
        click.echo(f"receipt        {shown(written)}")
        click.echo(f"page           {shown(page) if page else 'not written: pip install pp3[report]'}")
        click.echo(f"took           {seconds:.1f} s")
    return CODES[concluded.verdict]
