"""Invariance: the vocabularies, rows, rounds and companies that are met, and that the reference is invariant."""

from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness.backends import Backend, Dtype
from pp3.harness.exact import company, invariance, invariance_proposal, invariance_verifier
from pp3.harness.exact import invariance_kernels as kernels
from pp3.harness.exact.company import COMPANIES
from pp3.harness.exact.draws import support_of
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.invariance_proposal import Rows
from pp3.harness.exact.invariance_verifier import Rounds, Table
from pp3.kernels import proposal, verifier
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT

PRIMES = (12_289, 12_301, 4_099)


def test_the_vocabularies_are_those_of_the_claim() -> None:
    """At, below and above tile borders, and what is the most of one compiled kernel."""
    cases: tuple[tuple[Any, int, int], ...]
    cases = ((invariance_proposal, proposal.TILE, 4), (invariance_verifier, verifier.TILE, 16))
    for case, tile, least in cases:
        whole = case.vocabularies(gpu=True)
        assert {SUPPORT, SUPPORT + 1} < set(case.SMALL)
        assert {n * tile + step for n in (1, 2) for step in (-1, 0, 1)} < set(case.SMALL)
        assert least * tile in whole
        assert any(least * tile < vocab <= (least + 1) * tile for vocab in whole)
        assert set(PRIMES) & set(case.SMALL)
        assert whole[-4:] == invariance_proposal.MODELS == (129_280, 151_936, 163_840, 248_320)
        assert case.vocabularies(gpu=False) == case.SMALL
    assert all(vocab % d for vocab in PRIMES for d in range(2, 111))
    assert proposal.LEAST_WIDTH == 4 * SUPPORT
    assert verifier.LEAST_TILES * verifier.TILE == invariance_verifier.MOST_APART
    assert invariance_verifier.TILE == verifier.TILE
    assert company.TIMES["among-many"] * invariance_proposal.COMPARED > proposal.MANY


def test_the_largest_tensors_pass_2_to_31() -> None:
    """Before the rows that are compared, and in the verifier's, before their bonus rows by position."""
    rows, requests = invariance.LATE_ROWS, invariance.LATE_REQUESTS
    assert (rows - invariance_proposal.COMPARED) * invariance.LATE_VOCAB > 1 << 31
    assert (requests - invariance_verifier.COMPARED) * 6 * invariance.LATE_VOCAB > 1 << 31
    assert 5 * requests * invariance.LATE_VOCAB > 1 << 31


def test_the_company_of_each_way() -> None:
    """Every compared row is met in every way, and elsewhere than in its own place where that is the point."""
    for compared, failing in ((6, 3), (8, 3)):
        for way in (*COMPANIES, "among-many", "padded"):
            met = company.launches(way, compared, failing)
            rows = np.concatenate(met)
            times = company.TIMES.get(way, 1)
            assert np.bincount(rows[rows < compared]).tolist() == [times] * compared
            assert company.count([way], compared) == times * compared
        assert [len(one) for one in company.launches("alone", compared, failing)] == [1] * compared
        (rows,) = company.launches("reversed", compared, failing)
        assert (rows != np.arange(compared)).all()
        for way, low, high in (
            ("beside-failed", compared, compared + failing),
            ("beside-other-keys", compared + failing, 2 * compared + failing),
        ):
            (rows,) = company.launches(way, compared, failing)
            assert set(rows[::2].tolist()) == set(range(low, high))


def test_no_two_rows_share_a_key() -> None:
    """Positions pass 2^32."""
    keys, _, positions = company.addresses(19)
    assert len(set(keys.tolist())) == 19
    assert positions.min() < 1 << 32 <= positions.max()


@pytest.mark.parametrize("dtype", Dtype)
@pytest.mark.parametrize("vocab", invariance_proposal.SMALL)
def test_the_rows(vocab: int, dtype: Dtype) -> None:
    """Bell, ties across the 32nd place where there are 33 of them, subnormals of the dtype, three finite logits."""
    rows = Rows(vocab, dtype)
    bell, ties, small, masked, *greedy = rows.logits[:6]
    assert np.isfinite(bell).all()
    assert (ties == 1).sum() > (SUPPORT if vocab >= 80 else 0)
    held = np.abs(small[small != 0])
    assert len(held)
    assert (held < {Dtype.FP32: 2.0**-126, Dtype.BF16: 2.0**-126, Dtype.FP16: 2.0**-14}[dtype]).all()
    assert np.isfinite(masked).sum() == 3
    assert (rows.logits[[0, 1, 2, 3, 4, 5]] == rows.logits[9:]).all()
    assert np.flatnonzero(~rows.sampled).tolist() == [4, 5, 13, 14]
    assert (np.stack(greedy) == rows.logits[[1, 0]]).all()
    kept = kernels.stored(rows.logits, dtype)
    storage = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16, Dtype.FP32: torch.float32}[dtype]
    assert kept.dtype == storage
    finite = np.isfinite(rows.logits)
    assert (kept.to(torch.float32).numpy().view(np.uint32) == rows.logits.view(np.uint32))[finite].all()


