"""A trial of any sampler in pieces: one a target. Each is run in a process of its own, as `pp3 qualify` does."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError, VerificationError
from pp3.harness.evidence import execution, store
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.evidence.execution import AGAIN, target_piece
from pp3.harness.evidence.moment import moment, utc
from pp3.harness.operations.begin import begin
from pp3.harness.operations.campaign import Task, parse_shard, run_tasks, said_of
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.folder import Folder, same
from pp3.harness.operations.found import keep, open_out
from pp3.harness.operations.order import sources_sha256
from pp3.harness.operations.tiling import check
from pp3.harness.operations.where import Where
from pp3.harness.qualify import CODES, page_of
from pp3.harness.seeds import RULE, Seed
from pp3.harness.trial import parent
from pp3.harness.trial.command import Ran, check_jobs, known, lines, plain
from pp3.harness.trial.device import name_of as device_name
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.order import Sources
from pp3.harness.trial.plan import Trial, TrialSpec

KIND = "trial"
FLOATS = ("seconds",)  # of what was measured: a receipt holds none, and a part is equal on repeat


def run_command(
    where: Where,
    spec: TrialSpec,
    given: bool,
    image: Path | None,
    device: str,
    counter: int | None,
    out: Path | None,
    as_json: bool,
    jobs: int,
) -> int:
    """Begin a trial in pieces, or go on with one; its exit code."""
    check_jobs(jobs)
    store.check_counter(counter)
    known(spec.sampler, device)
    folder = where.open()
    if where.shard and counter is None and not folder.holds_one():
        raise CampaignError("--shard needs --counter: every shard draws from the same seed")
    clock, wanted = time.perf_counter(), manifest_of(spec, given, image, device, counter or 0, "given")
    if folder.holds_one():
        there = folder.manifest()
        same(there, wanted if counter is not None else wanted | {"counter": there["counter"]}, str(folder.path))
        return go_on(where, folder, counter, out, as_json, jobs)
    pieces = len(tasks_of(wanted))
    manifest, engine, folders = begin(where, folder, wanted, counter, pieces, out, False, jobs)
    return _run(where, folder, manifest, engine, folders, as_json, clock)


def go_on(where: Where, folder: Folder, counter: int | None, out: Path | None, as_json: bool, jobs: int = 1) -> int:
    """Run what is missing of the trial in a folder; its exit code."""
    clock, manifest = time.perf_counter(), folder.manifest()
    if counter is not None and counter != manifest["counter"]:
        raise CampaignError(f"{folder.path}: it holds counter {manifest['counter']}, --counter is {counter}")
    mine = sources_sha256(KIND)
    if mine != manifest["sourcesSha256"]:
        raise CampaignError(
            f"{folder.path}: this trial was begun with other sources ({manifest['sourcesSha256']}, here {mine}); go on "
            "with the pp3 that began it"
        )
    parse_shard(where.shard, len(tasks_of(manifest)))
    engine = where.engine(False, jobs)
    return _run(where, folder, manifest, engine, open_out(out, manifest), as_json, clock)


def _run(
    where: Where,
    folder: Folder,
    manifest: dict[str, Any],
    engine: Engine,
    folders: store.Store,
    as_json: bool,
    clock: float,
) -> int:
    """Run the pieces that are missing, and judge them unless they are a shard; the exit code."""
    run_tasks(folder, tasks_of(manifest), engine, where.shard, where.stall_timeout)
    if where.shard and where.shard != "1/1":
        return said_of(folder, where.shard)
    return conclude(folder, manifest, folders, as_json, clock)


def manifest_of(
    spec: TrialSpec, given: bool, image: Path | None, device: str, counter: int, how: str
) -> dict[str, Any]:
    """What is run, for its folder; the sampler is asked who it is."""
    found = parent.run(spec, given, image, device, counter, lambda stage, done, total: None, only=[])
    trial, who = found.trial, found.trial.who
    return {
        "backend": found.device["backend"],
        "chosen": how,
        "counter": counter,
        "device": device,
        "given": given,
        "image": str(image) if image else "",
        "kind": KIND,
        "module": who.module,
        "plan": trial.plan,
        "planSha256": trial.plan_sha256,
        "profile": str(who.kind),
        "sampler": {"name": who.name, "version": who.version},
        "sourcesSha256": sources_sha256(KIND),
        "spec": msgspec.json.encode(spec).decode(),
        "startedUtc": utc(datetime.now(UTC)),
    }


def trial_of(manifest: dict[str, Any]) -> Trial:
    """The trial of a folder. VerificationError if its plan is not that of its digest."""
    seed = Seed.of(manifest["planSha256"], manifest["counter"]).value.hex()
    return trial_receipt.trial_of(
        {
            "plan": manifest["plan"],
            "planSha256": manifest["planSha256"],
            "profile": manifest["profile"],
            "sampler": manifest["sampler"] | {"module": manifest["module"]},
            "seed": {"counter": manifest["counter"], "rule": RULE, "sha256": seed},
        }
    )


def tasks_of(manifest: dict[str, Any]) -> list[Task]:
    """What there is to run: a target each."""
    trial = trial_of(manifest)
    return [
        Task(
            order={"manifest": manifest, "name": target_piece(problem.name), "target": problem.name},
            cell=problem.name,
            requests=trial.requests_of(problem),
        )
        for problem in trial.problems
    ]


def run_target(order: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Run one target: the device's name, and what was found, in plain values. A crash of the sampler is a finding."""
    manifest = order["manifest"]
    spec = msgspec.json.decode(manifest["spec"], type=TrialSpec)
    found = parent.run(
        spec,
        manifest["given"],
        Path(manifest["image"]) if manifest["image"] else None,
        manifest["device"],
        manifest["counter"],
        lambda stage, done, total: None,
        only=[order["target"]],
    )
    if found.trial.plan_sha256 != manifest["planSha256"]:
        raise VerificationError(
            f"the sampler described itself in another way here: its plan is {found.trial.plan_sha256}, that of the "
            f"campaign {manifest['planSha256']}"
        )
    measured = msgspec.to_builtins(found.measured)
    result = {
        "device": found.device,
        "measured": {key: value for key, value in measured.items() if key not in FLOATS},
        "sources": msgspec.to_builtins(found.sources),
    }
    return device_name(found.device), result


