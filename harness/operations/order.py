"""What a worker is told in plain values, and what it gives back: the part of one piece.

A worker may run on another machine: before anything else it compares its own sources with the digest in the order.
"""

import platform
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from typing import Any

from pp3.harness import canonical
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence import provenance

ONE = threading.Lock()  # a sampler's buffers are not for two threads of a worker
Order = dict[str, Any]  # of JSON types: unpickling one imports nothing


class ForeignSourcesError(PP3Error):
    """A worker is made of other sources than the campaign."""

    exit_code = Exit.NEGATIVE


@cache
def sources_sha256(kind: str) -> str:
    """Digest of every source that determines the numbers of a kind of campaign, as it lies on this machine."""
    return canonical.sha256(provenance.sources("trial-image" if kind == "trial" else kind))


def perform(order: Order) -> dict[str, Any]:
    """Run one piece; its part. ForeignSourcesError if this process has other sources than the order names."""
    refuse_foreign(order["manifest"])
    started = time.perf_counter_ns()
    device, result = _trial(order) if order["manifest"]["kind"] == "trial" else _campaign(order)
    return {
        "backend": order["manifest"]["backend"],
        "counter": order["manifest"]["counter"],
        "device": device,
        "name": order["name"],
        "nanoseconds": time.perf_counter_ns() - started,
        "planSha256": order["manifest"]["planSha256"],
        "result": result,
        "sourcesSha256": order["manifest"]["sourcesSha256"],
    }


def refuse_foreign(manifest: dict[str, Any]) -> None:
    """ForeignSourcesError unless the sources here are those of the campaign."""
    mine = sources_sha256(manifest["kind"])
    if mine != manifest["sourcesSha256"]:
        raise ForeignSourcesError(
            f"{_here()}: its sources hash to {mine}, those of the campaign to {manifest['sourcesSha256']}; "
            "install the same pp3 everywhere"
        )


def _here() -> str:
    """This process: by its address if it is a Dask worker, which the coordinator may know by nothing else."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # it is none
            return f"worker {distributed.get_worker().address}"
    return "this worker"


def device_name(backend: str) -> str:
    """What a piece ran on, as a receipt names it."""
    if backend != "cuda":
        return f"CPU {platform.machine()}"
    import torch

    return str(torch.cuda.get_device_properties(0).name)


def _campaign(order: Order) -> tuple[str, dict[str, Any]]:
    from pp3.harness.backends import Backend
    from pp3.harness.seeds import Seed
    from pp3.harness.shards.count import count
    from pp3.harness.shards.cut import Piece, Stage

    manifest = order["manifest"]
    piece = Piece(**order["piece"] | {"stage": Stage(order["piece"]["stage"])})
    backend = Backend(manifest["backend"])
    campaign, sampler = _opened(canonical.encode(manifest["plan"]), backend)
    seed = Seed.of(manifest["planSha256"], manifest["counter"])
    with ONE:
        return device_name(backend), count(campaign, seed, sampler, backend, piece)


@cache
def _opened(plan: bytes, backend: Any) -> tuple[Any, Any]:
    """The campaign of a plan, and who runs its requests; the same for every piece that one process runs."""
    from pp3.harness.campaign import of_plan
    from pp3.harness.shards.count import sampler_on

    return of_plan(canonical.decode(plan)), sampler_on(backend)


def _trial(order: Order) -> tuple[str, dict[str, Any]]:
    from pp3.harness.operations.trial import run_target

    return run_target(order)
