"""The counts of a receipt: every cell of the plan exactly once, adding up to its requests."""

from typing import Any

from pp3.harness.campaign import Campaign, pair_shards
from pp3.harness.cells import Event
from pp3.harness.errors import VerificationError
from pp3.harness.tally import BREACHES
from pp3.harness.verdict import all_cells

COUNTS = "recompute counts"


def counts_of(campaign: Campaign, predicate: dict[str, Any]) -> dict[tuple[str, int], list[int]]:
    """Every cell of the plan exactly once, non-negative, adding up to the requests."""
    found = {(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]}
    if len(found) != len(predicate["cells"]):
        raise VerificationError(f"{COUNTS}: a cell is there twice")
    cells = all_cells(campaign)
    expected = {(cell.id, batch): len(cell.atoms) + 1 for cell in cells for batch in campaign.spec.batch_sizes}
    for key in expected.keys() ^ found.keys():
        raise VerificationError(
            f"{COUNTS}: cell {key[0]} at batch {key[1]} is {'missing' if key in expected else 'foreign'}"
        )
    for key, length in expected.items():
        if len(found[key]) != length or min(found[key]) < 0:
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
    if not any(predicate["breaches"].values()):
        _tile(campaign, found)
    return found


def _tile(campaign: Campaign, found: dict[tuple[str, int], list[int]]) -> None:
    """Each request proposes at every position, emits at every position it reaches, and has one length."""
    by_group: dict[tuple[str, int], list[Any]] = {}
    for cell in all_cells(campaign):
        by_group.setdefault((cell.target, cell.depth), []).append(cell)
    for (target, depth), cells in by_group.items():
        for batch in campaign.spec.batch_sizes:
            requests = campaign.requests_of(depth, batch)
            totals: dict[tuple[Event, int], int] = {}
            reached = [0] * (depth + 1)
            outside = 0
            for cell in cells:
                counts = found[cell.id, batch]
                key = (cell.event, cell.position)
                totals[key] = totals.get(key, 0) + sum(counts)
                if cell.event is Event.LENGTH:
                    outside += counts[-1]
                    for length, count in zip(cell.atoms.tolist(), counts, strict=False):
                        reached = [n + count * (position <= length) for position, n in enumerate(reached)]
            where = f"{target}/depth-{depth} at batch {batch}"
            lengths = totals.get((Event.LENGTH, -1), 0)
            checks = [("lengths", lengths, requests)]
            checks += [
                (f"proposals at position {j}", totals.get((Event.PROPOSAL, j), 0), requests) for j in range(depth)
            ]
            if not outside:
                for j in range(depth + 1):
                    kinds = (Event.BONUS,) if j == depth else (Event.TOKEN, Event.FULL_TARGET)
                    emitted = sum(totals.get((kind, j), 0) for kind in kinds)
                    checks.append((f"tokens at position {j}", emitted, reached[j]))
                    if (Event.RESIDUAL, j) in totals:
                        stopped = reached[j] - reached[j + 1] - totals.get((Event.FULL_TARGET, j), 0)
                        checks.append((f"residual tokens at position {j}", totals[Event.RESIDUAL, j], stopped))
            for what, got, wanted in checks:
                if got != wanted:
                    raise VerificationError(f"{COUNTS}: {where}: {what} add up to {got}, must be {wanted}")
