"""Invariance: the rows and rounds that are met, the kernels in the interpreter on them, and faults of each kind."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness.backends import Backend, Dtype
from pp3.harness.exact import company, invariance, invariance_proposal, invariance_verifier
from pp3.harness.exact import invariance_kernels as kernels
from pp3.harness.exact.company import COMPANIES, Outputs
from pp3.harness.exact.draws import support_of
from pp3.harness.exact.enumeration import Values, differences, digest
from pp3.harness.exact.invariance_proposal import Rows
from pp3.harness.exact.invariance_verifier import Rounds, Table
from pp3.kernels import proposal, reference, verifier
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT, Proposal, Verification, propose, verify

Array = npt.NDArray[Any]
CPU = torch.device("cpu")
PROPOSAL_WAYS = (*COMPANIES, *invariance_proposal.LAYOUTS)
VERIFY_WAYS = (*COMPANIES, *invariance_verifier.LAYOUTS, "strided", "offset")
ONE_BY_ONE = ("alone", "shared")  # ways of a launch a row
SLOW = (*ONE_BY_ONE, "reversed", "beside-other-keys")  # ways that the interpreter is met in elsewhere
OWN = np.arange(invariance_proposal.COMPARED)
PRIMES = (12_289, 12_301, 4_099)


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


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


def chosen(ways: tuple[str, ...], gpu: bool, vocab: int) -> tuple[str, ...]:
    """These ways, whatever the device and vocabulary."""
    return ways


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Values:
    """A GPU's enumeration made small enough for the interpreter, without the ways of SLOW; what it must show.

    The interpreter widens BF16 subnormals wrongly (its _convert_float), so their row holds small normal values.
    """
    monkeypatch.setitem(invariance_proposal.SUBNORMAL, Dtype.BF16, 2.0**-100)
    for case, ways in ((invariance_proposal, PROPOSAL_WAYS), (invariance_verifier, VERIFY_WAYS)):
        kept = tuple(way for way in ways if way not in SLOW)
        monkeypatch.setattr(case, "vocabularies", lambda gpu: (33,))
        monkeypatch.setattr(case, "ways", functools.partial(chosen, kept))
    for name, value in (("LATE_VOCAB", 33), ("LATE_ROWS", 10), ("LATE_REQUESTS", 10)):
        monkeypatch.setattr(invariance, name, value)
    return invariance.expect(gpu=True)


def test_the_kernels_are_met_as_on_a_gpu(interpreted: Values) -> None:
    """The whole enumeration of a GPU at a vocabulary of 33, but for graph replay and thousands of rows."""
    found = invariance.observe_kernels("cpu")
    assert differences(found.values, interpreted) == []
    assert found.compared == invariance.size(gpu=True)


@pytest.mark.parametrize("vocab", [32, 127, 128, 129, 4095, 4096, 4097, 8193])
def test_proposals_at_tile_borders(vocab: int) -> None:
    """The bits of the reference in the interpreter; those of BF16 without its subnormals."""
    for dtype in (Dtype.FP32, Dtype.BF16):
        rows = Rows(vocab, dtype)
        want = invariance._proposed(rows)(OWN, "plain")
        got = kernels.Proposals(rows, CPU).run(OWN[::-1], "padded")
        kept = OWN if dtype is Dtype.FP32 else OWN[OWN != 2]
        assert all((one[::-1][kept] == other[kept]).all() for one, other in zip(got, want, strict=True))


@pytest.mark.parametrize("vocab", [32, 1023, 1024, 1025, 2048, 2049])
def test_rounds_at_tile_borders(vocab: int) -> None:
    """The bits of the reference in the interpreter."""
    for rounds in invariance._cases(Table(vocab)).values():
        want = invariance._judged(rounds)(np.arange(19), "plain")
        got = kernels.Verifications(rounds, CPU).run(np.arange(19)[::-1], "padded")
        assert all((one[::-1] == other).all() for one, other in zip(got, want, strict=True))


def test_rows_alone_and_shared() -> None:
    """The ways of many launches: each row by itself, and one row of logits under three keys."""
    rows, rounds = Rows(129, Dtype.FP16), Rounds(Table(1025), 4, "carrier")
    found = company.met(kernels.Proposals(rows, CPU).run, ONE_BY_ONE, 6, 3)
    assert (found.differing, found.compared) == ({"alone": 0, "shared": 0}, 12)
    assert digest(*found.want) == invariance._digest_of_rows(rows)
    judged = company.met(kernels.Verifications(rounds, CPU).run, ("alone",), 8, 3)
    assert (judged.differing, judged.compared) == ({"alone": 0}, 8)


@pytest.mark.parametrize("way", [*PROPOSAL_WAYS, "replayed"])
def test_the_layout_of_each_way(way: str) -> None:
    """Rows are the same; NaN lies between them."""
    rows = torch.arange(66.0).view(2, 33)
    probs = torch.arange(198.0).view(2, 3, 33)
    strides = {"padded": ((70, 1), (4 * 70, 70, 1)), "strided": ((66, 2), (198, 66, 2))}
    for given, number in ((rows, 0), (probs, 1)):
        laid = kernels._laid_out(given, way)
        assert (laid == given).all()
        assert laid.stride() == strides.get(way, ((33, 1), (99, 33, 1)))[number]
        assert (laid.data_ptr() % 16 != 0) == (way == "offset")
    turned = kernels._by_position(probs)
    assert (turned == probs).all()
    assert turned.stride() == (33, 66, 1)


def launcher(change: Callable[..., Any]) -> Callable[..., Any]:
    """A launcher of the kernels: what it gives is changed by `change(given, found)`."""
    real: dict[str, Any] = {"propose": proposal.propose, "verify": verifier.verify}

    def launch(given: torch.Tensor, *rest: Any, out: Any = None) -> Any:
        return change(given, real["verify" if given.ndim == 3 else "propose"](given, *rest, out=out))

    return launch


def by_alignment(given: torch.Tensor, found: Any) -> Any:
    """Rows that do not lie at a multiple of 16 bytes lose a token."""
    if given.data_ptr() % 16:
        found[1][0] += 1
    return found


def by_columns(given: torch.Tensor, found: Any) -> Any:
    """Columns apart."""
    if given.stride(-1) != 1:
        found[1][-1] += 1
    return found


def by_row_stride(given: torch.Tensor, found: Any) -> Any:
    """Rows with something between them."""
    if given.stride(-2) > given.shape[-1] * given.stride(-1):
        found[0][0] += 1
    return found


def by_buffers(given: torch.Tensor, found: Any) -> Any:
    """What the buffers held shows through: their last write is remembered."""
    HELD.append(found[1].clone())
    if len(HELD) > 1 and HELD[-2].shape == found[1].shape:
        found[1][0] = torch.maximum(HELD[-2][0], found[1][0])
    return found


HELD: list[torch.Tensor] = []


@pytest.mark.parametrize(
    ("fault", "ways"),
    [
        pytest.param(by_alignment, {"offset"}, id="alignment"),
        pytest.param(by_columns, {"strided"}, id="columns-apart"),
        pytest.param(by_row_stride, {"padded"}, id="rows-apart"),
    ],
)
def test_a_kernel_that_depends_on_its_layout_is_counted(
    fault: Callable[..., Any], ways: set[str], interpreted: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own way, for both kernels."""
    monkeypatch.setattr(proposal, "propose", launcher(fault))
    monkeypatch.setattr(verifier, "verify", launcher(fault))
    tried = ("reversed", "padded", "strided", "offset")
    rows, rounds = kernels.Proposals(Rows(33, Dtype.FP32), CPU), Rounds(Table(33), 4, "carrier")
    found = [
        company.met(rows.run, tried, 6, 3).differing,
        company.met(kernels.Verifications(rounds, CPU).run, tried, 8, 3).differing,
    ]
    assert [{way for way, differ in one.items() if differ} for one in found] == [ways, ways]