def conclude(
    folder: Folder, manifest: dict[str, Any], folders: store.Store, as_json: bool, clock: float, others: int = 0
) -> int:
    """Join all parts, judge, write the receipt; the exit code. `others` counts starts in other folders."""
    trial = trial_of(manifest)
    parts = check(folder.parts(), [target_piece(problem.name) for problem in trial.problems])
    found = joined(trial, list(parts.values()), str(folder.path))
    unequal = folder.unequal()
    names = [problem.name for problem in trial.problems]
    found.measured.broken |= {name: AGAIN for name in names if target_piece(name) in unequal}
    judged = trial_receipt.judge(found)
    ran = execution.plain(
        max(1, folder.attempts() + others),
        [part["device"] for part in parts.values()],
        len(folder.repeated()),
        unequal,
    )
    started = moment(manifest["startedUtc"])
    statement = trial_receipt.build(found, manifest["counter"], manifest["chosen"], started, judged, ran)
    written = keep(folder, statement, folders.receipts)
    result = Ran(
        found=found,
        judged=judged,
        counter=manifest["counter"],
        receipt=written,
        page=page_of(statement, written, folders.reports),
        seconds=time.perf_counter() - clock,
    )
    if as_json:
        click.echo(msgspec.json.encode(plain(result)).decode())
    else:
        for line in lines(result):
            click.echo(line)
    return CODES[judged.verdict]


def joined(trial: Trial, parts: list[dict[str, Any]], where: str) -> parent.Found:
    """What all parts found. VerificationError where two were made of other files."""
    found = parent.Found(trial=trial, device=dict(parts[0]["result"]["device"]))
    files: dict[str, str] = {}
    for part in parts:
        try:
            found.measured.add(msgspec.convert(part["result"]["measured"], Measured))
            sources = msgspec.convert(part["result"]["sources"], Sources)
        except (KeyError, msgspec.ValidationError) as error:
            raise VerificationError(f"{where}: {part['name']} is not of the shape of its piece: {error}") from None
        for name, digest in sources.files:
            if files.setdefault(name, digest) != digest:
                raise VerificationError(
                    f"{where}: foreign: {part['name']} was run with another {name} ({digest}) than the parts before it"
                )
        found.add_sources(sources)
    return found
