"""Run one piece of a campaign: what it finds depends on the plan, the seed and the piece alone."""

from typing import Any

from pp3.harness import backends, paired
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.design import cells_of, lags_of
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.kernel_evidence import PARTS, campaign_document, kernel_evidence
from pp3.harness.requests import batches
from pp3.harness.samplers.contract import Sampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import WHOLE, Piece, Stage
from pp3.harness.tally import Tally

MISSING = "missing"  # why nothing is shown of the kernels


def sampler_on(backend: Backend) -> Sampler:
    """Who runs the requests: the kernels on a GPU, else the reference. PP3Error (69) if this process cannot."""
    backends.start(backend)
    if backend is not Backend.CUDA:
        return ReferenceSampler()
    from pp3.harness.samplers.kernels import KernelSampler

    return KernelSampler("cuda")


def count(campaign: Campaign, seed: Seed, sampler: Sampler, backend: Backend, piece: Piece) -> dict[str, Any]:
    """What one piece found, in plain values: of the kernels, of a run of pairs, or of requests.

    Of requests: `counts`, a histogram for each cell of the target and depth in their order; `strays` as (number of the
    cell, outcome, count); `breaches` by name.
    """
    if piece.stage is Stage.KERNELS:
        return _kernels(campaign, seed, backend, piece.part)
    target = next(target for target in campaign.targets if target.name == piece.target)
    if piece.stage is Stage.PAIRED:
        tally = paired.run(sampler, target, piece.depth, seed, piece.first, piece.pairs)
        return {"depth": piece.depth, "target": target.name, **tally.plain()}
    cells = cells_of(target, piece.depth, lags_of(campaign))
    counted = Tally(target, piece.depth, cells)
    for batch in batches(sampler, target, piece.depth, piece.batch, seed, piece.first, piece.end):
        counted.add(batch, sampler.run(batch))
    numbers = {cell.id: number for number, cell in enumerate(cells)}
    return {
        "breaches": dict(counted.breaches),
        "counts": counted.histograms(),
        "strays": [[numbers[cell], outcome, seen] for cell, outcome, seen in counted.strays()],
    }


def _kernels(campaign: Campaign, seed: Seed, backend: Backend, part: str) -> dict[str, Any]:
    device = backend if backend is Backend.CUDA else Backend.INTERPRETER
    document = campaign_document(campaign)
    parts = PARTS if part == WHOLE else (part,)  # the identity comes last: all kernels are compiled by then
    try:
        return {name: kernel_evidence(name, device, document, seed.value) for name in parts}
    except PP3Error as error:
        if backend is Backend.CUDA or error.exit_code is not Exit.UNAVAILABLE:
            raise
        return {MISSING: str(error)}