def test_what_a_buffer_held_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the digest, since every launch but a fresh one follows other work."""
    HELD.clear()
    monkeypatch.setattr(proposal, "propose", launcher(by_buffers))
    rows = Rows(33, Dtype.FP32)
    assert digest(*kernels.Proposals(rows, CPU).run(OWN, "plain")) != invariance._digest_of_rows(rows)


def test_an_unwritten_output_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that writes nothing leaves an illegal value, not what a right one wrote before."""

    def nothing(given: torch.Tensor, *rest: Any, out: Any = None) -> Any:
        return out

    monkeypatch.setattr(verifier, "verify", nothing)
    (status, _, lengths) = kernels.Verifications(Rounds(Table(33), 4, "carrier"), CPU).run(np.arange(8), "plain")
    assert set(status.tolist()) == set(lengths.tolist()) == {kernels.ILLEGAL}


def test_a_difference_in_any_field_counts() -> None:
    """Once a row, and not for rows that only keep company."""
    rows = Rows(33, Dtype.FP32)
    run = invariance._proposed(rows)
    want, which = run(OWN, "plain"), np.array([3, 7, 0, 3])
    got = run(which, "plain")
    assert company.differing(got, which, want) == 0
    for number in range(len(got)):
        for place, count in ((0, 1), (1, 0), (2, 1)):
            other = [field.copy() for field in got]
            other[number].reshape(4, -1)[place, -1] += 1
            assert company.differing(tuple(other), which, want) == count


