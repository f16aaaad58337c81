"""`pp3 qualify --sampler overlay`: the overlays of a pinned vLLM behind the wire; receipt and page."""

import os
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError
from pp3.harness.evidence import receipt, store
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.overlay import judge, problems
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, page_of
from pp3.harness.seeds import Seed
from pp3.harness.trial import command as trial_command
from pp3.harness.trial.device import choose, identity, interpreted, launches, name_of
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec

REQUESTS = {"cuda": 4_000, "cpu": 98}  # of each law, unless they are given: a CPU takes 0.1 s a request and more
PAIRS = {"cuda": 100_000, "cpu": 24}
SAID = "said: "  # before the name of a file that is not under the sampler's own folder


def run_command(
    image: Path | None,
    overlay: Path | None,
    spec: TrialSpec,
    given: bool,
    device: str,
    counter: int | None,
    out: Path | None,
    as_json: bool,
    proxy: str | None = None,
) -> int:
    """Everything the command does; its exit code. `given`: the requests are the user's; `proxy`: thread or process."""
    if overlay is None:
        raise CampaignError("--sampler overlay needs --overlay DIR: pp3 prepare --out DIR writes one")
    store.check_counter(counter)
    where = choose(device)
    if where == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before any kernel is decorated
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from pp3.harness.overlay import way
    from pp3.harness.overlay.load import open_overlay
    from pp3.harness.overlay.over_wire import OverWire
    from pp3.harness.overlay.pipeline import NAME
    from pp3.harness.overlay.qualify import run
    from pp3.harness.transport.place import Place

    opened = open_overlay(image, overlay)
    sampler = OverWire(opened, where, Place(proxy or Place.THREAD))
    who = sampler.describe()
    requests = spec.requests if given else REQUESTS[where]
    trial = problems.trial(msgspec.structs.replace(spec, sampler=NAME, requests=requests), who)
    folders = store.open_store(out)
    number, how = store.claim_counter(folders, counter)
    started, clock = datetime.now(UTC), time.perf_counter()
    seed = Seed.of(trial.plan_sha256, number)
    with Bar() as bar, launches() as launched, closing(sampler):
        measured, pairs = run(trial, sampler, seed, PAIRS[where], bar.update)
        said = identity(where, interpreted(who, launched()))
    found = Found(trial=trial, device=said, measured=measured, sources=_sources(opened))
    journey = sampler.journey
    judged = judge.conclude(trial, measured, name_of(said), pairs, journey)
    statement = trial_receipt.build(
        found,
        number,
        how,
        started,
        judged,
        overlay={
            "attestation": opened.attestation,
            "journey": journey,
            "paired": pairs,
            "path": way.said(sampler.place),
        },
    )
    written = receipt.write(statement, folders.receipts)
    ran = trial_command.Ran(
        found=found,
        judged=judged,
        counter=number,
        receipt=written,
        page=page_of(statement, written, folders.reports),
        seconds=time.perf_counter() - clock,
    )
    if as_json:
        click.echo(msgspec.json.encode(trial_command.plain(ran)).decode())
    else:
        for line in trial_command.lines(ran):
            click.echo(line)
    return CODES[judged.verdict]


def _sources(opened: Any) -> Sources:
    """What the sampler is made of: the image's files, as pinned; the overlays are in their attestation."""
    files = [[f"{SAID}{name}", digest] for name, digest in sorted(opened.image.files.items())]
    return Sources(files=files, packages={}, image=opened.image.plain())
