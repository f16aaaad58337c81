"""Sums that one count alone does not break: three counts changed together, and rounds of fewer drafts than others."""

import copy

import pytest

from pp3.harness.cells import Event, enumerate_cells
from pp3.harness.design import cells_of
from pp3.harness.evidence import tiling
from pp3.harness.oracle import Law
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.harness.trial.seen import seen
from pp3.targets import build, pairs

DEPTH, PARTS = 4, (201, 202)


@pytest.mark.parametrize("position", range(DEPTH))
def test_drafts_kept_that_no_round_goes_on_from(position: int) -> None:
    """One replaced draft called kept, and all that must agree with it changed too: a round ends there all the same."""
    target, first = build("sparse-tail"), 0
    cells = cells_of(target, DEPTH)
    tally = Tally(target, DEPTH, cells)
    for part in PARTS:
        batch = sampled_batch(target, DEPTH, 2, Seed(bytes(range(32))), first, first + part)
        tally.add(batch, ReferenceSampler().run(batch))
        tally.flush()
        first += part
    found = {cell.id: counts for cell, counts in zip(tally.cells, tally.histograms(), strict=True)}
    assert all(got == wanted for _, got, wanted in tiling.of(cells, found, DEPTH, PARTS))
    forged = copy.deepcopy(found)
    for event, change in ((Event.KEPT, 1), (Event.RESIDUAL, -1), (Event.RECOVERY, -1)):
        mine = [cell.id for cell in cells if (cell.event, cell.position) == (event, position)]
        at = max(mine, key=lambda name: max(forged[name]))
        forged[at][forged[at].index(max(forged[at]))] += change
    broken = [(what, wanted - got) for what, got, wanted in tiling.of(cells, forged, DEPTH, PARTS) if got != wanted]
    assert broken == [(f"residual tokens at position {position}", 1)]


def test_drafts_of_rounds_that_have_fewer() -> None:
    """Of 400 requests a quarter each has 4, 3, 1 and no drafts: 300 have a first one, 200 a second, 100 a fourth."""
    who = Description(name="it", kind=Kind.PIPELINE, target_carrier=Carrier.PROBS, ragged=True)
    cells = enumerate_cells(Law(seen(pairs.build("ragged"), who)), DEPTH, {Event.PROPOSAL})
    drafts = [300, 200, 200, 100]
    found = {cell.id: [0] * (len(cell.atoms) + 1) for cell in cells}
    for position, count in enumerate(drafts):
        found[next(cell.id for cell in cells if cell.position == position)][0] = count
    sums = [(f"drafts at {position}", count, count) for position, count in enumerate(drafts)]
    assert tiling.of(cells, found, DEPTH, (200, 200)) == sums
