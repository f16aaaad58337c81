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
from pp3.harness.kernel_evidence import known_answers
from pp3.harness.paths import find_vectors
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, choose_device, page_of, where_it_lies
from pp3.harness.terminal import Column, Fit, fold, sentence, table, width


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
        for line in [*sentence(concluded.sentence), *_lines(kind, observed), *where_it_lies(written, page, seconds)]:
            click.echo(line)
    return CODES[concluded.verdict]


def _lines(kind: str, observed: list[dict[str, Any]]) -> list[str]:
    """A row for each enumeration or policy."""
    name = Column(head="enumeration" if kind == "exhaustive" else "target", fit=Fit.FOLD)
    if kind == "exhaustive":
        columns = [name, Column(head="compared", right=True), Column(head="claim", fit=Fit.FOLD)]
        return ["", *table(columns, [[row["id"], f"{row['compared']:,}", row["claim"]] for row in observed]), ""]
    columns = [name, *(Column(head=head, right=True) for head in ("as emitted", "largest remainder"))]
    rows = []
    for row in observed:
        worst = [max(float(one[key][1]) for one in row["distances"]) for key in ("emitted", "largestRemainder")]
        rows.append([row["survey"]["target"], *(f"{size:.3e}" for size in worst)])
    said = "Largest total variation from the ideal softmax, as emitted and by largest remainder:"
    return ["", *fold(said, width()), *table(columns, rows), ""]
