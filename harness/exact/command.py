"""`pp3 exhaustive` and `pp3 oracle`: enumerate on a device, judge, write the receipt and the page, say one sentence."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import backends
from pp3.harness import campaign as campaigns
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence import receipt, store
from pp3.harness.exact import oracle, suite
from pp3.harness.paths import find_vectors
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, choose_device, page_of, shown
from pp3.harness.run import known_answers


def run_command(kind: str, device: str, out: Path | None, as_json: bool) -> int:
    """Everything a command does (kind exhaustive or oracle); its exit code."""
    started, clock = datetime.now(UTC), time.perf_counter()
    where = choose_device(device, False)
    if find_vectors() is None:
        raise PP3Error("no known answers are installed: run from a checkout or a whole wheel", Exit.UNAVAILABLE)
    folders = store.open_store(out)
    with Bar() as bar:
        if kind == "oracle":
            observed = oracle.observe(where, bar.update)
        else:
            observed = [found.plain() for found in suite.observe(where, bar.update)]
        answers = known_answers(where)
    who = campaigns.our_limits()
    sampler = receipt.sampler_of(who, where)
    identity = backends.identity(where)
    kernels = {"bits": [], "conform": answers, "identity": identity}
    conclude = oracle.conclude if kind == "oracle" else suite.conclude
    concluded = conclude(observed, sampler, kernels)
    statement = receipt.build_exact(kind, started, sampler, kernels, observed, concluded)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    seconds = time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": concluded.verdict.value,
            "sentence": concluded.sentence,
            "receipt": str(written),
            "report": str(page) if page else None,
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        click.echo(concluded.sentence)
        for line in _lines(kind, observed):
            click.echo(line)
        click.echo(f"receipt        {shown(written)}")
        click.echo(f"page           {shown(page) if page else 'not written: pip install pp3[report]'}")
        click.echo(f"took           {seconds:.1f} s")
    return CODES[concluded.verdict]


def _lines(kind: str, observed: list[dict[str, Any]]) -> list[str]:
    """A line for each enumeration or policy."""
    if kind == "exhaustive":
        return [f"{row['id']:14} {row['compared']:>15,}  {row['claim']}" for row in observed]
    lines = []
    for row in observed:
        worst = {key: max(float(one[key][1]) for one in row["distances"]) for key in ("emitted", "largestRemainder")}
        lines.append(
            f"{row['survey']['target']:14} from the ideal softmax at most {worst['emitted']:.3e} as emitted, "
            f"{worst['largestRemainder']:.3e} by largest remainder"
        )
    return lines
