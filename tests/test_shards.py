"""A campaign in pieces: what they are follows from the plan, and joined in any order they are the one run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pp3.harness import canonical, run
from pp3.harness.backends import Backend
from pp3.harness.campaign import SHARD, Campaign, of_document, plan_sha256
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.dependence import WINDOW
from pp3.harness.run import Measured
from pp3.harness.samplers.contract import Batch, Description, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.shards import cut as cutting
from pp3.harness.shards.count import MISSING, count
from pp3.harness.shards.cut import MOST, SPAN, WHOLE, Stage, cut, span_of
from pp3.harness.shards.join import join

Measure = Callable[[Campaign, Seed], Measured]
PLANS: dict[str, dict[str, Any]] = {
    "the default targets": {"requests": 1003, "paired": 97},
    "one request": {"requests": 1, "paired": 1, "targets": ["sparse-tail"]},
    "no pairs": {"requests": 20, "paired": 0, "targets": ["sparse-tail"]},
    "one cell": {"requests": 7, "paired": 3, "targets": ["sparse-tail"], "batch_sizes": [3], "depths": [4]},
}


def by_hand(name: str) -> dict[str, Any]:
    """What the kernels' evidence of one part might say."""
    part = name.partition(",")[2]
    rows = {
        "identity": [{"backend": "interpreter"}],
        "conform": [{"file": file, "passed": 1, "sha256": "", "total": 1} for file in KNOWN_ANSWERS],
    }
    return {part: rows.get(part, [{"failedRows": 0, "first": "", "id": part, "mismatches": 0, "rows": 1}])}


def plain(measured: Measured) -> bytes:
    """Everything that a receipt takes from a run, but the kernels, in canonical bytes."""
    return canonical.encode(
        {
            "breaches": measured.breaches,
            "counts": [[*key, found] for key, found in measured.counts.items()],
            "first": [[*key, found] for key, found in measured.first.items()],
            "pairs": measured.pairs,
            "requests": measured.requests,
            "strays": measured.strays,
        }
    )


class Stray:
    """The reference, with an impossible token now and then, so that strays and breaches are there to be added up."""

    def describe(self) -> Description:
        """See the contract."""
        return ReferenceSampler().describe()

    def run(self, batch: Batch) -> Emission:
        """See the contract."""
        emission = ReferenceSampler().run(batch)
        odd = batch.requests % 61 == 5
        emission.tokens[odd, 0] = batch.requests[odd] % 7 + batch.target.vocab - 5
        return emission


@pytest.mark.parametrize("document", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("kind", [ReferenceSampler, Stray])
def test_joined_in_any_order_they_are_the_one_run(
    document: dict[str, Any], kind: type, rng: np.random.Generator
) -> None:
    """Byte for byte, also where the law is broken."""
    campaign, sampler = of_document(document, "a test"), kind()
    seed = Seed.of(plan_sha256(campaign), 3)
    whole = Measured(sampler=sampler.describe())
    run._campaign(campaign, seed, sampler, whole, lambda stage, done, total: None)
    pieces = cut(campaign, Backend.REFERENCE)
    found = {}
    for number in rng.permutation(len(pieces)):
        piece = pieces[number]
        kernels = piece.stage is Stage.KERNELS
        found[piece.name] = by_hand(piece.name) if kernels else count(campaign, seed, sampler, Backend.REFERENCE, piece)
    joined = join(campaign, Backend.REFERENCE, sampler.describe(), found)
    assert plain(joined) == plain(whole)
    assert list(joined.counts) == list(whole.counts)
    assert bool(whole.strays) == (kind is Stray and campaign.spec.requests > 20)
    assert [row["id"] for row in joined.kernels["bits"]] == ["proposal", "verify", "requests"]


def test_cuts_between_windows_change_nothing(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half of several windows and a part of one, cut at every window."""
    monkeypatch.setattr("pp3.harness.requests.SHARD", WINDOW)
    requests = 2 * (2 * WINDOW + 11)
    document = {"requests": requests, "paired": 0, "targets": ["sparse-tail"], "batch_sizes": [2], "depths": [4]}
    campaign, sampler = of_document(document, "a test"), ReferenceSampler()
    seed = Seed.of(plan_sha256(campaign), 0)
    whole = plain(measure(campaign, seed))
    found = {}
    monkeypatch.setattr(cutting, "span_of", lambda requests: WINDOW)
    pieces = cut(campaign, Backend.REFERENCE)
    assert [piece.requests for piece in pieces if piece.requests] == [WINDOW, WINDOW, 11] * 2
    for piece in pieces:
        kernels = piece.stage is Stage.KERNELS
        found[piece.name] = by_hand(piece.name) if kernels else count(campaign, seed, sampler, Backend.REFERENCE, piece)
    assert plain(join(campaign, Backend.REFERENCE, sampler.describe(), found)) == whole


@pytest.mark.parametrize("requests", [1, 7, 20_000, 10**6, 10**8, 10**9, 10**12])
def test_pieces_tile_the_requests(requests: int) -> None:
    """Each number once, in order; names are theirs alone; no more pieces than the limit and one a half of a cell."""
    campaign = of_document({"requests": requests, "paired": 100}, "a test")
    pieces = [piece for piece in cut(campaign, Backend.CUDA) if piece.stage is not Stage.KERNELS]
    assert [piece.first for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert sum(piece.requests for piece in pieces) == requests * len(campaign.targets)
    assert len({piece.name for piece in pieces}) == len(pieces)
    halves = 2 * len(campaign.targets) * 8
    assert sum(piece.requests > 0 for piece in pieces) <= MOST + halves


def test_a_span_holds_whole_shards() -> None:
    """And is no smaller than SPAN."""
    for requests in (1, SPAN, MOST * SPAN, MOST * SPAN + 1, 5 << 40):
        assert span_of(requests) % SHARD == 0
        assert span_of(requests) >= SPAN
        assert -(-requests // span_of(requests)) <= MOST


def test_the_evidence_of_a_gpu_is_one_piece() -> None:
    """Its identity names all that was compiled; in the interpreter each part is a piece."""
    campaign = of_document({}, "a test")
    parts = [piece.part for piece in cut(campaign, Backend.CUDA) if piece.stage is Stage.KERNELS]
    assert parts == [WHOLE]
    assert sum(piece.stage is Stage.KERNELS for piece in cut(campaign, Backend.REFERENCE)) == 5


def test_kernels_that_cannot_run_are_missing() -> None:
    """As in a whole run: the rest is judged, and the reason is told."""
    campaign = of_document(PLANS["one cell"], "a test")
    seed, sampler = Seed.of(plan_sha256(campaign), 0), ReferenceSampler()
    found: dict[str, Any] = {}
    for piece in cut(campaign, Backend.REFERENCE):
        kernels = piece.stage is Stage.KERNELS
        found[piece.name] = (
            {MISSING: "no triton"} if kernels else count(campaign, seed, sampler, Backend.REFERENCE, piece)
        )
    joined = join(campaign, Backend.REFERENCE, sampler.describe(), found)
    assert joined.kernels == {"bits": [], "conform": [], "identity": {}, "missing": "no triton"}
