"""A campaign of our own sampler in pieces: what it is, its tasks, and its receipt of all parts."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pp3.harness import campaign as campaigns
from pp3.harness import promise
from pp3.harness.backends import Backend
from pp3.harness.errors import CampaignError, VerificationError
from pp3.harness.evidence import execution, store
from pp3.harness.evidence.moment import moment, utc
from pp3.harness.operations.campaign import Task
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.found import keep
from pp3.harness.operations.order import sources_sha256
from pp3.harness.operations.tiling import check
from pp3.harness.qualify import finish
from pp3.harness.samplers.contract import Description
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import Piece, Stage, cut
from pp3.harness.shards.join import join

KIND = "qualify"


def checked(path: Path | None, said: Mapping[str, Any]) -> campaigns.Campaign:
    """The campaign of a file, with what the command line says instead."""
    chosen = campaigns.load(path, said)
    promise.keep(chosen, str(path or "default campaign"))
    campaigns.check_sampler(chosen, campaigns.our_limits())
    return chosen


def manifest_of(chosen: campaigns.Campaign, backend: Backend, counter: int, how: str) -> dict[str, Any]:
    """What is run, for its folder."""
    digest = campaigns.plan_sha256(chosen)
    return {
        "backend": backend.value,
        "chosen": how,
        "counter": counter,
        "kind": KIND,
        "plan": chosen.plan,
        "planSha256": digest,
        "sourcesSha256": sources_sha256(KIND),
        "startedUtc": utc(datetime.now(UTC)),
    }


def pieces_of(manifest: Mapping[str, Any]) -> list[Piece]:
    """Every piece of a campaign."""
    return cut(campaign_of(manifest), Backend(manifest["backend"]))


def campaign_of(manifest: Mapping[str, Any]) -> campaigns.Campaign:
    """The campaign of a folder. CampaignError if its plan is not that of its digest."""
    campaign = campaigns.of_plan(manifest["plan"])
    if campaigns.plan_sha256(campaign) != manifest["planSha256"]:
        raise CampaignError("campaign.json: its plan has another digest than it says; it was changed")
    return campaign


def tasks_of(manifest: dict[str, Any]) -> list[Task]:
    """What there is to run."""
    return [
        Task(
            order={"manifest": manifest, "name": piece.name, "piece": asdict(piece) | {"stage": piece.stage.value}},
            cell=_cell(piece),
            requests=piece.requests,
        )
        for piece in pieces_of(manifest)
    ]


def _cell(piece: Piece) -> str:
    return f"{piece.target}/depth-{piece.depth}/batch-{piece.batch}" if piece.requests else piece.stage.value


def conclude(
    folder: Folder, manifest: dict[str, Any], folders: store.Store, as_json: bool, clock: float, others: int = 0
) -> int:
    """Join all parts, judge, write the receipt; the exit code. `others` counts starts in other folders.

    VerificationError names a part that is missing, doubled, foreign or of another shape.
    """
    campaign, backend = campaign_of(manifest), Backend(manifest["backend"])
    parts = check(folder.parts(), [piece.name for piece in cut(campaign, backend)])
    found = {name: part["result"] for name, part in parts.items()}
    try:
        measured = join(campaign, backend, described(backend), found)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise VerificationError(f"{folder.path}: a part is not of the shape of its piece: {error!r}") from None
    devices = [part["device"] for part in parts.values()]
    if backend is Backend.CUDA and len(set(devices)) > 1:
        measured.kernels["identity"] |= {"gpu": " and ".join(sorted(set(devices)))}
    ran = execution.plain(max(1, folder.attempts() + others), devices, len(folder.repeated()), folder.unequal())
    started = moment(manifest["startedUtc"])
    measured.timings = timings(cut(campaign, backend), parts)
    for piece in cut(campaign, backend):
        spent = measured.seconds.get(piece.stage.value, 0.0)
        measured.seconds[piece.stage.value] = spent + parts[piece.name]["nanoseconds"] / 1e9
    seed = Seed.of(manifest["planSha256"], manifest["counter"])
    return finish(
        campaign,
        seed,
        manifest["counter"],
        manifest["chosen"],
        started,
        measured,
        folders,
        as_json,
        clock,
        ran,
        partial(keep, folder),
    )


def timings(pieces: list[Piece], parts: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Nanoseconds of every piece, those of equal size and cell in one row: as harness/stopwatch.py, beside the counts.

    The first piece of a process holds what it loads and compiles too.
    """
    samples: dict[str, list[int]] = {}
    for piece in pieces:
        name = f"{_cell(piece)}/piece-of-{piece.requests}-requests"
        if piece.stage is Stage.KERNELS:
            name = f"{piece.stage}/{piece.part}"
        elif piece.stage is Stage.PAIRED:
            name = f"{piece.target}/depth-{piece.depth}/piece-of-{piece.pairs}-pairs"
        samples.setdefault(name, []).append(max(1, parts[piece.name]["nanoseconds"]))
    return [{"id": name, "samples": found, "unit": "ns"} for name, found in samples.items()]


def described(backend: Backend) -> Description:
    """Our sampler as it describes itself on a backend, also where there is none."""
    plain = msgspec.to_builtins(campaigns.our_limits())
    if backend is Backend.CUDA:
        plain |= {"backend": backend.value, "module": "pp3.harness.samplers.kernels"}
    return Description(**plain | {"files": (), "filters": tuple(plain["filters"])})
