"""The counts of a receipt: every cell of the plan exactly once, adding up to its requests."""

from typing import Any

from pp3.harness.campaign import Campaign, pair_shards
from pp3.harness.cells import Cell
from pp3.harness.design import cells_of, lags_of
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import tiling
from pp3.harness.places import halves
from pp3.harness.tally import BREACHES

COUNTS = "recompute counts"


Counted = dict[tuple[str, int], list[int]]


def counts_of(campaign: Campaign, predicate: dict[str, Any]) -> tuple[Counted, Counted]:
    """Every cell of the plan exactly once, adding up to the requests; and of the first half of them."""
    found = {(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]}
    if len(found) != len(predicate["cells"]):
        raise VerificationError(f"{COUNTS}: a cell is there twice")
    groups = {
        (target.name, depth): cells_of(target, depth, lags_of(campaign))
        for target in campaign.targets
        for depth in campaign.spec.depths
    }
    cells = [cell for group in groups.values() for cell in group]
    expected = {
        (cell.id, batch): len(cell.atoms) + 1
        for group in groups.values()
        for batch in campaign.spec.batch_sizes
        for cell in group
    }
    for key in (*expected, *found):
        if key not in expected or key not in found:
            raise VerificationError(
                f"{COUNTS}: cell {key[0]} at batch {key[1]} is {'missing' if key in expected else 'foreign'}"
            )
    if list(found) != list(expected):
        raise VerificationError(f"{COUNTS}: the cells are not in the order of the plan")
    for key, length in expected.items():
        if len(found[key]) != length:
            raise VerificationError(f"{COUNTS}: {key[0]} at batch {key[1]} needs {length} counts of 0 or more")
    if set(predicate["breaches"]) != set(BREACHES):
        raise VerificationError(f"{COUNTS}: breaches must name {', '.join(BREACHES)}")
    atoms = {cell.id: set(cell.atoms.tolist()) for cell in cells}
    strays: dict[tuple[str, int], int] = {}
    for stray in predicate["strays"]:
        key = (stray["cell"], stray["batch"])
        if key not in found or stray["outcome"] in atoms[stray["cell"]]:
            raise VerificationError(f"{COUNTS}: stray {stray['outcome']} of {key[0]} at batch {key[1]} is none")
        strays[key] = strays.get(key, 0) + stray["count"]
    shards = [(target.name, depth, pairs) for target, depth, pairs in pair_shards(campaign)]
    if [(row["target"], row["depth"], row["pairs"]) for row in predicate["paired"]] != shards:
        raise VerificationError(f"{COUNTS}: the paired shards are not those of {campaign.spec.paired} pairs")
    if any(row["passed"] > row["total"] for row in predicate["kernels"]["conform"]):
        raise VerificationError(f"{COUNTS}: more known answers passed than there are")
    for key, counts in found.items():
        if counts[-1] != strays.get(key, 0):
            raise VerificationError(
                f"{COUNTS}: {key[0]} has {counts[-1]} forbidden outcomes, {strays.get(key, 0)} are named"
            )
    first = {(cell["id"], cell["batch"]): cell["first"] for cell in predicate["cells"]}
    for batch in campaign.spec.batch_sizes:
        tiling.check_halves(_at_batch(found, batch), _at_batch(first, batch), COUNTS)
    if not any(predicate["breaches"].values()):
        _tile(campaign, groups, found, 2)
        _tile(campaign, groups, first, 1)
    return found, first


def _at_batch(found: Counted, batch: int) -> dict[str, list[int]]:
    return {cell: counts for (cell, size), counts in found.items() if size == batch}


def _tile(campaign: Campaign, groups: dict[tuple[str, int], list[Cell]], found: Counted, parts: int) -> None:
    """Each request of so many halves proposes at every position, emits at all that it reaches, and has one length."""
    by_batch = {batch: _at_batch(found, batch) for batch in campaign.spec.batch_sizes}
    for (target, depth), cells in groups.items():
        for batch, at_batch in by_batch.items():
            requests = campaign.requests_of(depth, batch)
            sizes = [high - low for low, high in halves(0, requests)][:parts]
            for what, got, wanted in tiling.of(cells, at_batch, depth, sizes):
                if got != wanted:
                    raise VerificationError(
                        f"{COUNTS}: {target}/depth-{depth} at batch {batch}: {what} add up to {got}, must be {wanted}"
                    )
