"""`pp3 qualify --path wire`: run a campaign over the wire, judge it, write the receipt and the page."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import campaign as campaigns
from pp3.harness import promise
from pp3.harness.errors import CampaignError
from pp3.harness.evidence import provenance, receipt, store
from pp3.harness.interrupts import held_until_released
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, _lines, choose_device, page_of, where_it_lies
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.terminal import labelled
from pp3.harness.transport import wire_plan
from pp3.harness.transport.place import Place
from pp3.harness.transport.run import run
from pp3.harness.transport.verdict import conclude_path
from pp3.harness.verdict import Judgement

KIND = "wire"


def run_command(
    proxy: str,
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
    chosen = wire_plan.load(campaign, Place(proxy), {key: value for key, value in said.items() if value is not None})
    promise.keep(chosen, str(campaign or "default campaign"))
    store.check_counter(counter)
    where = choose_device(device, require_gpu)
    campaigns.check_sampler(chosen, campaigns.our_limits())
    folders = store.open_store(out)
    number, how = store.claim_counter(folders, counter)
    seed = Seed.of(campaigns.plan_sha256(chosen), number)
    with Bar() as bar, held_until_released() as release:

        def progress(stage: str, done: int, total: int) -> None:
            release()
            bar.update(stage, done, total)

        measured, path = run(chosen, seed, where, progress)
    judgement = judge(chosen, measured, path)
    statement = build(chosen, seed, number, how, started, measured, path, judgement)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    seconds = time.perf_counter() - clock
    if as_json:
        result: dict[str, Any] = {
            "verdict": judgement.verdict.value,
            "sentence": judgement.sentence,
            "receipt": str(written),
            "report": str(page) if page else None,
            "path": path,
            "requests": measured.requests,
            "counter": number,
            "seconds": round(seconds, 3),
        }
        click.echo(msgspec.json.encode(result).decode())
    else:
        for line in [*_lines(measured, judgement), *_way(path), *where_it_lies(written, page, seconds, number)]:
            click.echo(line)
    return CODES[judgement.verdict]


def judge(campaign: wire_plan.WireCampaign, measured: Measured, path: dict[str, Any]) -> Judgement:
    """The verdict on what a run found."""
    who = measured.sampler
    return conclude_path(
        campaign,
        path,
        measured.counts,
        measured.first,
        measured.breaches,
        measured.pairs,
        measured.kernels,
        {"name": who.name, "version": who.version, "backend": who.backend},
    )


def build(
    campaign: wire_plan.WireCampaign,
    seed: Seed,
    counter: int,
    chosen: str,
    started: datetime,
    measured: Measured,
    path: dict[str, Any],
    judgement: Judgement,
) -> dict[str, Any]:
    """The statement of one campaign over the wire."""
    statement = receipt.build(campaign, seed, counter, chosen, started, measured, judgement)
    statement["subject"] = provenance.sources(KIND)
    statement["predicate"] |= {"kind": KIND, "path": path}
    return statement


def refuse_beside(options: dict[str, Any]) -> None:
    """CampaignError for an option of `pp3 qualify` that no campaign over the wire takes."""
    for option, value in options.items():
        if value:
            raise CampaignError(f"{option} and --path wire cannot be combined; leave one out")


def _way(path: dict[str, Any]) -> list[str]:
    lost = ", ".join(f"{count:,} {kind}" for kind, count in path["counted"].items() if count)
    return labelled("path", f"{path['rows']:,} requests in {path['frames']:,} frames; lost: {lost or 'none'}")
