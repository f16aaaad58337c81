"""Invariance finds: a row that depends on its company is counted, another arithmetic has another digest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from mutant_reference import mutant

from pp3.harness.exact import invariance, invariance_proposal, invariance_verifier
from pp3.harness.exact.company import COMPANIES, Outputs
from pp3.harness.exact.enumeration import Values, differences
from pp3.kernels.reference import FAILED, Proposal, Verification, propose, verify

Array = npt.NDArray[Any]


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