def readdressed(change: Callable[[Array, Array], tuple[Array, Array]]) -> Callable[[Any], Any]:
    """A fault of either function: it draws by other keys and rounds, `change(keys, rounds)` of the launch."""

    def fault(run: Any) -> Any:
        at = -3 if run is verify else -4  # keys, rounds, positions, and in the proposal tau

        def changed(*given: Any) -> Any:
            keys, rounds = change(given[at], given[at + 1])
            return run(*given[:at], keys, rounds, *given[at + 2 :])

        return changed

    return fault


of_its_batch = readdressed(lambda keys, rounds: (keys, rounds + np.uint64(len(rounds) % 2)))
of_its_place = readdressed(lambda keys, rounds: (keys, rounds + np.arange(len(rounds), dtype=np.uint64)))
of_its_neighbour = readdressed(lambda keys, rounds: (np.roll(keys, 1), rounds))


def of_failed_rows(run: Any) -> Any:
    """A row that fails beside one that holds NaN."""

    def changed(logits: Any, *rest: Any) -> Any:
        found = run(logits, *rest)
        return found._replace(status=np.where(np.isnan(logits).any(), FAILED, found.status))

    return changed


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Values:
    """Few vocabularies, some of them at tile borders, and what they must show."""
    monkeypatch.setattr(invariance_proposal, "SMALL", (33, 128, 129, 4096, 4097))
    monkeypatch.setattr(invariance_verifier, "SMALL", (33, 2049))
    return invariance.expect(gpu=False)


