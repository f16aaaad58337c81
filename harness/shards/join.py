"""Join what the pieces of a campaign found: the counts of one run, whoever ran which piece, in which order."""

from collections.abc import Mapping
from typing import Any

from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Cell
from pp3.harness.design import cells_of, lags_of
from pp3.harness.kernel_evidence import kernels_of
from pp3.harness.run import Measured
from pp3.harness.samplers.contract import Description
from pp3.harness.shards.count import MISSING
from pp3.harness.shards.cut import Stage, cut

Histogram = list[int]


def join(campaign: Campaign, backend: Backend, who: Description, found: Mapping[str, Any]) -> Measured:
    """What the whole campaign found, of the results by name of every piece. KeyError if one is missing."""
    measured = Measured(sampler=who)
    kernels: dict[str, Any] = {}
    strays: dict[tuple[str, int, int], dict[tuple[int, int], int]] = {}
    cells: dict[tuple[str, int], list[Cell]] = {}
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            cells[target.name, depth] = cells_of(target, depth, lags_of(campaign))
            for batch in campaign.spec.batch_sizes:
                strays[target.name, depth, batch] = {}
                for cell in cells[target.name, depth]:
                    zero = [0] * (len(cell.atoms) + 1)
                    measured.first[cell.id, batch], measured.counts[cell.id, batch] = zero, zero
    for piece in cut(campaign, backend):
        result = found[piece.name]
        if piece.stage is Stage.KERNELS:
            kernels |= result
        elif piece.stage is Stage.PAIRED:
            measured.pairs.append(dict(result))
        else:
            for cell, counts in zip(cells[piece.target, piece.depth], result["counts"], strict=True):
                key = cell.id, piece.batch
                measured.counts[key] = _sum(measured.counts[key], counts)
                if not piece.half:
                    measured.first[key] = _sum(measured.first[key], counts)
            seen = strays[piece.target, piece.depth, piece.batch]
            for number, outcome, count in result["strays"]:
                seen[number, outcome] = seen.get((number, outcome), 0) + count
            for name, count in result["breaches"].items():
                measured.breaches[name] += count
            measured.requests += piece.requests
    shown: dict[str, Any] = {"bits": [], "conform": [], "identity": {}, MISSING: kernels.get(MISSING)}
    measured.kernels = shown if MISSING in kernels else kernels_of(kernels)
    measured.strays = [
        {"batch": batch, "cell": cells[target, depth][number].id, "count": count, "outcome": outcome}
        for (target, depth, batch), seen in strays.items()
        for (number, outcome), count in sorted(seen.items())
    ]
    return measured


def _sum(one: Histogram, other: Histogram) -> Histogram:
    return [a + b for a, b in zip(one, other, strict=True)]
