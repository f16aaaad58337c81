"""Run a campaign over the wire: as run.py runs any, with a path between proposal and verification."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from pp3.harness import backends
from pp3.harness import run as runs
from pp3.harness.backends import Backend
from pp3.harness.campaign import check_sampler
from pp3.harness.kernel_evidence import PARTS, campaign_document, kernel_evidence, kernels_of
from pp3.harness.run import Measured, Progress
from pp3.harness.seeds import Seed
from pp3.harness.transport import latency
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.stage import ReferenceStage, Stage
from pp3.harness.transport.wire_plan import WireCampaign


def run(campaign: WireCampaign, seed: Seed, device: Backend, progress: Progress) -> tuple[Measured, dict[str, Any]]:
    """What was measured, and what became of the requests on the way (path.Journey)."""
    stage = _stage(device)
    sampler = PathSampler(stage, campaign.place)
    check_sampler(campaign, sampler.describe())
    measured = Measured(sampler=sampler.describe())
    try:
        if device is Backend.CUDA:
            _on_gpu(campaign, seed, sampler, measured, progress)
        else:
            _beside_interpreter(campaign, seed, sampler, measured, progress)
    finally:
        sampler.close()
    measured.timings = latency.measure()
    return measured, sampler.journey.plain()


def _stage(device: Backend) -> Stage:
    if device is not Backend.CUDA:
        return ReferenceStage()
    backends.start(Backend.CUDA)
    from pp3.harness.transport.stage_kernels import KernelStage

    return KernelStage("cuda")


def _on_gpu(campaign: WireCampaign, seed: Seed, sampler: PathSampler, measured: Measured, progress: Progress) -> None:
    document, found = campaign_document(campaign), {}
    for number, part in enumerate(PARTS[:-1]):
        progress("kernels", number, len(PARTS))
        found[part] = kernel_evidence(part, Backend.CUDA, document, seed.value)
    runs._campaign(campaign, seed, sampler, measured, progress)
    found["identity"] = kernel_evidence("identity", Backend.CUDA, document, seed.value)
    progress("kernels", len(PARTS), len(PARTS))
    measured.kernels = kernels_of(found)


def _beside_interpreter(
    campaign: WireCampaign, seed: Seed, sampler: PathSampler, measured: Measured, progress: Progress
) -> None:
    document = campaign_document(campaign)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            with runs._interrupts_held():
                parts = {
                    part: pool.submit(kernel_evidence, part, Backend.INTERPRETER, document, seed.value)
                    for part in PARTS
                }
            runs._campaign(campaign, seed, sampler, measured, progress)
            measured.kernels = runs._wait(parts, progress)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