@pytest.mark.parametrize(
    ("fault", "ways"),
    [
        pytest.param(of_its_batch, {"alone"}, id="its-batch"),
        pytest.param(of_its_place, {*COMPANIES}, id="its-place"),
        pytest.param(of_its_neighbour, {*COMPANIES}, id="its-neighbour"),
        pytest.param(of_failed_rows, {"beside-failed"}, id="failed-rows"),
    ],
)
@pytest.mark.parametrize("name", ["propose", "verify"])
def test_a_row_that_depends_on_its_company_is_counted(
    name: str, fault: Any, ways: set[str], narrow: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the proposal or in the verifier, and only there."""
    monkeypatch.setattr(invariance, name, fault({"propose": propose, "verify": verify}[name]))
    found = invariance.observe_reference().values
    kinds = ("proposal", "verify") if name == "propose" else ("verify", "proposal")
    differ = dict(zip(COMPANIES, found[f"ways-that-differ/{kinds[0]}"], strict=True))
    assert {way for way, rows in differ.items() if rows} == ways
    assert found[f"ways-that-differ/{kinds[1]}"] == narrow[f"ways-that-differ/{kinds[1]}"]


def flushed(logits: Any, *rest: Any) -> Proposal:
    """Subnormals as zeros."""
    return propose(np.where(np.abs(logits) < np.finfo(np.float32).tiny, np.float32(0), logits), *rest)


def last_column_lost(logits: Any, *rest: Any) -> Proposal:
    """A tile border that is one short."""
    cut = logits.copy()
    cut[:, -1] = -np.inf
    return propose(cut, *rest)


def higher_id_first(logits: Any, *rest: Any) -> Proposal:
    """Ties by the higher id."""
    found = propose(np.ascontiguousarray(logits[:, ::-1]), *rest)
    last = logits.shape[1] - 1
    return Proposal(found.status, last - found.token, last - found.ids[:, ::-1], found.tickets[:, ::-1])


def last_target_lost(probs: Any, *rest: Any) -> Verification:
    """A tile border that is one short in the verifier."""
    return verify(np.concatenate([probs[..., :-1], np.zeros_like(probs[..., :1])], axis=-1), *rest)


def columns_swapped(probs: Any, *rest: Any) -> Verification:
    """The rows of two positions."""
    order = [1, 0, *range(2, probs.shape[1])]
    return verify(probs[:, order], *rest)


FAULTS: dict[str, tuple[str, Callable[..., Outputs], str]] = {
    "subnormals flushed": ("propose", flushed, "proposal/fp32"),
    "BF16 subnormals flushed": ("propose", flushed, "proposal/bf16"),
    "the last column lost": ("propose", last_column_lost, "proposal/fp16"),
    "ties by the higher id": ("propose", higher_id_first, "proposal/fp16"),
    "tickets in FP32": (
        "propose",
        mutant(".astype(np.float32).astype(np.float64)\n", ".astype(np.float32)\n").propose,
        "proposal/bf16",
    ),
    "the exponential in FP64": (
        "propose",
        mutant(
            "e = np.exp(y.astype(np.float64)).astype(np.float32).astype(np.float64)", "e = np.exp(y.astype(np.float64))"
        ).propose,
        "proposal/fp16",
    ),
    "the last target lost": ("verify", last_target_lost, "verify/point-mass"),
    "columns swapped": ("verify", columns_swapped, "verify/carrier"),
    "a residual off by one": (
        "verify",
        mutant("beyond = running > wanted", "beyond = running + (1 << 40) > wanted").verify,
        "verify/carrier",
    ),
    "argmax by the higher id": (
        "verify",
        mutant(
            "np.where(fits, target_probs, np.float32(-1)).argmax(axis=1)",
            "(target_probs.shape[1] - 1 - np.where(fits, target_probs, np.float32(-1))[:, ::-1].argmax(axis=1))",
        ).verify,
        "verify/point-mass",
    ),
}


@pytest.mark.parametrize(("name", "fault", "where"), FAULTS.values(), ids=FAULTS)
def test_another_arithmetic_has_another_digest(
    name: str, fault: Any, where: str, narrow: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits in every way are not enough: they must be the reference's."""
    monkeypatch.setattr(invariance, name, fault)
    wrong = differences(invariance.observe_reference().values, narrow)
    kind = "proposal" if name == "propose" else "verify"
    assert all(line.startswith(kind) for line in wrong)
    assert any(line.startswith(where) for line in wrong)


@pytest.mark.gpu
def test_every_way_on_a_gpu() -> None:
    found = invariance.observe(Backend.CUDA)
    assert differences(found.values, invariance.expect(gpu=True)) == []
    assert found.compared == invariance.size(gpu=True)
