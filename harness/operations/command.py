"""`pp3 qualify` with --dir, --resume, --shard, --gpus or --dask, and `pp3 merge`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pp3.harness.backends import Backend
from pp3.harness.errors import CampaignError, VerificationError
from pp3.harness.evidence import store
from pp3.harness.operations import own
from pp3.harness.operations.begin import begin
from pp3.harness.operations.campaign import parse_shard, run_tasks, said_of
from pp3.harness.operations.folder import Folder, read_part
from pp3.harness.operations.found import open_out
from pp3.harness.operations.order import sources_sha256
from pp3.harness.operations.where import Where
from pp3.harness.qualify import choose_device, refuse_contradiction


def run_any(
    where: Where,
    campaign: Path | None,
    device: str,
    counter: int | None,
    out: Path | None,
    require_gpu: bool,
    as_json: bool,
    said: Mapping[str, Any],
) -> int:
    """Begin a campaign of our own sampler, or go on with one of any; its exit code."""
    clock = time.perf_counter()
    refuse_contradiction(device, require_gpu)
    store.check_counter(counter)
    folder = where.open()
    if folder.holds_one():
        manifest = folder.manifest()
        if manifest["kind"] == "trial":
            from pp3.harness.operations import trial

            return trial.go_on(where, folder, counter, out, as_json)
        if campaign is not None or said:
            refuse_other(manifest, {"planSha256": _plan(campaign, said)}, folder)
        refuse_other(manifest, {"counter": counter} if counter is not None else {}, folder)
        refuse_old_sources(manifest, folder)
        if manifest["backend"] != Backend.CUDA.value and (require_gpu or device == "cuda"):
            raise CampaignError(f"{folder.path}: this campaign was begun without a GPU; begin another one")
        parse_shard(where.shard, len(own.pieces_of(manifest)))
        engine = where.engine(_apart(manifest))
        folders = open_out(out, manifest)
    else:
        wanted = _wanted(where, campaign, device, counter, require_gpu, said)
        pieces = len(own.pieces_of(wanted))
        manifest, engine, folders = begin(where, folder, wanted, counter, pieces, out, _apart(wanted))
    run_tasks(folder, own.tasks_of(manifest), engine, where.shard, where.stall_timeout)
    if where.shard and where.shard != "1/1":
        return said_of(folder, where.shard)
    return own.conclude(folder, manifest, folders, as_json, clock)


def _apart(manifest: Mapping[str, Any]) -> bool:
    """Whether Triton's interpreter runs some pieces."""
    return bool(manifest["backend"] == Backend.REFERENCE.value)


def _wanted(
    where: Where,
    campaign: Path | None,
    device: str,
    counter: int | None,
    require_gpu: bool,
    said: Mapping[str, Any],
) -> dict[str, Any]:
    """What is to be run, for its folder; its counter is not spent yet."""
    if where.shard and counter is None:
        raise CampaignError("--shard needs --counter: every shard draws from the same seed")
    chosen = own.checked(campaign, said)
    if where.dask and device == "auto" and not require_gpu:
        raise CampaignError(
            "--dask needs --device cuda or --device cpu: what its workers have cannot be seen from here"
        )
    if where.dask:
        backend = Backend.CUDA if require_gpu or device == "cuda" else Backend.REFERENCE
    else:
        if where.gpus and device == "cpu":
            raise CampaignError("--gpus and --device cpu contradict each other; leave one out")
        backend = Backend.CUDA if where.gpus else choose_device(device, require_gpu)
    return own.manifest_of(chosen, backend, counter or 0, "given")


def _plan(campaign: Path | None, said: Mapping[str, Any]) -> str:
    from pp3.harness.campaign import plan_sha256

    return plan_sha256(own.checked(campaign, said))


def refuse_other(manifest: Mapping[str, Any], wanted: Mapping[str, Any], folder: Folder) -> None:
    """CampaignError if an option asks for another campaign than the folder holds."""
    for key, value in wanted.items():
        if manifest[key] != value:
            raise CampaignError(
                f"{folder.path}: it holds a campaign whose {key} is {manifest[key]}, the options ask for {value}; "
                "leave them out to go on with it"
            )


def refuse_old_sources(manifest: Mapping[str, Any], folder: Folder) -> None:
    """CampaignError if the campaign was begun by other sources than these."""
    mine = sources_sha256(manifest["kind"])
    if mine != manifest["sourcesSha256"]:
        raise CampaignError(
            f"{folder.path}: this campaign was begun with sources of digest {manifest['sourcesSha256']}, these are "
            f"{mine}; go on with the pp3 that began it, or begin another one"
        )


def _names(manifest: dict[str, Any]) -> set[str]:
    """Of all pieces of a campaign."""
    if manifest["kind"] == own.KIND:
        return {piece.name for piece in own.pieces_of(manifest)}
    from pp3.harness.operations import trial

    return {task.name for task in trial.tasks_of(manifest)}


def merge(paths: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """`pp3 merge DIR [OTHER ...]`: take in the parts of the others, then join and judge; the exit code."""
    clock = time.perf_counter()
    folder, *others = map(Folder, paths)
    manifest = folder.manifest()
    if manifest["kind"] == "engine":
        way = "go on with pp3 qualify --engine --dir --resume"
        raise CampaignError(f"{folder.path}: an engine is asked by one run; {way}")
    refuse_old_sources(manifest, folder)
    if len({path.resolve() for path in paths}) < len(paths):
        raise CampaignError(f"{', '.join(map(str, paths))}: one of them is given twice; give each once")
    names, attempts, taken = _names(manifest), 0, []
    for other in others:
        theirs = other.manifest()
        for key in ("planSha256", "counter", "backend", "sourcesSha256"):
            if theirs[key] != manifest[key]:
                raise VerificationError(
                    f"{other.path}: foreign: its {key} is {theirs[key]}, that of {folder.path} is {manifest[key]}"
                )
        for path in [*other.files(), *other.beside()]:
            part = read_part(path, manifest)
            if part["name"] not in names:
                raise VerificationError(f"{path}: foreign: {part['name']!r} is no piece of this campaign; remove it")
            taken.append(part)
        attempts += other.attempts()
    for part in taken:  # all are good: nothing foreign comes into the folder
        folder.put(part)
    folders = store.open_store(out)
    if manifest["kind"] == "trial":
        from pp3.harness.operations import trial

        return trial.conclude(folder, manifest, folders, as_json, clock, attempts)
    return own.conclude(folder, manifest, folders, as_json, clock, attempts)
