"""What `nvidia-smi` says of the GPUs that a run would use: who computes on them, their power limits. Sets nothing."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from pp3.harness.errors import CampaignError, Exit, PP3Error

SMI = "nvidia-smi"
ANSWER = 60.0  # seconds that it may take
CLOSE = 0.5  # watts within which a limit is the one that was asked for: it is printed to 0.01, and set in whole watts


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    index: str
    uuid: str
    name: str
    power_w: str  # its limit, as printed: "700.00", or "[N/A]"


def check(power_w: str, environment: Mapping[str, str] = os.environ) -> list[Gpu]:
    """The GPUs that a run would use; none without nvidia-smi. PP3Error (69): one is in use, or its limit differs.

    `power_w` is the limit in watts that each must have, or "" for any.
    """
    if power_w and not _is_number(power_w):
        raise CampaignError(f"PP3_POWER_W={power_w}: give watts, as 500")
    if shutil.which(SMI, path=environment.get("PATH")) is None:
        if power_w:
            raise PP3Error(
                f"PP3_POWER_W={power_w}: {SMI} is missing, so no power limit can be read; unset it to run anyway",
                Exit.UNAVAILABLE,
            )
        return []
    rows = _ask("--query-gpu=index,uuid,name,power.limit", environment)
    gpus = visible([Gpu(index=i, uuid=u, name=n, power_w=p) for i, u, n, p in rows], environment)
    chosen = environment.get("CUDA_VISIBLE_DEVICES", "").strip()
    if not gpus and (power_w or chosen not in ("", "-1")):
        raise PP3Error(
            f"CUDA_VISIBLE_DEVICES={chosen}: {SMI} lists no such GPU, so nothing can be checked; give an index or UUID "
            "that it lists",
            Exit.UNAVAILABLE,
        )
    uuids = {gpu.uuid for gpu in gpus}
    busy = [row for row in _ask("--query-compute-apps=gpu_uuid,pid,process_name", environment, 3) if row[0] in uuids]
    if busy:
        named = ", ".join(f"process {pid} ({name}) on {uuid}" for uuid, pid, name in busy[:3])
        raise PP3Error(
            f"the GPU is in use: {named}; wait for its end, or choose another one with CUDA_VISIBLE_DEVICES",
            Exit.UNAVAILABLE,
        )
    for gpu in gpus:
        if power_w and not (_is_number(gpu.power_w) and abs(float(gpu.power_w) - float(power_w)) <= CLOSE):
            raise PP3Error(
                f"GPU {gpu.index} ({gpu.name}) has a power limit of {gpu.power_w} W, PP3_POWER_W asks for {power_w}; "
                "it is never set from here: ask whoever runs the machine, or change PP3_POWER_W",
                Exit.UNAVAILABLE,
            )
    return gpus


def visible(gpus: list[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES names, by index or by the beginning of a UUID; all if it is not set."""
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return gpus
    named = [name.strip() for name in environment["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    return [gpu for gpu in gpus if any(gpu.index == name or gpu.uuid.startswith(name) for name in named)]


def _ask(query: str, environment: Mapping[str, str], columns: int = 4) -> list[list[str]]:
    try:
        done = subprocess.run(
            [SMI, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=ANSWER,
            check=False,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired:
        raise PP3Error(f"{SMI} {query} has not answered for {ANSWER:g} s", Exit.UNAVAILABLE) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[:200]
        raise PP3Error(f"{SMI} {query} ended with {done.returncode}: {said}", Exit.UNAVAILABLE)
    rows = [
        [part.strip() for part in line.split(",", columns - 1)] for line in done.stdout.splitlines() if line.strip()
    ]
    if any(len(row) != columns for row in rows):
        raise PP3Error(f"{SMI} {query} printed what cannot be read: {done.stdout[:200]!r}", Exit.UNAVAILABLE)
    return rows


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