@pytest.mark.parametrize("vocab", [33, 4097, 16_385])
def test_the_reference_ranks_as_a_sort_does(vocab: int) -> None:
    """The digests that are expected are those of supports found by another way."""
    rows = Rows(vocab, Dtype.BF16)
    found = invariance._proposed(rows)(np.arange(9), "plain")
    for row in range(4):
        assert found[2][row].tolist() == support_of(rows.logits[row])
    assert found[0].tolist() == [OK] * 6 + [FAILED] * 3
    assert found[1][4:6].tolist() == [int(rows.logits[row].argmax()) for row in (4, 5)]


@pytest.mark.parametrize("path", invariance_verifier.PATHS)
@pytest.mark.parametrize("depth", invariance_verifier.DEPTHS)
@pytest.mark.parametrize("vocab", invariance_verifier.SMALL)
def test_the_rounds(vocab: int, depth: int, path: str) -> None:
    """Where each of them stops, whatever the words are."""
    rounds = Rounds(Table(vocab), depth, path)
    status, tokens, lengths = invariance._judged(rounds)(np.arange(19), "plain")
    assert status.tolist() == ([OK] * 7 + [FAILED]) + [FAILED] * 3 + ([OK] * 7 + [FAILED])
    for first in (0, 11):
        assert lengths[first + 2] == depth + 1  # every draft kept
        assert tokens[first + 2, depth] % 1024 in (0, 1023) or tokens[first + 2, depth] == vocab - 1
        assert lengths[first + 4] == depth - 1  # void
        assert lengths[first + 6] == depth  # the last draft a tie's higher id
        assert tokens[first + 6, :depth].tolist() == [vocab // 3] * depth
    carried = rounds.tickets is not None
    assert carried == (path == "carrier")
    if rounds.tickets is not None and rounds.ids is not None:
        assert (rounds.tickets.sum(axis=2) == ONE).all()
        assert (np.diff(rounds.ids, axis=2) > 0).all()
        assert ((rounds.ids >= 0) & (rounds.ids < vocab)).all()


def test_rounds_stop_everywhere_and_emit_from_far_tiles() -> None:
    """Over the small vocabularies: every length, and residuals and bonuses beyond the first tile."""
    seen: set[int] = set()
    far = 0
    for vocab in invariance_verifier.SMALL:
        for rounds in invariance._cases(Table(vocab)).values():
            _, tokens, lengths = invariance._judged(rounds)(np.arange(8), "plain")
            seen |= {*lengths.tolist()}
            last = tokens[np.arange(8), np.maximum(lengths - 1, 0)]
            far += int((last[:6] >= 1024).sum())
    assert seen == {0, 1, 2, 3, 4, 5, 6}
    assert far > 20


def test_the_reference_is_invariant() -> None:
    found = invariance.observe(Backend.REFERENCE)
    assert differences(found.values, invariance.expect(gpu=False)) == []
    rows = (4 + 5) * (6 * 3 * 15 + 8 * 4 * 9)
    assert (found.id, found.claim, found.compared) == ("invariance", invariance.CLAIM, rows)
    assert invariance.size(gpu=False) == rows


def test_a_gpu_owes_more() -> None:
    """Wide vocabularies, every way of the kernels, and the last rows of large tensors."""
    more, less = invariance.expect(gpu=True), invariance.expect(gpu=False)
    models = invariance_proposal.MODELS
    assert more.keys() - less.keys() == {
        *(f"past-2^31/proposal/{dtype.value}" for dtype in Dtype),
        *(f"past-2^31/verify/{layout}" for layout in ("by-request", "by-position")),
        *(f"proposal/{dtype.value}/vocab-{vocab}" for dtype in Dtype for vocab in models),
        *(
            f"verify/{path}/vocab-{vocab}/depth-{depth}"
            for path in ("carrier", "point-mass")
            for vocab in (16_384, 16_400, *models)
            for depth in (4, 5)
        ),
    }
    assert less["ways-that-differ/proposal"] == less["ways-that-differ/verify"] == [0] * 5
    assert (len(more["ways-that-differ/proposal"]), len(more["ways-that-differ/verify"])) == (12, 11)
    rows = 6 * 3 * (19 * (9 + 5 + 1) + 14 * 1025)
    rounds = 8 * 4 * (15 * (9 + 3 + 1) + 10 * 2)
    assert invariance.size(gpu=True) == rows + rounds + 6 * 3 + 8 * 2


@pytest.mark.gpu
def test_every_way_on_a_gpu() -> None:
    found = invariance.observe(Backend.CUDA)
    assert differences(found.values, invariance.expect(gpu=True)) == []
    assert found.compared == invariance.size(gpu=True)
